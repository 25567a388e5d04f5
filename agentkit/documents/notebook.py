"""Jupyter notebooks as Markdown: texts, code and bounded outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from agentkit.errors import ToolError

_MAX_OUTPUT_CHARS = 2_000
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def text_of_notebook(body: bytes) -> tuple[str, str]:
    """Return the title and the cells of a notebook as Markdown. Raises ToolError if it is damaged."""
    try:
        notebook = json.loads(body)
        cells = notebook.get("cells") or [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
        metadata = notebook.get("metadata") or {}
        language = str((metadata.get("language_info") or metadata.get("kernelspec") or {}).get("name") or "python")
        text = "\n\n".join(part for cell in cells for part in _cell(cell, language) if part.strip())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ToolError("the notebook is damaged: it is not valid JSON of the notebook format") from error
    return str(metadata.get("title") or "")[:300], text


def _cell(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _joined(cell.get("source") or cell.get("input"))
    if cell.get("cell_type") != "code":
        yield source
        return
    if source.strip():
        yield f"```{language.removesuffix('3')}\n{source}\n```"
    for output in cell.get("outputs") or ():
        text = _COLOURS.sub("", _output(output)).rstrip()
        if len(text) > _MAX_OUTPUT_CHARS:
            text = f"{text[:_MAX_OUTPUT_CHARS]}\n[{len(text) - _MAX_OUTPUT_CHARS:,} more characters of output]"
        if text:
            yield f"Output:\n```\n{text}\n```"


def _output(output: dict[str, Any]) -> str:
    """The text of an output; pictures and other data are named by their type."""
    if output.get("output_type") in ("error", "pyerr"):
        return _joined(output.get("traceback"), "\n") or f"{output.get('ename')}: {output.get('evalue')}"
    data = output.get("data") or {}
    text = _joined(output.get("text") or data.get("text/plain") or data.get("text/markdown"))
    pictures = [f"[{kind}]" for kind in data if not kind.startswith("text/") and not kind.endswith("json")]
    return "\n".join(filter(None, [text, *pictures]))


def _joined(source: Any, separator: str = "") -> str:
    return separator.join(map(str, source)) if isinstance(source, list) else str(source or "")
