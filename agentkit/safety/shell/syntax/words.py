"""What are the words of a command once bash has removed quotes and expanded what it can? (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from agentkit.safety.shell.scope import (
    A_NAME,
    ANYTHING,
    HOME,
    KEYS,
    NOTHING,
    PERHAPS_EMPTY,
    TAME,
    UNKNOWN,
    Scope,
    Value,
    Word,
    unfound,
)
from agentkit.safety.shell.syntax.arithmetic import subscripts

if TYPE_CHECKING:
    from tree_sitter import Node

_QUOTED = "\x02"  # before a character that a quote has made plain
_SPLIT = "\x03"  # where an unquoted expansion breaks a word
_SPECIAL = re.compile(r"[*?\[\]{},~!()|@+]")
_GLOB = re.compile(rf"(?<!{_QUOTED})[*?\[]|(?<!{_QUOTED})[@+!]\(")
_BRACE_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?\d+)?")
_A_NAME_OR_NOTHING = Value(TAME, frozenset({PERHAPS_EMPTY}))
_A_PATH_OR_NOTHING = Value(UNKNOWN, frozenset({PERHAPS_EMPTY}))
_MAX_WORDS = 64
_MAX_TEXT = 10_000
_MAX_RANGE = 100_000
_SETTINGS = (  # variables that everybody here may see, but no other machine: folders, and settings of tools
    "OLDPWD TMPDIR EDITOR VISUAL PAGER BROWSER DISPLAY PYTHONPATH PYTHONHOME NODE_ENV NODE_PATH"
    " JAVA_HOME GOPATH GOROOT GOBIN CARGO_HOME RUSTUP_HOME CONDA_PREFIX CONDA_DEFAULT_ENV NVM_DIR ANDROID_HOME"
    " LD_LIBRARY_PATH MANPATH CPATH LIBRARY_PATH PKG_CONFIG_PATH CC CXX DEBUG VERBOSE"
    " XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_RUNTIME_DIR OMP_NUM_THREADS CUDA_VISIBLE_DEVICES FLASK_APP"
    " FLASK_ENV DJANGO_SETTINGS_MODULE RAILS_ENV APP_ENV"
)
_ENVIRONMENT = {
    "IFS": Value(" \t\n"),
    "HOME": Value(HOME),
    "PATH": Value("/usr/local/bin:/usr/bin:/bin"),
    **dict.fromkeys(("UID", "EUID", "PPID", "RANDOM", "SECONDS", "LINENO", "BASHPID", "EPOCHSECONDS", "SHLVL"), A_NAME),
    **dict.fromkeys(("HOSTNAME", "OSTYPE", "HOSTTYPE", "MACHTYPE", "BASH_VERSION", "PIPESTATUS"), A_NAME),
    **dict.fromkeys(("USER", "LOGNAME", "LANG", "TERM", "COLUMNS", "LINES", "CI"), _A_NAME_OR_NOTHING),
    **dict.fromkeys(("SHELL", "VIRTUAL_ENV", "TZ", "LC_ALL"), _A_PATH_OR_NOTHING),
    **dict.fromkeys(_SETTINGS.split(), Value(UNKNOWN, frozenset({"setting"}))),
    "!": _A_NAME_OR_NOTHING,
    "0": ANYTHING,
}
_ANSI = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.))",
    re.DOTALL,
)
_ANSI_LETTERS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
SUBSTITUTIONS = ("command_substitution", "process_substitution")

Substitute = Callable[["Node"], Value]
"""Judges the commands of a substitution and says what they would print."""
Evaluate = Callable[["Node", list[Value]], None]
"""Judges a node that bash evaluates as arithmetic, with what the substitutions in it print."""
Assign = Callable[[str, Value, str], None]
"""Judges and keeps a variable's new value: name, value, source."""


def ansi(text: str, *, echo: bool = False) -> str:
    """The text with backslash escapes as in $'...' and `printf`, or `echo -e`; control marks become unknown."""
    text = re.sub(r"\\x\{[^}]*\}?", UNKNOWN, text)
    if echo:
        text = re.sub(r"\\c.*", UNKNOWN, re.sub(r"\\0([0-7]{1,3})", r"\\\1", text), flags=re.DOTALL)
    return re.sub(r"[\x00-\x03]", UNKNOWN, _ANSI.sub(_ansi_character, text))


