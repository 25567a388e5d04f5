"""Programs passed to interpreters: Python, awk, sed and others (pure)."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from agentkit.safety import paths
from agentkit.safety.shell import files
from agentkit.safety.shell.arguments import Argument, leading_options
from agentkit.safety.shell.launchers import origin_objections, run_arguments, script
from agentkit.safety.shell.tables import Interpreter, tables
from agentkit.safety.shell.variables import (
    UNKNOWN,
    UNKNOWN_NAME,
    Finding,
    ShellScope,
    ShellScript,
    StartedCommand,
    Word,
    ask,
    deny,
    reads,
    runs,
)

_TOKEN = re.compile(
    r"(?P<space>(?:[ \t\r]|\\\n|#[^\n]*)+)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)"
    r"|(?P<mark>&&|\|\||>>|[-+*/%^=!<>]=|\+\+|--|[-+*/%^=!<>~?:,;(){}\[\]$\n])",
    re.DOTALL,
)
_AWK_REGEX = re.compile(r"/(?:[^/\\\n\[\"]|\\.|\[\^?\]?(?:[^\]\\\n\"/]|\\.)*\])*/")
_OPERANDS = {")", "]", "++", "--", "$"}
_DELICATE = {
    *("system", "getline", "ENVIRON", "PROCINFO", "ARGV", "ARGC", "ARGIND", "SYMTAB", "FUNCTAB", "while", "do"),
    *("extension", "close", "include", "load", "namespace", "eval"),
}
_REDIRECTIONS = (">>", ">")
_KEYWORDS = {"print", "printf", "return", "in", "if", "else"}


def is_plain_awk(code: str) -> bool:
    """Whether every token is understood and none runs a program, opens a file or loops without end."""
    tokens = _tokens(code)
    if tokens is None or _DELICATE & set(tokens):
        return False
    text = " ".join(tokens)
    return not re.search(r"for \( [^)]*; ;", text) and not _redirects(tokens)


def _tokens(code: str) -> list[str] | None:
    """The tokens, with "" for each string and // for each pattern; None for unknown syntax."""
    tokens: list[str] = []
    place, operand = 0, False
    while place < len(code):
        pattern = None if operand or code[place] != "/" else _AWK_REGEX.match(code, place)
        match = pattern or _TOKEN.match(code, place)
        if match is None or (code[place] == "/" and not operand and not pattern):
            return None
        place = match.end()
        kind = "pattern" if pattern else match.lastgroup
        if kind == "space":
            continue
        tokens.append({"string": '""', "pattern": "//"}.get(str(kind), match[0]))
        operand = (kind != "mark" and tokens[-1] not in _KEYWORDS) or tokens[-1] in _OPERANDS
    return tokens


def _redirects(tokens: list[str]) -> bool:
    """Whether a print statement writes to a file: a > outside parentheses, before the end of the statement."""
    printing, depth = False, 0
    for part in tokens:
        depth += (part in {"(", "["}) - (part in {")", "]"})
        if part in {"print", "printf"}:
            printing, depth = True, 0
        elif part in {";", "\n", "}"}:
            printing = False
        elif part in _REDIRECTIONS[: 2 if printing and depth <= 0 else 1]:
            return True
    return False


_LARGE = 10_000_000
_INTERNAL_ATTRIBUTE = re.compile(r"(gi|cr|ag|f|tb|co|func)_")
_OWN_MODULE = re.compile(r".*\.(py|so|pyc)")
_READING = {"r", "rb", "rt"}


def effect(word: Word, scope: ShellScope) -> Iterator[Finding]:
    """The effect of a plain program: it computes, or reads files and imports code, whose paths are judged."""
    nodes = list(ast.walk(ast.parse(word.text.replace(UNKNOWN_NAME, "1"))))
    plain = tables().groups["python_plain_modules"]
    imported = [name for node in nodes for name in _imported(node)]
    # Python looks for its own modules in the current folder first.
    replaced = imported and any(_OWN_MODULE.fullmatch(path) for path in scope.written)
    if not replaced and all(name in plain for name in imported) and not any(_is_open(node) for node in nodes):
        yield reads(word.source)
        return
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from run_arguments([Word(node.value.lstrip("-"), word.source)], scope)
    yield runs(word.source, scope)


