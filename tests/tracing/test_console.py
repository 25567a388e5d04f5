"""Tests for the console tracer: lines, redaction, nested and concurrent runs."""

import asyncio
import io
import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentkit import Agent, Approval, ConfigError, core_tools, tool
from agentkit.events import RunLeft
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer, ScriptedLLM, call, fail, say
from agentkit.tracing import Console
from agentkit.usage import Limits, Price

KEY = "sk-abcdefghij0123456789ABCDEFG"
HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e\u200b\x9b\r"


def console_lines(stream):
    """Return the lines of a console, with durations replaced."""
    return [re.sub(r"in \d[\d.]* m?s", "in TIME", line) for line in stream.getvalue().splitlines()]


def test_run_is_written_line_by_line(make_agent):
    """Each prompt, request, answer, decision, result and summary is written as one line."""
    stream = io.StringIO()
    make_agent(listeners=[Console(stream)]).run("How much is 6*7?")
    tokens = "10 tokens in, 5 out"
    lines = console_lines(stream)
    lines[5:7] = sorted(lines[5:7])  # the order in which the calls end is unspecified
    assert lines == [
        "[1] helper  Run started: How much is 6*7?",
        "[1] helper  request 1 to scripted:scripted",
        f"[1] helper  scripted answered in TIME, {tokens}: Let me see.",
        '[1] helper  calculator #1: expression="6*7" → allow, by safety-level',
        '[1] helper  fail #2: reason="[redacted: API key]" → allow, by safety-level',
        "[1] helper  calculator #1 ok in TIME: 42",
        "[1] helper  fail #2 failed in TIME: ValueError: [redacted: API key]",
        "[1] helper  request 2 to scripted:scripted",
        f"[1] helper  scripted answered in TIME, {tokens}",
        "[1] helper  refused #3 → deny, by no-refused",
        "[1] helper  refused #3 denied in TIME: Nobody may do this.",
        "[1] helper  request 3 to scripted:scripted",
        f"[1] helper  scripted answered in TIME, {tokens}: It is 42.",
        "[1] helper  done in TIME, 3 requests, 3 tool calls, 30 tokens in, 15 out",
    ]


def test_lines_are_written_immediately():
    """The line of a request is written before its response arrives."""
    stream = io.StringIO()
    seen = []

    def look(_request):
        seen.append(stream.getvalue().splitlines()[-1])
        return "Done."

    Agent("helper", llm=ScriptedLLM(look), listeners=[Console(stream)]).run("go")
    assert seen == ["[1] helper  request 1 to scripted:scripted"]


@tool
def show(text: str) -> str:
    """Show a text."""
    return text


def test_control_characters_are_escaped():
    """Control characters and direction marks are escaped."""
    stream = io.StringIO()
    llm = ScriptedLLM(
        say(f"says {HOSTILE}\nmore", call("show", text=HOSTILE), call(f"no{HOSTILE}such", x=HOSTILE)),
        f"Done {HOSTILE}",
        model=f"m{HOSTILE}",
    )
    Agent("helper", [show], llm=llm, listeners=[Console(stream)]).run(f"go {HOSTILE}")
    written = stream.getvalue()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u202e]", written)
    assert r"\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}" in written
    assert all(line.startswith("[1] helper  ") for line in written.splitlines())


def test_secrets_are_redacted(monkeypatch):
    """Secrets are redacted in prompts, arguments, results and answers."""
    monkeypatch.setenv("SHOP_PASSWORD", "correct-horse-battery")
    stream = io.StringIO()
    llm = ScriptedLLM(say(f"the key is {KEY}", call("log_in", password="tulip-9-tulip")), "correct-horse-battery")

    @tool
    def log_in(password: str) -> dict[str, str]:
        """Log in."""
        return {"user": "ann", "password": password, "key": KEY}

    Agent("helper", [log_in], llm=llm, listeners=[Console(stream, max_chars=1_000)]).run(f"use {KEY}")
    written = stream.getvalue()
    assert not [secret for secret in (KEY, "tulip-9-tulip", "correct-horse-battery") if secret in written]
    assert written.count("[redacted") >= 4


@pytest.mark.parametrize(("arguments", "shown"), [("", ""), ("[1, 2]", ": [1, 2]"), ('{"text": ', ': {"text":')])
def test_invalid_arguments_are_shown_as_written(arguments, shown):
    """Arguments that are not a JSON object are shown as the model wrote them."""
    stream = io.StringIO()
    Agent("helper", [show], llm=ScriptedLLM(call("show", arguments), "Done."), listeners=[Console(stream)]).run("go")
    assert f"[1] helper  show #1{shown} → deny, by bad-arguments" in console_lines(stream)


