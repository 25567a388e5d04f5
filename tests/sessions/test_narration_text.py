"""Tests for the text of a recorded session."""

import json
from dataclasses import replace

from agentkit.cli.export import page
from agentkit.content import Image
from agentkit.decisions import Decision, Verdict
from agentkit.events import (
    AnswerAmended,
    AnswerGiven,
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
    StoredEvent,
    Summarised,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import AssistantMessage, Response, SystemMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.sessions.store import SessionEntry
from agentkit.sessions.transcript import (
    CallTranscript,
    RunTranscript,
    TranscriptStep,
    day_text,
    session_text,
    show_text,
)
from agentkit.usage import Usage


def test_prompts_are_whole_and_tool_results_truncated():
    """Prompts are shown in full; long tool results are truncated with a note about the omitted lines."""
    joined = "\n".join([f"{'x' * 500}{number}" for number in range(30)])
    used = CallTranscript(ToolCall("c", "look", "{}"), 1.0, result=ToolResult("look", "ok", joined))
    text = show_text("Session", [RunTranscript("r", "helper", prompt=joined, steps=[used])])
    lines = text.splitlines()
    assert [line[2:] for line in lines if len(line) > 200] == joined.splitlines()
    assert "… 18 more lines" in text
    assert (lines[0], lines[1]) == ("Session", "1 run, 0 requests, 1 tool call")
    assert "unfinished (r) in 0 ms: 0 requests, 1 tool call" in text


def test_usage_of_an_inner_run_is_counted_once():
    """The usage of an inner run is counted once in the total, although the outer run includes it."""
    response_event = ResponseReceived(Response(AssistantMessage("Done."), usage=Usage(70, 8, requests=1)))
    used = CallTranscript(ToolCall("c", "worker", "{}"), 1.0, result=ToolResult("worker", "ok", "", usage=Usage(70, 8)))
    last = ResponseReceived(Response(AssistantMessage("Over."), usage=Usage(5, 1, requests=1)))
    boss = RunTranscript("r", "boss", steps=[used, TranscriptStep(3.0, 0.5, last)])
    runs = [boss, RunTranscript("s", "worker", inside=3, steps=[TranscriptStep(2.0, 0.5, response_event)])]
    text = show_text("Cassette", runs)
    assert text.splitlines()[1].startswith("2 runs, 2 requests, 1 tool call, 75 tokens in, 9 out")
    assert "1 request, 1 tool call, 75 tokens in, 9 out" in text
    used.result = replace(used.result, usage=Usage(70, 8, requests=3))
    assert "4 requests, 1 tool call, 75 tokens in, 9 out" in show_text("Session", [boss])
    assert "1 request, 0 tool calls, 70 tokens in, 8 out" in text
    assert "<dt>Tokens</dt><dd>75 tokens in, 9 out</dd>" in page("trip", {"cassette": 1}, runs)


CALL, OTHER = ToolCall("1", "calculator", '{"expression": "6*7", "password": "hunter22"}'), ToolCall("2", "clock", "{}")
ALLOWED = Decision(Verdict.ALLOW, "level", "It only computes.")
ASKED = Decision(Verdict.ASK, "level", "It touches this machine.")
STORY = [
    RunStarted("helper", ("Look:", Image("data:image/png;base64,AAAA"), "what\nis it?")),
    ResponseReceived(Response(AssistantMessage("Let me see.", (CALL,)))),
    ResponseReceived(Response(AssistantMessage("", (OTHER, ToolCall("3", "fly", '{"password": "hunter22"}'))))),
    ToolCallStarted(CALL, ALLOWED),
    ToolCallFinished(CALL, ToolResult("calculator", "ok", "4" * 2_000, decision=ALLOWED)),
    ToolCallPostponed(OTHER, "May I?", ASKED),
    ToolCallPostponed(OTHER, "What time is it?"),
    RunEnded("paused"),
    RunResumed(),
    Approved("2", "deny", "not today"),
    RequestFailed("The server is down.", "Unreachable"),
    AnswerRefused("Too long."),
    AnswerGiven("Given."),
    AnswerAmended("Amended."),
    Summarised("In short.", 3),
    HandedOff("expert"),
    LimitReached("iterations", "Enough."),
    RunEnded("failed", error="No answer.", changes="--- a\n+++ b"),
]
STORY_SHOWN = """\
Session trip
2 runs, 2 requests, 2 tool calls, 0 tokens in, 0 out

 helper, FIRST
> Look:
  [image]
  what
  is it?

    0 ms  the model  0 ms  0 tokens in, 0 out
          Let me see.

    0 ms  the model  0 ms  0 tokens in, 0 out
          requests: fly({"password": "[redacted: secret]"})

    0 ms  calculator  0 ms
          expression: 6*7
          password: [redacted: secret]
        ✓ allow: It only computes. (rule: level)
        → CUT…

    0 ms  clock  0 ms
        ? ask: It touches this machine. (rule: level)
        ? a person answered: deny (not today)

    0 ms  Run resumed

    0 ms  Model request failed (Unreachable)
          The server is down.

    0 ms  Answer rejected
          Too long.

    0 ms  Answer given by a tool
          Given.

    0 ms  Answer changed by a guardrail
          Amended.

    0 ms  3 messages summarised
          In short.

    0 ms  Handed off to expert

    0 ms  Limit reached: iterations
          Enough.

  ! No answer.

  Changes
    --- a
    +++ b

  failed (run-1) in 0 ms: 2 requests, 2 tool calls, 0 tokens in, 0 out

 Earlier conversation, THEN

          user: Hi
          system: Be
              kind.
          assistant: Hello
            calls: clock({})
            clock: FOURS … (2000 characters)"""


def test_session_text():
    """The text of a session shows each run with its messages, decisions, tool results and changes."""
    given = (
        UserMessage("Hi"),
        SystemMessage("Be\nkind."),
        AssistantMessage("Hello", (OTHER,)),
        ToolMessage("2", "clock", "4" * 2_000),
        AssistantMessage(""),
    )
    entries = [SessionEntry("run-1", 0.0, event) for event in STORY]
    entries += [SessionEntry("run-2", 1.0, HistoryGiven(given)), SessionEntry("run-2", 1.0, RunEnded("done"))]
    text = session_text("trip", entries).replace(day_text(0.0), "FIRST").replace(day_text(1.0), "THEN").replace("─", "")
    assert (
        "\n".join(line.rstrip() for line in text.replace("4" * 1_000, "FOURS").replace("4" * 159, "CUT").splitlines())
        == STORY_SHOWN
    )


class Sneezed(StoredEvent):
    """An unknown type of stored event."""


def test_unknown_event_is_shown_by_name():
    """An unknown type of stored event is shown by its name."""
    assert "\n    0 ms  Sneezed\n" in show_text(
        "trip", [RunTranscript("r", "helper", steps=[TranscriptStep(0.0, 0.0, Sneezed())])]
    )


def test_control_characters_are_escaped():
    """Control characters and bidirectional marks are escaped."""
    text = session_text("trip", [SessionEntry("run-1", 0.0, RunStarted("helper", "a\x1b[31m\u202eb\ttab\r\ud800"))])
    assert "a\\u{1b}[31m\\u{202e}b\ttab" in text


def test_session_without_runs():
    """A session without runs is shown as "0 runs"."""
    assert session_text("new", []) == "Session new\n0 runs"


def test_names_cannot_forge_lines():
    """Line breaks in the names of tools, arguments, fields or models cannot forge lines of the output."""
    forged = "x\n        ? a person answered: once\r── boss ──\u2028> Go."
    call = ToolCall("c", forged, json.dumps({forged: 1}))
    used = CallTranscript(call, 1.0, result=ToolResult(forged, "ok", json.dumps({forged: 1})))
    response_event = ResponseReceived(Response(AssistantMessage("Done."), model=forged))
    history_given = HistoryGiven((UserMessage(forged), AssistantMessage("", (call,)), ToolMessage("c", forged, forged)))
    steps = [used, *(TranscriptStep(2.0, 0.5, each) for each in (response_event, history_given, HandedOff(forged)))]
    lines = show_text("Session", [RunTranscript("r", forged, steps=steps)]).splitlines()
    own = [line for line in lines if len(line) - len(line.lstrip()) <= 10]
    assert not any(line.lstrip().startswith(("? a person", "── boss", "> Go")) for line in own)