def is_plain_python(code: str) -> bool:
    """Whether the code cannot run a program, change a file or access the interpreter's internals."""
    try:
        nodes = list(ast.walk(ast.parse(code.replace(UNKNOWN_NAME, "1"))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    opened = sum(_is_open(node) for node in nodes)
    named = [node.id for node in nodes if isinstance(node, ast.Name)]
    bases = [node.value.id for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    handed_on = named.count("open") > opened or any(named.count(name) > bases.count(name) for name in ("os", "sys"))
    return not handed_on and all(_node_is_plain(node) for node in nodes)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "."] if isinstance(node, ast.ImportFrom) else []


def _is_open(node: ast.AST) -> bool:
    """Whether the node is open(path) or open(path, "r") with a literal path."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open" and node.args):
        return False
    texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return (
        len(texts) == len(node.args) <= 2
        and all(mode in _READING for mode in texts[1:])
        and all(keyword.arg in {"encoding", "errors", "newline"} for keyword in node.keywords)
    )


def _node_is_plain(node: ast.AST) -> bool:
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
    return not isinstance(node, ast.While | ast.Match)


def _import_is_plain(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.Import):
        return all(
            _module_is_plain(alias.name) and (alias.asname is None or alias.name not in {"os", "sys"})
            for alias in node.names
        )
    groups = tables().groups
    allowed = groups[f"python_plain_{node.module}"] if node.module in {"os", "sys"} else None
    names = [alias.name for alias in node.names]
    return (
        not node.level
        and _module_is_plain(node.module or "")
        and all(_name_is_plain(name) and (allowed is None or name in allowed) for name in names)
    )


def _module_is_plain(name: str) -> bool:
    """Whether a module is known to be harmless, or is the workspace's code."""
    return name in tables().groups["python_plain_modules"] or is_own_module(name)


def is_own_module(name: str) -> bool:
    """Whether a module counts as the workspace's code: it is neither in Python nor known to be dangerous."""
    top = name.partition(".")[0]
    known = top in sys.stdlib_module_names or top in tables().groups["python_delicate_modules"]
    return top.isidentifier() and not known and not top.startswith("_")


def _name_is_plain(name: str) -> bool:
    """Whether an attribute of any object is neither internal nor a module that the object uses."""
    groups = tables().groups
    if name.startswith("_"):
        return name in groups["python_plain_dunder"]
    foreign = name in sys.stdlib_module_names and name not in groups["python_plain_modules"]
    return (
        not foreign
        and name not in groups["python_delicate_attributes"]
        and not _INTERNAL_ATTRIBUTE.match(name)
        and name != "*"
    )


def _attribute_is_plain(node: ast.Attribute) -> bool:
    groups = tables().groups
    if isinstance(node.value, ast.Name) and node.value.id in {"os", "sys"}:
        return node.attr in groups[f"python_plain_{node.value.id}"]
    return _name_is_plain(node.attr) and node.attr not in {"os", "sys"}


def _is_small(node: ast.BinOp) -> bool:
    """Whether the result of a power, a shift or a repetition is small."""
    sides = (node.left, node.right)
    if isinstance(node.op, ast.Mult):
        computed = any(isinstance(side, ast.BinOp) for side in sides)
        return not (computed and any(isinstance(side, ast.List | ast.Tuple | ast.Constant) for side in sides))
    if not isinstance(node.op, ast.Pow | ast.LShift):
        return True
    numbers = [side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, int)]
    return len(numbers) == 2 and abs(numbers[0]).bit_length() * numbers[1] <= 4_000


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
_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\]|\\.)*/[IM]*)"
_SED_RUNS = re.compile(
    rf"(?:^|[;{{}}\n])\s*(?:{_SED_ADDRESS}(?:\s*,\s*[+~]?{_SED_ADDRESS})?\s*!?\s*)?e[ \t]*([^\s;}}][^\n]*)"
    r"|s([^\w\s\\])(?:(?!\2)[^\\]|\\.)*\2((?:(?!\2)[^\\]|\\.)*)\2\w*e"
)
_REPLACING = re.compile(r"^\s*(s|tr|y)/[\w\s^.*+?\\\[\]-]*\$?/[\w\s.\\-]*/[gimsx]*\s*;?\s*$")
_SETTINGS = re.compile(r"""\brequire\((['"])\./(?:package|tsconfig)\.json\1\)(?:\.\w+)*""")
_REGEX_LITERAL = re.compile(
    r"(?:(?<=\sif\s)|(?<=\sunless\s))/[\w\s^$.*+?\\\[\]|#-]*/[imsx]*(?=\s*(;|\)|$|&&|and\b|or\b))"
)
_FILE_NAME = re.compile(r"[\w./-]{1,200}\.\w{1,5}")
_MAX_CHARS = 3_000


