"""Tests for Session: runs, concurrency, kills, forks, exports and storage."""

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
    """A location for a session: none, or each kind of store."""
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


def test_repr_has_name_and_store(tmp_path):
    """The repr of a session contains its name and its store, if any."""
    assert repr(Session("trip")) == "Session('trip')"
    assert repr(Session.open(":memory:", "trip")) == "Session('trip', MemoryStore())"
    assert repr(Session.open(tmp_path / "s.db", "trip")) == f"Session('trip', SQLiteStore('{tmp_path / 's.db'}'))"


def test_path_instead_of_a_store_is_rejected():
    """Passing a path instead of a store raises an error that suggests `Session.open`."""
    with pytest.raises(SessionError, match=r"Write Session.open\('trips.db', 'trip'\)"):
        Session("trip", "trips.db")


def record(run, *events):
    """Apply and store stored events of a run, as its loop and driver do."""
    for event in events:
        run.progress.apply(event)
        run.keep(event)


def call(number=1, name="calculator"):
    """Return a tool call."""
    return ToolCall(f"call_{number}", name, "{}")


def reply(text="", *calls):
    """Return an answer of the model."""
    return ResponseReceived(Response(AssistantMessage(text, calls), usage=SPENT))


def result(used, text="42", full_text=None):
    """Return the result of a call."""
    return ToolCallFinished(used, ToolResult(used.name, "ok", text, decision=ALLOWED, full_content=full_text))


def talk(session, prompt="Hi", answer="Hello"):
    """Run from prompt to answer; return the run's id."""
    run = session.begin()
    record(run, RunStarted("helper", prompt, len(run.history)), reply(answer), RunEnded("done", answer))
    run.close()
    return run.id


def leave(session, *events):
    """Abandon a run halfway, as after a kill, and return its id."""
    run = session.begin()
    record(run, RunStarted("helper", "Hi", len(run.history)), *events)
    run._release()
    return run.id


def pause(session, used):
    """Pause a run at a call."""
    run = session.begin()
    record(
        run,
        RunStarted("helper", "Hi"),
        reply("", used),
        ToolCallPostponed(used, "May I?", ASKED),
        RunEnded("paused"),
    )
    run.close()
    return run


def other(session):
    """Return the same session as another process reads it."""
    return pickle.loads(pickle.dumps(session)) if session.store is None else Session(session.name, session.store)


def is_valid(messages):
    """Return whether each call has exactly one result, directly after its message, and all ids are unique."""
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


def test_messages_are_added_when_a_run_ends(session):
    """The messages of a run are added to the session when it ends, and the next run starts with them."""
    run = session.begin()
    record(run, RunStarted("helper", "Hi"), reply("Hello"))
    assert session.messages == ()
    record(run, RunEnded("done", "Hello"))
    run.close()
    run.close()  # closing again does nothing
    assert session.messages == (UserMessage("Hi"), AssistantMessage("Hello"))
    follower = session.begin()
    assert follower.history == session.messages
    assert follower.progress.history == 2
    follower.close()
    assert session.usage == SPENT
    assert other(session).messages == session.messages


def test_run_without_events_stores_nothing(session):
    """A run that is closed before any stored event stores nothing."""
    session.begin().close()
    assert session.messages == ()
    assert session.entries == []


def test_concurrent_runs_are_added_when_they_end(session):
    """Messages of concurrent runs are added run by run, in the order in which the runs end."""
    first, second = session.begin(), session.begin()
    record(first, RunStarted("helper", "1"), reply("one"))
    record(second, RunStarted("helper", "2"), reply("two"), RunEnded("done", "two"))
    second.close()
    record(first, RunEnded("done", "one"))
    first.close()
    texts = [UserMessage("2"), AssistantMessage("two"), UserMessage("1"), AssistantMessage("one")]
    assert list(session.messages) == texts
    assert list(other(session).messages) == texts


def test_unfinished_run_can_be_resumed(session):
    """A run that is closed before its end is unfinished and can be resumed."""
    run, used = session.begin(), call()
    record(run, RunStarted("helper", "Hi"), reply("Wait", used), ToolCallStarted(used, ALLOWED))
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
    record(again, RunResumed(), result(used), reply("Done"), RunEnded("done", "Done"))
    again.close()
    assert session.unfinished == ()
    assert session.messages[2:] == (ToolMessage(used.id, used.name, "42"), AssistantMessage("Done"))
    assert other(session).messages == session.messages


