"""Quote removal, expansion of words, and parameter expansion operators (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Protocol

from agentkit.decisions import Decision
from agentkit.safety.paths import HOME
from agentkit.safety.shell import arithmetic
from agentkit.safety.shell.variables import (
    A_FILE,
    A_NAME,
    A_NUMBER,
    A_REF,
    A_WORD,
    ANYTHING,
    BELOW,
    DASHED,
    NOTHING,
    PERHAPS_EMPTY,
    SPLIT,
    UNKNOWN,
    UNKNOWN_NAME,
    ShellScope,
    Value,
    Word,
    alternatives,
    are_numbers,
    ask,
    composed,
    one_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node


_QUOTED = "\x02"  # before a quoted character that would otherwise be special
_SPLIT = "\x03"  # where an unquoted expansion splits a word
_SPECIAL = re.compile(r"[*?\[\]{},~!()|@+]")
_OPEN = re.compile(rf"(?<!{_QUOTED})[*?]|(?<!{_QUOTED})[@+!]\(")
_GLOB = re.compile(rf"(?<!{_QUOTED})[*?\[]|(?<!{_QUOTED})[@+!]\(")
_BRACE_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?\d+)?")
_A_NAME_OR_NOTHING = Value(UNKNOWN_NAME, frozenset({PERHAPS_EMPTY, A_WORD}))
_A_PATH_OR_NOTHING = Value(UNKNOWN, frozenset({PERHAPS_EMPTY}))
_PLAINLY_SPLIT = re.compile(r"[\w/.-]+([^\w/.-][\w/.-]+)*")
_MAX_WORDS = 64
_MAX_TEXT = 10_000
_MAX_RANGE = 100_000
_SETTINGS = (  # variables that can be shown, but not sent to other machines: folders, and settings of tools
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
    **dict.fromkeys(arithmetic.NUMBERS, A_NUMBER),
    **dict.fromkeys(("HOSTNAME", "OSTYPE", "HOSTTYPE", "MACHTYPE", "BASH_VERSION", "BASH_VERSINFO"), A_NAME),
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
EXPANSIONS = {*SUBSTITUTIONS, "arithmetic_expansion", "expansion", "simple_expansion", "subscript"}
"""The kinds of nodes that bash expands; each must be judged."""


class Judge(Protocol):
    """Judges what an expansion runs or changes."""

    def add(self, finding: Decision) -> None:
        """Record a decision."""

    def reached(self, node: Node) -> None:
        """Record that an expansion was judged."""

    def substitution(self, node: Node, scope: ShellScope) -> Value:
        """Judge the commands of a substitution; return their output."""

    def assign(self, name: str, value: Value, text: str, scope: ShellScope) -> None:
        """Judge and store a variable's new value."""


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
    """A quoted text, with its special characters marked as plain."""
    return _SPECIAL.sub(lambda match: _QUOTED + match[0], text)


def _unescaped(text: str) -> str:
    """An unquoted text without its backslashes."""
    text = text.replace("\\\n", "")
    return re.sub(r"\\(.)", lambda match: _plain(match[1]), text, flags=re.DOTALL)


