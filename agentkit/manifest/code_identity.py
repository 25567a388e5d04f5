"""Names and hashes of the functions that a manifest refers to."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import io
import linecache
import re
import sys
import textwrap
import tokenize
import types
from collections.abc import Callable, Iterator, Mapping, Set
from itertools import islice
from pathlib import Path
from typing import Any

from agentkit.lines import split_lines
from agentkit.manifest.facts import ALWAYS_YES
from agentkit.redaction import is_secret_name, redact

COLLECTIONS = (list, tuple, set, frozenset, dict)

_MOST_VALUES, _DEEPEST = 10_000, 10
_FOLDERS = "a folder of this machine"


def told(name: str, value: Any, *, texts: bool = True) -> str:
    """A name with its value: numbers, truth values, None, texts, and collections of these; of others the type.

    A text is told by its type without `texts`, and where its name or the text itself is that of a secret. A folder of
    this machine at its beginning is left out.
    """
    leaves = islice(_leaves(name, value, texts=texts, depth=0), _MOST_VALUES)
    return f"{name} = {' '.join(leaves)}"


def _leaves(name: str, value: Any, *, texts: bool, depth: int) -> Iterator[str]:
    if value is None or isinstance(value, bool | int | float):
        yield repr(value)
    elif isinstance(value, str):
        yield repr(_portable(value)) if texts and not _is_secret(name, value) else "str"
    elif not isinstance(value, COLLECTIONS) or depth > _DEEPEST:
        yield type(value).__name__
    elif isinstance(value, Mapping):
        yield "{"
        for key in sorted(value, key=repr):
            yield from _leaves("", key, texts=texts, depth=depth + 1)
            yield ":"
            yield from _leaves(key if isinstance(key, str) else name, value[key], texts=texts, depth=depth + 1)
        yield "}"
    else:
        yield "("
        found = [" ".join(_leaves(name, each, texts=texts, depth=depth + 1)) for each in islice(value, _MOST_VALUES)]
        yield from sorted(found) if isinstance(value, Set) else found
        yield ")"


def _is_secret(name: str, text: str) -> bool:
    return is_secret_name(name.rpartition(".")[2]) or redact(text) != text


def _portable(text: str) -> str:
    for folder in (Path.cwd(), Path.home()):
        text = re.sub(rf"\A{re.escape(str(folder))}(?=/|\Z)", _FOLDERS, text)
    return text


OURS = "agentkit."
"""What the name of our own code begins with."""

PRETENDED = "not agentkit's "
"""What stands before the name of code that says it is ours, and is not."""

_FOLDER = Path(__file__).parents[1]

_FOREIGN = frozenset({*sys.stdlib_module_names, "agentkit"})
"""Modules of which no value is told: it may be another one on another machine."""

_MOST_FUNCTIONS = 100

_YES = frozenset({"Approval.ONCE", "Approval.RUN", "Approval.ALWAYS"})
_Written = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def code_of(thing: Any) -> str:
    """`module.name sha256:…` of a function, a class, or an object of one; of ours the name alone.

    Hashed are its own text without comments, the numbers and functions that it was made with, and what `read` finds
    in the variables of its module and in those around it: the plain values, and the functions of the same module.
    """
    bearer = _bearer(thing)
    name = f"{module_of(thing)}.{bearer.__qualname__}"
    if name.startswith(OURS):
        return name
    written = [*_texts(bearer), *_made_with(thing), *read(thing)]
    digest = hashlib.sha256("\0".join(written).encode("utf-8", "backslashreplace")).hexdigest()
    return f"{name} sha256:{digest}"


def module_of(thing: Any) -> str:
    """The module of a function, a class, or the class of an object; of one that only says it is ours, so."""
    bearer = _bearer(thing)
    module = str(getattr(bearer, "__module__", None) or "builtins")
    return module if not module.startswith(OURS) or _is_written_by_us(bearer) else f"{PRETENDED}{module}"


def is_ours(thing: Any) -> bool:
    """Whether a function, a class or an object of one is ours."""
    return module_of(thing).startswith(OURS)


def _is_written_by_us(bearer: Any) -> bool:
    """Whether code that says it is ours is: it was written in our folder, or our module has it."""
    if inspect.isfunction(bearer):
        return Path(bearer.__code__.co_filename).is_relative_to(_FOLDER)
    found: Any = sys.modules.get(bearer.__module__)
    for name in bearer.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is bearer


def approver_of(approve: Callable[..., Any] | None) -> str | None:
    """The code of an approver; what stands there to say yes to everything is told so."""
    if approve is None:
        return None
    found = [node for node, _ in _found(_bearer(approve))]
    says_yes = bool(found) and all(map(_says_yes, found))
    return f"{ALWAYS_YES if says_yes else ''}{code_of(approve)}"


def _bearer(thing: Any) -> Any:
    """The function or class whose text tells what `thing` does."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    if inspect.ismethod(thing):
        return thing.__func__
    return thing if inspect.isroutine(thing) or isinstance(thing, type) else type(thing)


def _texts(bearer: Any) -> list[str]:
    """The text of a function or a class without comments; of several on one line, that of all."""
    return [_without_comments(text) for _, text in _found(bearer)]


