"""Tests for the playback of cassettes: matching, divergence, charges and time."""

import math
from dataclasses import replace

import pytest

from agentkit.decisions import Decision
from agentkit.errors import RateLimited, ReplayError
from agentkit.events import Approved, RunStarted
from agentkit.messages import AssistantMessage, Request, Response, ToolCall, ToolResult, UserMessage
from agentkit.recording import PersonAsked, active, record_event, record_or_replay
from agentkit.sessions.cassettes.playback import Player
from agentkit.sessions.cassettes.recorder import Recorder
from agentkit.usage import Charge

CALL = ToolCall("c1", "add", '{"a": 1}')
PERSON = PersonAsked(CALL, Decision("ask", "level", "Dear."))


def request(*words):
    """Return a request with a message for each word."""
    return Request(tuple(UserMessage(word) for word in words))


def say(text):
    """Return a response."""
    return Response(AssistantMessage(text))


@pytest.fixture
def cassette(tmp_path):
    """Record requests with their answers; return the path."""

    def record(*pairs, live=()):
        recorder = Recorder(tmp_path / "trip.cassette")
        with active(recorder):
            for question, answer in pairs:
                request = recorder.open_question(question)
                request.record_answer(answer, is_live=question in live)
        recorder.finish()
        return recorder.path

    return record


def test_answers_come_in_any_order(cassette):
    """Requests may be replayed in another order; equal requests are answered in the recorded order."""
    path = cassette(
        (request("a"), say("1")),
        (request("b"), say("2")),
        (request("a"), say("3")),
        (CALL, ToolResult("add", "ok", "4")),
        (PERSON, Approved("c1", "once")),
    )
    player = Player(path)
    assert [player.replay(PERSON), player.replay(CALL)] == [Approved("c1", "once"), ToolResult("add", "ok", "4")]
    assert [player.replay(request(word)).text for word in "baa"] == ["2", "1", "3"]
    player.finish()


def test_requests_with_different_lengths_get_their_own_answers(cassette):
    """Requests with different maximum lengths first get their own answers, and then any."""
    questions = [replace(request("a"), settings={"max_tokens": most}) for most in (100, 200, 300)]
    player = Player(cassette(*zip(questions, map(say, "123"), strict=True)))
    assert [player.replay(question).text for question in (questions[1], request("a"), questions[2])] == ["2", "1", "3"]


def test_errors_are_replayed(cassette):
    """A recorded model error is replayed."""
    player = Player(cassette((request("a"), RateLimited("Slow down.", status=429))))
    assert str(player.replay(request("a"))) == "Slow down."


def test_time_is_replayed(cassette):
    """Before the first answer, the time is that of the first request; then that of the latest answer."""
    player = Player(cassette((request("a"), say("1")), (request("b"), say("2"))))
    began = player.now()
    player.replay(request("b"))
    later = player.now()
    player.replay(request("a"))
    assert began <= later == player.now()


def test_unknown_request_raises_with_a_diff(cassette):
    """An unrecorded request raises a ReplayError with a diff to the most similar recorded request."""
    player = Player(cassette((request("x"), say("1")), (request("a", "b", "c"), say("2"))))
    with pytest.raises(ReplayError) as caught:
        player.replay(request("a", "b", "d"))
    assert isinstance(caught.value, AssertionError)
    assert str(caught.value).splitlines()[1:-1] == [" user: a", " user: b", "-user: c", "+user: d"]
    assert "the model is called" in str(caught.value)
    assert "--record=all" in str(caught.value)


def test_no_unused_answer_of_the_kind(cassette):
    """If no unused answer of the kind is left, the error shows only the current request."""
    player = Player(cassette((request("a"), say("1"))))
    with pytest.raises(ReplayError, match=r"a tool is called as it is now. No unused answer of this kind"):
        player.replay(CALL)
    with pytest.raises(ReplayError, match=r"a person is asked[^+]*\+arguments"):
        player.replay(PERSON)


def test_secrets_are_redacted_in_the_diff(cassette):
    """The ReplayError redacts keys in the diff."""
    player = Player(cassette((request("a"), say("1"))))
    with pytest.raises(ReplayError) as caught:
        player.replay(request("sk-" + "a1b2" * 8))
    assert "[redacted: API key]" in str(caught.value)