class Expander:
    """Expands syntax nodes to words, in one scope, and judges every expansion in them.

    Child nodes are only visited through `_raw`, which knows each kind of node that can occur in a word or an
    expression; any other kind needs approval.
    """

    def __init__(self, scope: ShellScope, judge: Judge) -> None:
        self._scope, self._judge = scope, judge
        self._evaluating = frozenset[str]()
        self._evaluated = 0
        self._splits = True

    def words(self, node: Node) -> list[Word]:
        """The words that one argument expands to; raises OverflowError."""
        value = _bounded(self._raw(node, quoted=False))
        written = source(node)
        if written.startswith("{"):  # possibly a redirection such as {a[i]}>file
            self._element(_unmarked(value), written)
        pieces = [piece for braced in _braces(value.text) for piece in _pieces(braced, value.text)]
        origins = value.origins if len(pieces) == 1 else composed(value.origins)
        return [
            Word(_tilde(piece, self._scope).replace(_QUOTED, ""), written, bool(_GLOB.search(piece)), origins)
            for piece in pieces
        ]

    def value(self, node: Node) -> Value:
        """The text of a node that is neither split nor globbed, such as an assigned value or a here-string."""
        self._splits = False
        try:
            return _unmarked(_bounded(self._raw(node, quoted=False)), self._scope)
        finally:
            self._splits = True

    def visit(self, node: Node) -> None:
        """Judge the expansions in a node whose text is not needed."""
        self._raw(node, quoted=True)

    def evaluate(self, node: Node) -> None:
        """Judge a node that bash evaluates as arithmetic."""
        self._judge.reached(node)
        if node.type in _BRACKETED:
            parts = [value for piece, value in self._parts(node, quoted=True) if not _is_bracket(piece)]
        else:
            parts = [self._raw(node, quoted=True)]
        self._check(_unmarked(Value.joined(parts)), source(node))

    def condition(self, node: Node) -> None:
        """Judge a test in brackets: [[ ... ]] evaluates the operands of some operators."""
        self._judge.reached(node)
        text = source(node)
        self._evaluating = _IN_DOUBLE if text.startswith("[[") else _IN_SINGLE
        self._evaluated = 0
        value = self._joined(node, quoted=self._evaluating is _IN_DOUBLE)
        if self._evaluating is _IN_SINGLE and (SPLIT in value.origins or _OPEN.search(value.text[1:-1])):
            why = "A value that could split into several words could contain an operator that evaluates code."
            self._judge.add(ask("hidden-code", text, why, "Quote it, or use [[ ... ]]."))
        if sum(word in self._evaluating for word in text.split()) > self._evaluated:
            self._check(_unmarked(value), text)  # the parser has not found all operators
        self._evaluating = frozenset()

    def array(self, node: Node, name: str) -> Value:
        """The value of an array literal, as in name=(a b)."""
        elements = [child for child in node.children if child.is_named and child.type != "comment"]
        words = [word for child in elements for word in self.words(child)]
        if not any(source(child).startswith("[") for child in elements):
            return Value.array(word_value(word) for word in words)
        values = []
        for word in words:
            match = _INDEXED_ELEMENT.match(word.text)
            self._element(Value(name + (match[1] if match else f"[{UNKNOWN}]"), word.origins), word.source)
            values.append(Value(match[2] if match else UNKNOWN, word.origins))
        if are_numbers(*values):
            return Value(UNKNOWN_NAME, alternatives(values) | {PERHAPS_EMPTY})
        return Value.array([ANYTHING, *values])  # the positions are not tracked

    def _check(self, value: Value, text: str) -> None:
        for objection in arithmetic.objections(value, text, self._scope):
            self._judge.add(objection)
        arithmetic.change(value, self._scope)

    def _element(self, value: Value, text: str) -> None:
        key = arithmetic.subscript(value, self._scope)
        if key is not None:
            self._check(key, text)

    def _raw(self, node: Node, *, quoted: bool) -> Value:
        kind = node.type
        if kind in _LITERALS and not node.children:
            return Value(_LITERALS[kind](source(node)))
        if not node.is_named:
            return Value(source(node))
        self._judge.reached(node)
        if kind in self._WHOLE:
            return self._WHOLE[kind](self, node)
        method = self._KINDS.get(kind)
        return method(self, node, quoted=quoted) if method else self._unsupported(node)

    def _unsupported(self, node: Node) -> Value:
        self._judge.add(
            ask("unreadable", source(node), "Part of it is not supported by the analysis.", "Simplify the command.")
        )
        return Value(UNKNOWN, self._joined(node, quoted=True).origins)

    def _parts(self, node: Node, *, quoted: bool) -> list[tuple[Node | str, Value]]:
        return [
            (piece, Value(_unescaped(piece)) if isinstance(piece, str) else self._raw(piece, quoted=quoted))
            for piece in _children_and_gaps(node)
            if isinstance(piece, str) or not is_translation_mark(piece)
        ]

    def _joined(self, node: Node, *, quoted: bool) -> Value:
        return Value.joined([value for _, value in self._parts(node, quoted=quoted)])

    def _substitution(self, node: Node, *, quoted: bool) -> Value:
        text = source(node)
        if text.startswith("$(("):  # bash evaluates it as arithmetic if possible
            self._check(Value(text.removeprefix("$((").removesuffix("))")), text)
        return self._split_unquoted(self._judge.substitution(node, self._scope), quoted=quoted)

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
        self.evaluate(node)
        return A_NUMBER

    def _operation(self, node: Node, *, quoted: bool) -> Value:
        """An operator with its operands, in a test or in arithmetic."""
        parts = self._parts(node, quoted=quoted)
        operator = next((source(p) for p, _ in parts if not isinstance(p, str) and p.type == "test_operator"), "")
        operands = [_unmarked(value) for p, value in parts if not isinstance(p, str) and p.type != "test_operator"]
        if operator in self._evaluating:
            self._evaluated += 1
            judged = self._element if operator in _IN_SINGLE else self._check
            for operand in operands:
                judged(operand, source(node))
        return Value.joined([value for _, value in parts])

    def _subscript(self, node: Node, *, quoted: bool) -> Value:
        """An array's name and a subscript, which is arithmetic unless the array is associative."""
        name, *others = self._parts(node, quoted=quoted)
        key = _unmarked(Value.joined([value for piece, value in others if not _is_bracket(piece)]))
        if name[1].text not in self._scope.keyed and key.text not in {"@", "*"}:
            self._check(key, source(node))
        return Value.joined([name[1], Value("["), key, Value("]")])

    def _simple(self, node: Node, *, quoted: bool) -> Value:
        name = source(node)[1:]
        return self._expanded_elements(self._variable(name), name, quoted=quoted)

    def _variable(self, name: str) -> Value:
        if name in {"?", "#", "$"}:
            return A_NUMBER
        if name == "PWD":
            return Value(self._scope.cwd or UNKNOWN)
        return self._scope.value(name) or _ENVIRONMENT.get(name) or _inherited(name)

    def _expanded_elements(self, value: Value, which: str, *, quoted: bool) -> Value:
        """The expansion of a variable: all elements for @ and *, otherwise the text."""
        if value.items is None or which not in {"@", "*"}:
            return self._split_unquoted(value, quoted=quoted)
        is_joined = which == "*" and (quoted or not self._splits)
        mark = _plain(self._splitting.text[:1]) if is_joined else _SPLIT
        broken = [self._split_unquoted(item, quoted=quoted) for item in value.items]
        origins = (value.origins - {SPLIT}).union(*(each.origins & {SPLIT} for each in broken))
        text = mark.join(each.text for each in broken)
        return Value(text, origins if len(value.items) == 1 else composed(origins))

    @property
    def _splitting(self) -> Value:
        """The value of IFS: the characters that split unquoted text; the first one joins "$*"."""
        return self._scope.value("IFS") or _ENVIRONMENT["IFS"]

    def _split_unquoted(self, value: Value, *, quoted: bool) -> Value:
        """The expansion of a text: marked as plain in quotes, split at white space outside."""
        origins = value.origins - {SPLIT}
        if quoted:
            return Value(_plain(value.text), origins)
        if not self._splits:
            return replace(value, origins=origins)
        splitting = self._splitting
        if UNKNOWN in value.text or (UNKNOWN_NAME in value.text and A_FILE in origins and A_REF not in origins):
            origins |= {SPLIT}
        if splitting.text == "":
            return Value(value.text, origins)
        if splitting.text == _ENVIRONMENT["IFS"].text:
            return Value(re.sub(r"[ \t\n]+", _SPLIT, value.text), origins)
        named = SPLIT in origins and bool(splitting.text.strip())
        is_split = named or not splitting.known or bool({*value.text} & {*" \t\n", *splitting.text})
        if value.known and splitting.known and not named and _PLAINLY_SPLIT.fullmatch(value.text):
            return Value(re.sub(f"[{re.escape(splitting.text)}]", _SPLIT, value.text), composed(origins))
        return Value(UNKNOWN, composed(origins) | {SPLIT}) if is_split else Value(value.text, composed(origins))

    def _expansion(self, node: Node, *, quoted: bool) -> Value:
        """`${...}`: its parts are judged; the value is known for plain expansions, defaults and simple operators."""
        children = [child for child in node.children if child.type not in {"${", "}"}]
        place = next((i for i, child in enumerate(children) if child.type in _TARGETS), len(children))
        before, after = "".join(source(child) for child in children[:place]), children[place + 1 :]
        name = _unmarked(self._raw(children[place], quoted=True)).text if place < len(children) else ""
        operator = source(after[0]) if after and not after[0].is_named else ""
        operands = [_unmarked(self._raw(child, quoted=True)) for child in after[bool(operator) :]]
        if operator == ":":
            self._check(Value.joined(operands), source(node))
        name, _, key = name.partition("[")
        key = key.removesuffix("]")
        if before == "#":
            return A_NUMBER
        if before or operator == "@":
            return self._indirect(name, key, operator, node, quoted=quoted)
        value = self._element_of(name, key)
        if operator.strip(":") in {"-", "=", "+"}:
            value = self._default(name, value, operator, Value.joined(operands))
        elif after and operator.strip(":") != "?":
            if name in {"@", "*"} and value.items is not None:
                value = Value.array([Value("bash"), *value.items])  # ${@:0} is the name of the shell
            value = apply_operator(value, operator, [source(child) for child in after[1:]])
        return self._expanded_elements(value, "@" if key == "@" or name == "@" else key or name, quoted=quoted)

    def _element_of(self, name: str, key: str) -> Value:
        """The value of name[key]."""
        value = self._variable(name)
        if name in {"@", "*"} or key in {"@", "*"}:
            return value
        is_first = key == "0" and name not in self._scope.keyed
        if key == "" or (value.items is None and (is_first or value.text == UNKNOWN_NAME)):
            return Value(value.text, value.origins)
        if value.items is None or not re.fullmatch(r"-?\d{1,3}", key):
            return one_of(value.items or (), value.origins)
        index, count = int(key), len(value.items)
        index += count if index < 0 else 0
        others = value.items if key < "0" else value.items[:index]
        sure = all(item.known or item.is_number for item in others)  # each of them is exactly one element
        item = value.items[index] if 0 <= index < count else NOTHING
        sure = sure and item.text != UNKNOWN
        return (
            item
            if sure and (PERHAPS_EMPTY not in item.origins or index == count - 1)
            else one_of(value.items or (), value.origins)
        )

    def _indirect(self, name: str, key: str, operator: str, node: Node, *, quoted: bool) -> Value:
        """`${!name}`, the names or the keys of variables, and `${name@P}`."""
        if key in {"@", "*"} and not operator:
            return Value(UNKNOWN) if name in self._scope.ever_keyed else Value(UNKNOWN_NAME, frozenset({PERHAPS_EMPTY}))
        other = self._variable(name).text if name else ""
        if not operator and not key and other.isidentifier():
            return self._split_unquoted(self._variable(other), quoted=quoted)
        self._judge.add(ask("hidden-code", source(node), "bash would expand the variable's value a second time."))
        return ANYTHING

    def _default(self, name: str, value: Value, operator: str, other: Value) -> Value:
        is_set = self._scope.value(name) is not None or name in _ENVIRONMENT or name == "PWD"
        empty_counts = operator.startswith(":")
        certain = is_set and (value.text.strip(UNKNOWN + UNKNOWN_NAME) != "" or not empty_counts)
        uncertain = is_set and not certain and value.text != ""
        if operator.endswith("+"):
            return other if certain else NOTHING if is_set and not uncertain else _one_of_two(NOTHING, other)
        if certain:
            if operator.endswith("=") and name not in self._scope.variables:
                self._judge.assign(name, other, name, self._scope)  # the environment may lack it
            return value
        given = _one_of_two(value, other) if uncertain else Value(other.text, other.origins | _possible_value(name))
        if operator.endswith("="):
            self._judge.assign(name, given, name, self._scope)
        return given

    _WHOLE: ClassVar[Mapping[str, Callable[[Expander, Node], Value]]] = {
        "string": _string,
        "arithmetic_expansion": _arithmetic,
        "heredoc_body": _heredoc,
    }
    _KINDS: ClassVar[Mapping[str, Callable[..., Value]]] = {
        **dict.fromkeys(SUBSTITUTIONS, _substitution),
        **dict.fromkeys(("binary_expression", "unary_expression"), _operation),
        **dict.fromkeys(
            (
                *("concatenation", "translated_string", "postfix_expression", "ternary_expression", "command_name"),
                *("parenthesized_expression", "variable_assignment", "brace_expression", "array", "number", "regex"),
                *("extglob_pattern", "word", "ERROR"),
            ),
            _joined,
        ),
        "subscript": _subscript,
        "simple_expansion": _simple,
        "expansion": _expansion,
    }


