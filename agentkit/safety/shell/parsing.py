"""Parsing of commands, and detection of text that the parser reads differently from bash (pure)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from agentkit.decisions import Decision
from agentkit.safety.shell.variables import ask, deny

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


_SUBSTITUTION_START = re.compile(r"`|\$[(\[{]")
UNREAD = re.compile(r"\$[\w({\[]")
"""Expansions in a here-document, which the parser sometimes misses."""
_PROCESS = re.compile(r"[<>]\(")
_UNQUOTED = {"regex", "expansion", "word", "concatenation"}
_EXPANDING = {"string", "heredoc_body", "translated_string", "subscript", "arithmetic_expansion"}
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_CODE = re.compile(r"`([^`]*)`|\$\((.*)\)", re.DOTALL)
_OPENING = {"`", "$(", "$((", "$[", "<(", ">(", '"', "${"}


def hidden(root: Node) -> Iterator[tuple[Node, list[str]]]:
    """Each node whose own text bash would still expand, and the scripts found in it."""
    waiting = [(root, False)]
    while waiting:
        node, quoted = waiting.pop()
        kind = node.type
        if kind == "comment" or (kind in {"raw_string", "ansi_c_string"} and not quoted):
            continue
        if kind == "command_substitution":
            quoted = False
        quoted = quoted or kind in _EXPANDING or _is_keyed(node)
        text = _ESCAPED.sub("  ", own_text(node))
        unread = kind == "heredoc_body" and not node.children and UNREAD.search(text)
        live = unread or _SUBSTITUTION_START.search(text) or (kind in _UNQUOTED and _PROCESS.search(text))
        if live and kind not in _OPENING and not _quoted_heredoc(node):
            yield node, [(one or two).strip() for one, two in _CODE.findall(own_text(node)) if (one or two).strip()]
        if not _quoted_heredoc(node):
            waiting.extend((child, quoted) for child in node.children)


def _is_keyed(node: Node) -> bool:
    """Whether an element of an array begins with its key, which bash expands a second time, quoted or not."""
    within = node.type == "concatenation" and node.parent is not None and node.parent.type == "array"
    return within and (node.text or b"").startswith(b"[")


def own_text(node: Node) -> str:
    """The text of a node that belongs to none of its children."""
    whole, start, end, parts = node.text or b"", node.start_byte, node.start_byte, []
    for child in node.children:
        parts.append(whole[end - start : child.start_byte - start])
        end = child.end_byte
    return b"".join([*parts, whole[end - start :]]).decode("utf-8", "replace")


def _quoted_heredoc(node: Node) -> bool:
    """Whether a node is the body of a here-document with a quoted marker, which bash does not expand."""
    if node.type != "heredoc_body" or node.parent is None:
        return False
    mark = next((child for child in node.parent.children if child.type == "heredoc_start"), None)
    return mark is not None and bool(re.search(rb"['\"\\]", mark.text or b""))


def unescaped(node: Node) -> str | None:
    """The script in backticks without its escaping backslashes; None for any other substitution."""
    text = (node.text or b"").decode("utf-8", "replace")
    if not text.startswith("`") or not re.search(r"\\[`$\\]", text):
        return None
    return re.sub(r"\\([`$\\])", r"\1", text[1:-1])


_QUOTING = {"string", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"}
_REDIRECTING = re.compile(r"=*[|&<>;][|&<>;=]*")
_QUOTED = re.compile(rb"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_LINE_END = re.compile(rb"(?<!\\)(\\\\)*\n")
_HIDDEN_OPENING = re.compile(rb"[$<>]\\+[(\[{]")
_PARTS = {
    *("word", "string", "raw_string", "ansi_c_string", "concatenation", "simple_expansion", "expansion", "number"),
    *("command_substitution", "herestring_redirect", "file_redirect", "command_name"),
}
_STATEMENTS = {
    *("program", "command", "list", "pipeline", "redirected_statement", "do_group", "if_statement", "while_statement"),
    *("for_statement", "c_style_for_statement", "subshell", "compound_statement", "case_statement", "case_item"),
    *("function_definition", "negated_command", "test_command", "binary_expression", "unary_expression", "elif_clause"),
    *("else_clause", "declaration_command", "unset_command", "herestring_redirect", "file_redirect", "array"),
}
_WORD_PARENTS = {"command", "redirected_statement", "declaration_command", "unset_command", "herestring_redirect"}


def misread(node: Node) -> bool:
    """Whether the parser may read this node differently from bash; its children are examined separately."""
    doubt = _MISREAD_CHECKS.get(node.type)
    return (
        (doubt is not None and doubt(node))
        or (
            node.type in _WORD_PARENTS
            and any(
                one.end_byte == two.start_byte and one.type in _PARTS - {"file_redirect"} and two.type in _PARTS
                for one, two in pairwise(node.children)
            )
        )
        or (node.type in _STATEMENTS and own_text(node).replace("\\\n", "").strip() not in {"", "-"})
    )


def _extends_too_far(node: Node) -> bool:
    """Whether a here-document may extend too far: the parser misses its end if a ; follows the marker."""
    line = (node.text or b"").partition(b"\n")[0]
    return re.search(rb";|(?<![&>|<])&(?![&>])", re.sub(rb"'[^']*'|\"[^\"]*\"", b"", line)) is not None


def _spans_lines(node: Node) -> bool:
    """Whether a word extends beyond its line: after a comment, the parser continues a word that bash ends."""
    return _LINE_END.search(node.text or b"") is not None


def _is_more_than_a_test(node: Node) -> bool:
    """Whether the parser takes a pipe, a list, a redirection or a process substitution for a part of a test."""
    text = node.text or b""
    if text.startswith(b"(("):
        return False
    if text.startswith(b"[["):
        return re.search(rb"[<>]\(", _QUOTED.sub(b"", text)) is not None
    waiting = [node]
    while waiting:
        children = waiting.pop().children
        kinds = [child.type for child in children]
        if "parenthesized_expression" in kinds or any(map(_REDIRECTING.fullmatch, kinds)):
            return True
        waiting.extend(child for child in children if child.type not in _QUOTING)
    # A test in single brackets ends at the end of its line.
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        if inner.children and _LINE_END.search(own_text(inner).encode()):
            return True
        waiting.extend(child for child in inner.children if child.type not in _QUOTING)
    return False


def _is_blank_variable(node: Node) -> bool:
    """Whether the parser takes a single dollar before white space for the beginning of a variable."""
    return re.search(rb"\$\s+[^\w\s]", node.text or b"") is not None


def _hides_substitution(node: Node) -> bool:
    """Whether an expansion contains a substitution once bash has removed a backslash."""
    return _HIDDEN_OPENING.search(node.text or b"") is not None


_MISREAD_CHECKS = {
    "heredoc_redirect": _extends_too_far,
    "word": _spans_lines,
    "simple_expansion": _is_blank_variable,
    "test_command": _is_more_than_a_test,
    "expansion": _hides_substitution,
}


MAX_BYTES = 10_000
MAX_COMMANDS = 100
MAX_DEPTH = 20
_MAX_NODES = 2_000
_MAX = {
    "|": 300,
    ";": 600,
    "$[": 100,
    "`": 400,
    "[": 800,
    "&": 400,
    "(": 250,
    "<": 250,
    "${": 200,
    "[[": 200,
}  # the parser is slow beyond these counts
_MAX_SEARCHED_CHARS = 2_000
_NESTING = {
    *("command_substitution", "process_substitution", "subshell", "compound_statement", "if_statement", "expansion"),
    *("while_statement", "for_statement", "c_style_for_statement", "case_statement", "function_definition", "string"),
    *("negated_command", "concatenation", "redirected_statement", "parenthesized_expression", "array", "subscript"),
}
_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_UNUSUAL = re.compile(r"[^\t\n -~]")
# Attacks that are recognised even if the text around them cannot be parsed.
_RECOGNISED_ATTACKS: tuple[tuple[str, str, str], ...] = (
    (
        "fork-bomb",
        r"(\S{1,40})\s*\(\)\s*[{(][^})]*\1\s*[|&]+\s*\1",
        "a function that starts itself twice fills the machine.",
    ),
    ("reverse-shell", r"/dev/(?:tcp|udp)/\S*", "it opens a network connection that can serve as a remote shell."),
    ("delete-tree", r"\brm\s+(?:-\S+\s+)*-\w*[rR]\w*\s+(?:-\S+\s+)*(?:/|~|\$HOME|\.\.)\S*", "it deletes a whole tree."),
    ("disk", r"\bmkfs\S*|\bdd\b[^;|&]*\bof=/dev/\S+|>\s*/dev/(?:sd|nvme|vd|hd|mmcblk)\S*", "it overwrites a disk."),
)


@cache
def _parser() -> Parser:
    import tree_sitter

    return tree_sitter.Parser(tree_sitter.Language(grammar_binding().language()))


def grammar_binding(package: str = "tree_sitter_bash") -> Any:
    """The extension module of a grammar, loaded without its package, whose imports take longer than a judgement."""
    found = PathFinder.find_spec(package)
    spec = found and PathFinder.find_spec("_binding", found.submodule_search_locations)
    if not spec or not spec.loader:
        import tree_sitter_bash

        return tree_sitter_bash
    binding = module_from_spec(spec)
    spec.loader.exec_module(binding)
    return binding


def parse(text: str) -> Node:
    """The syntax tree of a text, with ERROR nodes for parts that cannot be parsed."""
    return _parser().parse(text.encode("utf-8", "replace")).root_node


def refusal(text: str) -> Decision | None:
    """A refusal of text before parsing: too long, or with invisible characters."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return ask(
            "too-long", text[:80], f"It is longer than {MAX_BYTES:,} bytes.", "Write it to a script file in parts."
        )
    for mark, most in _MAX.items():
        if text.count(mark) > most:
            return ask("too-many", text[:80], f"It has more than {most} times {mark}.", "Run it in parts.")
    for letter in _UNUSUAL.findall(text):
        if _CHARACTERS.match(letter) or unicodedata.category(letter) in {"Cf", "Zs", "Zl", "Zp"}:
            why = f"the character U+{ord(letter):04X} displays the command differently from how it runs."
            return deny("hidden-character", letter, why, "Write the command in plain characters.")
    if not text.strip():
        return ask("empty", text, "The command is empty.", "Pass a command.")
    return None