def judge(language: str, word: Word, scope: ShellScope) -> Iterator[Finding]:
    """Findings on an inline program; never empty, because only known constructs are allowed."""
    code = word.text
    if len(code) > _MAX_CHARS:
        yield ask("inline-code", word.source, "The program is too long to judge.", "Write it to a file and run that.")
        return
    if word.contains_file_name:
        yield ask(
            "inline-code", word.source, "A file name would become part of the program.", "Pass it as an argument."
        )
    objections = list(_objections(language, word, scope))
    yield from objections
    if objections:
        return
    if language == "python" and UNKNOWN not in code and is_plain_python(code):
        yield from effect(word, scope)
    elif UNKNOWN not in code and _PLAIN.get(language, _is_plain)(code):
        yield reads(word.source)
    else:
        why = "The inline program could do harm."
        yield ask("inline-code", word.source, why, "Write the program to a file of the workspace and run that.")


def _objections(language: str, word: Word, scope: ShellScope) -> Iterator[Finding]:
    code = word.text
    for pattern in tables().programs:
        if pattern.one.search(code) and pattern.other.search(code):
            made = partial(ask, destroys=True) if pattern.destroys else deny
            yield made(pattern.id, word.source, pattern.reason)
    shell = _STARTS.search(code) or re.search(r'"\s*\|\s*(getline|&)|\|\s*"', code)
    literals = ["".join(groups) for groups in _STRING.findall(code)]
    for written in _WRITTEN.findall(code):
        yield from _written("".join(written), word, scope)
    # e of GNU sed runs its argument; as a flag of a substitution, it runs the result.
    for command, _, replacement in _SED_RUNS.findall(code) if language == "sed" else ():
        yield ask("inline-code", word.source, "It starts other programs.")
        yield ShellScript(command or replacement or ":", word.source)
    for literal in literals:
        yield from _literal(literal, code, word, scope)
    if shell and literals:
        yield ask("inline-code", word.source, "It starts other programs.")
        for literal in [*literals, " ".join(literals)]:
            yield ShellScript(re.sub(r"\\(.)", r"\1", literal).strip() or ":", word.source)


def _literal(literal: str, code: str, word: Word, scope: ShellScope) -> Iterator[Finding]:
    if _FILE_NAME.fullmatch(literal):
        files.record_script(Word(literal, word.source), scope)  # the program may load it
    if not re.match(r"[/~.]|\w+/", literal):
        return
    path = Word(literal, word.source)
    yield from files.secrets(path, scope)
    if re.match(r"/dev/(?!null|std|fd|zero|u?random)", literal):
        yield deny("device", word.source, "it reads or writes a device of the machine.")
    if _DELETES.search(code):
        yield from files.delete(path, scope)


def _written(literal: str, word: Word, scope: ShellScope) -> Iterator[Finding]:
    """Denials of writes to files that a program names; inline programs need approval anyway."""
    if re.match(r"[/~]", literal):
        yield from (found for found in files.write(Word(literal, word.source), scope) if found.verdict == "deny")


def _is_plain(code: str) -> bool:
    """Whether a program in another language has only known words, strings, arithmetic, and patterns where expected."""
    code = _SETTINGS.sub("1", _REGEX_LITERAL.sub(" ", _REPLACING.sub(" ", code)))
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
_PLAIN = {"python": lambda _code: False, "awk": is_plain_awk, "sed": _sed_is_plain}


