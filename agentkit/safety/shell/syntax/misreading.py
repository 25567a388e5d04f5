"""Where does the parser read something else than bash does? What is found here is never allowed (pure)."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from agentkit.safety.shell.syntax.hidden import own_text

if TYPE_CHECKING:
    from tree_sitter import Node

_QUOTING = {"string", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"}
_REDIRECTING = re.compile(r"=*[|&<>;][|&<>;=]*")
_QUOTED = re.compile(rb"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_LINE_END = re.compile(rb"(?<!\\)(\\\\)*\n")
_BROKEN_OFF = re.compile(rb"[$<>]\\+[(\[{]")
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
_HOLDERS = {"command", "redirected_statement", "declaration_command", "unset_command", "herestring_redirect"}


def misread(node: Node) -> bool:
    """Whether this node may be read otherwise than bash does; what is beneath it is asked about on its own."""
    doubt = _DOUBTS.get(node.type)
    return (doubt is not None and doubt(node)) or (node.type in _HOLDERS and _is_torn(node)) or _is_left_over(node)


def _swallows(node: Node) -> bool:
    """Whether a here-document may reach too far: the parser does not see its end when a ; stands behind its mark."""
    line = (node.text or b"").partition(b"\n")[0]
    return re.search(rb";|(?<![&>|<])&(?![&>])", re.sub(rb"'[^']*'|\"[^\"]*\"", b"", line)) is not None


def _runs_on(node: Node) -> bool:
    """Whether a word reaches over the end of its line: after a comment the parser reads on where bash ends."""
    return _LINE_END.search(node.text or b"") is not None


def _is_more_than_a_test(node: Node) -> bool:
    """Whether a pipe, a list, a redirection or a process substitution passes for a part of a test."""
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
    return _has_lines(node)


def _has_lines(node: Node) -> bool:
    """Whether a line ends within a test in single brackets, which ends there."""
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        if inner.children and _LINE_END.search(own_text(inner).encode()):
            return True
        waiting.extend(child for child in inner.children if child.type not in _QUOTING)
    return False


def _is_blank_variable(node: Node) -> bool:
    """Whether a dollar alone passes for the beginning of a variable, behind white space."""
    return re.search(rb"\$\s+[^\w\s]", node.text or b"") is not None


def _is_left_over(node: Node) -> bool:
    """Whether the parser has given some of a statement's text to none of its parts."""
    return node.type in _STATEMENTS and own_text(node).replace("\\\n", "").strip() not in {"", "-"}


def _opens_late(node: Node) -> bool:
    """Whether bash may take away a backslash in an expansion, and then sees a substitution begin."""
    return _BROKEN_OFF.search(node.text or b"") is not None


def _is_torn(node: Node) -> bool:
    """Whether two words stand side by side, of which bash makes one."""
    return any(
        one.end_byte == two.start_byte and one.type in _PARTS - {"file_redirect"} and two.type in _PARTS
        for one, two in pairwise(node.children)
    )


_DOUBTS = {
    "heredoc_redirect": _swallows,
    "word": _runs_on,
    "simple_expansion": _is_blank_variable,
    "test_command": _is_more_than_a_test,
    "expansion": _opens_late,
}