def troubles(root: Node) -> list[Decision]:
    """Problems of the syntax tree: unparsed parts, too many commands, too deep."""
    size, commands, faulty, deepest = 0, 0, None, 0
    waiting = [(root, 0)]
    while waiting and size <= _MAX_NODES:
        node, depth = waiting.pop()
        size += 1
        depth += node.type in _NESTING
        commands += node.type == "command"
        deepest = max(deepest, depth)
        if node.is_error or node.is_missing or misread(node):
            faulty = node
        waiting.extend((child, depth) for child in node.children)
    found: list[Decision] = []
    if faulty is not None:
        found = _unreadable(faulty, root)
    if commands > MAX_COMMANDS or size > _MAX_NODES:
        found.append(ask("too-many", "", "It has too many parts to judge.", "Run it in parts."))
    if deepest > MAX_DEPTH:
        found.append(ask("too-deep", "", f"It is nested more than {MAX_DEPTH} deep.", "Run it in parts."))
    return found


def _unreadable(faulty: Node, root: Node) -> list[Decision]:
    text = (root.text or b"").decode("utf-8", "replace")
    span = (faulty.text or b"").decode("utf-8", "replace")
    found: list[Decision] = [ask("unreadable", span, "Part of it cannot be parsed as bash.", "Simplify the command.")]
    for rule, pattern, why in _RECOGNISED_ATTACKS:
        match = re.search(pattern, text[:_MAX_SEARCHED_CHARS])
        if match:
            found.append(deny(rule, match[0], why))
    return found
