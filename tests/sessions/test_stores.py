"""Tests for all stores: the same tests with each of them."""

import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentkit.errors import SessionError
from agentkit.events import AnswerRefused, ResponseReceived, RunEnded, RunStarted, ToolCallFinished
from agentkit.messages import AssistantMessage, Response, ToolCall, ToolResult
from agentkit.sessions.store import START, SessionEntry
from agentkit.sessions.stores import store_at

DONE = RunEnded("done", "Tschüß \ud83d \0 “x”")
HOLDING = """
import sys
from agentkit.sessions.stores import store_at
store = store_at(sys.argv[1])
release = store.lock("trip", "run-1")
print("held" if release else "refused", flush=True)
sys.stdin.read()
"""
WRITING = """
import sys
from agentkit.events import AnswerRefused
from agentkit.sessions.store import SessionEntry
from agentkit.sessions.stores import store_at
store = store_at(sys.argv[1])
for number in range(int(sys.argv[3])):
    store.append("trip", [SessionEntry(sys.argv[2], number, AnswerRefused(f"{number} {part}")) for part in "ab"])
    print(number, flush=True)
"""


def entry(event=DONE, run="run-1", at=1.0):
    """Return an entry of a run."""
    return SessionEntry(run, at, event)


def child(program, *arguments):
    """Start another process that runs a program."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_unknown_session_is_empty(store):
    """A session without entries is empty and is not listed."""
    assert store.read("trip") == ([], START)
    assert store.summaries() == []
    store.append("trip", [])
    assert store.summaries() == []


def test_entries_are_read_in_order(store):
    """Entries are read back unchanged and in the order in which they were appended."""
    entries = [entry(RunStarted("helper", "Hi")), entry(AnswerRefused("no"), "run-2", 2.5), entry()]
    store.append("trip", entries[:2])
    store.append("trip", entries[2:])
    store.append("other", [entry()])
    assert store.read("trip")[0] == entries


def test_only_new_entries_are_read(store):
    """Reading from a position returns only the entries appended since."""
    store.append("trip", [entry()])
    _, position = store.read("trip")
    assert store.read("trip", position) == ([], position)
    store.append("other", [entry()])
    store.append("trip", [entry(at=2.0)])
    new, behind = store.read("trip", position)
    assert [one.at for one in new] == [2.0]
    assert store.read("trip", behind) == ([], behind)


def test_failed_append_stores_nothing(store):
    """If one of several entries cannot be encoded, none is stored."""
    endless = []
    endless.append(endless)
    bad = ResponseReceived(Response(AssistantMessage(extra={"self": endless})))
    with pytest.raises(SessionError):
        store.append("trip", [entry(), entry(bad)])
    assert store.read("trip") == ([], START)


def test_tool_value_is_not_stored(store):
    """A tool result's value is not stored, not even in memory."""
    call = ToolCall("call_1", "clock", "{}")
    store.append("trip", [entry(ToolCallFinished(call, ToolResult("clock", "ok", "12", value={1, 2})))])
    assert store.read("trip")[0] == [entry(ToolCallFinished(call, ToolResult("clock", "ok", "12")))]


def test_existing_session_cannot_be_created(store):
    """Creating an existing session raises an error and keeps its entries."""
    store.create("trip", [entry()])
    with pytest.raises(SessionError, match="The session 'trip' already exists"):
        store.create("trip", [entry(), entry()])
    assert store.read("trip")[0] == [entry()]


def test_sessions_are_listed(store):
    """Summaries contain runs, entries and times, with the latest change first."""
    store.append("old", [entry(at=1.0), entry(at=5.0), entry(run="run-2", at=3.0)])
    store.append("new", [entry(at=9.0)])
    first, second = store.summaries()
    assert (first.name, first.runs, first.entries) == ("new", 1, 1)
    assert (second.name, second.runs, second.entries, second.began, second.changed) == ("old", 2, 3, 1.0, 5.0)


def test_session_is_renamed(store):
    """A renamed session keeps its entries, and its old name is free."""
    store.append("trip", [entry()])
    store.rename("trip", "Reise")
    assert store.read("Reise")[0] == [entry()]
    assert store.read("trip")[0] == []


