"""Does a conversation outlive its runs, its objects and its processes?"""

import copy
import pickle
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentkit.decisions import Decision, Verdict
from agentkit.errors import SessionError
from agentkit.events import (
    HistoryGiven,
    LimitReached,
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
    Response,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentkit.sessions.session import Session
from agentkit.sessions.state import RunState
from agentkit.usage import Usage

ALLOWED = Decision(Verdict.ALLOW, "level", "It is safe.")
ASKED = Decision(Verdict.ASK, "level", "It is not safe.")
SPENT = Usage(10, 5, requests=1)


@pytest.fixture(params=["no store", "memory", "sqlite", "postgres"])
def any_place(request, tmp_path):
    """Where a session can live: in its object alone, or in each kind of store."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return {"no store": None, "memory": ":memory:", "sqlite": tmp_path / "sessions.db"}[request.param]


@pytest.fixture
def session(any_place):
    """A session of each kind."""
    session = Session("trip") if any_place is None else Session.open(any_place, "trip")
    yield session
    if session.store is not None:
        session.store.close()


def test_a_session_says_its_name_and_its_place(tmp_path):
    """A session is shown with its name, and with the store that keeps it, if any."""
    assert repr(Session("trip")) == "Session('trip')"
    assert repr(Session.open(":memory:", "trip")) == "Session('trip', MemoryStore())"
    assert repr(Session.open(tmp_path / "s.db", "trip")) == f"Session('trip', SQLiteStore('{tmp_path / 's.db'}'))"


def test_place_in_the_place_of_a_store_is_told():
    """A file given where a store stands is answered with how a session is opened."""
    with pytest.raises(SessionError, match=r"Write Session.open\('trips.db', 'trip'\)"):
        Session("trip", "trips.db")


def tell(run, *milestones):
    """Let things happen in a run, as its loop and its driver do."""
    for milestone in milestones:
        run.progress.apply(milestone)
        run.keep(milestone)


def call(number=1, name="calculator"):
    """A wish for a tool."""
    return ToolCall(f"call_{number}", name, "{}")


def says(text="", *calls):
    """The model's answer."""
    return ResponseReceived(Response(AssistantMessage(text, calls), usage=SPENT))


def result(used, text="42", whole=None):
    """What came of a call."""
    return ToolCallFinished(used, ToolResult(used.name, "ok", text, decision=ALLOWED, whole=whole))


def talk(session, prompt="Hi", answer="Hello"):
    """A run from prompt to answer; its id."""
    run = session.begin()
    tell(run, RunStarted("helper", prompt, len(run.history)), says(answer), RunEnded("done", answer))
    run.close()
    return run.id


def leave(session, *milestones):
    """A run that is left in the middle, as by a kill: what it kept stays, and nobody holds it."""
    run = session.begin()
    tell(run, RunStarted("helper", "Hi", len(run.history)), *milestones)
    run._release()
    return run.id


def pause(session, used):
    """A run that is paused at a call."""
    run = session.begin()
    tell(run, RunStarted("helper", "Hi"), says("", used), ToolCallPostponed(used, "May I?", ASKED), RunEnded("paused"))
    run.close()
    return run


def other(session):
    """The same session as another process sees it."""
    return pickle.loads(pickle.dumps(session)) if session.store is None else Session(session.name, session.store)


def is_valid(messages):
    """Whether each call has exactly one result, right behind the message that made it, and no id comes twice."""
    open_ids, seen = [], set()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.call_id not in open_ids:
                return False
            open_ids.remove(message.call_id)
        elif open_ids:
            return False
        if isinstance(message, AssistantMessage):
            open_ids = [used.id for used in message.tool_calls]
            if seen.intersection(open_ids) or len(set(open_ids)) < len(open_ids):
                return False
            seen.update(open_ids)
    return not open_ids


def test_runs_are_entered_when_they_end(session):
    """What a run said is in the conversation when it has ended, and the next run begins with it."""
    run = session.begin()
    tell(run, RunStarted("helper", "Hi"), says("Hello"))
    assert session.messages == ()
    tell(run, RunEnded("done", "Hello"))
    run.close()
    run.close()  # a second time does nothing
    assert session.messages == (UserMessage("Hi"), AssistantMessage("Hello"))
    follower = session.begin()
    assert follower.history == session.messages
    assert follower.progress.history == 2
    follower.close()
    assert session.usage == SPENT
    assert other(session).messages == session.messages


def test_a_run_that_never_began_leaves_nothing(session):
    """A run that is closed before anything has happened is not entered, and not kept."""
    session.begin().close()
    assert session.messages == ()
    assert session.entries == []


def test_runs_side_by_side_are_entered_in_the_order_of_their_ends(session):
    """Of two runs at the same time, each enters its own in one piece, first the one that ends first."""
    first, second = session.begin(), session.begin()
    tell(first, RunStarted("helper", "1"), says("one"))
    tell(second, RunStarted("helper", "2"), says("two"), RunEnded("done", "two"))
    second.close()
    tell(first, RunEnded("done", "one"))
    first.close()
    texts = [UserMessage("2"), AssistantMessage("two"), UserMessage("1"), AssistantMessage("one")]
    assert list(session.messages) == texts
    assert list(other(session).messages) == texts


def test_a_run_that_is_cut_off_goes_on(session):
    """A run that is closed before its end stands in the conversation as it is, and goes on like one that was killed."""
    run, used = session.begin(), call()
    tell(run, RunStarted("helper", "Hi"), says("Wait", used), ToolCallStarted(used, ALLOWED))
    run.close()
    assert session.unfinished == (run.id,)
    assert is_valid(session.messages)
    assert "whether it took effect is unknown" in session.messages[-1].content
    assert session.usage == SPENT
    assert other(session).messages == session.messages
    again = session.reopen()
    assert again.id == run.id
    assert session.messages == ()
    assert [step.result for step in again.progress.steps.values()] == [None]
    tell(again, RunResumed(), result(used), says("Done"), RunEnded("done", "Done"))
    again.close()
    assert session.unfinished == ()
    assert session.messages[2:] == (ToolMessage(used.id, used.name, "42"), AssistantMessage("Done"))
    assert other(session).messages == session.messages


def test_a_run_that_is_cut_off_is_interrupted_by_the_next(session):
    """When something else is asked first, a run that was cut off is entered as it stood, and cannot go on any more."""
    run, used = session.begin(), call()
    tell(run, RunStarted("helper", "Hi"), says("Wait", used), ToolCallStarted(used, ALLOWED))
    run.close()
    before = session.messages
    follower = session.begin()
    assert follower.history == before
    follower.close()
    assert session.unfinished == ()
    assert session.messages == before
    assert other(session).messages == before


def test_a_result_that_is_known_is_not_lost_by_a_cut(session):
    """A call whose result was kept, but that the loop was not told of when it was cut off, keeps its result."""
    run, used = session.begin(), call()
    tell(run, RunStarted("helper", "Hi"), says("", used), ToolCallStarted(used, ALLOWED))
    run.keep(result(used))
    run.close()
    assert session.messages[-1] == ToolMessage(used.id, used.name, "42")
    assert other(session).messages == session.messages


def test_what_the_loop_alone_knows_is_kept_at_the_end(session):
    """What was applied but not yet kept when a run was cut off is kept when it is closed."""
    run = session.begin()
    tell(run, RunStarted("helper", "Hi"))
    run.progress.apply(says("Hello"))
    run.close()
    assert other(session).messages == (UserMessage("Hi"), AssistantMessage("Hello"))


def test_a_killed_run_is_entered_by_the_next(session):
    """The next run ends a killed one as interrupted: finished calls keep their results, others say what is known."""
    if session.store is None:
        pytest.skip("without a store nothing outlives a kill")
    done, begun, wished = call(1), call(2), call(3)
    killed = leave(
        session,
        says("", done, begun, wished),
        ToolCallStarted(done, ALLOWED),
        result(done),
        ToolCallStarted(begun, ALLOWED),
    )
    assert session.unfinished == (killed,)
    before = session.messages
    run = session.begin()
    assert run.history == before
    assert is_valid(run.history)
    contents = [message.content for message in run.history if isinstance(message, ToolMessage)]
    assert contents[0] == "42"
    assert "whether it took effect is unknown" in contents[1]
    assert "it has not taken effect" in contents[2]
    assert session.unfinished == ()
    run.close()


def test_a_killed_run_goes_on(session):
    """A killed run goes on where it was: it knows what it has done, and nothing is entered twice."""
    if session.store is None:
        pytest.skip("without a store nothing outlives a kill")
    used = call()
    killed = leave(session, says("", used), ToolCallStarted(used, ALLOWED), result(used))
    run = session.reopen()
    assert run.id == killed
    assert not run.progress.steps
    tell(run, RunResumed(), says("It is 42."), RunEnded("done", "It is 42."))
    run.close()
    assert len(session.messages) == 4
    assert is_valid(session.messages)
    assert session.usage == SPENT + SPENT
    assert run.progress.iterations == 2
    assert other(session).messages == session.messages


def test_a_reopened_run_has_a_state_of_its_own(session):
    """What a reopened run tells the store is not applied to it a second time when the session is read."""
    used = call()
    pause(session, used)
    run = session.reopen()
    before = len(run.progress.milestones)
    tell(run, RunResumed(), result(used), says("Done"))
    assert session.messages == ()
    assert len(run.progress.milestones) == before + 3
    assert run.progress.iterations == 2
    assert len(run.progress.tool_calls) == 1
    tell(run, RunEnded("done", "Done"))
    run.close()
    assert len(session.messages) == 4
    assert is_valid(session.messages)


def test_a_paused_run_waits(session):
    """A paused run is not entered, not ended by the next run, and found again."""
    paused = pause(session, call())
    talk(session, "Meanwhile", "Yes?")
    assert session.unfinished == (paused.id,)
    assert [message.content for message in session.messages if isinstance(message, UserMessage)] == ["Meanwhile"]
    run = session.reopen()
    assert run.progress.status == "paused"
    run.close()


def test_a_paused_run_that_is_closed_again_waits_on(session):
    """A paused run that was reopened and paused once more can be reopened once more."""
    pause(session, call())
    run = session.reopen()
    tell(run, RunResumed(), RunEnded("paused"))
    run.close()
    assert session.unfinished == (run.id,)


def test_a_run_at_its_limit_goes_on(session):
    """A run that ended at a limit was entered, goes on, and enters only what is new."""
    run, used = session.begin(), call()
    tell(run, RunStarted("helper", "Hi"), says("", used), result(used))
    tell(run, LimitReached("iterations", "Enough."), RunEnded("limit"))
    run.close()
    between = talk(session, "Meanwhile", "Yes?")
    assert between not in session.unfinished
    again = session.reopen(run.id, RunState.of(run.progress.milestones))
    assert again.progress.limit is not None
    tell(again, RunResumed(), says("It is 42."), RunEnded("done", "It is 42."))
    again.close()
    assert [type(message).__name__ for message in session.messages] == [
        *("UserMessage", "AssistantMessage", "ToolMessage", "UserMessage", "AssistantMessage", "AssistantMessage")
    ]
    assert is_valid(session.messages)
    assert session.usage == SPENT + SPENT + SPENT
    assert other(session).messages == session.messages


def test_an_ended_run_goes_on_for_another_reader(session):
    """A session that has let an ended run go takes in what it says later, elsewhere, all the same."""
    if session.store is None:
        pytest.skip("without a store there are no other readers")
    run = session.begin()
    tell(run, RunStarted("helper", "Hi"), says("One"), RunEnded("limit"))
    run.close()
    reader = other(session)
    assert len(reader.messages) == 2
    again = session.reopen(run.id)
    tell(again, RunResumed(), says("Two"), RunEnded("done"))
    again.close()
    assert reader.messages == session.messages
    assert len(reader.messages) == 3


def test_a_run_goes_on_once(session):
    """A result from which a run has gone on is not a place to go on from once more."""
    paused = pause(session, call())
    known = RunState.of(paused.progress.milestones)
    run = session.reopen(paused.id, known)
    with pytest.raises(SessionError, match=r"is in progress elsewhere\. Wait until it has ended"):
        session.reopen(paused.id, known)
    tell(run, RunResumed(), result(call()), says("Done"), RunEnded("done"))
    run.close()
    with pytest.raises(SessionError, match="was resumed since"):
        session.reopen(paused.id, known)


def test_a_run_from_elsewhere_is_entered_whole(session):
    """A run that this session does not know goes on in it, and all of it is kept."""
    paused = pause(Session(), call())
    run = session.reopen(paused.id, paused.progress)
    tell(run, RunResumed(), result(call()), says("Done"), RunEnded("done"))
    run.close()
    assert len(session.messages) == 4
    assert other(session).messages == session.messages
    assert paused.progress.status == "paused"


def test_a_run_from_elsewhere_brings_what_was_said_before_it(session):
    """An empty conversation in which a run from elsewhere goes on begins with what was said before that run."""
    earlier = (UserMessage("Good morning"), AssistantMessage("Good morning!"))
    paused = pause(Session(), call())
    session.reopen(paused.id, paused.progress, earlier).close()
    assert session.messages[:2] == earlier == other(session).messages[:2]


def test_what_is_no_conversation_is_not_entered(session):
    """Messages that are no valid conversation are refused, and leave nothing; no messages are nothing to enter."""
    for messages in ([ToolMessage("a", "clock", "12:00")], [AssistantMessage("", (call(),))], ["Hi"]):
        with pytest.raises(SessionError):
            session.append(messages)
    session.append([])
    assert (session.messages, session.entries) == ((), [])


def test_there_must_be_a_run_to_go_on_with(session):
    """Without a run that was killed or is paused, there is none to go on with."""
    with pytest.raises(SessionError, match="no run to resume"):
        session.reopen()
    with pytest.raises(SessionError, match="no run 'nobody'"):
        session.reopen("nobody")
    session.reopen("nobody", RunState()).close()  # the failed try holds nothing


def test_messages_from_elsewhere_are_entered(session):
    """Messages that were said elsewhere become part of the conversation."""
    talk(session)
    session.append([UserMessage("And?"), AssistantMessage("Well.")])
    assert [type(message) for message in session.messages] == [UserMessage, AssistantMessage] * 2
    assert other(session).messages == session.messages


def test_ids_of_calls_are_told_apart(session):
    """No two calls of a session have one id, not even in runs that go on at the same time."""
    first, second = session.begin(), session.begin()
    one = first.tell_apart(AssistantMessage("", (ToolCall("call_0", "a", "{}"), ToolCall("", "b", "{}"))))
    two = second.tell_apart(AssistantMessage("", (ToolCall("call_0", "a", "{}"),)))
    ids = [used.id for message in (one, two) for used in message.tool_calls]
    assert len(set(ids)) == 3
    assert "" not in ids
    assert first.tell_apart(AssistantMessage("Hello")) == AssistantMessage("Hello")
    first.close()
    second.close()


def test_ids_used_elsewhere_are_known(session):
    """An id that a run in another process has used already is not given again."""
    if session.store is None:
        pytest.skip("without a store there are no other processes")
    elsewhere, run = other(session).begin(), session.begin()
    tell(elsewhere, RunStarted("helper", "Hi"), says("", call(0)))
    message = run.tell_apart(AssistantMessage("", (call(0),)))
    assert message.tool_calls[0].id != "call_0"
    run.close()
    elsewhere.close()


def test_ids_that_clash_all_the_same_are_changed(session):
    """When two processes use one id at the same instant, the run that ends later is entered with other ids."""
    first, second, used = session.begin(), session.begin(), call(0)
    for run, text in ((first, "one"), (second, "two")):
        note = f'{text}; read_more(handle="call_0") or {{"read_more": "read_more(handle=\\"call_0\\")"}}'
        tell(run, RunStarted("helper", "Hi"), says("", used), result(used, note, whole=text * 9), RunEnded("done"))
    first.close()
    second.close()
    assert is_valid(session.messages)
    assert len(session.messages) == 6
    changed = session.messages[4].tool_calls[0].id
    later = session.begin()
    assert (later.whole("call_0"), later.whole(changed)) == ("one" * 9, "two" * 9)
    later.close()
    assert session.messages[2].content.count("call_0") == session.messages[5].content.count(changed) == 2
    assert other(session).messages == session.messages


def test_whole_results_can_be_read_later(session):
    """The whole text of a result is there in its run and in later ones; of older than fifty results, what was shown."""
    for number in range(52):
        run, used = session.begin(), call(number)
        tell(run, RunStarted("helper", "Hi"), says("", used), result(used, "4…2", whole=f"{number}"), RunEnded("done"))
        assert run.whole(f"call_{number}") == f"{number}"
        run.close()
    later = other(session).begin() if session.store is not None else session.begin()
    assert session.messages
    assert later.whole("call_51") == "51"
    assert later.whole("call_2") == "2"
    assert later.whole("call_1") == "4…2"
    assert later.whole("nothing") is None
    later.close()


def test_whole_results_are_told_from_others(session):
    """A session knows whether any result was shown in part, and a run finds each of several."""
    run = session.begin()
    tell(run, RunStarted("helper", "Hi"), says("", call(1), call(2)), result(call(1), "all"))
    assert not run.has_wholes
    tell(run, result(call(2), "4…2", whole="42"), RunEnded("done"))
    assert run.has_wholes
    assert (run.whole("call_1"), run.whole("call_2")) == ("all", "42")
    run.close()
    assert session.messages
    later = session.begin()
    assert (later.has_wholes, later.whole("call_2")) == (True, "42")
    later.close()


def test_a_session_is_renamed(session):
    """A renamed session goes on under its new name."""
    talk(session)
    session.rename("Reise")
    assert session.name == "Reise"
    talk(session)
    assert len(session.messages) == 4


def test_a_session_is_deleted(session):
    """A deleted session is empty, and may begin anew."""
    talk(session)
    session.delete()
    assert session.messages == ()
    talk(session)
    assert len(session.messages) == 2


def test_a_session_that_was_replaced_is_read_anew(session):
    """Whoever had read a session that was deleted meanwhile sees the one that has its name now."""
    if session.store is None:
        pytest.skip("without a store there are no other readers")
    talk(session, "old")
    reader = other(session)
    assert len(reader.messages) == 2
    session.delete()
    assert reader.messages == ()
    talk(session, "new")
    assert reader.messages[0] == UserMessage("new")


def test_a_session_begins_anew(session):
    """An emptied session has the same name, and what a store held of it is kept under another."""
    talk(session)
    new = session.anew()
    assert (new.name, new.messages) == ("trip", ())
    talk(new, "Hi again")
    if session.store is not None:
        kept = [summary.name for summary in session.store.summaries() if summary.name != "trip"]
        assert len(kept) == 1
        assert kept[0].startswith("trip, until 20")
        assert Session(kept[0], session.store).messages[0] == UserMessage("Hi")
    assert Session("empty").anew().messages == ()


def test_a_fork_begins_with_the_first_messages(session):
    """A fork has the first messages of the session, and goes on by itself."""
    talk(session, "1")
    talk(session, "2")
    fork = session.fork("other way", at=2)
    assert fork.messages == session.messages[:2]
    talk(fork, "3")
    assert (len(fork.messages), len(session.messages)) == (4, 4)
    assert session.fork("all of it").messages == session.messages
    assert isinstance(fork.entries[0].milestone, HistoryGiven)


def test_a_fork_needs_a_free_name(session):
    """A fork does not take the place of another session."""
    if session.store is None:
        pytest.skip("without a store names are free")
    talk(session)
    with pytest.raises(SessionError, match="already"):
        session.fork("trip")
    with pytest.raises(SessionError, match="1 to 200"):
        session.fork("")


def test_an_exported_session_comes_back(session, tmp_path):
    """A session that was exported is restored as it was, also under another name, with its paused run."""
    talk(session, "Hà Nội \ud83d?")
    pause(session, call())
    session.export(tmp_path / "trip.jsonl")
    restored = Session.restore(tmp_path / "trip.jsonl", ":memory:")
    assert restored.name == "trip"
    assert restored.messages == session.messages
    if session.store is not None:
        assert restored.unfinished == session.unfinished
        assert restored.usage == session.usage
        with pytest.raises(SessionError, match="already"):
            Session.restore(tmp_path / "trip.jsonl", session.store)
        assert Session.restore(tmp_path / "trip.jsonl", session.store, "twin").messages == session.messages


def test_a_session_is_shown(session):
    """A session is shown as text that a person can read."""
    talk(session, "How far is it?", "Ten miles.")
    assert session.show().startswith("Session trip\n1 run")
    assert "Ten miles." in session.show()
    assert Session("new").show() == "Session new\n0 runs"


def test_a_session_can_be_pickled(session):
    """A pickled session is the same conversation, and can be used on."""
    talk(session)
    pause(session, call())
    copied = pickle.loads(pickle.dumps(session))
    assert copied.messages == session.messages
    assert copied.name == "trip"
    assert copied.unfinished == session.unfinished
    talk(copied)
    assert len(copied.messages) == 4
    assert copy.copy(session).messages == session.messages
    if copied.store is not None:
        copied.store.close()


def test_many_threads_share_a_session(session):
    """Runs in many threads are all entered, each in one piece, and no id comes twice."""

    def go(number):
        run = session.begin()
        message = run.tell_apart(AssistantMessage("", (ToolCall("call_0", f"tool_{number}", "{}"),)))
        used = message.tool_calls[0]
        tell(run, RunStarted("helper", f"{number}"), ResponseReceived(Response(message)), result(used, f"{number}"))
        tell(run, says(f"It is {number}."), RunEnded("done"))
        run.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(go, range(20)))
    assert is_valid(session.messages)
    pieces = [session.messages[at : at + 4] for at in range(0, 80, 4)]
    assert all(f"It is {prompt.content}." == answer.text for prompt, _, _, answer in pieces)
    assert sorted(int(prompt.content) for prompt, *_ in pieces) == list(range(20))
    assert other(session).messages == session.messages


