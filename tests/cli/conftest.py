"""Fixtures for `agentkit` commands, run as a separate process or within this one, and recorded cassettes."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentkit.cli.main import run
from agentkit.content import Image
from agentkit.decisions import Decision
from agentkit.errors import RateLimited
from agentkit.events import (
    AnswerAmended,
    AnswerRefused,
    Approved,
    HandedOff,
    HistoryGiven,
    LimitReached,
    RequestFailed,
    ResponseReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import (
    AssistantMessage,
    OutputSchema,
    Request,
    Response,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from agentkit.recording import PersonAsked
from agentkit.sessions.cassettes.recorder import Recorder
from agentkit.usage import Tariff, Usage

OURS = ("OPENAI_", "AZURE_", "ANTHROPIC_", "AGENTKIT_")


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, state_folders):
    """Use an empty user configuration in every test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(next(state_folders)))


@pytest.fixture
def spawn():
    """Start `agentkit ARGUMENTS` without an API key and, by default, without standard input."""

    def start(*arguments, server=None, **options):
        env = {
            name: value for name, value in os.environ.items() if not name.startswith(OURS) or name == "AGENTKIT_STATE"
        }
        if server is not None:
            env["OPENAI_BASE_URL"] = server.base_url
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return subprocess.Popen([sys.executable, "-m", "agentkit", *arguments], text=True, env=env, **streams)

    return start


@pytest.fixture
def process(spawn):
    """Run `agentkit ARGUMENTS` as a process to its end; return stdout, stderr and the exit code."""

    def complete(*arguments, server=None, piped=None):
        options = {} if piped is None else {"stdin": subprocess.PIPE}
        process = spawn(*arguments, server=server, **options)
        out, err = process.communicate(piped, timeout=120)
        return out, err, process.returncode

    return complete


def run_here(arguments, piped):
    """Run a command line in this process; return stdout, stderr and the exit code."""
    with CliRunner().isolation(piped) as (out, err, _):
        code = run(list(map(str, arguments)))
        return out.getvalue().decode(), err.getvalue().decode(), code


@pytest.fixture
def command(monkeypatch):
    """Run `agentkit ARGUMENTS` in this process, without a key; return stdout, stderr and the exit code."""

    def complete(*arguments, server=None, piped=""):
        for name in [name for name in os.environ if name.startswith(OURS) and name != "AGENTKIT_STATE"]:
            monkeypatch.delenv(name)
        if server is not None:
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        return run_here(arguments, piped)

    return complete


@pytest.fixture
def own_user_file():
    """Write the user's settings file; return its path."""

    def write(text):
        path = Path(os.environ["XDG_CONFIG_HOME"]) / "agentkit" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    return write


