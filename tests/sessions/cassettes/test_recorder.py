"""Tests for the recorder: entries, tool calls, time limits, threads and crashes."""

import json
import subprocess
import sys
import threading

import pytest

from agentkit.decisions import Decision
from agentkit.events import Approved, ResponseReceived, RunStarted, ToolCallFinished
from agentkit.messages import AssistantMessage, Request, Response, ToolCall, ToolResult, UserMessage
from agentkit.recording import PersonAsked, active, record_event, record_or_replay
from agentkit.sessions.cassettes.file import read_cassette
from agentkit.sessions.cassettes.recorder import Recorder

CALL = ToolCall("c1", "add", '{"a": 1}')
RESULT = ToolResult("add", "ok", "1")
RESPONSE = Response(AssistantMessage("Hi."))
REQUEST = Request((UserMessage("Hi."),))


@pytest.fixture
def recorder(tmp_path):
    """An active recording."""
    return Recorder(tmp_path / "trip.cassette")


def lines(path):
    """Return the lines after the header."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()[1:]]


def test_questions_and_events_are_written(recorder):
    """Questions with their answers and stored events are recorded in order."""
    with active(recorder):
        record_event("r", RunStarted("helper", "Hi."))
        record_or_replay(REQUEST, lambda: RESPONSE)
        record_or_replay(PersonAsked(CALL, Decision("ask", "level", "Dear.")), lambda: Approved("c1", "once"))
        record_or_replay(CALL, lambda: RESULT)
    recorder.finish()
    _, (began, request, person, call) = read_cassette(recorder.path)
    assert began.event == RunStarted("helper", "Hi.")
    assert [exchange.answer for exchange in (request, person, call)] == [RESPONSE, Approved("c1", "once"), RESULT]
    assert [exchange.number for exchange in (request, person, call)] == [1, 2, 3]
    assert request.at - request.seconds <= person.at <= call.at
    assert recorder.is_replaying is False


def test_event_does_not_repeat_a_recorded_answer(recorder):
    """A stored event refers to a recorded answer by number; a changed answer is written in full."""
    changed = ToolResult("add", "ok", "1 [Note]")
    with active(recorder):
        for _ in range(2):
            record_or_replay(REQUEST, lambda: RESPONSE)
        record_event("r", ResponseReceived(RESPONSE))
        record_event("r", ResponseReceived(Response(AssistantMessage("Else."))))
        record_or_replay(CALL, lambda: RESULT)
        record_event("r", ToolCallFinished(CALL, RESULT))
        record_or_replay(CALL, lambda: RESULT)
        record_event("r", ToolCallFinished(CALL, changed))
    recorder.finish()
    events = [line.get("of") for line in lines(recorder.path) if "event" in line]
    assert events == [2, None, 3, None]
    assert [entry.event for entry in read_cassette(recorder.path)[1][2:4]] == [
        ResponseReceived(RESPONSE),
        ResponseReceived(Response(AssistantMessage("Else."))),
    ]


def test_lines_inside_a_tool_call_are_marked(recorder):
    """Lines recorded inside a tool call contain the call's number, and live answers are marked."""

    def ask():
        record_event("inner", RunStarted("worker", "Go."))
        record_or_replay(REQUEST, lambda: RESPONSE)
        return RESULT

    with active(recorder):
        record_or_replay(CALL, ask, lambda _: True)
    recorder.finish()
    began, request, call = lines(recorder.path)
    assert (began["inside"], request["inside"], call["id"], call["live"]) == (1, 1, 1, True)
    assert "inside" not in call


def test_only_first_answer_is_recorded(recorder):
    """Only the first answer to a question is recorded; later ones return False."""
    question = recorder.open_question(REQUEST)
    assert [question.record_answer(RESPONSE), question.record_answer(Response(AssistantMessage("Late.")))] == [
        True,
        False,
    ]
    recorder.finish()
    assert [entry.answer for entry in read_cassette(recorder.path)[1]] == [RESPONSE]


def test_time_up_is_recorded_once(recorder):
    """Each watch is named after its part of the program, and its first reading without remaining time is recorded."""
    inside = recorder.open_question(CALL).tape
    for watch, readings in (
        (recorder.new_clock(), (2.0, 0.0, -1.0)),
        (inside.new_clock(), (1.0,)),
        (inside.new_clock(), (0.0,)),
    ):
        assert tuple(map(watch.seconds_left, readings)) == readings
        assert watch() <= watch()
    recorder.finish()
    assert [(line["watch"], line["up"]) for line in lines(recorder.path)] == [("1", 2), ("1/2", 1)]


def test_nothing_is_recorded_after_finish(recorder):
    """After `finish`, questions are answered but not recorded, and `finish` can be called again."""
    recorder.finish()
    with active(recorder):
        assert record_or_replay(CALL, lambda: RESULT) is RESULT
        record_event("r", RunStarted("helper", "Hi."))
    recorder.finish(keep=False)
    assert lines(recorder.path) == []


def test_any_thread_can_be_recorded(recorder):
    """Requests made by several threads at the same time are recorded intact."""

    def work(number):
        with active(recorder):
            for turn in range(20):
                record_or_replay(Request((UserMessage(f"{number} {turn}"),)), lambda: RESPONSE)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.finish()
    questions = {entry.question.messages[0].content for entry in read_cassette(recorder.path)[1]}
    assert questions == {f"{number} {turn}" for number in range(4) for turn in range(20)}


def test_each_message_is_written_once(recorder):
    """Each message is written once, however often it is sent."""
    messages = []
    with active(recorder):
        for turn in range(50):
            messages.append(UserMessage(f"turn {turn} " + "word " * 100))
            record_or_replay(Request(tuple(messages)), lambda: Response(AssistantMessage("Go on.")))
    recorder.finish()
    assert recorder.path.stat().st_size < 50 * 1_000
    assert len(read_cassette(recorder.path)[1][-1].question.messages) == 50


KILLED = """
import os, signal, sys
from agentkit.sessions.cassettes.recorder import Recorder
from agentkit.messages import ToolCall, ToolResult
from agentkit.recording import active, record_or_replay

with active(Recorder(sys.argv[1])):
    for number in range(3):
        record_or_replay(ToolCall("c", "add", str(number)), lambda: ToolResult("add", "ok", "1"))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_recording_survives_a_crash(tmp_path):
    """After a process is killed, its answers can be read from the partial cassette file."""
    path = tmp_path / "trip.cassette"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60, check=False)
    assert done.returncode == -9
    assert [entry.question.arguments for entry in read_cassette(tmp_path / "trip.cassette.part")[1]] == ["0", "1", "2"]
    assert not path.exists()
