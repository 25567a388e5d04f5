"""Tests for read_more, which reads the rest of a truncated output."""

from __future__ import annotations

import pytest

from agentkit.decisions import SafetyLevel
from agentkit.messages import READ_MORE
from agentkit.tooling.results import success, with_handle
from agentkit.tools.run_tools import read_more_tool

LOG = "".join(f"line {number}: all is well\n" for number in range(2_000)).replace(
    "line 1500: all", "line 1500: Error, not"
)
OUTPUTS = {"call_1": LOG, "call_2": "a needle in hay, a Needle more", "call_3": "x" * 900 + "needle"}
read_more = read_more_tool(OUTPUTS.get)


def test_tool_is_safe_and_described() -> None:
    """read_more is a SAFE tool, and each of its parameters is described."""
    assert (read_more.name, read_more.level, read_more.labels) == (READ_MORE, SafetyLevel.SAFE, frozenset())
    assert "shown only in part" in read_more.description
    assert list(read_more.parameters["properties"]) == ["handle", "start", "max_chars", "find"]
    assert read_more.parameters["required"] == ["handle"]
    assert all(parameter["description"] for parameter in read_more.parameters["properties"].values())


@pytest.mark.parametrize(
    ("arguments", "line", "piece"),
    [
        ({}, "[characters 0 to 10,000 of {all}; read on with start=10000]", LOG[:10_000]),
        ({"start": 10_000, "max_chars": 20}, "[characters 10,000 to 10,020 of {all}; read on with start=10020]", None),
        ({"start": -100}, "[characters {tail} to {all} of {all}; this is the end]", LOG[-100:]),
        ({"start": -(10**9), "max_chars": 5}, "[characters 0 to 5 of {all}; read on with start=5]", LOG[:5]),
        ({"start": 10**9}, "[characters {all} to {all} of {all}; this is the end]", ""),
        ({"max_chars": 10**9}, "[characters 0 to 40,000 of {all}; read on with start=40000]", LOG[:40_000]),
        ({"max_chars": -5}, "[characters 0 to 1 of {all}; read on with start=1]", LOG[:1]),
    ],
)
def test_part_starts_with_its_position(arguments: dict[str, int], line: str, piece: str | None) -> None:
    """Each part starts with a line that states its range, the total length and the next start."""
    first, _, text = read_more(handle="call_1", **arguments).partition("\n")
    start = arguments.get("start", 0)
    assert first == line.format(all=f"{len(LOG):,}", tail=f"{len(LOG) - 100:,}")
    assert text == (LOG[start : start + arguments["max_chars"]] if piece is None else piece)


def test_parts_form_the_whole() -> None:
    """Continuing at each stated position returns every character exactly once."""
    pieces, start = [], 0
    while True:
        line, _, text = read_more(handle="call_1", start=start, max_chars=7_777).partition("\n")
        pieces.append(text)
        if "this is the end" in line:
            break
        start = int(line.rpartition("=")[2].rstrip("]"))
    assert "".join(pieces) == LOG


def test_text_is_found() -> None:
    """A part starts at or shortly before the line with the first occurrence of the text."""
    line, _, text = read_more(handle="call_1", find="ERROR", max_chars=50).partition("\n")
    assert f"found at {LOG.index('Error'):,}; read on" in line
    assert text.startswith("line 1500: Error")
    assert "[characters 0 to 30 of 30; found at 2 and 1 times more, next at 19; this is" in read_more(
        "call_2", find="needle"
    )
    assert "[characters 700 to 906" in read_more("call_3", find="needle")
    assert "found at 19; " in read_more("call_2", start=5, find="needle")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"handle": "call_9"}, 'No output is stored under the handle "call_9"'),
        ({"handle": "call_2", "find": "pin"}, '"pin" does not occur in this output.'),
        ({"handle": "call_2", "start": 25, "find": "needle"}, "from character 25 on; it occurs earlier, first at 2."),
    ],
)
def test_unreadable_part_is_an_error(arguments: dict[str, object], error: str) -> None:
    """An unknown handle or a string that does not occur fails with an error that suggests a solution."""
    result = read_more.invoke(arguments)
    assert result.status == "failed"
    assert error in str(result.error)


def test_note_of_a_truncated_result_reads_the_rest() -> None:
    """The call in the note of a truncated result continues where the shown beginning ends."""
    result = with_handle(success("demo", LOG, 1_000), "call_1")
    head, _, rest = result.content.partition("\n[… ")
    start = int(rest.partition("start=")[2].partition(")")[0])
    stored = read_more_tool({"call_1": result.full_content}.get).invoke({"handle": "call_1", "start": start})
    assert stored.ok
    assert (head + stored.content.partition("\n")[2])[:5_000] == LOG[:5_000]