@pytest.fixture
def typed_line(monkeypatch, tmp_path):
    """Run `agentkit ARGUMENTS` in this process, in an empty folder; return stdout, stderr and the exit code."""
    for name in [name for name in os.environ if name.startswith(OURS) and name != "AGENTKIT_STATE"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def complete(*arguments, server=None, piped=b""):
        if server is not None:
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        return run_here(arguments, piped)

    return complete


ATTACK = "</script></style></title></pre><script>alert(1)</script><img src=x onerror=alert(2)>\"' \u202ex\x1b[31m\x00"
ALLOW = Decision("allow", "level", "It only computes.")
ASK = Decision("ask", "level", "It changes files.")
DENY = Decision("deny", "shell", "It would run what comes from the network.", "curl x | sh", "Read it first.")
DIFF = "--- a/answer.md\n+++ b/answer.md\n@@ -1,2 +1,2 @@\n-old\n+new\n same\n\n"


def call(name, number, **arguments):
    """Return a tool call."""
    return ToolCall(f"c{number}", name, json.dumps(arguments))


class Run:
    """A run that is recorded as a driver would record it."""

    def __init__(self, recorder, name, agent, prompt):
        self.recorder, self.name = recorder, name
        self.messages = [UserMessage(prompt)]
        self.print(RunStarted(agent, prompt))

    def print(self, *events):
        """Record these stored events."""
        for event in events:
            self.recorder.record_event(self.name, event)

    def say(self, text, *calls, **changes):
        """Record a response of the model."""
        tools = (ToolSpec("calculator", "", {}), ToolSpec("write_file", "", {}))
        question = self.recorder.open_question(
            Request(tuple(self.messages), "Be brief.", tools, settings={"temperature": 0})
        )
        usage = Usage(1_200, 40, 600, requests=1, tariff=Tariff("openai", "gpt-5.4-mini", "gpt-5.4-mini"))
        response = Response(AssistantMessage(text, calls), usage=usage, model="gpt-5.4-mini")
        response = replace(response, **changes)
        question.record_answer(response)
        self.print(ResponseReceived(response))
        self.messages.append(response.message)

    def use(self, used, decision, result, answer=None):
        """Record a tool call, optionally with an approval."""
        if answer is not None:
            self.recorder.open_question(PersonAsked(used, decision)).record_answer(answer)
            self.print(answer)
            decision = replace(decision, verdict="allow")
        self.print(ToolCallStarted(used, decision))
        result = replace(result, decision=decision)
        self.recorder.open_question(used).record_answer(result)
        self.print(ToolCallFinished(used, result))
        self.messages.append(ToolMessage(used.id, used.name, result.content))


def record_helper(recorder):
    """Record a run with allowed, approved and denied calls, and a file change."""
    run = Run(recorder, "run1", "helper", ("How much is 6*7?", Image("https://example.org/a.png")))
    add, write, shell = call("calculator", 1, expression="6*7"), call("write_file", 2, path="a"), call("run_shell", 3)
    thinking = AssistantMessage("", (add, write, shell), reasoning="Hm.")
    run.say("", message=thinking)
    run.use(add, ALLOW, ToolResult("calculator", "ok", '{"expression": "6*7", "result": 42}', seconds=1.5))
    written = ToolResult("write_file", "ok", "{}", full_content="line\n" * 400)
    run.use(write, ASK, written, Approved("c2", "once", arguments='{"path":"b"}'))
    run.use(shell, DENY, ToolResult("run_shell", "denied", '{"error": "no"}', error="Command blocked for safety."))
    run.say("It is 42.")
    run.print(RunEnded("done", "It is 42.", changes=DIFF))


def record_attacker(recorder):
    """Record a run with hostile texts that try to break out of the page, and with every kind of event."""
    run = Run(recorder, "run2", ATTACK, ATTACK)
    recorder.open_question(Request(tuple(run.messages))).record_answer(RateLimited(ATTACK))
    run.print(RequestFailed(ATTACK, "RateLimited"), HistoryGiven((UserMessage("Before."),)), RunResumed())
    odd = ToolCall("c4", f"tool{ATTACK}", json.dumps({ATTACK: [ATTACK]}))
    plain = ToolCall("c5", "plain", f"oops{ATTACK}")
    run.say(ATTACK, odd, plain, model=ATTACK, finish_reason="length")
    run.use(odd, Decision("allow", ATTACK, ATTACK, ATTACK, ATTACK), ToolResult("x", "ok", json.dumps([ATTACK] * 40)))
    run.print(ToolCallPostponed(plain, "May I?", ASK))
    run.print(AnswerRefused(ATTACK), AnswerAmended(ATTACK), HandedOff("writer"), LimitReached("cost", ATTACK))
    run.print(RunEnded("limit", f"So far: {ATTACK}", error=ATTACK, changes=ATTACK))


def record_outside(recorder):
    """Record requests and calls made outside of any run."""
    used = AssistantMessage("", (call("f", 9),)), ToolMessage("c9", "f", "1")
    question = Request(
        (SystemMessage("Obey."), UserMessage("Say hello."), *used),
        output_schema=OutputSchema("answer", {"type": "string"}),
    )
    recorder.open_question(question).record_answer(
        Response(AssistantMessage("Hello."), usage=Usage(requests=1, unreported=1))
    )
    recorder.open_question(question).record_answer(RateLimited("Slow down."))
    recorder.open_question(Request((UserMessage("Plain."),))).record_answer(
        Response(AssistantMessage("Good."), usage=Usage(1, 1))
    )
    recorder.open_question(call("lone", 7)).record_answer(ToolResult("lone", "ok", "text"))
    recorder.open_question(PersonAsked(call("lone", 8), ASK)).record_answer(Approved("c8", "no"))


@pytest.fixture
def cassette(tmp_path):
    """The path of a cassette with all kinds of records."""
    recorder = Recorder(tmp_path / "trip.cassette")
    for recording in (record_helper, record_attacker, record_outside):
        recording(recorder)
    inner = Run(recorder.open_question(call("worker", 6)).tape, "run3", "worker", "Go.")
    inner.print(RunEnded("interrupted"))
    recorder.finish()
    return recorder.path