def test_long_texts_are_truncated():
    """A long text is truncated after its secrets are redacted."""
    stream = io.StringIO()
    llm = ScriptedLLM("word " * 1_000)
    Agent("helper", llm=llm, listeners=[Console(stream, max_chars=20)]).run("x" * 18 + f" {KEY}")
    lines = console_lines(stream)
    assert lines[0] == f"[1] helper  Run started: {'x' * 18} …"
    assert any(line.endswith("5 out: word word word word…") for line in lines)


def test_lines_without_content(make_agent):
    """With content=False, events are written without texts, arguments and results."""
    stream = io.StringIO()
    make_agent(listeners=[Console(stream, content=False)]).run("How much is 6*7?")
    lines = console_lines(stream)
    assert lines[0] == "[1] helper  Run started"
    assert "[1] helper  calculator #1 → allow, by safety-level" in lines
    assert "[1] helper  calculator #1 ok in TIME" in lines
    assert not [word for word in ("6*7", "see", "42") if word in stream.getvalue()]


def test_nested_agents_are_indented():
    """The run of an agent used as a tool is indented and numbered, and its tokens are shown."""
    stream = io.StringIO()
    console = Console(stream)
    leaf = Agent("leaf", llm=ScriptedLLM("2"), listeners=[console])
    middle = Agent("middle", [leaf.as_tool()], llm=ScriptedLLM(call("leaf", request="1+1"), "2"), listeners=[console])
    Agent("top", [middle.as_tool()], llm=ScriptedLLM(call("middle", request="1+1"), "2"), listeners=[console]).run("go")
    starts = list(dict.fromkeys(re.match(r"( *\[\d\] \w+)", line)[1] for line in console_lines(stream)))
    assert starts == ["[1] top", "  [2] middle", "    [3] leaf"]
    assert "[1] top  middle #1 ok in TIME, 30 tokens in, 15 out: 2" in console_lines(stream)


def test_nested_run_without_an_outer_listener():
    """A nested run is indented even if its outer run has no listener."""
    stream = io.StringIO()
    inner = Agent("inner", llm=ScriptedLLM("2"), listeners=[Console(stream)])
    Agent("outer", [inner.as_tool()], llm=ScriptedLLM(call("inner", request="1+1"), "2")).run("go")
    assert console_lines(stream)[0] == "  [1] inner  Run started: 1+1"


