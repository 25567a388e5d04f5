"""Tests for conflicting flags of `ask`."""

import pytest

from agentkit.cli.ask_options import AskOptions
from agentkit.decisions import SafetyLevel


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-c", "--session", "x"], "Use --continue or --session, not both"),
        (["--no-session", "-c"], "Use --no-session or --continue, not both"),
        (["--json", "--jsonl"], "Use --json or --jsonl, not both"),
        (["-q", "-v"], "Use --quiet or --verbose, not both: they are opposites."),
        (["--limit", "seconds=-3"], "The limit seconds takes a number above 0, or none for no limit.\nGot -3."),
        (["--limit", "cosst=1"], "No limit is named 'cosst'. \nDid you mean 'cost'?".replace(". \n", ".\n")),
        (["--session", " "], "--session takes a name."),
        (["-t", ""], "--tools is empty.\nFor no tools, use --no-tools."),
        (["--safety", "high"], "'high' is not a safety level"),
    ],
)
def test_conflicting_flags_are_rejected(arguments, expected, typed_line):
    """Conflicting flags are a usage error."""
    _, err, code = typed_line("ask", *arguments, "hi")
    assert (code, expected in err) == (2, True)


def test_flags_become_settings():
    """Given flags become settings; omitted flags are None."""
    order = AskOptions(tools=("core, web", "calculator"), safety="system", limits=("cost=1", "seconds=none"))
    assert {name: value for name, value in order.flags.items() if value is not None} == {
        "tools": ("core", "web", "calculator"),
        "safety": SafetyLevel.SYSTEM,
        "limits": {"cost": 1, "seconds": None},
    }
    assert AskOptions(no_tools=True, no_session=True, offline=True).flags["tools"] == ()
