"""The text of a variable's value in a manifest's hashes: the same on every machine, and without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from itertools import islice
from pathlib import Path
from typing import Any

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