def test_caught_divergence_is_raised_at_the_end(cassette):
    """The first divergence fails the replay even if the program caught its error."""
    player = Player(cassette((request("a"), say("1"))))
    for word in "bc":
        with pytest.raises(ReplayError):
            player.replay(request(word))
    with pytest.raises(ReplayError, match=r"\+user: b"):
        player.finish()
    player.finish(keep=False)


def test_unused_answers_fail_the_replay(cassette):
    """Unused answers raise a ReplayError at the end, unless the replay is partial or discarded."""
    path = cassette((request("a"), say("1")), (CALL, ToolResult("add", "ok", "1")))
    with pytest.raises(ReplayError, match=r"2 answers that were not used. First, the model is called"):
        Player(path).finish()
    Player(path, partial=True).finish()
    Player(path).finish(keep=False)
    player = Player(path)
    player.replay(request("a"))
    with pytest.raises(ReplayError, match=r"one answer that was not used. First, a tool"):
        player.finish()


def test_requests_inside_a_tool_call_are_not_replayed(tmp_path):
    """Requests recorded inside a tool call do not have to be replayed, as the call's result is recorded."""
    recorder = Recorder(tmp_path / "trip.cassette")

    def ask():
        record_or_replay(request("inner"), lambda: say("1"))
        return ToolResult("add", "ok", "1")

    with active(recorder):
        record_or_replay(CALL, ask)
    recorder.finish()
    player = Player(recorder.path)
    with active(player):
        record_event("r", RunStarted("helper", "Hi."))
        assert record_or_replay(CALL, ask).content == "1"
    player.finish()


def test_live_tool_call_runs_again(tmp_path):
    """A tool call with a live result runs again, and its inner requests are replayed."""
    recorder = Recorder(tmp_path / "trip.cassette")
    questions = []

    def ask():
        questions.append(record_or_replay(request("inner"), lambda: say("1")).text)
        return ToolResult("pass_on", "ok", "Passed on.", object())

    for opened in (lambda: recorder, lambda: Player(recorder.path)):
        tape = opened()
        with active(tape):
            record_or_replay(CALL, ask, lambda result: result.value is not None)
        tape.finish()
    assert questions == ["1", "1"]


class Account:
    """An account that records its charges."""

    def __init__(self, charged=None):
        self.charged = charged
        self.charges = []

    def charge(self, charge):
        """Record the charge."""
        self.charges.append(charge)


def test_charge_is_replayed(tmp_path):
    """The recorded charge of an answer is charged again on replay; an empty charge is not."""
    recorder = Recorder(tmp_path / "trip.cassette")
    with active(recorder):
        record_or_replay(
            CALL, lambda: ToolResult("add", "ok", "1"), account=Account(Charge(30, 4, {"tool_calls": 2}, (0.25,)))
        )
        record_or_replay(request("a"), lambda: say("1"), account=Account(Charge()))
    recorder.finish()
    account, player = Account(), Player(recorder.path)
    assert player.replay(CALL, account).content == "1"
    assert player.replay(request("a"), account).text == "1"
    assert account.charges == [Charge(30, 4, {"tool_calls": 2}, (0.25,))]


def test_time_is_up_at_the_recorded_reading(tmp_path):
    """A replayed watch expires at the same reading as the recorded one."""
    recorder = Recorder(tmp_path / "trip.cassette")
    watch = recorder.new_clock()
    for seconds in (5.0, 4.0, -1.0):
        watch.seconds_left(seconds)
    recorder.finish()
    player = Player(recorder.path)
    watches = player.new_clock(), player.new_clock()
    assert [watches[0].seconds_left(9.0) for _ in range(4)] == [math.inf, math.inf, 0.0, 0.0]
    assert watches[1].seconds_left(-9.0) == math.inf
    assert watches[0]() == player.now()


def test_comparison_of_long_conversations_is_cached(cassette):
    """The comparison of a message is cached, and the cache is bounded."""
    messages = request(*(f"word {number}" for number in range(60))).messages
    rows = [Request(messages[:count]) for count in range(60)]
    player = Player(cassette(*((row, say(str(len(row.messages)))) for row in rows)))
    assert [player.replay(row).text for row in rows] == [str(count) for count in range(60)]
    player.finish()
    many = [str(number) for number in range(11_000)]
    player = Player(cassette((request(*many), say("1")), (request(*many), say("2"))))
    assert [player.replay(request(*many)).text for _ in range(2)] == ["1", "2"]
