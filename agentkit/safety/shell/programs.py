"""Is a program given on the command line harmless: Python, awk, sed and others? (pure)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agentkit.safety.shell import files
from agentkit.safety.shell.knowledge.tables import tables
from agentkit.safety.shell.scope import TAME, UNKNOWN, Finding, Scope, Script, Word, ask, deny, reads

_STRING = re.compile(
    r"'''(.*?)'''|\"\"\"(.*?)\"\"\"|'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\""
    r"|`([^`]*)`|\bq[wqx]?[({/](.*?)[)}/]",
    re.DOTALL,
)
_STARTS = re.compile(
    r"system|popen|exec|spawn|subprocess|shell|backtick|`|%x|qx|Command|Deno\.run|ShellExecute|Kernel|proc_open|passthru"
)
_DELETES = re.compile(
    r"rmtree|rm_?rf|rmSync|removeSync|rmdirSync|unlink|remove|Deno\.remove|rm_r|delete_tree|deltree|rmdir|truncate|delete"
)
_LONGEST = 3_000
_LARGE = 10_000_000


def judge(language: str, word: Word, scope: Scope) -> Iterator[Finding]:
    """What objects to a program in a word; something always answers, as only what is understood is allowed."""
    code = word.text
    if len(code) > _LONGEST:
        yield ask("inline-code", word.source, "The program is too long to judge.", "Write it to a file and run that.")
        return
    objections = list(_objections(code, word, scope))
    yield from objections
    plain = {"python": _python_is_plain, "awk": _awk_is_plain, "sed": _sed_is_plain}.get(language, _is_plain)
    if objections:
        return
    if UNKNOWN not in code and plain(code):
        yield reads(word.source)
    else:
        why = "It runs a program from the command line that is not plainly harmless."
        yield ask("inline-code", word.source, why, "Write the program to a file of the workspace and run that.")


def _objections(code: str, word: Word, scope: Scope) -> Iterator[Finding]:
    for pattern in tables().programs:
        if pattern.one.search(code) and pattern.other.search(code):
            yield deny(pattern.id, word.source, pattern.reason)
    shell = _STARTS.search(code) or re.search(r'"\s*\|\s*(getline|&)|\|\s*"', code)
    literals = ["".join(groups) for groups in _STRING.findall(code)]
    for literal in literals:
        yield from _literal(literal, code, word, scope)
    if shell and literals:
        yield ask("inline-code", word.source, "It starts other programs.")
        for literal in [*literals, " ".join(literals)]:
            yield Script(re.sub(r"\\(.)", r"\1", literal).strip() or ":", word.source)


def _literal(literal: str, code: str, word: Word, scope: Scope) -> Iterator[Finding]:
    if len(literal) > 300 or not re.match(r"[/~.]|\w+/", literal):
        return
    path = Word(literal, word.source)
    yield from files.secrets(path, scope)
    if re.match(r"/dev/(?!null|std|fd|zero|u?random)", literal):
        yield deny("device", word.source, "it reads or writes a device of the machine.")
    if _DELETES.search(code):
        yield from files.delete(path, scope)


def _python_is_plain(code: str) -> bool:
    try:
        tree = ast.parse(code.replace(TAME, "1"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_python_node_is_plain(node) for node in ast.walk(tree))


def _python_node_is_plain(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom():
            return _import_is_plain(node)
        case ast.Name(id=name):
            return name not in tables().groups["python_delicate_names"]
        case ast.Attribute():
            return _attribute_is_plain(node)
        case ast.BinOp():
            return _is_small(node)
        case ast.Constant(value=int(number)):
            return abs(number) < _LARGE
    return not isinstance(node, ast.While)


def _import_is_plain(node: ast.Import | ast.ImportFrom) -> bool:
    delicate = tables().groups["python_delicate_modules"]
    if isinstance(node, ast.Import):
        return not any(alias.name.partition(".")[0] in delicate for alias in node.names)
    module = (node.module or "").partition(".")[0]
    return module not in {*delicate, "os"} and all(alias.name != "*" for alias in node.names)


def _attribute_is_plain(node: ast.Attribute) -> bool:
    groups = tables().groups
    if isinstance(node.value, ast.Name) and node.value.id == "os":
        return node.attr in groups["python_plain_os"]
    return not node.attr.startswith("_") or node.attr in groups["python_plain_dunder"]


def _is_small(node: ast.BinOp) -> bool:
    """Whether a power, a shift or a repetition stays small."""
    sides = (node.left, node.right)
    if isinstance(node.op, ast.Mult):
        computed = any(isinstance(side, ast.BinOp) for side in sides)
        return not (computed and any(isinstance(side, ast.List | ast.Tuple | ast.Constant) for side in sides))
    if not isinstance(node.op, ast.Pow | ast.LShift):
        return True
    numbers = [side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, int)]
    return len(numbers) == 2 and abs(numbers[0]).bit_length() * numbers[1] <= 4_000


def _is_plain(code: str) -> bool:
    """Any other language: nothing but known words, strings and arithmetic."""
    if re.search(r"`|\$\{|#\{|@\{|<|\||%x|qx|\\x", code):
        return False
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "''", code)
    plain = tables().groups["plain_words"]
    return all(len(name) == 1 or name in plain for name in re.findall(r"[A-Za-z_]\w*", bare))


def _awk_is_plain(code: str) -> bool:
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', code)
    bare = re.sub(r"((?:^|[({;,~!&|\s]))\s*/(?:[^/\\\n]|\\.)*/", r"\1//", bare)
    if re.search(r"\b(system|getline|ENVIRON|PROCINFO|while\s*\(\s*1|for\s*\(\s*;)|@|(?<!\|)\|(?!\|)|&\s*$", bare):
        return False
    return not re.search(r"print[^;}\n]*>", bare)


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


def modules_are_installed(name: str) -> bool:
    """Whether `python -m name` only runs a tool of everyday development."""
    return name.partition(".")[0] in tables().groups["python_modules"]
