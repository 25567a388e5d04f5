"""Does a terminal show a run that is over so that a person understands it, and nothing tricks the terminal?"""

from agentkit.cli.runs.page import page
from agentkit.cli.runs.story import CallStory, Moment, RunStory, stories
from agentkit.cli.runs.text import show_text
from agentkit.events import ResponseReceived
from agentkit.memory.cassettes.file import read_cassette
from agentkit.messages import AssistantMessage, Response, ToolCall, ToolResult
from agentkit.usage import Usage


def shown(path):
    """A cassette as text."""
    header, entries = read_cassette(path)
    return show_text(header, stories(entries))


def test_a_run_is_shown(cassette):
    """Prompt, requests with tokens, calls with decisions, results, the answer, changes and money are there."""
    text = shown(cassette)
    for line in [
        "> How much is 6*7?",
        "  [image]",
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


def test_what_an_agent_used_as_a_tool_spent_is_counted_once():
    """The sum of all runs has what an inner run spent once, on the page too, although the outer run has it as well."""
    said = ResponseReceived(Response(AssistantMessage("Done."), usage=Usage(70, 8, requests=1)))
    used = CallStory(ToolCall("c", "worker", "{}"), 1.0, result=ToolResult("worker", "ok", "", usage=Usage(70, 8)))
    last = ResponseReceived(Response(AssistantMessage("Over."), usage=Usage(5, 1, requests=1)))
    boss = RunStory("r", "boss", steps=[used, Moment(3.0, 0.5, last)])
    runs = [boss, RunStory("s", "worker", inside=3, steps=[Moment(2.0, 0.5, said)])]
    text = show_text({"cassette": 1}, runs)
    assert text.splitlines()[1].startswith("2 runs, 2 requests, 1 tool call, 75 tokens in, 9 out")
    assert "1 request, 1 tool call, 75 tokens in, 9 out" in text
    assert "1 request, 0 tool calls, 70 tokens in, 8 out" in text
    assert "<dt>Tokens</dt><dd>75 tokens in, 9 out</dd>" in page("trip", {"cassette": 1}, runs)