def test_simultaneous_runs_have_different_numbers():
    """Simultaneous runs have different numbers, and their lines are not interleaved."""
    stream = io.StringIO()
    console = Console(stream)
    together = threading.Barrier(4)

    def wait(_request):
        together.wait(20)
        return "Done."

    def run(number):
        Agent(f"agent{number}", llm=ScriptedLLM(wait), listeners=[console]).run(f"go {number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    lines = console_lines(stream)
    assert len(lines) == 4 * 4
    pairs = {re.match(r"\[(\d)\] agent(\d)  ", line).groups() for line in lines}
    assert len(pairs) == len({number for number, _ in pairs}) == 4


def test_all_ways_of_running_write_the_same_lines(drive, make_agent):
    """All ways of running an agent write the same lines."""
    alike = set()
    for mode in ("run", "arun", "stream", "astream"):
        stream = io.StringIO()
        drive(make_agent(listeners=[Console(stream)]), mode)
        alike.add("\n".join(sorted(console_lines(stream))))
    assert len(alike) == 1


def test_failures_and_limits():
    """Provider errors and reached limits are written."""
    stream = io.StringIO()
    console = Console(stream)
    with FakeServer(fail(401, "bad key")) as server:
        llm = LLM(base_url=server.base_url, model="m", max_retries=0)
        with pytest.raises(Exception, match="bad key"):
            Agent("helper", llm=llm, listeners=[console])("go")
    calls = ScriptedLLM(call("calculator", expression="1"), repeat=True)
    Agent("helper", core_tools, llm=calls, max_iterations=1, listeners=[console]).run("go")
    lines = console_lines(stream)
    assert any("Model request failed (Unauthorized): The provider answered 401: bad key" in line for line in lines)
    assert any(line.startswith("[1] helper  failed in TIME, 0 requests") for line in lines)
    assert any("Limit reached: iterations: Max tool iterations reached (1)" in line for line in lines)
    assert any(line.startswith("[2] helper  limit in TIME, 2 requests, 1 tool call") for line in lines)


def test_abandoned_run():
    """An abandoned run is reported, and its number is not reused."""
    stream = io.StringIO()
    agent = Agent("helper", llm=ScriptedLLM("One two three", "Done."), listeners=[Console(stream)])
    events = agent.stream("go")
    next(events)
    events.close()
    agent.run("again")
    lines = console_lines(stream)
    assert "[1] helper  Run abandoned" in lines
    assert lines[-1].startswith("[2] helper  done")


def test_postponed_approval():
    """A postponed approval and its answer are written."""
    stream = io.StringIO()

    @tool(level="system")
    def launch() -> str:
        """Launch."""
        return "launched"

    llm = ScriptedLLM(call("launch"), "Done.")
    agent = Agent("helper", [launch], llm=llm, approve=lambda _: Approval.LATER, listeners=[Console(stream)])
    paused = agent.run("go")
    assert paused.status == "paused"
    paused.resume(answers={paused.pending[0].id: True})
    lines = console_lines(stream)
    assert any(line.startswith("[1] helper  launch #1 waits for approval: ") for line in lines)
    assert any(line.startswith("[1] helper  paused in TIME, 1 request") for line in lines)
    assert any("Approval answered: once" in line for line in lines)
    assert any(line.startswith("[2] helper  done in TIME") for line in lines)


def test_fallback():
    """When a fallback answers, the failed model and the reason are written."""
    stream = io.StringIO()
    with FakeServer(fail(500, "down"), "Hello.") as server:
        second = LLM(base_url=server.base_url, model="second", max_retries=0)
        llm = LLM(base_url=server.base_url, model="first", max_retries=0, fallback=second)
        Agent("helper", llm=llm, listeners=[Console(stream)]).run("go")
    assert any("no answer from openai:first: The provider answered 500: down" in line for line in console_lines(stream))


def test_cost_of_a_run():
    """The last line shows the cost if the price is known."""
    stream = io.StringIO()
    with FakeServer("Hello.") as server:
        llm = LLM(base_url=server.base_url, model="m", price=Price(1_000, 1_000))
        Agent("helper", llm=llm, limits=Limits(cost=5), listeners=[Console(stream)]).run("go")
    assert console_lines(stream)[-1].endswith("10 tokens in, 5 out, cost ≈ $0.0150 (given)")


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        """Return True."""
        return True


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_depend_on_the_terminal(make_agent, monkeypatch, variables, coloured):
    """Lines are coloured on a terminal that supports colours, unless NO_COLOR is set."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = Terminal()
    make_agent(listeners=[Console(stream)]).run("go")
    assert ("\x1b[31m" in stream.getvalue()) is coloured
    assert ("\x1b" in stream.getvalue()) is coloured


def test_standard_error_is_the_default(make_agent, capsys):
    """Without a stream, lines are written to the current sys.stderr."""
    make_agent("Done.", listeners=[Console()]).run("go")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("[1] helper  Run started: go\n")


def test_unencodable_characters_are_escaped(make_agent, tmp_path):
    """Characters that the stream cannot encode are escaped."""
    with (tmp_path / "lines").open("w", encoding="ascii") as stream:
        make_agent("茶 → tea \ud800", listeners=[Console(stream)]).run("go")
    assert r"5 out: \u8336 \u2192 tea \u{d800}" in (tmp_path / "lines").read_text("ascii")


def test_closed_stream_does_not_end_a_run(make_agent, caplog):
    """A closed stream does not end a run, and one warning is logged."""
    broken = io.StringIO()
    broken.close()
    with caplog.at_level(logging.WARNING):
        agent = make_agent("Done.", "Done.", listeners=[Console(broken)])
        assert agent.run("go").status == agent.run("go").status == "done"
    assert [record.name for record in caplog.records] == ["agentkit.tracing"]
    assert "Cannot print runs on the console" in caplog.text


@pytest.mark.parametrize("most", [0, -1, 1.5, "many"])
def test_invalid_max_chars_raises(most):
    """An invalid max_chars raises an error."""
    with pytest.raises(ConfigError, match="max_chars= takes"):
        Console(io.StringIO(), max_chars=most)


def test_event_outside_of_a_run():
    """An event outside of a run is written as a line."""
    stream = io.StringIO()
    Console(stream)(RunLeft("stopped"))
    assert console_lines(stream) == ["[1]   Run abandoned: stopped"]


def test_concurrent_tasks():
    """Runs in concurrent tasks have different numbers."""
    stream = io.StringIO()

    async def together():
        agent = Agent("helper", llm=ScriptedLLM("Done.", repeat=True), listeners=[Console(stream)])
        await asyncio.gather(*(agent.arun(f"go {number}") for number in range(5)))

    asyncio.run(together())
    assert len({line.partition("]")[0] for line in console_lines(stream)}) == 5