_TOOLS = {"runs", "network"}
"""The effects of commands that are also Python tools; a module named like any other command is another program."""
_VERSION = {"--version", "-version", "-V", "--help", "-h", "-v", "version"}
_CODE_FLAGS = {"-c", "-Command", "-command", "--command"}
_SHELL_FLAGS = frozenset("abefhmnptuvxBCEPTilsrcoOD")
_LONG_SHELL_FLAGS = {
    "--norc",
    "--noprofile",
    "--posix",
    "--login",
    "--restricted",
    "--verbose",
    "-NoProfile",
    "-noprofile",
}
_SHELL_OPTIONS = re.compile(
    r"allexport|err(exit|trace|return)|functrace|ignoreeof|no(clobber|exec|glob|unset|tify)|physical|pipefail|posix|verbose"
    r"|xtrace|extglob|globstar|nullglob|failglob|inherit_errexit|nocaseglob|nocasematch|expand_aliases"
)
_LOADABLE_MODULE = re.compile(r"[a-z]\w*(/[\w-]+)*|@[a-z]\w*/[\w/-]+|\./(?!.*\.\.)[\w./-]+")
_HARMLESS_MODULE = re.compile(
    r"(strict|warnings|utf8|bytes|integer|bigint|feature|POSIX|List::Util|Scalar::Util|Data::Dumper|JSON::PP|Time::HiRes"
    r"|json|set|time|date|yaml|csv|pp|bigdecimal|securerandom|digest|prime|matrix|Time::Local|Text::Wrap|Digest::(MD5|SHA)|MIME::Base64)(=[\w,:]*)?"
)