def test_two_processes_share_a_session(shared_place):
    """Runs in two processes are all entered, and both see the same conversation."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from test_session import *\n"
        "session = Session.open(sys.argv[2], 'trip')\n"
        "for number in range(15): talk(session, sys.argv[3], str(number))"
    )
    command = [sys.executable, "-c", program, str(pytest.importorskip("pathlib").Path(__file__).parent), shared_place]
    with subprocess.Popen([*command, "A"]) as one, subprocess.Popen([*command, "B"]) as two:
        assert one.wait(60) == two.wait(60) == 0
    session = Session.open(shared_place, "trip")
    assert is_valid(session.messages)
    said = list(zip(*[iter(session.messages)] * 2, strict=True))
    for who in "AB":
        assert [answer.text for prompt, answer in said if prompt.content == who] == [str(n) for n in range(15)]
    session.store.close()


def test_two_that_find_a_killed_run_end_it_once(shared_place):
    """When several begin at the same time, one of them ends the killed run, and none fails."""
    session = Session.open(shared_place, "trip")
    leave(session, says("Hm", call()))
    readers = [Session.open(shared_place, "trip") for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for run in pool.map(Session.begin, readers):
            run.close()
    assert len(session.messages) == 3
    assert [type(entry.milestone) for entry in session.entries].count(RunEnded) == 1
    for one in (session, *readers):
        one.store.close()


def test_a_run_that_another_has_ended_meanwhile_is_left_alone(tmp_path):
    """A killed run that another process has ended since it was last read is not ended again."""
    session = Session.open(tmp_path / "sessions.db", "trip")
    killed = leave(session, says("Hm"))
    assert session.unfinished == (killed,)
    other(session).begin().close()
    session._interrupt(killed)
    release = session.store.hold("trip", "run-9")
    session._interrupt("run-9")
    release()
    assert [type(entry.milestone) for entry in session.entries].count(RunEnded) == 1
    session.store.close()


def test_nothing_is_kept_behind_a_gap(tmp_path):
    """When a part of a run cannot be written, nothing more of it is, and the next run enters it as interrupted."""
    session = Session.open(tmp_path / "sessions.db", "trip")
    run = session.begin()
    tell(run, RunStarted("helper", "Hi"), says("One"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(SessionError, match="nothing was written"):
            tell(run, says("x" * 1_000_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with pytest.raises(SessionError, match="the run cannot continue"):
        tell(run, says("Three"))
    run.close()
    follower = session.begin()
    assert follower.history == (UserMessage("Hi"), AssistantMessage("One"))
    follower.close()
    session.store.close()


def test_looking_for_sessions_makes_no_file(tmp_path):
    """Where there is no file there are no sessions, and none is made by asking."""
    assert Session.summaries(tmp_path / "new" / "none.db") == []
    assert list(tmp_path.iterdir()) == []


def test_sessions_have_a_place_by_default():
    """Without a place, sessions are kept in one file in the state folder, each under its name."""
    session = Session.open(name="trip")
    talk(session)
    assert session.store.path.name == "sessions.db"
    assert [summary.name for summary in Session.summaries()] == ["trip"]
    assert Session.open().name == "default"
    with pytest.raises(SessionError, match="1 to 200"):
        Session.open(name="")
