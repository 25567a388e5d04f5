"""Tests for reports as text for terminals."""

import re

import pytest

from agentkit import Agent, tool
from agentkit.evals import Case, Suite, contains
from agentkit.evals.text_reports import _tokens, report_text, seconds_text
from agentkit.testing import ScriptedLLM, call
from agentkit.usage import Usage


def test_table(mixed):
    """The table has a line for each agent, followed by outcomes, tags and failures."""
    text = str(mixed)
    assert "6 cases, each 2 times" in text
    assert "\none " in text
    assert re.search(r"\none +4 of 12 +33 % ", text)
    assert "2 refused by the model; 2 ended by a limit; 2 errors; tool-call accuracy 100 %; tool calls: 8 allow" in text
    assert re.search(r"\na +one +0 of 4 ", text)
    assert "(2 times)\n    numeric: 3 is not 2" in text


def test_control_characters_are_escaped(mixed):
    """Control and bidirectional characters are shown as escapes in the table."""
    assert not set(str(mixed)) & set("\x00\x1b\u202e")
    assert "\\u{1b}" in str(mixed)


def test_many_failures_are_counted(always):
    """The first ten failures are shown with the number of the others."""
    suite = Suite("x", [Case(f"Case {number}", "yes") for number in range(13)], contains())
    text = str(suite.run(always("no")))
    assert text.count("failed  [helper]") == 10
    assert "… and 3 more" in text


def test_narrow_table(mixed):
    """If the table is too wide, each agent is a column instead of a line."""
    text = report_text(mixed, 40)
    assert "\nagent        one  " in text
    assert re.search(r"\npassed       4 of 12 +\d", text)
    assert report_text(mixed, 200) == str(mixed)


def test_equal_errors_are_reported_once(tmp_path):
    """A failure of all cases, such as an unreachable server, is reported once; one error is singular."""
    for count, message in ((1, "Case 0\n"), (2, "Case 0  and 1 other\n"), (5, "Case 0  and 4 others\n")):
        suite = Suite("x", [Case(f"Case {number}", "yes") for number in range(count)], contains())
        text = str(suite.run(Agent("helper", llm=ScriptedLLM("yes")), replay=tmp_path))
        assert text.count("error  [helper]") == 1
        assert f"error  [helper] {message}    No cassette in" in text
        assert ("\n1 error\n" if count == 1 else f"\n{count} errors\n") in text


def test_denying_rules_are_shown():
    """Verdicts that prevented a call are shown with their rules."""

    @tool(level="system")
    def wipe() -> str:
        """Wipe."""
        return "wiped"

    def line(request):
        return call("wipe") if len(request.messages) == 1 else "yes"

    agent = Agent("helper", [wipe], llm=ScriptedLLM(line, repeat=True))
    report = Suite("x", [Case("?", "yes")], contains()).run(agent)
    text = str(report)
    (verdict, rule), times = next(iter(report.figures[0].decisions.items()))
    assert verdict != "allow"
    assert f"tool calls: {times} {verdict} ({verdict} {times} by {rule})" in text


def test_report_of_nothing():
    """A report without trials is a table without rows."""
    from agentkit.evals import Report

    assert str(Report("x", ())).startswith("x: 0 cases\n\nagent")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (Usage(input_tokens=1_000, output_tokens=200, requests=2), "1,200"),
        (Usage(input_tokens=1_000, output_tokens=200, requests=2, unreported=1), "1,200+"),
        (Usage(requests=2, unreported=2), "unknown"),
        (Usage(), "0"),
    ],
)
def test_unreported_tokens_are_not_shown_as_zero(usage, expected):
    """Tokens of unreported requests are shown as unknown or with a plus sign."""
    assert _tokens(usage) == expected


def test_seconds():
    """Short times have decimals."""
    assert (seconds_text(0.123), seconds_text(12.3)) == ("0.12 s", "12 s")


def test_wide_names():
    """Columns are aligned for names with wide or combining characters."""
    suite = Suite("x", [Case("?", "yes")], contains())
    names = ("\u52a9\u624b", "Hue\u0302\u0301", "plain")
    lines = str(suite.run({name: lambda _question: "yes" for name in names})).splitlines()[3:6]
    assert [line.index("1 of 1") - len(name) for line, name in zip(lines, names, strict=True)] == [3, 4, 2]
