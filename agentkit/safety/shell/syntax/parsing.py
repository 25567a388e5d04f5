"""Can this text be read as bash, surely and within limits? (pure)."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

from agentkit.decisions import Decision
from agentkit.safety.shell.scope import ask, deny
from agentkit.safety.shell.syntax.misreading import misread

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES = 10_000
MAX_COMMANDS = 100
MAX_DEPTH = 20
_MAX_NODES = 2_000
_MOST = {
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
}  # beyond, the parser itself takes long
_SEARCHED = 2_000
_NESTING = {
    *("command_substitution", "process_substitution", "subshell", "compound_statement", "if_statement", "expansion"),
    *("while_statement", "for_statement", "c_style_for_statement", "case_statement", "function_definition", "string"),
    *("negated_command", "concatenation", "redirected_statement", "parenthesized_expression", "array", "subscript"),
}
_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_UNUSUAL = re.compile(r"[^\t\n -~]")
# What is meant even where the text around it cannot be read.
_MEANT: tuple[tuple[str, str, str], ...] = (
    (
        "fork-bomb",
        r"(\S{1,40})\s*\(\)\s*[{(][^})]*\1\s*[|&]+\s*\1",
        "a function that starts itself twice fills the machine.",
    ),
    ("reverse-shell", r"/dev/(?:tcp|udp)/\S*", "it opens a connection that a shell could hang on."),
    ("delete-tree", r"\brm\s+(?:-\S+\s+)*-\w*[rR]\w*\s+(?:-\S+\s+)*(?:/|~|\$HOME|\.\.)\S*", "it deletes a whole tree."),
    ("disk", r"\bmkfs\S*|\bdd\b[^;|&]*\bof=/dev/\S+|>\s*/dev/(?:sd|nvme|vd|hd|mmcblk)\S*", "it overwrites a disk."),
)


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(text: str) -> Node:
    """The syntax tree of a text; it always is one, with ERROR nodes where the text cannot be read."""
    return _parser().parse(text.encode("utf-8", "replace")).root_node


def refusal(text: str) -> Decision | None:
    """Why the text is not even parsed: too long, or characters that hide what it says."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return ask(
            "too-long", text[:80], f"It is longer than {MAX_BYTES:,} bytes.", "Write it to a script file in parts."
        )
    for mark, most in _MOST.items():
        if text.count(mark) > most:
            return ask("too-many", text[:80], f"It has more than {most} times {mark}.", "Run it in parts.")
    for letter in _UNUSUAL.findall(text):
        if _CHARACTERS.match(letter) or unicodedata.category(letter) in {"Cf", "Zs", "Zl", "Zp"}:
            why = f"the character U+{ord(letter):04X} shows a text that is not the one that would run."
            return deny("hidden-character", letter, why, "Write the command in plain characters.")
    if not text.strip():
        return ask("empty", text, "There is no command.", "Name a command.")
    return None


def troubles(root: Node) -> list[Decision]:
    """What is wrong with the tree: parts that cannot be read, too many commands, too deep."""
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
    found: list[Decision] = [ask("unreadable", span, "Part of it cannot be read as bash.", "Write it more plainly.")]
    for rule, pattern, why in _MEANT:
        match = re.search(pattern, text[:_SEARCHED])
        if match:
            found.append(deny(rule, match[0], why))
    return found
