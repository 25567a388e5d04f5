"""Tests for the end of a run on the command line: limits, errors, exit codes, and the closing line."""

import json
import signal
import time

import pytest

from agentkit.sessions.session import Session
from agentkit.testing import FakeServer, call, fail, say, slow

SUM = call("calculator", expression="2+2")
WRITE = call("write_file", path="note.txt", content="hello")


def test_limit_suggests_how_to_continue(typed_line):
    """A reached limit exits with code 3 and suggests how to continue and how to raise the limit."""
    with FakeServer(SUM, repeat=True) as server:
        _, err, code = typed_line("-q", "--limit", "tool_calls=2", "loop", server=server)
    assert code == 3
    what, *rest = err.splitlines()
    assert what.startswith("Error: ")
    assert 'Continue with: agentkit -c "Go on."' in "\n".join(rest)
    assert rest[-1] == "Allow more with: --limit tool_calls=NUMBER"
    assert "result.resume()" not in err


@pytest.mark.parametrize("command", [[], ["chat"]])
def test_cost_limit_without_a_price_suggests_an_option(command, typed_line):
    """With a cost limit, a model without a price is an error that suggests unknown_price=free."""
    with FakeServer() as server:
        _, err, code = typed_line(*command, "--limit", "cost=1", server=server, piped=b"2+2?\n")
    assert (code, server.requests) == (3, [])
    assert err.startswith("Error: The price of the model is unknown, so its cost cannot be limited.\nTo run without")
    assert "--limit unknown_price=free" in err
    assert [word for word in ("Price(", "Continue with", "cost=NUMBER") if word in err] == []
    with FakeServer("4") as server:
        allowed = ["--limit", "cost=1", "--limit", "unknown_price=free"]
        assert typed_line(*command, *allowed, server=server, piped=b"2+2?\n")[0] == "4\n"


def test_limit_without_a_session_does_not_suggest_continuing(typed_line):
    """Without a session, a reached limit does not suggest continuing with -c."""
    with FakeServer(SUM, repeat=True) as server:
        err = typed_line("-q", "--no-session", "--limit", "iterations=1", "loop", server=server)[1]
    assert "agentkit -c" not in err
    assert "--limit iterations=NUMBER" in err


def test_closing_line_shows_usage_and_session(typed_line):
    """The closing line of -v shows model, tokens, cost and, if stored, the session."""
    with FakeServer("4", "4") as server:
        closing = typed_line("-v", "--session", "sums", "2+2?", server=server)[1].splitlines()[-1]
        short = typed_line("-v", "--no-session", "2+2?", server=server)[1].splitlines()[-1]
    assert closing.startswith("openai:gpt-5.4-mini · 10 tokens in, 5 out · cost unknown · ")
    assert closing.split(" · ")[-1] == "session sums"
    assert "session" not in short


def test_closing_line_names_the_fallback(typed_line):
    """After a fallback, stderr shows why the first model failed, and the closing line names the second."""
    with FakeServer(fail(401, "bad key"), "4") as server:
        *_, missed, closing = typed_line("-v", "-m", "big | small", "2+2?", server=server)[1].splitlines()
    assert closing.startswith("openai:small · 10 tokens in, 5 out · ")
    assert missed.startswith("  no answer from openai:big: The provider answered 401: bad key")
    with FakeServer(fail(401, "bad key"), say("4", usage=None)) as server:  # without token counts
        closing = typed_line("-v", "-m", "big | small", "2+2?", server=server)[1].splitlines()[-1]
    assert closing.startswith("openai:small · ")
    with FakeServer(fail(401, "bad key"), fail(401, "bad key")) as server:
        out, err, code = typed_line("-v", "-m", "big | small", "2+2?", server=server)
    assert (out, code) == ("", 1)
    assert "None of the 2 models answered" in err.replace("\n", " ")
    assert "no answer from" not in err
    with FakeServer(fail(401, "bad key"), "4") as server:
        assert typed_line("-q", "-m", "big | small", "2+2?", server=server)[1] == ""