def test_run_that_was_cut_off_is_interrupted_by_the_next(session):
    """A new prompt ends a run that was cut off, which cannot be resumed afterwards."""
    run, used = session.begin(), call()
    record(run, RunStarted("helper", "Hi"), reply("Wait", used), ToolCallStarted(used, ALLOWED))
    run.close()
    before = session.messages
    follower = session.begin()
    assert follower.history == before
    follower.close()
    assert session.unfinished == ()
    assert session.messages == before
    assert other(session).messages == before


def test_stored_result_is_not_lost(session):
    """A stored result is used even if the run was closed before applying it."""
    run, used = session.begin(), call()
    record(run, RunStarted("helper", "Hi"), reply("", used), ToolCallStarted(used, ALLOWED))
    run.keep(result(used))
    run.close()
    assert session.messages[-1] == ToolMessage(used.id, used.name, "42")
    assert other(session).messages == session.messages


def test_applied_events_are_stored_on_close(session):
    """Stored events that were applied but not yet stored are stored when the run is closed."""
    run = session.begin()
    record(run, RunStarted("helper", "Hi"))
    run.progress.apply(reply("Hello"))
    run.close()
    assert other(session).messages == (UserMessage("Hi"), AssistantMessage("Hello"))


def test_next_run_interrupts_a_killed_run(session):
    """The next run marks a killed run as interrupted and keeps the results of its finished calls."""
    if session.store is None:
        pytest.skip("without a store nothing survives a kill")
    done, started, requested_calls = call(1), call(2), call(3)
    killed = leave(
        session,
        reply("", done, started, requested_calls),
        ToolCallStarted(done, ALLOWED),
        result(done),
        ToolCallStarted(started, ALLOWED),
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


def test_killed_run_can_be_resumed(session):
    """A killed run resumes with its finished calls, and no message is added twice."""
    if session.store is None:
        pytest.skip("without a store nothing survives a kill")
    used = call()
    killed = leave(session, reply("", used), ToolCallStarted(used, ALLOWED), result(used))
    run = session.reopen()
    assert run.id == killed
    assert not run.progress.steps
    record(run, RunResumed(), reply("It is 42."), RunEnded("done", "It is 42."))
    run.close()
    assert len(session.messages) == 4
    assert is_valid(session.messages)
    assert session.usage == SPENT + SPENT
    assert run.progress.iterations == 2
    assert other(session).messages == session.messages


def test_reopened_run_has_its_own_state(session):
    """Stored events of a reopened run are not applied a second time when the session is read."""
    used = call()
    pause(session, used)
    run = session.reopen()
    before = len(run.progress.events)
    record(run, RunResumed(), result(used), reply("Done"))
    assert session.messages == ()
    assert len(run.progress.events) == before + 3
    assert run.progress.iterations == 2
    assert len(run.progress.tool_calls) == 1
    record(run, RunEnded("done", "Done"))
    run.close()
    assert len(session.messages) == 4
    assert is_valid(session.messages)


def test_paused_run_stays_paused(session):
    """A paused run is not added to the messages, is not ended by the next run and can be found again."""
    paused = pause(session, call())
    talk(session, "Meanwhile", "Yes?")
    assert session.unfinished == (paused.id,)
    assert [message.content for message in session.messages if isinstance(message, UserMessage)] == ["Meanwhile"]
    run = session.reopen()
    assert run.progress.status == "paused"
    run.close()


def test_paused_run_can_be_paused_again(session):
    """A paused run can be reopened and paused repeatedly."""
    pause(session, call())
    run = session.reopen()
    record(run, RunResumed(), RunEnded("paused"))
    run.close()
    assert session.unfinished == (run.id,)


def test_run_at_its_limit_can_be_resumed(session):
    """A run that ended at a limit can be resumed, and only its new messages are added."""
    run, used = session.begin(), call()
    record(run, RunStarted("helper", "Hi"), reply("", used), result(used))
    record(run, LimitReached("iterations", "Enough."), RunEnded("limit"))
    run.close()
    between = talk(session, "Meanwhile", "Yes?")
    assert between not in session.unfinished
    again = session.reopen(run.id, RunState.of(run.progress.events))
    assert again.progress.limit is not None
    record(again, RunResumed(), reply("It is 42."), RunEnded("done", "It is 42."))
    again.close()
    assert [type(message).__name__ for message in session.messages] == [
        *("UserMessage", "AssistantMessage", "ToolMessage", "UserMessage", "AssistantMessage", "AssistantMessage")
    ]
    assert is_valid(session.messages)
    assert session.usage == SPENT + SPENT + SPENT
    assert other(session).messages == session.messages


def test_reader_sees_a_run_resumed_elsewhere(session):
    """A session reads the new messages of a run that was resumed elsewhere."""
    if session.store is None:
        pytest.skip("without a store there are no other readers")
    run = session.begin()
    record(run, RunStarted("helper", "Hi"), reply("One"), RunEnded("limit"))
    run.close()
    reader = other(session)
    assert len(reader.messages) == 2
    again = session.reopen(run.id)
    record(again, RunResumed(), reply("Two"), RunEnded("done"))
    again.close()
    assert reader.messages == session.messages
    assert len(reader.messages) == 3


def test_result_can_be_resumed_only_once(session):
    """Resuming from the same result twice raises a SessionError."""
    paused = pause(session, call())
    known = RunState.of(paused.progress.events)
    run = session.reopen(paused.id, known)
    with pytest.raises(SessionError, match=r"is in progress elsewhere\. Wait until it has ended"):
        session.reopen(paused.id, known)
    record(run, RunResumed(), result(call()), reply("Done"), RunEnded("done"))
    run.close()
    with pytest.raises(SessionError, match="was resumed since"):
        session.reopen(paused.id, known)


def test_run_from_another_session_is_stored_in_full(session):
    """A run of another session can be resumed here, and all its messages are stored."""
    paused = pause(Session(), call())
    run = session.reopen(paused.id, paused.progress)
    record(run, RunResumed(), result(call()), reply("Done"), RunEnded("done"))
    run.close()
    assert len(session.messages) == 4
    assert other(session).messages == session.messages
    assert paused.progress.status == "paused"


def test_run_from_elsewhere_brings_earlier_messages(session):
    """Resuming a run from elsewhere in an empty session adds the messages before the run."""
    earlier = (UserMessage("Good morning"), AssistantMessage("Good morning!"))
    paused = pause(Session(), call())
    session.reopen(paused.id, paused.progress, earlier).close()
    assert session.messages[:2] == earlier == other(session).messages[:2]


def test_invalid_messages_are_not_appended(session):
    """Appending an invalid conversation raises an error and stores nothing; an empty list stores nothing."""
    for messages in ([ToolMessage("a", "clock", "12:00")], [AssistantMessage("", (call(),))], ["Hi"]):
        with pytest.raises(SessionError):
            session.append(messages)
    session.append([])
    assert (session.messages, session.entries) == ((), [])


def test_reopen_needs_an_unfinished_run(session):
    """Reopening without an unfinished run, or with an unknown id, raises a SessionError."""
    with pytest.raises(SessionError, match="no run to resume"):
        session.reopen()
    with pytest.raises(SessionError, match="no run 'nobody'"):
        session.reopen("nobody")
    session.reopen("nobody", RunState()).close()  # the failed attempt holds nothing


def test_appended_messages_are_stored(session):
    """Appended messages become part of the session."""
    talk(session)
    session.append([UserMessage("And?"), AssistantMessage("Well.")])
    assert [type(message) for message in session.messages] == [UserMessage, AssistantMessage] * 2
    assert other(session).messages == session.messages


def test_call_ids_are_unique(session):
    """Calls get unique ids within a session, even in concurrent runs."""
    first, second = session.begin(), session.begin()
    one = first.session.with_unique_ids(AssistantMessage("", (ToolCall("call_0", "a", "{}"), ToolCall("", "b", "{}"))))
    two = second.session.with_unique_ids(AssistantMessage("", (ToolCall("call_0", "a", "{}"),)))
    ids = [used.id for message in (one, two) for used in message.tool_calls]
    assert len(set(ids)) == 3
    assert "" not in ids
    assert first.session.with_unique_ids(AssistantMessage("Hello")) == AssistantMessage("Hello")
    first.close()
    second.close()


def test_ids_used_elsewhere_are_known(session):
    """A call id used by a run in another process is not used again."""
    if session.store is None:
        pytest.skip("without a store there are no other processes")
    elsewhere, run = other(session).begin(), session.begin()
    record(elsewhere, RunStarted("helper", "Hi"), reply("", call(0)))
    message = run.session.with_unique_ids(AssistantMessage("", (call(0),)))
    assert message.tool_calls[0].id != "call_0"
    run.close()
    elsewhere.close()


def test_conflicting_ids_are_changed(session):
    """If two processes use the same id concurrently, the run that ends later gets other ids."""
    first, second, used = session.begin(), session.begin(), call(0)
    for run, text in ((first, "one"), (second, "two")):
        note = f'{text}; read_more(handle="call_0") or {{"read_more": "read_more(handle=\\"call_0\\")"}}'
        record(
            run,
            RunStarted("helper", "Hi"),
            reply("", used),
            result(used, note, full_text=text * 9),
            RunEnded("done"),
        )
    first.close()
    second.close()
    assert is_valid(session.messages)
    assert len(session.messages) == 6
    changed = session.messages[4].tool_calls[0].id
    later = session.begin()
    assert (later.full_text("call_0"), later.full_text(changed)) == ("one" * 9, "two" * 9)
    later.close()
    assert session.messages[2].content.count("call_0") == session.messages[5].content.count(changed) == 2
    assert other(session).messages == session.messages


def test_full_results_are_available_later(session):
    """The full text of the latest fifty results is available in later runs; older ones are shortened."""
    for number in range(52):
        run, used = session.begin(), call(number)
        record(
            run,
            RunStarted("helper", "Hi"),
            reply("", used),
            result(used, "4…2", full_text=f"{number}"),
            RunEnded("done"),
        )
        assert run.full_text(f"call_{number}") == f"{number}"
        run.close()
    later = other(session).begin() if session.store is not None else session.begin()
    assert session.messages
    assert later.full_text("call_51") == "51"
    assert later.full_text("call_2") == "2"
    assert later.full_text("call_1") == "4…2"
    assert later.full_text("nothing") is None
    later.close()


def test_run_knows_of_shortened_results(session):
    """A run knows whether any result was shortened, and finds the full text of each."""
    run = session.begin()
    record(run, RunStarted("helper", "Hi"), reply("", call(1), call(2)), result(call(1), "all"))
    assert not run.has_truncated
    record(run, result(call(2), "4…2", full_text="42"), RunEnded("done"))
    assert run.has_truncated
    assert (run.full_text("call_1"), run.full_text("call_2")) == ("all", "42")
    run.close()
    assert session.messages
    later = session.begin()
    assert (later.has_truncated, later.full_text("call_2")) == (True, "42")
    later.close()


def test_session_is_renamed(session):
    """A renamed session continues under its new name."""
    talk(session)
    session.rename("Reise")
    assert session.name == "Reise"
    talk(session)
    assert len(session.messages) == 4


def test_session_is_deleted(session):
    """A deleted session is empty and can be used again."""
    talk(session)
    session.delete()
    assert session.messages == ()
    talk(session)
    assert len(session.messages) == 2


def test_replaced_session_is_read_again(session):
    """A reader of a deleted session sees the new session of the same name."""
    if session.store is None:
        pytest.skip("without a store there are no other readers")
    talk(session, "old")
    reader = other(session)
    assert len(reader.messages) == 2
    session.delete()
    assert reader.messages == ()
    talk(session, "new")
    assert reader.messages[0] == UserMessage("new")


def test_start_over_archives_the_old_session(session):
    """`start_over` returns an empty session of the same name and stores the old one under another name."""
    talk(session)
    new = session.start_over()
    assert (new.name, new.messages) == ("trip", ())
    talk(new, "Hi again")
    if session.store is not None:
        names = [summary.name for summary in session.store.summaries() if summary.name != "trip"]
        assert len(names) == 1
        assert names[0].startswith("trip, until 20")
        assert Session(names[0], session.store).messages[0] == UserMessage("Hi")
    assert Session("empty").start_over().messages == ()


def test_fork_begins_with_the_first_messages(session):
    """A fork starts with the first messages of the session and continues independently."""
    talk(session, "1")
    talk(session, "2")
    fork = session.fork("other way", at=2)
    assert fork.messages == session.messages[:2]
    talk(fork, "3")
    assert (len(fork.messages), len(session.messages)) == (4, 4)
    assert session.fork("all of it").messages == session.messages
    assert isinstance(fork.entries[0].event, HistoryGiven)


def test_fork_needs_a_free_name(session):
    """A fork does not overwrite another session."""
    if session.store is None:
        pytest.skip("without a store, names are not reserved")
    talk(session)
    with pytest.raises(SessionError, match="already"):
        session.fork("trip")
    with pytest.raises(SessionError, match="1 to 200"):
        session.fork("")


def test_exported_session_is_restored(session, tmp_path):
    """An exported session is imported unchanged, also under another name, with its paused run."""
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


def test_session_is_shown(session):
    """A session is shown as readable text."""
    talk(session, "How far is it?", "Ten miles.")
    assert session.show().startswith("Session trip\n1 run")
    assert "Ten miles." in session.show()
    assert Session("new").show() == "Session new\n0 runs"


def test_session_can_be_pickled(session):
    """A pickled session has the same messages and can be used further."""
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
    """Runs in many threads are all added, each in one piece, and all ids are unique."""

    def go(number):
        run = session.begin()
        message = run.session.with_unique_ids(AssistantMessage("", (ToolCall("call_0", f"tool_{number}", "{}"),)))
        used = message.tool_calls[0]
        record(run, RunStarted("helper", f"{number}"), ResponseReceived(Response(message)), result(used, f"{number}"))
        record(run, reply(f"It is {number}."), RunEnded("done"))
        run.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(go, range(20)))
    assert is_valid(session.messages)
    pieces = [session.messages[at : at + 4] for at in range(0, 80, 4)]
    assert all(f"It is {prompt.content}." == answer.text for prompt, _, _, answer in pieces)
    assert sorted(int(prompt.content) for prompt, *_ in pieces) == list(range(20))
    assert other(session).messages == session.messages


