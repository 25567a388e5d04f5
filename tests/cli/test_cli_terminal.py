"""What is told on stderr: two lines, and colours where they belong."""

import pytest

from agentkit.cli.terminal import halves, has_colour, is_terminal, tell_error
from agentkit.errors import ConfigError, ModelError, RateLimited, SessionError, UnknownTool


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("It broke.", ("It broke.", "")),
        ("It broke. Mend it. Then go on.", ("It broke.", "Mend it. Then go on.")),
        ("It broke.\nMend it.", ("It broke.", "Mend it.")),
        ("It broke. Mend it.\nThen go on.", ("It broke.", "Mend it.\nThen go on.")),
        ("Set a key, e.g. OPENAI_API_KEY.", ("Set a key, e.g. OPENAI_API_KEY.", "")),
        ("Begin with: agentkit ask ... To go on", ("Begin with: agentkit ask ... To go on", "")),
    ],
)
def test_an_error_has_two_halves(text, parts):
    """The first sentence says what, the rest what to do."""
    assert halves(text) == parts


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConfigError("No."), "Error: No.\n"),
        (ConfigError("No. Do this."), "Error: No.\nDo this.\n"),
        (ModelError("No."), "Error: No.\nTry another model with -m NAME; which one is asked says: agentkit models\n"),
        (RateLimited("No."), "Error: No.\nWait a while, or ask another model: -m NAME\n"),
        (SessionError("No."), "Error: No.\nWhich sessions there are says: agentkit sessions list\n"),
        (UnknownTool("No."), "Error: No.\nWhich tools there are says: agentkit tools list\n"),
        (ConfigError("\x1b[31mNo."), "Error: No.\n"),
        (ConfigError(), "Error: ConfigError\n"),
        (OSError(2, "No such file", "x"), "Error: x: No such file.\nCheck that the file, the disk or the pipe"),
        (OSError("odd"), "Error: odd\nCheck that"),
    ],
)
def test_an_error_says_what_to_do(error, told, capsys):
    """An error that does not say what to do itself is given advice by its kind."""
    tell_error(error)
    assert capsys.readouterr().err.startswith(told)


def test_advice_can_be_given(capsys):
    """Who tells an error may add what to do."""
    tell_error(ConfigError("No. Do this."), "Or that.")
    assert capsys.readouterr().err == "Error: No.\nDo this.\nOr that.\n"


class Terminal:
    """A stream that a person reads."""

    def isatty(self):
        """It is a terminal."""
        return True


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb", "FORCE_COLOR": "1"}, True)],
)
def test_a_terminal_has_colour(variables, coloured, monkeypatch):
    """Colours are for terminals that can show them, unless NO_COLOR is set; FORCE_COLOR is for all."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert has_colour(Terminal()) is coloured


def test_no_stream_is_no_terminal():
    """A process may have no stream at all."""
    assert not is_terminal(None)
