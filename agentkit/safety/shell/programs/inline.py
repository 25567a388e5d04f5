"""Is a program given on the command line harmless: Python, awk, sed and others? (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from agentkit.safety.shell import files
from agentkit.safety.shell.knowledge.tables import tables
from agentkit.safety.shell.programs import awk, python
from agentkit.safety.shell.scope import UNKNOWN, Finding, Scope, Script, Word, ask, deny, reads

_STRING = re.compile(
    r"'''(.*?)'''|\"\"\"(.*?)\"\"\"|'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\""
    r"|`([^`]*)`|\bq[wqx]?[({/](.*?)[)}/]",
    re.DOTALL,
)
_STARTS = re.compile(
    r"system|popen|exec|spawn|subprocess|shell|backtick|`|%x|qx|Command|Deno\.run|ShellExecute|Kernel|proc_open|passthru"
    r"|System\.cmd|os:cmd|Process|run-program"
)
_DELETES = re.compile(
    r"rmtree|rm_?rf|rmSync|removeSync|rmdirSync|unlink|remove|Deno\.remove|rm_r|delete_tree|deltree|rmdir|truncate|delete"
)
_WRITTEN = re.compile(
    r"""['"]([/~][^'"]*)['"]\s*,\s*['"][wax]b?\+?['"]"""
    r"""|(?:writeFile\w*|appendFile\w*|put_contents|File\.write)\s*\(\s*['"]([/~][^'"]*)"""
    r"""|\bopen\b[^;'"]*['"]\s*>{1,2}\s*([/~][^'"]*)|\bprintf?\b[^;{}|(]*>{1,2}\s*"([/~][^"]*)\""""
    r"""|(?:^|[\s/;{}\d$])[wW]\s+([/~][^\s;}]+)"""
)
_SED_RUNS = re.compile(r"^\s*(?:\d+|\$|/[^/]*/)?\s*e\s+(\S.*)")
_REPLACING = re.compile(r"^\s*(s|tr|y)/[\w\s^.*+?\\\[\]-]*\$?/[\w\s.\\-]*/[gimsx]*\s*;?\s*$")
_SETTINGS = re.compile(r"""\brequire\((['"])\./(?:package|tsconfig)\.json\1\)(?:\.\w+)*""")
_PATTERN = re.compile(r"(?:(?<=\sif\s)|(?<=\sunless\s))/[\w\s^$.*+?\\\[\]|#-]*/[imsx]*(?=\s*(;|\)|$|&&|and\b|or\b))")
_LONGEST, _LONGEST_PATH = 3_000, 300


def judge(language: str, word: Word, scope: Scope) -> Iterator[Finding]:
    """What objects to a program in a word; something always answers, as only what is understood is allowed."""
    code = word.text
    if len(code) > _LONGEST:
        yield ask("inline-code", word.source, "The program is too long to judge.", "Write it to a file and run that.")
        return
    objections = list(_objections(code, word, scope))
    yield from objections
    if objections:
        return
    if language == "python" and UNKNOWN not in code and python.is_plain(code):
        yield from python.effect(word, scope)
    elif UNKNOWN not in code and _PLAIN.get(language, _is_plain)(code):
        yield reads(word.source)
    else:
        why = "It runs a program from the command line that is not plainly harmless."
        yield ask("inline-code", word.source, why, "Write the program to a file of the workspace and run that.")


def _objections(code: str, word: Word, scope: Scope) -> Iterator[Finding]:
    for pattern in tables().programs:
        if pattern.one.search(code) and pattern.other.search(code):
            made = partial(ask, destroys=True) if pattern.destroys else deny
            yield made(pattern.id, word.source, pattern.reason)
    shell = _STARTS.search(code) or re.search(r'"\s*\|\s*(getline|&)|\|\s*"', code)
    literals = ["".join(groups) for groups in _STRING.findall(code)]
    for written in _WRITTEN.findall(code):
        yield from _written("".join(written), word, scope)
    for script in _SED_RUNS.findall(code):
        yield ask("inline-code", word.source, "It starts other programs.")
        yield Script(script, word.source)
    for literal in literals:
        yield from _literal(literal, code, word, scope)
    if shell and literals:
        yield ask("inline-code", word.source, "It starts other programs.")
        for literal in [*literals, " ".join(literals)]:
            yield Script(re.sub(r"\\(.)", r"\1", literal).strip() or ":", word.source)


def _literal(literal: str, code: str, word: Word, scope: Scope) -> Iterator[Finding]:
    if len(literal) > _LONGEST_PATH or not re.match(r"[/~.]|\w+/", literal):
        return
    path = Word(literal, word.source)
    yield from files.secrets(path, scope)
    if re.match(r"/dev/(?!null|std|fd|zero|u?random)", literal):
        yield deny("device", word.source, "it reads or writes a device of the machine.")
    if _DELETES.search(code):
        yield from files.delete(path, scope)


def _written(literal: str, word: Word, scope: Scope) -> Iterator[Finding]:
    """What denies writing the file that a program names; what only asks is asked anyway."""
    if len(literal) <= _LONGEST_PATH and re.match(r"[/~]", literal):
        yield from (found for found in files.write(Word(literal, word.source), scope) if found.verdict == "deny")


def _is_plain(code: str) -> bool:
    """Any other language: nothing but known words, strings, arithmetic and, after a word that expects one, patterns."""
    code = _SETTINGS.sub("1", _PATTERN.sub(" ", _REPLACING.sub(" ", code)))
    if re.search(r"(?<![$@%\w.])(s|y|tr|m|q[qwxr]?)\s*[/{(\[|!#~,]", code) or re.search(
        r"`|\$\{|#\{|@\{|<|\||%x|qx|\\x|\(\?\??\{", code
    ):
        return False
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "''", code)
    if re.search(r"[)\]}']\s*\(|\[\s*'|\bdo\s*['\"$(]|\$\w+\s*\(|\]\s*\[", bare):
        return False
    plain = tables().groups["plain_words"]
    return all(len(name) == 1 or name in plain for name in re.findall(r"[A-Za-z_]\w*", bare))


def _sed_is_plain(code: str) -> bool:
    rest = code
    while rest:
        taken = next((m for pattern in _SED for m in [pattern.match(rest)] if m), None)
        if taken is None or not taken[0]:
            return False
        if "flags" in taken.re.groupindex and re.search("[ewm]", taken["flags"]):
            return False
        rest = rest[taken.end() :]
    return True


_SED = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"[\s;{}0-9,$!~+]+",
        r"/(?:[^/\\]|\\.)*/[IM]?",
        r"\\([^\w\s])(?:(?!\1)[^\\]|\\.)*\1[IM]?",
        r"[sy]([^\w\s\\])(?:(?!\1)[^\\]|\\.)*\1(?:(?!\1)[^\\]|\\.)*\1(?P<flags>[a-zA-Z0-9]*)",
        r"[aic]\\?[^\n]*",
        r"[btT][ \t]*[\w-]*",
        r":[ \t]*[\w-]+",
        r"[=dDgGhHnNpPxzFlqQ]",
        r"#[^\n]*",
    )
)
_PLAIN = {"python": lambda _code: False, "awk": awk.is_plain, "sed": _sed_is_plain}