def test_two_processes_share_a_session(shared_place):
    """Runs in two processes are all added, and both read the same conversation."""
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
    items = list(zip(*[iter(session.messages)] * 2, strict=True))
    for who in "AB":
        assert [answer.text for prompt, answer in items if prompt.content == who] == [str(n) for n in range(15)]
    session.store.close()


def test_killed_run_is_ended_once(shared_place):
    """Of several runs that start concurrently, exactly one ends the killed run."""
    session = Session.open(shared_place, "trip")
    leave(session, reply("Hm", call()))
    readers = [Session.open(shared_place, "trip") for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for run in pool.map(Session.begin, readers):
            run.close()
    assert len(session.messages) == 3
    assert [type(entry.event) for entry in session.entries].count(RunEnded) == 1
    for one in (session, *readers):
        one.store.close()


def test_run_ended_by_another_process_is_not_ended_again(tmp_path):
    """A killed run that another process has already ended is not ended again."""
    session = Session.open(tmp_path / "sessions.db", "trip")
    killed = leave(session, reply("Hm"))
    assert session.unfinished == (killed,)
    other(session).begin().close()
    session._interrupt(killed)
    release = session.store.lock("trip", "run-9")
    session._interrupt("run-9")
    release()
    assert [type(entry.event) for entry in session.entries].count(RunEnded) == 1
    session.store.close()


def test_nothing_is_stored_after_a_failed_write(tmp_path):
    """After a failed write, nothing more of the run is stored, and the next run marks it as interrupted."""
    session = Session.open(tmp_path / "sessions.db", "trip")
    run = session.begin()
    record(run, RunStarted("helper", "Hi"), reply("One"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(SessionError, match="nothing was written"):
            record(run, reply("x" * 1_000_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with pytest.raises(SessionError, match="the run cannot continue"):
        record(run, reply("Three"))
    run.close()
    follower = session.begin()
    assert follower.history == (UserMessage("Hi"), AssistantMessage("One"))
    follower.close()
    session.store.close()


def test_listing_sessions_creates_no_file(tmp_path):
    """Listing the sessions of a missing file returns an empty list and does not create the file."""
    assert Session.summaries(tmp_path / "new" / "none.db") == []
    assert list(tmp_path.iterdir()) == []


def test_default_location_of_sessions():
    """Without a location, sessions are stored by name in one file in the state folder."""
    session = Session.open(name="trip")
    talk(session)
    assert session.store.path.name == "sessions.db"
    assert [summary.name for summary in Session.summaries()] == ["trip"]
    assert Session.open().name == "default"
    with pytest.raises(SessionError, match="1 to 200"):
        Session.open(name="")
