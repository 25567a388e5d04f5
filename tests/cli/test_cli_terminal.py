"""Tests for messages on stderr: problem and remedy, wrapping, and colours."""

import pytest

from agentkit.cli.terminal import print_error, split_remedy, wrap_lines
from agentkit.errors import ConfigError, ModelError, RateLimited, SessionError, ToolError, UnknownTool


@pytest.mark.for_each(
    ("text", "parts"),
    [
        ("It broke.", ("It broke.", "")),
        ("It broke. Mend it. Then go on.", ("It broke.", "Mend it. Then go on.")),
        ("It broke.\nMend it.", ("It broke.", "Mend it.")),
        ("It broke. Mend it.\nThen go on.", ("It broke.", "Mend it.\nThen go on.")),
        ("Set a key, e.g. OPENAI_API_KEY.", ("Set a key, e.g. OPENAI_API_KEY.", "")),
        ("'x' is no level; use safe.", ("'x' is no level.", "Use safe.")),
        ("It takes text; 'b' is one too many.", ("It takes text; 'b' is one too many.", "")),
        ("The command 'a; b' failed.", ("The command 'a; b' failed.", "")),
        ("It is ignored (no key; no place).", ("It is ignored (no key; no place).", "")),
        ("Begin with: agentkit ask ... To go on", ("Begin with: agentkit ask ... To go on", "")),
    ],
)
def test_error_message_is_split_into_problem_and_remedy(text, parts):
    """An error message is split after its first sentence, or at the semicolon of a single sentence."""
    assert split_remedy(text) == parts


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfigError("No."), "Error: No.\nTo see the settings and their sources: agentkit config show\n"),
        (ToolError("No."), "Error: No.\nTo see the tools and their parameters: agentkit tools list\n"),
        (ConfigError("No. Do this."), "Error: No.\nDo this.\n"),
        (ModelError("No."), "Error: No.\nTry another model with -m NAME. To see which one is used: agentkit models\n"),
        (RateLimited("No."), "Error: No.\nWait a while, or use another model: -m NAME\n"),
        (SessionError("No."), "Error: No.\nTo list the sessions: agentkit sessions list\n"),
        (UnknownTool("No."), "Error: No.\nTo list the tools: agentkit tools list\n"),
        (ConfigError("\x1b[31mNo."), "Error: No.\nTo see the settings and their sources"),
        (ConfigError(), "Error: ConfigError\nTo see the settings and their sources"),
        (OSError(2, "No such file", "x"), "Error: x: No such file.\nCheck that the file or pipe"),
        (OSError("odd"), "Error: odd\nCheck that"),
    ],
)
def test_error_without_a_remedy_gets_advice(error, text, capsys):
    """An error message without a remedy gets advice for its kind of error."""
    print_error(error)
    assert capsys.readouterr().err.startswith(text)


def test_error_caused_by_a_file_gets_advice(capsys):
    """An error caused by a file advises checking the file, whatever it is used for."""
    error = SessionError("It cannot be written.")
    error.__context__ = OSError(2, "No such file")
    print_error(error)
    assert "Check that the file" in capsys.readouterr().err


def test_print_error_appends_advice(capsys):
    """print_error() appends the given advice to the message."""
    print_error(ConfigError("No. Do this."), "Or that.")
    assert capsys.readouterr().err == "Error: No.\nDo this.\nOr that.\n"


class Terminal:
    """A stream that is a terminal."""

    def isatty(self):
        """Return True."""
        return True


@pytest.mark.parametrize(
    ("columns", "indent", "shown"),
    [
        ("16", 4, "tool  it counts\n    words\nand ends"),
        ("9", 6, "tool  it\n  counts\n  words\nand ends"),
        ("80", 6, "tool  it counts words\nand ends"),
    ],
)
def test_lines_are_wrapped_between_words(columns, indent, shown, monkeypatch):
    """At a terminal, lines are wrapped between words, and continuation lines are indented if they fit."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    assert wrap_lines("tool  it counts words\nand ends", Terminal(), indent) == shown


def test_piped_lines_are_not_wrapped():
    """Without a terminal, lines are not wrapped."""
    assert wrap_lines("a " * 500, None) == "a " * 500
