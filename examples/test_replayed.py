"""Test an agent without a model: what the model said was recorded once, and lies in cassettes/ beside this file.

    pytest test_replayed.py                     replays it: no key, no network, a few milliseconds
    pytest --record=all test_replayed.py        asks your own model, and records what it says

When the instruction, the question or the tools change, the test fails and shows what is asked differently.
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
    """The planner asks the tool for the days, with the right dates, and says what it was told."""
    result = planner().run("Today is 22 November 2026. How many days are left until Christmas Eve?")
    [used] = result.tool_calls
    assert used.result.content == "32"
    assert "32" in result.output


def test_days_between_counts_over_the_end_of_a_month() -> None:
    """The tool itself needs no model, and is tested like any function: a replay takes its recorded result."""
    assert days_between(start=date(2026, 11, 22), end=date(2026, 12, 24)) == 32
