"""Test an agent without a model: its answers were recorded once, in the folder cassettes/.

    pytest test_replayed.py                     replays it: no key, no network, a few milliseconds
    pytest --record=all test_replayed.py        calls your model, and records its answers

If the instruction, the question or the tools change, the test fails and shows a diff of the request.
"""

from datetime import date

import pytest

from agentkit import Agent


def days_between(start: date, end: date) -> int:
    """Count the days from one date to another."""
    return (end - start).days


def planner() -> Agent[str]:
    """The agent under test."""
    return Agent("planner", [days_between], "You plan journeys. Never count days in your head.")


@pytest.mark.cassette("planner")
def test_planner_counts_days_with_the_tool() -> None:
    """The planner calls the tool with the right dates, and answers with its result."""
    result = planner().run("Today is 22 November 2026. How many days are left until Christmas Eve?")
    [used] = result.tool_calls
    assert used.result.content == "32"
    assert "32" in result.output


def test_days_between_counts_over_the_end_of_a_month() -> None:
    """The tool is tested like any function, without a model: a replay returns its recorded result."""
    assert days_between(start=date(2026, 11, 22), end=date(2026, 12, 24)) == 32