_LITERALS: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("word", "number", "variable_name", "test_operator"), _unescaped),
    **dict.fromkeys(("string_content", "heredoc_content", "heredoc_start", "heredoc_end"), _plain),
    **dict.fromkeys(("comment", "file_descriptor"), lambda text: text),
    **dict.fromkeys(("regex", "extglob_pattern", "special_variable_name"), _unescaped),
    "raw_string": lambda text: _plain(text[1:-1]),
    "ansi_c_string": lambda text: _plain(ansi(text[2:-1])),
    "$": lambda text: text,
}
_TARGETS = {"variable_name", "special_variable_name", "subscript"}
_BRACKETS = {"$((", "$[", "((", "))", "[", "]"}
_BRACKETED = {"arithmetic_expansion", "compound_statement", "test_command"}
_INDEXED_ELEMENT = re.compile(r"(\[.*?\])\+?=(.*)", re.DOTALL)
_IN_SINGLE = frozenset({"-v", "-R"})
_IN_DOUBLE = _IN_SINGLE | {"-eq", "-ne", "-lt", "-gt", "-le", "-ge"}
"""The operators of [ ... ] and of [[ ... ]] that evaluate text: a subscript in a name, or both operands."""


def _is_bracket(piece: Node | str) -> bool:
    return not isinstance(piece, str) and piece.type in _BRACKETS


