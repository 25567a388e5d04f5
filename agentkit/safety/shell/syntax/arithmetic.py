"""Which texts does bash's arithmetic evaluate, and could one of them be code? (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentkit.safety.shell.scope import A_FILE, A_NAME, KEYS, UNKNOWN, Scope, Value

if TYPE_CHECKING:
    from tree_sitter import Node

_NAMES = {"variable_name", "word", "special_variable_name"}
_CHANGES = re.compile(r"(?<![=<>!])=(?!=)|<<=|>>=|\+\+|--")
_COMPARES = re.compile(r"\s-(eq|ne|lt|gt|le|ge)\s")
_CODE = re.compile(r"\[.*(\$\(|`)", re.DOTALL)
_RUNS = re.compile(r"\$\(|`")
_DELICATE = {"IFS", "PATH", "HOME", "PWD", "OLDPWD", "BASH_ENV", "ENV"}


def is_code(text: str) -> bool:
    """Whether arithmetic would run something when it meets this text."""
    return bool(_CODE.search(text))


def is_number(value: Value) -> bool:
    """Whether a value is surely harmless in arithmetic: known and no code, or a number."""
    if value == Value(UNKNOWN, frozenset({KEYS})):
        return True
    return UNKNOWN not in value.text and A_FILE not in value.origins and not is_code(value.text)


def delicate(node: Node, scope: Scope) -> str | None:
    """The name in an arithmetic text whose value could be code, or whose change would change bash itself."""
    text = (node.text or b"").decode("utf-8", "replace")
    changes = _CHANGES.search(text)
    for name in names(node):
        if changes and name in _DELICATE:
            return name
        known = scope.variables.get(name)
        if known and not (is_number(known) and not _RUNS.search(known.text)) and not scope.defining:
            return name
    return None


def change(node: Node, scope: Scope) -> None:
    """The variables in an arithmetic text that changes some are numbers from now on."""
    if _CHANGES.search((node.text or b"").decode("utf-8", "replace")):
        scope.variables |= dict.fromkeys(names(node), A_NAME)


def names(node: Node) -> set[str]:
    """The variables that an arithmetic text names."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        if inner.type in _NAMES and not inner.children:
            found |= set(re.findall(r"\w+", (inner.text or b"").decode("utf-8", "replace")))
        if inner.type not in {"command_substitution", "process_substitution"}:
            waiting.extend(inner.children)
    return {name for name in found if not name[0].isdigit() or (name.isdigit() and _is_parameter(node, name))}


def _is_parameter(node: Node, name: str) -> bool:
    return re.search(rf"\$\{{?{name}\b", (node.text or b"").decode("utf-8", "replace")) is not None


def compares(node: Node) -> bool:
    """Whether a condition compares numbers, which evaluates its operands."""
    text = (node.text or b"").decode("utf-8", "replace")
    return text.startswith("[[") and _COMPARES.search(text) is not None


def subscripts(node: Node) -> Iterator[Node]:
    """The subscripts and slices beneath a node; what stands in them is arithmetic."""
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        if inner.type == "subscript":
            yield from inner.children[1:]
        elif inner.type == "expansion" and any(child.type == ":" for child in inner.children):
            first = next(index for index, child in enumerate(inner.children) if child.type == ":")
            yield from inner.children[first:]
        waiting.extend(inner.children)