def _ansi_character(match: re.Match[str]) -> str:
    letter, octal, *codes, control = match.groups()
    if letter:
        return _ANSI_LETTERS[letter]
    if control:
        return chr(ord(control) & 0x1F)
    number = int(octal, 8) & 0xFF if octal else int(next(code for code in codes if code), 16)
    return chr(number) if number < 0x110000 else UNKNOWN


def _plain(text: str) -> str:
    """A quoted text, its special characters marked as plain."""
    return _SPECIAL.sub(lambda match: _QUOTED + match[0], text)


def _unescaped(text: str) -> str:
    """An unquoted text without its backslashes."""
    text = text.replace("\\\n", "")
    return re.sub(r"\\(.)", lambda match: _plain(match[1]), text, flags=re.DOTALL)


class Expander:
    """Turns syntax nodes into words, in one scope."""

    def __init__(self, scope: Scope, substitute: Substitute, evaluate: Evaluate, assign: Assign) -> None:
        self._scope = scope
        self._substitute, self._evaluate, self._assign = substitute, evaluate, assign
        self._splits = True

    def words(self, node: Node) -> list[Word]:
        """The words that one argument expands to; raises OverflowError."""
        value = _bounded(self._raw(node, quoted=False))
        written = source(node)
        return [
            _word(piece, written, value.origins, self._scope)
            for braced in _braces(value.text)
            for piece in _pieces(braced, value.text)
        ]

    def value(self, node: Node) -> Value:
        """The text of a node that is neither split nor globbed, such as what is assigned or a here-string."""
        self._splits = False
        try:
            value = _bounded(self._raw(node, quoted=False))
        finally:
            self._splits = True
        text = value.text.replace(_SPLIT, " ")
        return Value(_tilde(text, self._scope).replace(_QUOTED, ""), value.origins)

    def _raw(self, node: Node, *, quoted: bool) -> Value:
        kind = node.type
        text = source(node)
        if kind in _LITERALS:
            return Value(_LITERALS[kind](text))
        if kind in SUBSTITUTIONS:
            return self._broken(self._substitute(node), quoted=quoted)
        if kind in self._WHOLE:
            return self._WHOLE[kind](self, node)
        method = self._EXPANSIONS.get(kind)
        return method(self, node, quoted=quoted) if method else self._opaque(node)

    def _opaque(self, node: Node) -> Value:
        """A node whose value is not computed; the substitutions in it are judged all the same."""
        found = [self._substitute(inner) for inner in substitutions(node)]
        return Value(UNKNOWN, Value.joined(found).origins)

    def _string(self, node: Node) -> Value:
        unescape = re.compile(r'\\([$`"\\\n])', re.DOTALL)
        parts = []
        for piece in _children_and_gaps(node):
            if isinstance(piece, str) or piece.type == "string_content":
                text = piece if isinstance(piece, str) else source(piece)
                parts.append(Value(_plain(unescape.sub(lambda match: match[1].replace("\n", ""), text))))
            elif piece.type not in {'"', '$"'}:
                parts.append(self._raw(piece, quoted=True))
        return Value.joined(parts)

    def _concatenation(self, node: Node, *, quoted: bool) -> Value:
        return Value.joined(
            [
                Value(_unescaped(piece)) if isinstance(piece, str) else self._raw(piece, quoted=quoted)
                for piece in _children_and_gaps(node)
                if isinstance(piece, str) or not is_translation_mark(piece)
            ]
        )

    def _heredoc(self, node: Node) -> Value:
        parts = []
        for piece in _children_and_gaps(node):
            if isinstance(piece, str) or piece.type == "heredoc_content":
                text = piece if isinstance(piece, str) else source(piece)
                parts.append(Value(text.replace("`", "`" + UNKNOWN)))
            else:
                parts.append(self._raw(piece, quoted=True))
        return Value.joined(parts)

    def _arithmetic(self, node: Node) -> Value:
        self._evaluate(node, [self._substitute(inner) for inner in substitutions(node)])
        return A_NAME

    def _simple(self, node: Node, *, quoted: bool) -> Value:
        return self._broken(self._variable(source(node)[1:]), quoted=quoted)

    def _variable(self, name: str) -> Value:
        if name in "?#$-":
            return A_NAME
        if name == "PWD":
            return Value(self._scope.cwd or UNKNOWN)
        return self._scope.variables.get(name) or _ENVIRONMENT.get(name) or _inherited(name)

    def _expansion(self, node: Node, *, quoted: bool) -> Value:
        """`${...}`: plain, with a default, and shortened; everything else is unknown."""
        children = node.children
        for part in subscripts(node):
            called = [part] if part.type in SUBSTITUTIONS else list(substitutions(part))
            self._evaluate(part, [self._substitute(each) for each in called])
        inner = Value.joined([self._raw(child, quoted=True) for child in children if child.type in _JUDGED])
        name = next(
            (source(child) for child in children if child.type in {"variable_name", "special_variable_name"}), ""
        )
        operator = next((child.type for child in children if not child.is_named and child.type not in {"${", "}"}), "")
        value = self._expanded(name, operator, source(node), children)
        origins = value.origins | inner.origins
        return self._broken(Value(value.text, origins), quoted=quoted)

    def _expanded(self, name: str, operator: str, text: str, children: list[Node]) -> Value:
        if operator == "#" and text.startswith("${#"):
            return A_NAME
        if operator == "" and text == "${" + name + "}":
            return self._variable(name)
        if re.search(r"@\w}$", text) or text.startswith("${!"):
            keys = re.fullmatch(r"\$\{!\w+\[[@*]\]\}", text)
            return Value(UNKNOWN, frozenset({KEYS if keys else "evaluated"}))
        if operator in {":-", "-", ":=", "=", ":+", "+"}:
            return self._default(name, operator, children)
        if operator in {"%", "%%", "#", "##", "^^", ",,"} and self._variable(name).text.strip(TAME) == "":
            known = self._variable(name)
            return Value(known.text, unfound(known.origins))
        return Value(UNKNOWN, self._variable(name).origins)

    def _default(self, name: str, operator: str, children: list[Node]) -> Value:
        known = self._scope.variables.get(name)
        after = [child for child in children if child.is_named][1:]
        other = Value.joined([self._raw(child, quoted=True) for child in after if child.type not in SUBSTITUTIONS])
        if any(child.type in SUBSTITUTIONS for child in after):
            other = ANYTHING
        if operator.endswith("+"):
            return other if known else Value(UNKNOWN, other.origins)
        if known is None and operator.endswith("="):
            self._assign(name, Value(other.text.replace(_QUOTED, ""), other.origins), name)
        return known or Value(other.text, other.origins | _perhaps_held(name))

    def _broken(self, value: Value, *, quoted: bool) -> Value:
        """A value as its place takes it: marked as plain in quotes, broken at white space outside."""
        if quoted:
            return Value(_plain(value.text), value.origins)
        if not self._splits:
            return value
        splitting = self._scope.variables.get("IFS", _ENVIRONMENT["IFS"])
        if splitting.text == _ENVIRONMENT["IFS"].text:
            return Value(re.sub(r"[ \t\n]+", _SPLIT, value.text), value.origins)
        is_split = not splitting.known or bool({*value.text} & {*" \t\n", *splitting.text})
        return Value(UNKNOWN if is_split else value.text, unfound(value.origins))

    _WHOLE: ClassVar[Mapping[str, Callable[[Expander, Node], Value]]] = {
        "string": _string,
        "arithmetic_expansion": _arithmetic,
        "heredoc_body": _heredoc,
    }
    _EXPANSIONS: ClassVar[Mapping[str, Callable[..., Value]]] = {
        "translated_string": _concatenation,
        "concatenation": _concatenation,
        "simple_expansion": _simple,
        "expansion": _expansion,
    }


