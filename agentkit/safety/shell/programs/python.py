"""Is a Python program given on the command line harmless, and what does it do? (pure)."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from agentkit.safety.shell.knowledge.tables import tables
from agentkit.safety.shell.launchers import run_arguments
from agentkit.safety.shell.scope import TAME, Finding, Scope, Word, reads, runs

_LARGE = 10_000_000
_INNER = re.compile(r"(gi|cr|ag|f|tb|co|func)_")
_OWN_MODULE = re.compile(r".*\.(py|so|pyc)")
_READING = {"r", "rb", "rt"}


def effect(word: Word, scope: Scope) -> Iterator[Finding]:
    """What a plain program does: it only computes, or it reads files and imports code, whose paths are judged."""
    nodes = list(ast.walk(ast.parse(word.text.replace(TAME, "1"))))
    plain = tables().groups["python_plain_modules"]
    imported = [name for node in nodes for name in _imported(node)]
    # What Python imports of its own is first looked for in the current folder.
    replaced = imported and any(_OWN_MODULE.fullmatch(path) for path in scope.written)
    if not replaced and all(name in plain for name in imported) and not any(_is_open(node) for node in nodes):
        yield reads(word.source)
        return
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from run_arguments([Word(node.value.lstrip("-"), word.source)], scope)
    yield runs(word.source, scope)


def is_plain(code: str) -> bool:
    """Whether nothing in it could run a program, change a file or reach into the interpreter."""
    try:
        nodes = list(ast.walk(ast.parse(code.replace(TAME, "1"))))
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
    """open(path) or open(path, "r"), of a path that is written out."""
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
    """A module that is known to be harmless, or one that is not of Python itself: the workspace's code."""
    return name in tables().groups["python_plain_modules"] or is_own_module(name)


def is_own_module(name: str) -> bool:
    """Whether a module is neither Python's own nor one that is known to do harm: the workspace's code."""
    top = name.partition(".")[0]
    known = top in sys.stdlib_module_names or top in tables().groups["python_delicate_modules"]
    return top.isidentifier() and not known and not top.startswith("_")


def _name_is_plain(name: str) -> bool:
    """Whether an attribute of some object is neither internal nor a module that it happens to use."""
    groups = tables().groups
    if name.startswith("_"):
        return name in groups["python_plain_dunder"]
    foreign = name in sys.stdlib_module_names and name not in groups["python_plain_modules"]
    return not foreign and name not in groups["python_delicate_attributes"] and not _INNER.match(name) and name != "*"


def _attribute_is_plain(node: ast.Attribute) -> bool:
    groups = tables().groups
    if isinstance(node.value, ast.Name) and node.value.id in {"os", "sys"}:
        return node.attr in groups[f"python_plain_{node.value.id}"]
    return _name_is_plain(node.attr) and node.attr not in {"os", "sys"}


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