def test_rename_needs_a_session_and_a_free_name(store):
    """Renaming a missing session, or to an existing name, raises a SessionError."""
    store.append("trip", [entry()])
    store.append("other", [entry()])
    with pytest.raises(SessionError, match=r"No session is named 'none'\. Session\.summaries\(place\) lists"):
        store.rename("none", "new")
    with pytest.raises(SessionError, match="The session 'other' already exists"):
        store.rename("trip", "other")


def test_session_is_deleted(store):
    """A deleted session is gone, and the others are not."""
    store.append("trip", [entry()])
    store.append("other", [entry()])
    store.delete("trip")
    assert store.read("trip") == ([], START)
    assert [summary.name for summary in store.summaries()] == ["other"]
    with pytest.raises(SessionError, match="No session is named 'trip'"):
        store.delete("trip")


def test_recreated_session_is_read_in_full(store):
    """A reader with a position in a deleted session gets all entries of the new one."""
    store.append("trip", [entry(), entry(), entry()])
    _, position = store.read("trip")
    store.delete("trip")
    assert store.read("trip", position) == ([], START)
    store.append("trip", [entry(at=7.0)])
    entries, behind = store.read("trip", position)
    assert [one.at for one in entries] == [7.0]
    assert behind[0] != position[0]


def test_run_has_one_holder(store):
    """A held run cannot be held again until it is released; other runs are unaffected."""
    release = store.lock("trip", "run-1")
    assert store.is_locked("trip", "run-1")
    assert store.lock("trip", "run-1") is None
    assert not store.is_locked("trip", "run-2")
    assert not store.is_locked("other", "run-1")
    other = store.lock("trip", "run-2")
    release()
    assert not store.is_locked("trip", "run-1")
    again = store.lock("trip", "run-1")
    release()  # a second time does nothing
    assert store.is_locked("trip", "run-1")
    again()
    other()


def test_session_in_use_cannot_be_deleted(store):
    """A session with a held run, even one without entries, cannot be deleted or renamed."""
    store.append("trip", [entry()])
    release = store.lock("trip", "run-9")
    with pytest.raises(SessionError, match="is in progress"):
        store.delete("trip")
    with pytest.raises(SessionError, match="is in progress"):
        store.rename("trip", "other")
    release()
    store.rename("trip", "other")
    store.delete("other")


def test_threads_append_concurrently(store):
    """Threads can append concurrently; no entry is lost, and those of one append stay together."""

    def write(run):
        for number in range(20):
            store.append("trip", [entry(AnswerRefused(part), run, number) for part in "ab"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, ["1", "2", "3", "4"]))
    entries, _ = store.read("trip")
    assert len(entries) == 160
    pairs = zip(entries[::2], entries[1::2], strict=True)
    assert all(first.run == second.run and first.at == second.at for first, second in pairs)
    for run in "1234":
        assert [one.at for one in entries if one.run == run and one.event.reason == "a"] == list(range(20))


def test_readers_receive_every_entry(store):
    """A reader receives each entry once and in order while other threads append."""
    seen, position, writers = [], START, []

    def write(run):
        for number in range(30):
            store.append("trip", [entry(run=run, at=number)])

    for run in "12":
        writers.append(threading.Thread(target=write, args=(run,)))
        writers[-1].start()
    while any(writer.is_alive() for writer in writers):
        entries, position = store.read("trip", position)
        seen += entries
    seen += store.read("trip", position)[0]
    assert seen == store.read("trip")[0]
    assert len(seen) == 60


def test_closed_store_opens_again(store):
    """A closed store is reopened when it is used."""
    store.append("trip", [entry()])
    store.close()
    store.close()
    assert store.read("trip")[0] == [entry()]


def test_pickled_store_has_the_same_sessions(store):
    """A pickled store has the sessions of the original."""
    store.append("trip", [entry()])
    copy = pickle.loads(pickle.dumps(store))
    assert copy.read("trip")[0] == [entry()]
    copy.close()


