"""What must an answer be? Fields in a few words, or a class in a Python file."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import make_dataclass
from datetime import date, datetime
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Literal

import click

from agentkit.cli.loading.programs import names_in, parted

EXAMPLE = "name, age int, mood happy|sad, tags list[text]"
_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("", "text", "str", "string"), str),
    **dict.fromkeys(("int", "integer"), int),
    **dict.fromkeys(("number", "float"), float),
    **dict.fromkeys(("bool", "boolean"), bool),
    "date": date,
    "datetime": datetime,
}
_FIELD = re.compile(r"(?P<name>\w+)\s*(?P<kind>[^:]*?)\s*(?::\s*(?P<about>.*))?", re.DOTALL)
_SEVERAL = re.compile(r"(?:list)?\[(.*)\]", re.DOTALL)
_COMMA = re.compile(r",(?![^\[]*\])")
_CHOICE = re.compile(r"[\w.+-]+(?:\s*\|\s*[\w.+-]+)+")


def answer_type(text: str) -> Any:
    """The type in `FILE.py:NAME`, or that of the fields `NAME KIND: what it is, …`, in brackets a list of such.

    Raises UsageError for what is neither, and ConfigError for a program that cannot be run.
    """
    file, name = parted(text)
    if name or file.suffix == ".py":
        return _written_in(file, name)
    several = _SEVERAL.fullmatch(text.strip())
    fields = list(_fields(several[1] if several else text))
    if not fields:
        raise click.UsageError(f"--schema names no field. Name some: --schema {EXAMPLE!r}")
    try:
        kind = make_dataclass("Answer", fields)
    except TypeError as error:  # two fields of one name
        raise click.UsageError(f"--schema cannot be used: {error}.") from None
    return GenericAlias(list, kind) if several else kind


def _written_in(file: Path, name: str) -> Any:
    if not file.is_file():
        raise click.UsageError(f"There is no file {str(file)!r}.")
    found = names_in(file)
    if name in found:
        return found[name]
    known = ", ".join(each for each, value in found.items() if isinstance(value, type)) or "none"
    raise click.UsageError(f"Which class of {file} is meant? Name one: --schema {file}:NAME. Its classes: {known}.")


def _fields(text: str) -> Iterator[tuple[str, Any]]:
    """Names and types. Where there are several lines a field is a line, else they are parted by commas."""
    text = text.strip()
    for said in text.splitlines() if "\n" in text else _COMMA.split(text):
        field = _FIELD.fullmatch(said.strip())
        if said.strip() and (field is None or not _is_name(field["name"])):
            raise click.UsageError(f"--schema has the field {said.strip()!r}, which has no name. Write: {EXAMPLE!r}")
        if field is not None:
            kind = _kind(field["kind"], said.strip())
            yield field["name"], Annotated[kind, field["about"]] if field["about"] else kind


def _is_name(word: str) -> bool:
    return word.isidentifier() and not keyword.iskeyword(word)


def _kind(word: str, said: str) -> Any:
    """A field's type; what may be missing ends in a question mark. Raises UsageError."""
    word = word.strip()
    if word.endswith("?"):
        return _kind(word[:-1], said) | None
    if word.lower() in _KINDS:
        return _KINDS[word.lower()]
    if several := _SEVERAL.fullmatch(word):
        return GenericAlias(list, _kind(several[1], said))
    if _CHOICE.fullmatch(word):
        return Literal[tuple(choice.strip() for choice in word.split("|"))]
    known = ", ".join(sorted(filter(None, _KINDS)))
    raise click.UsageError(
        f"--schema has the field {said!r}, whose type nobody knows. "
        f"Known: {known}, list[TYPE], one|other, and TYPE? for what may be missing."
    )