def test_trace_is_written(typed_line, tmp_path, monkeypatch):
    """--trace and AGENTKIT_TRACE write the events of a run as JSON lines, without its texts."""
    paths = tmp_path / "by-flag.jsonl", tmp_path / "by-variable.jsonl"
    with FakeServer(SUM, "4", SUM, "4") as server:
        typed_line("-q", "--trace", str(paths[0]), "2+2?", server=server)
        monkeypatch.setenv("AGENTKIT_TRACE", str(paths[1]))
        typed_line("-q", "2+2?", server=server)
    for path in paths:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        assert [line["event"] for line in lines if "tool" in line] == ["ToolCallStarted", "ToolCallFinished"]
        assert (lines[-1]["event"], lines[-1]["status"]) == ("RunFinished", "done")
        assert "2+2" not in path.read_text("utf-8")


def test_unwritable_trace_is_an_error_before_the_request(typed_line, tmp_path):
    """A trace path that cannot be written is an error before the model is called."""
    with FakeServer() as server:
        _, err, code = typed_line("--no-session", "--trace", str(tmp_path), "2+2?", server=server)
        assert server.requests == []
    assert (code, "Cannot write the trace" in err) == (2, True)


def test_provider_error_follows_the_closing_line(typed_line):
    """A provider error follows the closing line and exits with code 1."""
    with FakeServer(fail(401, "Incorrect key")) as server:
        _, err, code = typed_line("-v", "hi", server=server)
    lines = err.splitlines()
    assert (code, lines[0].startswith("openai:")) == (1, True)
    assert lines[1].startswith("Error: ")
    assert len(lines) >= 3


def test_all_calls_denied_exits_with_4(typed_line):
    """The exit code is 4 if every tool call was denied, and 0 if only some were."""
    with FakeServer(WRITE, "I could not.", WRITE, SUM, "Half of it.") as server:
        out, err, code = typed_line("Write it.", server=server)
        assert (out, code, "[deny: safety-level]" in err) == ("I could not.\n", 4, True)
        assert typed_line("Write it and add.", server=server)[2] == 0


def test_yes_approves_every_call_and_warns(typed_line, tmp_path):
    """-y approves every call, prints a warning and shows the change."""
    with FakeServer(WRITE, "Done.") as server:
        out, err, code = typed_line("-y", "Write it.", server=server)
    assert (out, code) == ("Done.\n", 0)
    assert err.startswith("Warning: -y approves every call")
    assert "+hello" in err
    assert (tmp_path / "note.txt").read_text() == "hello"


def test_settings_apply_to_a_question(typed_line, own_user_file, tmp_path):
    """User settings apply to a question; ignored project settings are reported unless -q is given."""
    own_user_file('instruction = "Be brief."\ntools = "calculator"\n')
    (tmp_path / "agentkit.toml").write_text('instruction = "Obey."\n')
    with FakeServer("ok", repeat=True) as server:
        assert "agentkit config trust" in typed_line("hi", server=server)[1]
        assert typed_line("-q", "hi", server=server)[1] == ""
    request = server.requests[0].json
    assert request["messages"][0]["content"] == "Be brief."
    assert [tool["function"]["name"] for tool in request["tools"]] == ["calculator"]


def test_interrupted_run_is_continued(spawn, command):
    """Ctrl-C ends the line and shows the command that continues the run; -c continues it."""
    with FakeServer(slow("one two three four", between_seconds=1.5), "Again.") as server:
        process = spawn("hi", server=server)
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        again = command("-c", server=server)
    assert process.returncode == 130
    assert (first + out).endswith("\n")
    assert again[:1] == ("Again.\n",)
    assert err == "Interrupted.\nThe work so far is stored. Continue with: agentkit -c\n"


def test_interruption_without_a_session(spawn):
    """Without a session, an interrupted run prints only "Interrupted."."""
    with FakeServer(slow("too late", before_seconds=5)) as server:
        process = spawn("--no-session", "hi", server=server)
        deadline = time.monotonic() + 30
        while not server.requests and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[1] == "Interrupted.\n"


def test_paused_run_is_continued(typed_line, tmp_path):
    """-c without a question continues a run that another program left paused."""
    from agentkit import LLM, Agent, Approval
    from agentkit.tools.catalog import system_tools

    with FakeServer(WRITE, "Written.") as server:
        llm = LLM(base_url=server.base_url, model="gpt-5.4-mini")
        session = Session.open(name="left")
        agent = Agent("agentkit", system_tools, llm=llm, session=session, approve=lambda _: Approval.LATER)
        assert agent.run("Write it.").status == "paused"
        out, _, code = typed_line("-c", "-y", server=server)
    assert (out, code) == ("Written.\n", 0)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]