def test_stores_of_one_process_exclude_each_other(shared_place):
    """Two store objects with one location exclude each other like two processes."""
    first, second = store_at(shared_place), store_at(shared_place)
    release = first.lock("trip", "run-1")
    assert second.is_locked("trip", "run-1")
    assert second.lock("trip", "run-1") is None
    first.append("trip", [entry()])
    with pytest.raises(SessionError, match="is in progress"):
        second.delete("trip")
    release()
    second.delete("trip")
    first.close()
    second.close()


def test_killed_process_releases_its_run(shared_place):
    """A run held by a killed process is released; a living process keeps its run."""
    store = store_at(shared_place)
    with child(HOLDING, shared_place) as holder:
        assert holder.stdout.readline() == "held\n"
        assert store.is_locked("trip", "run-1")
        assert store.lock("trip", "run-1") is None
        holder.kill()
        holder.wait()
    while store.is_locked("trip", "run-1"):  # a server needs a moment to notice
        pass
    store.lock("trip", "run-1")()
    store.close()


@pytest.mark.parametrize("kill_after", [0, 1, 5, 21])
def test_acknowledged_entries_survive_a_kill(shared_place, kill_after):
    """Acknowledged entries survive a kill, no append is stored partially, and the store stays usable."""
    with child(WRITING, shared_place, "run-1", 100_000) as writer:
        acknowledged = [int(writer.stdout.readline()) for _ in range(kill_after + 1)]
        writer.kill()
        acknowledged += [int(line) for line in writer.stdout if line.endswith("\n")]
    store = store_at(shared_place)
    store.append("trip", [entry()])
    entries, _ = store.read("trip")
    written = [one.event.reason for one in entries[:-1]]
    assert len(written) >= 2 * len(acknowledged)
    assert written == [f"{number} {part}" for number in range(len(written) // 2) for part in "ab"]
    store.close()


def test_processes_append_concurrently(shared_place):
    """Processes can append to one session concurrently; no entry is lost or out of order."""
    with child(WRITING, shared_place, "1", 50) as first, child(WRITING, shared_place, "2", 50) as second:
        assert first.wait(60) == second.wait(60) == 0
    store = store_at(shared_place)
    entries, _ = store.read("trip")
    assert len(entries) == 200
    for run in "12":
        assert [one.at for one in entries if one.run == run] == [number for number in range(50) for _ in "ab"]
    store.close()


FORKING = """
import os, sys
from agentkit.events import RunEnded
from agentkit.sessions.store import SessionEntry
from agentkit.sessions.stores import store_at
store = store_at(sys.argv[1])
entry = SessionEntry("run-1", 1, RunEnded("done"))
store.append("trip", [entry])
store.close()
assert len(store.read("trip")[0]) == 1
release = store.lock("trip", "run-1")
child = os.fork()
if child == 0:
    assert len(store.read("trip")[0]) == 1
    assert store.lock("trip", "run-1") is None and store.is_locked("trip", "run-1")
    release()
    store.append("trip", [entry])
    store.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert store.is_locked("trip", "run-1")
store.append("trip", [entry])
assert len(store.read("trip")[0]) == 3
print("fine")
"""


def test_store_after_fork(shared_place):
    """After a fork, both processes can use the store, and only the parent keeps its held runs."""
    with child(FORKING, shared_place) as process:
        assert process.communicate(timeout=60)[0] == "fine\n"


ORPHANING = """
import os, sys
from agentkit.sessions.stores import store_at
store = store_at(sys.argv[1])
release = store.lock("trip", "run-1")
if os.fork() == 0:
    print("there", flush=True)
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
"""


def test_forked_process_holds_no_run(shared_place):
    """When a process is killed, its run is released even if a forked child lives on."""
    store = store_at(shared_place)
    with child(ORPHANING, shared_place) as holder:
        assert holder.stdout.readline() == "there\n"
        assert store.is_locked("trip", "run-1")
        holder.kill()
        holder.wait()
        while store.is_locked("trip", "run-1"):  # a server needs a moment to notice
            pass
    store.close()