def _unmarked(value: Value, scope: ShellScope | None = None) -> Value:
    """A value without the marks of its expansion; with a scope, its tilde is expanded."""
    text = value.text.replace(_SPLIT, " ")
    return Value((_tilde(text, scope) if scope else text).replace(_QUOTED, ""), value.origins)


def word_value(word: Word) -> Value:
    """The value of a word; the files that match a pattern are unknown."""
    origins = composed(word.origins)
    if any(origin.startswith(BELOW) for origin in word.origins):
        return Value(f"{word.text}/{UNKNOWN}", origins)
    return Value(UNKNOWN, origins) if word.glob else Value(word.text, word.origins)


def _one_of_two(one: Value, other: Value) -> Value:
    """A value that is one of two; if they differ, it begins like the second, so that the worst case is judged."""
    origins = alternatives([one, other])
    if one == other:
        return one
    if all(value.text == "" or are_numbers(value) for value in (one, other)):
        return Value(UNKNOWN_NAME, origins | {PERHAPS_EMPTY})
    if one.text == "" and not re.match(r"[/~]|\.\.", other.text):
        return Value(UNKNOWN, origins | {PERHAPS_EMPTY})
    return Value(other.text + UNKNOWN, origins)


def _bounded(value: Value) -> Value:
    """The value, or an unknown one if its text is very long."""
    return value if len(value.text) <= _MAX_TEXT else Value(UNKNOWN, value.origins)


