"""Does a terminal show a run that is over so that a person understands it, and nothing tricks the terminal?"""

from agentkit.cli.runs.story import RunStory, stories
from agentkit.cli.runs.text import show_text
from agentkit.memory.cassettes.file import read_cassette


def shown(path):
    """A cassette as text."""
    header, entries = read_cassette(path)
    return show_text(header, stories(entries))


def test_a_run_is_shown(cassette):
    """Prompt, requests with tokens, calls with decisions, results, the answer, changes and money are there."""
    text = shown(cassette)
    for line in [
        "> How much is 6*7?",
        "  [an image]",
        "        ? allow: It only computes. (rule: level)",
        "        → expression: 6*7",
        "          result: 42",
        "        ? a person said: once",
        "        ? deny: It would run what comes from the network. (rule: shell)",
        "        ✗ Command blocked for safety.",
        "          It is 42.",
        "    +new",
        "        > Say hello.",
        "        → text",
    ]:
        assert f"\n{line}" in text, line
    assert "done in" in text
    assert "2,400 tokens in (1,200 cached), 80 out, cost ≈ $" in text
    assert text.splitlines()[1].startswith("3 runs, 5 requests, 6 tool calls, ")


def test_nothing_tricks_the_terminal(cassette):
    """No control character of a model or a tool reaches the terminal."""
    assert {letter for letter in shown(cassette) if not letter.isprintable()} == {"\n"}


def test_long_texts_are_cut():
    """A long line and many lines are cut, and how many are left out is said."""
    run = RunStory("r", "helper", prompt="\n".join([f"{'x' * 500}{number}" for number in range(30)]))
    text = show_text({"session": 1}, [run])
    assert "… 18 more lines" in text
    assert max(map(len, text.splitlines())) < 200
    assert text.splitlines()[0] == "Session"
    assert "unfinished in 0 ms: 0 requests, 0 tool calls" in text
