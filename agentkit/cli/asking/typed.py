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

from agentkit.cli.loading.programs import parted, run_file
from agentkit.lines import split_lines

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
_OPTIONAL = re.compile(r"\s*(?:\?|\|\s*None)$")
_CHOICE = re.compile(r"[\w.+-]+(?:\s*\|\s*[\w.+-]+)+")


def answer_type(text: str) -> Any:
    """The type in `FILE.py:NAME`, or that of the fields `NAME KIND: what it is, …`, in brackets a list of such.

    Raises UsageError for what is neither, and ConfigError for a program that cannot be run.
    """
    file, name = parted(text)
    if name or file.suffix == ".py":
        return _written_in(file, name)
    if text.lstrip().startswith("{") or file.suffix == ".json":
        raise click.UsageError(
            f"--schema takes fields, or a class as FILE.py:NAME, and no JSON schema. Write: {EXAMPLE!r}"
        )
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
    found = run_file(file)
    if name in found:
        return found[name]
    own = [each for each, value in found.items() if isinstance(value, type) and value.__module__ == found["__name__"]]
    asked = f"There is no {name!r} in {file}." if name else f"Which class of {file} is meant?"
    raise click.UsageError(f"{asked} Name one: --schema {file}:NAME. Its classes: {', '.join(own) or 'none'}.")


def _fields(text: str) -> Iterator[tuple[str, Any]]:
    """Names and types. Where there are several lines a field is a line, else they are parted by commas."""
    text = text.strip()
    for said in split_lines(text) if "\n" in text else _COMMA.split(text):
        field = _FIELD.fullmatch(said.strip())
        if said.strip() and (field is None or not _is_name(field["name"])):
            raise click.UsageError(f"--schema has the field {said.strip()!r}, which has no name. Write: {EXAMPLE!r}")
        if field is not None:
            yield field["name"], _described(field["kind"], (field["about"] or "").strip(), said.strip())


def _described(word: str, about: str, said: str) -> Any:
    """A field's type, with what it is. What is written behind the colon, as in Python, is a type if it can be one."""
    if not word and _is_kind(about):
        word, about = about, ""
    kind = _kind(word, said)
    return Annotated[kind, about] if about else kind


def _is_name(word: str) -> bool:
    return word.isidentifier() and not keyword.iskeyword(word)


def _is_kind(word: str) -> bool:
    whole = _OPTIONAL.sub("", word)
    return whole.lower() in _KINDS or bool(_SEVERAL.fullmatch(whole) or _CHOICE.fullmatch(whole))


def _kind(word: str, said: str) -> Any:
    """A field's type; what may be missing ends in a question mark, or in Python's `| None`. Raises UsageError."""
    word = word.strip()
    if _OPTIONAL.search(word):
        return _kind(_OPTIONAL.sub("", word), said) | None
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
