"""What does a Python file define? It is run as far as an import runs it, and told by its line when that fails."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import click

from agentkit.errors import AgentKitError, ConfigError

SUFFIX = ".py"

_Wanted = TypeVar("_Wanted")


def parted(place: str) -> tuple[Path, str]:
    """The file in `FILE` or `FILE.py:NAME`, and the name, which is empty when none is given."""
    file, colon, name = place.rpartition(":")
    return (Path(file), name) if colon and file.endswith(SUFFIX) else (Path(place), "")


def run_file(path: Path) -> Mapping[str, Any]:
    """What a Python file defines, by name. Raises UsageError when it is not there, ConfigError, with the line."""
    if not path.is_file():
        raise click.UsageError(f"There is no file {str(path)!r}.")
    return names_in(path)


def one_in(found: Mapping[str, Any], name: str, kind: type[_Wanted], path: Path) -> _Wanted:
    """What is of that kind: the one of that name, or the only one."""
    known = {each: value for each, value in found.items() if isinstance(value, kind) and not each.startswith("_")}
    if name in known:
        return known[name]
    if len(known) == 1 and not name:
        return next(iter(known.values()))
    what = kind.__name__
    if not known:
        raise click.UsageError(f"There is no {what} in {path}. Make one at its top, as in: it = {what}(...)")
    has = f"has {', '.join(known)}"
    if name:
        raise click.UsageError(f"There is no {what} {name!r} in {path}; it {has}. Name one: {path}:NAME.")
    raise click.UsageError(f"Which {what} is meant? The file {path} {has}. Name one: {path}:NAME.")


def names_in(program: Path) -> Mapping[str, Any]:
    """What the program defines, by name. Modules beside it can be imported. Raises ConfigError, with the line."""
    try:
        with _own_folder(program), redirect_stdout(sys.stderr):  # stdout is the answer's, or a protocol's
            return _imported(program)
    except AgentKitError as error:
        raise ConfigError(f"{_where(error, program)}: {error}") from error
    except (Exception, SystemExit) as error:
        fault = error.msg if isinstance(error, SyntaxError) else error  # the text of a SyntaxError has its place, too
        told = f"{type(error).__name__}: {fault}".strip(": ")
        raise ConfigError(f"{_where(error, program)}: {told}\nAll that Python says of it: python {program}") from error


def _imported(program: Path) -> dict[str, Any]:
    """The program's names; they are found by its own from then on, as what annotations that are texts mean."""
    name = program.name if _is_taken(program.stem) else program.stem
    found = runpy.run_path(str(program), run_name=name)
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(found)
    return found


def _is_taken(name: str) -> bool:
    """Whether a module goes by that name, or will for whoever imports it later."""
    is_there = name == "__main__" or getattr(sys.modules.get(name), "__spec__", None) is not None
    return is_there or name in sys.stdlib_module_names or PathFinder.find_spec(name, sys.path[1:]) is not None


def _where(error: BaseException, program: Path) -> str:
    """The program, and its line that was being run."""
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    for frame in traceback.extract_tb(error.__traceback__):
        line = frame.lineno if frame.filename == str(program) else line
    return f"{program}, line {line}" if line else str(program)


@contextmanager
def _own_folder(program: Path) -> Iterator[None]:
    """The program's folder in the place of the command's, as if Python had started it."""
    folder = sys.path[0]
    sys.path[0] = str(program.resolve().parent)
    try:
        yield
    finally:
        sys.path[0] = folder