def interpreted(language: Interpreter, words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """The program of an interpreter, and objections to its options and arguments."""
    if words[1:] and all(word.text in _VERSION for word in words[1:]):
        yield reads(words[0].source)
    elif language.name == "shell":
        yield from _shell(language, words, scope)
    else:
        yield from _by_options(language, words, scope)


def _by_options(language: Interpreter, words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    rest, ran = words[1:], False
    for argument in leading_options(language.options, rest):
        if argument.kind == "module" and language.name == "python":
            yield from _module(words[0], argument.word, rest, scope)
            return
        yield from _option(language, argument, scope)
        ran |= argument.kind == "program"
        if ran and language.name == "python":
            break
    if any(word.text in language.run for word in words):
        yield from run_arguments(rest, scope)
        yield runs(words[0].source, scope)
        return
    rest = rest[1:] if rest and rest[0].text == "--" else rest
    if ran:
        yield from _data(language, rest, scope)
    elif rest and rest[0].text not in {"-", "-s", "/dev/stdin"}:
        yield from _file(language, rest, scope)
    else:
        yield from _stdin(language, words[0], scope)


def _option(language: Interpreter, argument: Argument, scope: ShellScope) -> Iterator[Finding]:
    kind, word, _ = argument
    if kind == "ask" or (kind in {"program", "module"} and word.text.startswith("-")):
        yield ask("option", word.source, "The option is not known.")
    elif kind == "program":
        yield from origin_objections(word, word.source)
        yield from judge(language.name, word, scope)
    elif kind == "module":
        loaded = _HARMLESS_MODULE if language.name in {"perl", "ruby"} else _LOADABLE_MODULE
        if not loaded.fullmatch(word.text):
            yield ask("option", word.source, "It loads other code first.")
            yield from judge(language.name, word, scope)
        elif language.name not in {"perl", "ruby"}:
            yield runs(word.source, scope)
    elif kind in {"read", "cd"}:
        yield from files.read(word, scope)
    elif kind == "value":
        yield from run_arguments([word], scope)


def _data(language: Interpreter, rest: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """The arguments after a program: perl and ruby read them as files; with `|` they run them, with `>` write them."""
    if language.name not in {"perl", "ruby"}:
        yield from run_arguments(rest, scope)
        return
    for word in rest:
        text = word.text.strip()
        if text[:1] == ">" or text[:2] == "+<":
            yield from files.write(Word(text.lstrip("+<> "), word.source), scope)
        elif "|" in (text[:1], text[-1:]):
            yield from script(Word(text.strip("| "), word.source, origins=word.origins), word.source)
        else:
            yield from files.read(word, scope)
        if not word.known:
            yield runs(word.source, scope)


def _shell(language: Interpreter, words: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """A shell: its options, then a script with -c, otherwise a file or the standard input."""
    rest, code, stdin = words[1:], False, False
    while rest and len(rest[0].text) > 1 and rest[0].text[0] in "-+":
        word = rest.pop(0)
        if word.text == "--":
            break
        if word.text.startswith("--command="):
            word, rest = Word("-c", word.source), [Word(word.text[10:], word.source), *rest]
        letters = "c" if word.text in _CODE_FLAGS else "" if word.text in _LONG_SHELL_FLAGS else word.text[1:]
        code, stdin = code or "c" in letters, stdin or "s" in letters
        modes = [rest.pop(0) for letter in letters if letter in "oO" and rest]
        if not _SHELL_FLAGS.issuperset(letters) or not all(_SHELL_OPTIONS.fullmatch(mode.text) for mode in modes):
            yield ask("option", word.source, "The option is not known.")
            _record_startup_file(word, rest, scope)
    if code and rest:
        yield from _script_argument(rest, scope)
    elif rest and not stdin and rest[0].text not in {"-", "/dev/stdin"}:
        yield from _file(language, rest, scope)
    else:
        yield from _stdin(language, words[0], scope)


def _record_startup_file(option: Word, rest: list[Word], scope: ShellScope) -> None:
    """Record the file that an option of a shell may run first, such as --rcfile."""
    for word in (replace(option, text=option.text.partition("=")[2]), *rest[:1]):
        if word.text:
            files.record_script(word, scope)


def _script_argument(rest: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """The script after -c, with its parameters."""
    if not rest[0].known:
        scope.scripts |= scope.places  # one of these files contains the code
    for finding in script(rest[0], rest[0].source):
        yield replace(finding, arguments=tuple(rest[2:])) if isinstance(finding, ShellScript) else finding


def _module(interpreter: Word, module: Word, rest: list[Word], scope: ShellScope) -> Iterator[Finding]:
    """The target of python -m: a command of the same name, a timed program, or a known tool."""
    name, known = module.text.partition(".")[0], tables()
    yield from (StartedCommand([interpreter, *rest[i:]]) for i, word in enumerate(rest) if word.text.startswith("-m"))
    if name == "timeit":
        for word in rest:
            if not re.fullmatch(r"-[nrpvhsu]+|\d+|[num]?sec|--\w+(=\d+)?", word.text):
                yield from judge("python", Word(re.sub("^--?s(etup=)?", "", word.text), word.source), scope)
        yield runs(module.source, scope)
    elif name in known.specs and (known.specs[name].effect in _TOOLS or known.specs[name].paths == "subcommand"):
        yield StartedCommand([Word(name, module.source), *rest])
    elif name in known.groups["python_modules"] or is_own_module(module.text):
        _record_module(module, scope)
        yield from run_arguments(rest, scope)
        yield runs(module.source, scope)
    else:
        _record_module(module, scope)
        yield ask("module", module.source, "It runs a Python module that is not one of the usual tools.")


def _record_module(module: Word, scope: ShellScope) -> None:
    """Record the files of the workspace that contain the module."""
    path = module.text.replace(".", "/")
    for place in (f"{path}.py", f"{path}/__main__.py"):
        files.record_script(Word(place, module.source), scope)


def _file(language: Interpreter, rest: list[Word], scope: ShellScope) -> Iterator[Finding]:
    path = files.record_script(rest[0], scope)
    given = scope.pipes.get(rest[0].text)
    if given:
        yield from _stdin(language, rest[0], replace(scope, stdin=given))
        return
    yield from run_arguments(rest[1:], scope)
    if path is None or not paths.inside(path, scope.workspace):
        yield ask(
            "outside-code", rest[0].source, "It runs code from outside the workspace.", "Run files of the workspace."
        )
    elif path in scope.written or rest[0].glob:
        scope.scripts |= scope.places  # it may have been created from them
        yield ask(
            "fresh-code", rest[0].source, "It runs a file that the same command created.", "Run it in a later call."
        )
    else:
        yield runs(rest[0].source, scope)


def _stdin(language: Interpreter, word: Word, scope: ShellScope) -> Iterator[Finding]:
    if scope.stdin is not None and not scope.stdin.known:
        scope.scripts |= scope.places  # one of these files contains the code
    if scope.stdin is None:
        yield ask(
            "interactive", word.source, "It starts an interpreter that waits for input.", "Give it a file to run."
        )
    elif language.name == "shell":
        yield from script(scope.stdin, word.source)
    else:
        yield from origin_objections(scope.stdin, word.source)
        yield from judge(language.name, Word(scope.stdin.text, word.source), scope)