_LITERALS: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("word", "number", "variable_name", "test_operator", "brace_expression"), _unescaped),
    **dict.fromkeys(("regex", "extglob_pattern", "special_variable_name"), _unescaped),
    "raw_string": lambda text: _plain(text[1:-1]),
    "ansi_c_string": lambda text: _plain(ansi(text[2:-1])),
    "$": lambda text: text,
}
_JUDGED = {*SUBSTITUTIONS, "string", "concatenation", "expansion", "subscript"}


def _bounded(value: Value) -> Value:
    """A text that variables have made very long is not followed."""
    return value if len(value.text) <= _MAX_TEXT else Value(UNKNOWN, value.origins)


def _perhaps_held(name: str) -> frozenset[str]:
    """Where a text may come from that stands in a variable's place if nobody has set it."""
    if re.search(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH", name):
        return frozenset({"environment"})
    return frozenset() if not name.isupper() or name.endswith(("HOST", "PORT")) else frozenset({"setting"})


def _inherited(name: str) -> Value:
    """A variable that only the environment can have set; by its name it may be a key."""
    return Value(UNKNOWN, frozenset({"environment"})) if name.isupper() or "!" in name else ANYTHING


def substitutions(node: Node) -> Iterator[Node]:
    """The outermost substitutions beneath a node."""
    waiting = list(reversed(node.children))
    while waiting:
        inner = waiting.pop()
        if inner.type in SUBSTITUTIONS:
            yield inner
        else:
            waiting.extend(reversed(inner.children))


def is_translation_mark(node: Node) -> bool:
    """Whether a node is the dollar of $"...", a text that bash may translate; the parser takes it for a word."""
    following = node.next_sibling if node.type == "$" else None
    return following is not None and following.type == "string" and following.start_byte == node.end_byte


def source(node: Node) -> str:
    """The text that a node was written as."""
    return (node.text or b"").decode("utf-8", "replace")


def _children_and_gaps(node: Node) -> Iterator[Node | str]:
    """The children of a node and, between them, the text that the parser gave to none."""
    whole, start, end = node.text or b"", node.start_byte, node.start_byte
    for child in node.children:
        if child.start_byte > end:
            yield whole[end - start : child.start_byte - start].decode("utf-8", "replace")
        yield child
        end = child.end_byte
    if node.end_byte > end:
        yield whole[end - start :].decode("utf-8", "replace")


def _pieces(text: str, whole: str) -> list[str]:
    """The words that white space in expansions makes of one; an empty unquoted expansion makes none."""
    if _SPLIT not in text:
        return [text]
    return [piece for piece in text.split(_SPLIT) if piece] or ([""] if whole.strip(_SPLIT) else [])


def _tilde(text: str, scope: Scope) -> str:
    match = re.match(r"~([\w.+-]*)(?=/|$)", text)
    if not match:
        return text
    who = {"": HOME, "+": scope.cwd or UNKNOWN, "-": UNKNOWN, "root": "/root"}.get(match[1], f"/home/{match[1]}")
    return who + text[match.end() :]


def _word(text: str, source: str, origins: frozenset[str], scope: Scope) -> Word:
    glob = bool(_GLOB.search(text))
    return Word(_tilde(text, scope).replace(_QUOTED, ""), source, glob, origins)


def _braces(text: str) -> list[str]:
    """The texts that unquoted braces expand to; raises OverflowError."""
    waiting, done = [text], []
    while waiting:
        item = waiting.pop()
        span = _first_brace(item)
        if span is None:
            done.append(item)
        else:
            start, end, choices = span
            waiting.extend(item[:start] + choice + item[end:] for choice in reversed(choices))
        if len(waiting) + len(done) > _MAX_WORDS:
            raise OverflowError("It expands to more words than can be judged.")
    return done


def _first_brace(text: str) -> tuple[int, int, list[str]] | None:
    """Where the first expandable brace begins and ends, and its choices."""
    start = text.find("{")
    while start >= 0:
        found = _brace_at(text, start) if text[start - 1 : start] not in {_QUOTED, "$"} else None
        if found:
            return found
        start = text.find("{", start + 1)
    return None


def _brace_at(text: str, start: int) -> tuple[int, int, list[str]] | None:
    depth, commas = 0, [start]
    for index in range(start, len(text)):
        letter = text[index] if text[index - 1 : index] != _QUOTED else ""
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 1:
            commas.append(index)
        if depth == 0:
            cuts = [*commas, index]
            choices = [text[a + 1 : b] for a, b in pairwise(cuts)]
            choices = choices if len(choices) > 1 else _range(choices[0])
            return (start, index + 1, choices) if choices else None
    return None


def _range(text: str) -> list[str]:
    match = _BRACE_RANGE.fullmatch(text)
    if not match:
        return []
    first, last = match[1], match[2]
    if first.lstrip("-").isdigit() and last.lstrip("-").isdigit():
        size = abs(int(first) - int(last)) + 1
        if size > _MAX_RANGE:
            raise OverflowError("It expands to more words than can be judged.")
        step = 1 if int(first) <= int(last) else -1
        return [str(n) for n in range(int(first), int(last) + step, step)] if size <= 16 else [TAME]
    if len(first) == len(last) == 1:
        low, high = sorted((ord(first), ord(last)))
        return [chr(code) for code in range(low, high + 1)]
    return [NOTHING.text + UNKNOWN]