def _found(bearer: Any) -> Iterator[tuple[_Written, str]]:
    """Where a function or a class was written, as a tree and as text; nothing of what has no text."""
    file = _file_of(bearer)
    linecache.checkcache(file)
    source = "".join(linecache.getlines(file))
    lines = split_lines(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Lambda) and _is_meant(node, "<lambda>", bearer):
            yield node, f"({ast.get_source_segment(source, node)})"
        elif isinstance(node, _Written) and _is_meant(node, getattr(node, "name", ""), bearer):
            yield node, textwrap.dedent("\n".join(lines[_first_line(node) - 1 : node.end_lineno]))


def _file_of(bearer: Any) -> str:
    """The file that a function, or a method of a class, says it is from: a module that is gone cannot be asked."""
    functions = vars(bearer).values() if isinstance(bearer, type) else (bearer,)
    files = (each.__code__.co_filename for each in functions if inspect.isfunction(each))
    return next(files, "")


def _is_meant(node: _Written, name: str, bearer: Any) -> bool:
    if isinstance(bearer, type):
        return isinstance(node, ast.ClassDef) and name == bearer.__name__
    code = bearer.__code__
    return (_first_line(node), name) == (code.co_firstlineno, code.co_name)


def _first_line(node: _Written) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _without_comments(text: str) -> str:
    """The lines of a text that say something."""
    lines = split_lines(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _made_with(thing: Any) -> Iterator[str]:
    """The numbers and functions that code is bound to: arguments of partials, what it closes over, fields."""
    if isinstance(thing, functools.partial):
        yield from map(_plain, (*thing.args, *thing.keywords.values()))
        yield from _made_with(thing.func)
    elif inspect.ismethod(thing):
        yield from _made_with(thing.__self__)
    elif inspect.isfunction(thing):
        yield from map(_plain, (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()))
        yield from (_plain(_content(cell)) for cell in thing.__closure__ or ())
    elif not isinstance(thing, type):
        yield from map(_plain, getattr(thing, "__dict__", {}).values())


def _plain(value: Any) -> str:
    """A value, as far as it is the same on every machine and no secret."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if inspect.isfunction(value):
        return "\n".join([value.__qualname__, *_texts(value)])
    return told("", value, texts=False) if isinstance(value, COLLECTIONS) else type(value).__name__


def read(thing: Any) -> Iterator[str]:
    """The variables that code reads, by name: plain values, and functions and classes of its module with their text.

    What these read in turn is told as well, of the first 100. Of a module of the program the plain values are told that
    the code names; of any other object its type.
    """
    waiting, known = list(_functions_of(thing)), set[int]()
    while waiting and len(known) < _MOST_FUNCTIONS:
        function = waiting.pop(0)
        if id(function) in known:
            continue
        known.add(id(function))
        for name, value in sorted(_variables_of(function), key=lambda each: each[0]):
            is_code = inspect.isfunction(value) or isinstance(value, type)
            if not is_code:
                yield told(name, value)
            elif value.__module__ == function.__module__ and not is_ours(value):
                yield "\n".join([name, *_texts(value)])
                waiting += _functions_of(value)


def _functions_of(thing: Any) -> Iterator[types.FunctionType]:
    """The functions that are run when code is: itself, the methods of a class, and those that it was made with."""
    bearer = _bearer(thing)
    for each in vars(bearer).values() if isinstance(bearer, type) else (bearer,):
        inner = getattr(each, "__func__", getattr(each, "fget", each))
        if inspect.isfunction(inner):
            yield inner
            yield from (cell for cell in map(_content, inner.__closure__ or ()) if inspect.isfunction(cell))


def _variables_of(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables of the module and around a function that it reads, and the attributes of modules that it names."""
    names = set(_names_in(function.__code__))
    around = zip(function.__code__.co_freevars, map(_content, function.__closure__ or ()), strict=True)
    yield from ((name, value) for name, value in around if not inspect.isfunction(value))
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        if not isinstance(value, types.ModuleType):
            yield name, value
        elif value.__name__.partition(".")[0] not in _FOREIGN:
            yield from ((f"{name}.{each}", vars(value)[each]) for each in names & vars(value).keys())


def _names_in(code: types.CodeType) -> Iterator[str]:
    """The names that code reads, also where it makes functions."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names_in(each)


def _content(cell: Any) -> Any:
    """What a cell of a closure holds; None where nothing was put in yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _says_yes(node: _Written) -> bool:
    """Whether all that the code answers is a yes, as far as it stands there."""
    if isinstance(node, ast.Lambda):
        return _is_yes(node.body)
    if isinstance(node, ast.ClassDef):
        calls = [each for each in node.body if isinstance(each, _Written) and getattr(each, "name", "") == "__call__"]
        return bool(calls) and all(map(_says_yes, calls))
    answers = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
    return bool(answers) and all(answer is not None and _is_yes(answer) for answer in answers)


def _is_yes(node: ast.expr) -> bool:
    return ast.unparse(node).rpartition("agentkit.")[2] in _YES or (
        isinstance(node, ast.Constant) and node.value is True
    )