def _possible_value(name: str) -> frozenset[str]:
    """The origins of the default text of an unset variable."""
    if re.search(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH", name):
        return frozenset({"environment"})
    return frozenset() if not name.isupper() or name.endswith(("HOST", "PORT")) else frozenset({"setting"})


def _inherited(name: str) -> Value:
    """The value of a variable that only the environment can set; by its name it may be a key."""
    return Value(UNKNOWN, frozenset({"environment"})) if name.isupper() or "!" in name else ANYTHING


def is_translation_mark(node: Node) -> bool:
    """Whether a node is the dollar of $"...", a text that bash may translate; the parser reads it as a word."""
    following = node.next_sibling if node.type == "$" else None
    return following is not None and following.type == "string" and following.start_byte == node.end_byte


def source(node: Node) -> str:
    """The source text of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def _children_and_gaps(node: Node) -> Iterator[Node | str]:
    """The children of a node, and the text between them that belongs to no child."""
    whole, start, end = node.text or b"", node.start_byte, node.start_byte
    for child in node.children:
        if child.start_byte > end:
            yield whole[end - start : child.start_byte - start].decode("utf-8", "replace")
        yield child
        end = child.end_byte
    if node.end_byte > end:
        yield whole[end - start :].decode("utf-8", "replace")


def _pieces(text: str, whole: str) -> list[str]:
    """The words into which white space in expansions splits a word; an empty unquoted expansion yields no word."""
    if _SPLIT not in text:
        return [text]
    return [piece for piece in text.split(_SPLIT) if piece] or ([""] if whole.strip(_SPLIT) else [])


def _tilde(text: str, scope: ShellScope) -> str:
    match = re.match(r"~([\w.+-]*)(?=/|$)", text)
    if not match:
        return text
    who = {"": HOME, "+": scope.cwd or UNKNOWN, "-": UNKNOWN, "root": "/root"}.get(match[1], f"/home/{match[1]}")
    return who + text[match.end() :]


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
    """The start, the end and the choices of the first expandable brace."""
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
        return [str(n) for n in range(int(first), int(last) + step, step)] if size <= 16 else [UNKNOWN_NAME]
    if len(first) == len(last) == 1:
        low, high = sorted((ord(first), ord(last)))
        return [chr(code) for code in range(low, high + 1)]
    return [NOTHING.text + UNKNOWN]


_PATTERN = re.compile(r"\*?[\w./ ,:@=+-]*\*?")
_PLAIN = re.compile(r"[\w./ ,:@=+-]*")
_MAX_CHARS = 100


def apply_operator(value: Value, operator: str, operands: Sequence[str]) -> Value:
    """Apply an operator to a value, given the source of the operands; the result is unknown if it is uncertain."""
    if operator == ":" and value.items is not None and all(item.known for item in value.items):
        span = _span(operands, len(value.items or ()))
        return Value(UNKNOWN, value.origins) if span is None else Value.array((value.items or ())[span])
    if value.items is not None:
        return Value.array(apply_operator(item, operator, operands) for item in value.items)
    if value.text == UNKNOWN_NAME:
        is_kept = operator in _PRESERVING_OPERATORS or (operator == ":" and not value.origins & {A_FILE, A_WORD})
        dashed = frozenset({DASHED} if A_FILE in value.origins and operator.startswith("#") else ())
        return Value(UNKNOWN_NAME if is_kept else UNKNOWN, composed(value.origins) | dashed)
    known = value.known and len(value.text) <= _MAX_CHARS
    text = _CHANGES[operator](value.text, operator, operands) if known and operator in _CHANGES else None
    return Value(UNKNOWN if text is None else text, value.origins)


def _span(operands: Sequence[str], size: int) -> slice | None:
    """The slice for :offset:length, if both are literal numbers."""
    first, *others = "".join(operands).replace(" ", "").split(":")
    if len(others) > 1 or not all(re.fullmatch(r"-?\d{1,4}", text) for text in (first, *others)):
        return None
    start = int(first) if int(first) >= 0 else max(0, size + int(first))
    if not others:
        return slice(start, None)
    length = int(others[0])
    return slice(start, start + length if length >= 0 else max(start, size + length))


def _sliced(text: str, _operator: str, operands: Sequence[str]) -> str | None:
    span = _span(operands, len(text))
    return None if span is None else text[span]


def _shortened(text: str, operator: str, operands: Sequence[str]) -> str | None:
    """Remove the shortest or longest prefix (# ##) or suffix (% %%) that matches a simple pattern."""
    pattern = "".join(operands)
    if not _PATTERN.fullmatch(pattern):
        return None
    matches = re.compile(re.escape(pattern).replace(r"\*", ".*"), re.DOTALL).fullmatch
    cuts = range(len(text) + 1)
    if operator.startswith("#"):
        ends = cuts if operator == "#" else reversed(cuts)
        return next((text[end:] for end in ends if matches(text[:end])), text)
    starts = reversed(cuts) if operator == "%" else cuts
    return next((text[:start] for start in starts if matches(text[start:])), text)


def _replaced(text: str, operator: str, operands: Sequence[str]) -> str | None:
    old, new = operands[0] if operands else "", "".join(operands[2:])
    if not old or not _PLAIN.fullmatch(old + new) or operands[1:2] not in ([], ["/"]):
        return None
    if operator == "/#":
        return new + text.removeprefix(old) if text.startswith(old) else text
    if operator == "/%":
        return text.removesuffix(old) + new if text.endswith(old) else text
    return text.replace(old, new, -1 if operator == "//" else 1)


def _cased(text: str, operator: str, operands: Sequence[str]) -> str | None:
    end = len(text) if len(operator) == 2 else 1
    start = text[:end].upper() if operator[0] == "^" else text[:end].lower()
    return None if operands or not text.isascii() else start + text[end:]


_PRESERVING_OPERATORS = {"%", "%%", "#", "##", "^^", ",,"}
_CHANGES = {
    **dict.fromkeys(("%", "%%", "#", "##"), _shortened),
    **dict.fromkeys(("/", "//", "/#", "/%"), _replaced),
    **dict.fromkeys(("^", "^^", ",", ",,"), _cased),
    ":": _sliced,
}
