"""What does a recording keep?"""

import json
import subprocess
import sys
import threading

import pytest

from agentkit.decisions import Decision
from agentkit.events import Approved, ResponseReceived, RunStarted, ToolCallFinished
from agentkit.messages import AssistantMessage, Request, Response, ToolCall, ToolResult, UserMessage
from agentkit.recording import PersonAsked, active, taped, told
from agentkit.sessions.cassettes.file import read_cassette
from agentkit.sessions.cassettes.recorder import Recorder

CALL = ToolCall("c1", "add", '{"a": 1}')
RESULT = ToolResult("add", "ok", "1")
RESPONSE = Response(AssistantMessage("Hi."))
REQUEST = Request((UserMessage("Hi."),))


@pytest.fixture
def recorder(tmp_path):
    """A recording that is going on."""
    return Recorder(tmp_path / "trip.cassette")


def lines(path):
    """The lines behind the header."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()[1:]]


def test_questions_and_milestones_are_written(recorder):
    """Each question with its answer, and what runs tell, stand there in the order in which they came."""
    with active(recorder):
        told("r", RunStarted("helper", "Hi."))
        taped(REQUEST, lambda: RESPONSE)
        taped(PersonAsked(CALL, Decision("ask", "level", "Dear.")), lambda: Approved("c1", "once"))
        taped(CALL, lambda: RESULT)
    recorder.finish()
    _, (began, request, person, call) = read_cassette(recorder.path)
    assert began.milestone == RunStarted("helper", "Hi.")
    assert [asking.answer for asking in (request, person, call)] == [RESPONSE, Approved("c1", "once"), RESULT]
    assert [asking.number for asking in (request, person, call)] == [1, 2, 3]
    assert request.at - request.seconds <= person.at <= call.at
    assert recorder.is_replaying is False


def test_what_a_run_tells_of_an_answer_is_not_written_twice(recorder):
    """A response and a result that a run tells as they came are named; one that was changed on its way is written."""
    changed = ToolResult("add", "ok", "1 [Note]")
    with active(recorder):
        for _ in range(2):
            taped(REQUEST, lambda: RESPONSE)
        told("r", ResponseReceived(RESPONSE))
        told("r", ResponseReceived(Response(AssistantMessage("Else."))))
        taped(CALL, lambda: RESULT)
        told("r", ToolCallFinished(CALL, RESULT))
        taped(CALL, lambda: RESULT)
        told("r", ToolCallFinished(CALL, changed))
    recorder.finish()
    events = [line.get("of") for line in lines(recorder.path) if "event" in line]
    assert events == [2, None, 3, None]
    assert [entry.milestone for entry in read_cassette(recorder.path)[1][2:4]] == [
        ResponseReceived(RESPONSE),
        ResponseReceived(Response(AssistantMessage("Else."))),
    ]


def test_what_a_tool_asks_is_marked(recorder):
    """What is asked and told inside of a tool call bears the number of the call; live answers are marked too."""

    def ask():
        told("inner", RunStarted("worker", "Go."))
        taped(REQUEST, lambda: RESPONSE)
        return RESULT

    with active(recorder):
        taped(CALL, ask, lambda _: True)
    recorder.finish()
    began, request, call = lines(recorder.path)
    assert (began["inside"], request["inside"], call["id"], call["live"]) == (1, 1, 1, True)
    assert "inside" not in call


def test_a_question_is_answered_once(recorder):
    """What comes after a question's first answer is not written down, and who says it is told so."""
    asked = recorder.asked(REQUEST)
    assert [asked.heard(RESPONSE), asked.heard(Response(AssistantMessage("Late.")))] == [True, False]
    recorder.finish()
    assert [entry.answer for entry in read_cassette(recorder.path)[1]] == [RESPONSE]


def test_the_time_that_is_up_is_written_once(recorder):
    """Each watch has a name by the part of the program that it is of, and notes its first reading without time left."""
    inside = recorder.asked(CALL).tape
    for watch, readings in ((recorder.watch(), (2.0, 0.0, -1.0)), (inside.watch(), (1.0,)), (inside.watch(), (0.0,))):
        assert tuple(map(watch.left, readings)) == readings
        assert watch() <= watch()
    recorder.finish()
    assert [(line["watch"], line["up"]) for line in lines(recorder.path)] == [("1", 2), ("1/2", 1)]


def test_a_recording_that_is_over_hears_nothing(recorder):
    """What a thread asks after the end is answered and not recorded; ending twice is no error."""
    recorder.finish()
    with active(recorder):
        assert taped(CALL, lambda: RESULT) is RESULT
        told("r", RunStarted("helper", "Hi."))
    recorder.finish(keep=False)
    assert lines(recorder.path) == []


def test_any_thread_can_be_recorded(recorder):
    """Questions that threads ask at the same time are written whole."""

    def work(number):
        with active(recorder):
            for turn in range(20):
                taped(Request((UserMessage(f"{number} {turn}"),)), lambda: RESPONSE)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.finish()
    asked = {entry.question.messages[0].content for entry in read_cassette(recorder.path)[1]}
    assert asked == {f"{number} {turn}" for number in range(4) for turn in range(20)}


def test_a_conversation_grows_the_file_by_what_is_new(recorder):
    """Every message is written once, however often it is sent."""
    messages = []
    with active(recorder):
        for turn in range(50):
            messages.append(UserMessage(f"turn {turn} " + "word " * 100))
            taped(Request(tuple(messages)), lambda: Response(AssistantMessage("Go on.")))
    recorder.finish()
    assert recorder.path.stat().st_size < 50 * 1_000
    assert len(read_cassette(recorder.path)[1][-1].question.messages) == 50


KILLED = """
import os, signal, sys
from agentkit.sessions.cassettes.recorder import Recorder
from agentkit.messages import ToolCall, ToolResult
from agentkit.recording import active, taped

with active(Recorder(sys.argv[1])):
    for number in range(3):
        taped(ToolCall("c", "add", str(number)), lambda: ToolResult("add", "ok", "1"))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_crash_keeps_what_was_recorded(tmp_path):
    """What was answered before a process is killed can be read from the file beside the cassette's place."""
    path = tmp_path / "trip.cassette"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60, check=False)
    assert done.returncode == -9
    assert [entry.question.arguments for entry in read_cassette(tmp_path / "trip.cassette.part")[1]] == ["0", "1", "2"]
    assert not path.exists()
