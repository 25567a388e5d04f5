"""A cassette with everything in it that can happen, and texts in it that would rather be something else."""

import json
from dataclasses import replace

import pytest

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
from agentkit.memory.cassettes.recorder import Recorder
from agentkit.messages import (
    AssistantMessage,
    Image,
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
from agentkit.tape import PersonAsked
from agentkit.usage import Tariff, Usage

ATTACK = "</script></style></title></pre><script>alert(1)</script><img src=x onerror=alert(2)>\"' \u202ex\x1b[31m\x00"
ALLOW = Decision("allow", "level", "It only computes.")
ASK = Decision("ask", "level", "It changes files.")
DENY = Decision("deny", "shell", "It would run what comes from the network.", "curl x | sh", "Read it first.")
DIFF = "--- a/answer.md\n+++ b/answer.md\n@@ -1,2 +1,2 @@\n-old\n+new\n same\n\n"


def call(name, number, **arguments):
    """A tool call."""
    return ToolCall(f"c{number}", name, json.dumps(arguments))


class Run:
    """A run that is recorded as a driver would."""

    def __init__(self, recorder, name, agent, prompt):
        self.recorder, self.name = recorder, name
        self.messages = [UserMessage(prompt)]
        self.tell(RunStarted(agent, prompt))

    def tell(self, *milestones):
        """Tell what has happened."""
        for milestone in milestones:
            self.recorder.told(self.name, milestone)

    def say(self, text, *calls, **changes):
        """The model answers."""
        tools = (ToolSpec("calculator", "", {}), ToolSpec("write_file", "", {}))
        asked = self.recorder.asked(Request(tuple(self.messages), "Be brief.", tools, settings={"temperature": 0}))
        usage = Usage(1_200, 40, 600, requests=1, tariff=Tariff("openai", "gpt-5.4-mini", "gpt-5.4-mini"))
        response = Response(AssistantMessage(text, calls), usage=usage, model="gpt-5.4-mini")
        response = replace(response, **changes)
        asked.heard(response)
        self.tell(ResponseReceived(response))
        self.messages.append(response.message)

    def use(self, used, decision, result, answer=None):
        """A tool is used, perhaps after a person was asked."""
        if answer is not None:
            self.recorder.asked(PersonAsked(used, decision)).heard(answer)
            self.tell(answer)
            decision = replace(decision, verdict="allow")
        self.tell(ToolCallStarted(used, decision))
        result = replace(result, decision=decision)
        self.recorder.asked(used).heard(result)
        self.tell(ToolCallFinished(used, result))
        self.messages.append(ToolMessage(used.id, used.name, result.content))


def record_helper(recorder):
    """A run with calls that were allowed, asked for and denied, and a change of a file."""
    run = Run(recorder, "run1", "helper", ("How much is 6*7?", Image("https://example.org/a.png")))
    add, write, shell = call("calculator", 1, expression="6*7"), call("write_file", 2, path="a"), call("run_shell", 3)
    thinking = AssistantMessage("", (add, write, shell), reasoning="Hm.")
    run.say("", message=thinking)
    run.use(add, ALLOW, ToolResult("calculator", "ok", '{"expression": "6*7", "result": 42}', seconds=1.5))
    written = ToolResult("write_file", "ok", "{}", whole="line\n" * 400)
    run.use(write, ASK, written, Approved("c2", "once", arguments='{"path":"b"}'))
    run.use(shell, DENY, ToolResult("run_shell", "denied", '{"error": "no"}', error="Command blocked for safety."))
    run.say("It is 42.")
    run.tell(RunEnded("done", "It is 42.", changes=DIFF))


def record_attacker(recorder):
    """A run in which everything tries to break out of the page, and all kinds of things happen."""
    run = Run(recorder, "run2", ATTACK, ATTACK)
    recorder.asked(Request(tuple(run.messages))).heard(RateLimited(ATTACK))
    run.tell(RequestFailed(ATTACK, "RateLimited"), HistoryGiven((UserMessage("Before."),)), RunResumed())
    odd = ToolCall("c4", f"tool{ATTACK}", json.dumps({ATTACK: [ATTACK]}))
    plain = ToolCall("c5", "plain", f"oops{ATTACK}")
    run.say(ATTACK, odd, plain, model=ATTACK, finish_reason="length")
    run.use(odd, Decision("allow", ATTACK, ATTACK, ATTACK, ATTACK), ToolResult("x", "ok", json.dumps([ATTACK] * 40)))
    run.tell(ToolCallPostponed(plain, "May I?", ASK))
    run.tell(AnswerRefused(ATTACK), AnswerAmended(ATTACK), HandedOff("writer"), LimitReached("cost", ATTACK))
    run.tell(RunEnded("limit", f"So far: {ATTACK}", error=ATTACK, changes=ATTACK))


def record_outside(recorder):
    """What was asked while no run told of it."""
    used = AssistantMessage("", (call("f", 9),)), ToolMessage("c9", "f", "1")
    asked = Request(
        (SystemMessage("Obey."), UserMessage("Say hello."), *used),
        output_schema=OutputSchema("answer", {"type": "string"}),
    )
    recorder.asked(asked).heard(Response(AssistantMessage("Hello."), usage=Usage(requests=1, unreported=1)))
    recorder.asked(asked).heard(RateLimited("Slow down."))
    recorder.asked(Request((UserMessage("Plain."),))).heard(Response(AssistantMessage("Good."), usage=Usage(1, 1)))
    recorder.asked(call("lone", 7)).heard(ToolResult("lone", "ok", "text"))
    recorder.asked(PersonAsked(call("lone", 8), ASK)).heard(Approved("c8", "no"))


@pytest.fixture
def cassette(tmp_path):
    """The path of a cassette with everything in it."""
    recorder = Recorder(tmp_path / "trip.cassette")
    for recording in (record_helper, record_attacker, record_outside):
        recording(recorder)
    inner = Run(recorder.asked(call("worker", 6)).tape, "run3", "worker", "Go.")
    inner.tell(RunEnded("interrupted"))
    recorder.finish()
    return recorder.path
