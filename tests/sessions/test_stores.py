"""What must every store do? The same tests over each of them."""

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
release = store.hold("trip", "run-1")
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


def entry(milestone=DONE, run="run-1", at=1.0):
    """An entry of a run."""
    return SessionEntry(run, at, milestone)


def child(program, *arguments):
    """Another process that runs a program."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_an_unknown_session_is_empty(store):
    """A session that nobody has written to has no entries, and no place in the list."""
    assert store.read("trip") == ([], START)
    assert store.summaries() == []
    store.append("trip", [])
    assert store.summaries() == []


def test_entries_come_back_in_order(store):
    """What was appended comes back as it was and in the order in which it was appended."""
    entries = [entry(RunStarted("helper", "Hi")), entry(AnswerRefused("no"), "run-2", 2.5), entry()]
    store.append("trip", entries[:2])
    store.append("trip", entries[2:])
    store.append("other", [entry()])
    assert store.read("trip")[0] == entries


def test_only_what_is_new_is_read(store):
    """From a position on, only what was appended since is read."""
    store.append("trip", [entry()])
    _, position = store.read("trip")
    assert store.read("trip", position) == ([], position)
    store.append("other", [entry()])
    store.append("trip", [entry(at=2.0)])
    new, behind = store.read("trip", position)
    assert [one.at for one in new] == [2.0]
    assert store.read("trip", behind) == ([], behind)


def test_what_cannot_be_written_is_not_begun(store):
    """When one of several entries cannot be kept, none is."""
    endless = []
    endless.append(endless)
    bad = ResponseReceived(Response(AssistantMessage(extra={"self": endless})))
    with pytest.raises(SessionError):
        store.append("trip", [entry(), entry(bad)])
    assert store.read("trip") == ([], START)


def test_what_objects_hold_beside_is_not_kept(store):
    """A store never gives back a tool's own value, not even one that keeps it in memory."""
    call = ToolCall("call_1", "clock", "{}")
    store.append("trip", [entry(ToolCallFinished(call, ToolResult("clock", "ok", "12", value={1, 2})))])
    assert store.read("trip")[0] == [entry(ToolCallFinished(call, ToolResult("clock", "ok", "12")))]


def test_a_session_is_made_once(store):
    """A session that is to be new must not be there already, and then keeps what it has."""
    store.create("trip", [entry()])
    with pytest.raises(SessionError, match="The session 'trip' already exists"):
        store.create("trip", [entry(), entry()])
    assert store.read("trip")[0] == [entry()]


def test_sessions_are_listed(store):
    """The list tells runs, entries and times, the newest change first."""
    store.append("old", [entry(at=1.0), entry(at=5.0), entry(run="run-2", at=3.0)])
    store.append("new", [entry(at=9.0)])
    first, second = store.summaries()
    assert (first.name, first.runs, first.entries) == ("new", 1, 1)
    assert (second.name, second.runs, second.entries, second.began, second.changed) == ("old", 2, 3, 1.0, 5.0)


def test_a_session_is_renamed(store):
    """A session keeps its entries under another name, and its old name is free."""
    store.append("trip", [entry()])
    store.rename("trip", "Reise")
    assert store.read("Reise")[0] == [entry()]
    assert store.read("trip")[0] == []


def test_names_are_not_taken_twice(store):
    """Renaming needs a session that is there, and a name that is free."""
    store.append("trip", [entry()])
    store.append("other", [entry()])
    with pytest.raises(SessionError, match=r"No session is named 'none'\. Session\.summaries\(place\) lists"):
        store.rename("none", "new")
    with pytest.raises(SessionError, match="The session 'other' already exists"):
        store.rename("trip", "other")


def test_a_session_is_deleted(store):
    """A deleted session is gone, and the others are not."""
    store.append("trip", [entry()])
    store.append("other", [entry()])
    store.delete("trip")
    assert store.read("trip") == ([], START)
    assert [summary.name for summary in store.summaries()] == ["other"]
    with pytest.raises(SessionError, match="No session is named 'trip'"):
        store.delete("trip")


def test_a_session_made_again_is_another(store):
    """Whoever has read a session that was deleted meanwhile is given all of the new one."""
    store.append("trip", [entry(), entry(), entry()])
    _, position = store.read("trip")
    store.delete("trip")
    assert store.read("trip", position) == ([], START)
    store.append("trip", [entry(at=7.0)])
    entries, behind = store.read("trip", position)
    assert [one.at for one in entries] == [7.0]
    assert behind[0] != position[0]


def test_a_run_has_one_holder(store):
    """A run that somebody holds is not held by another until it is released; other runs are free."""
    release = store.hold("trip", "run-1")
    assert store.is_held("trip", "run-1")
    assert store.hold("trip", "run-1") is None
    assert not store.is_held("trip", "run-2")
    assert not store.is_held("other", "run-1")
    other = store.hold("trip", "run-2")
    release()
    assert not store.is_held("trip", "run-1")
    again = store.hold("trip", "run-1")
    release()  # a second time does nothing
    assert store.is_held("trip", "run-1")
    again()
    other()


def test_a_session_in_use_stays(store):
    """A session is not deleted or renamed while somebody holds one of its runs, be it one without entries."""
    store.append("trip", [entry()])
    release = store.hold("trip", "run-9")
    with pytest.raises(SessionError, match="is in progress"):
        store.delete("trip")
    with pytest.raises(SessionError, match="is in progress"):
        store.rename("trip", "other")
    release()
    store.rename("trip", "other")
    store.delete("other")


def test_threads_append_side_by_side(store):
    """Many threads append at once; every entry is there, and those of one append stand together."""

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
        assert [one.at for one in entries if one.run == run and one.milestone.reason == "a"] == list(range(20))


def test_readers_miss_nothing(store):
    """Who reads while others append is given every entry once, in the order that all see."""
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


def test_a_closed_store_opens_again(store):
    """A store that was closed is opened by its next use."""
    store.append("trip", [entry()])
    store.close()
    store.close()
    assert store.read("trip")[0] == [entry()]


def test_a_pickled_store_has_the_same_sessions(store):
    """A pickled store holds what the first one held."""
    store.append("trip", [entry()])
    copy = pickle.loads(pickle.dumps(store))
    assert copy.read("trip")[0] == [entry()]
    copy.close()


def test_objects_of_one_process_respect_each_other(shared_place):
    """Two store objects at one place hold each other off like two processes."""
    first, second = store_at(shared_place), store_at(shared_place)
    release = first.hold("trip", "run-1")
    assert second.is_held("trip", "run-1")
    assert second.hold("trip", "run-1") is None
    first.append("trip", [entry()])
    with pytest.raises(SessionError, match="is in progress"):
        second.delete("trip")
    release()
    second.delete("trip")
    first.close()
    second.close()


def test_a_killed_holder_holds_no_more(shared_place):
    """The hold of a process that was killed is free at once, and that of a living one is not."""
    store = store_at(shared_place)
    with child(HOLDING, shared_place) as holder:
        assert holder.stdout.readline() == "held\n"
        assert store.is_held("trip", "run-1")
        assert store.hold("trip", "run-1") is None
        holder.kill()
        holder.wait()
    while store.is_held("trip", "run-1"):  # a server needs a moment to notice
        pass
    store.hold("trip", "run-1")()
    store.close()


@pytest.mark.parametrize("kill_after", [0, 1, 5, 21])
def test_what_was_acknowledged_survives_a_kill(shared_place, kill_after):
    """All that a killed process had been told was kept is there, nothing is there by half, and work goes on."""
    with child(WRITING, shared_place, "run-1", 100_000) as writer:
        acknowledged = [int(writer.stdout.readline()) for _ in range(kill_after + 1)]
        writer.kill()
        acknowledged += [int(line) for line in writer.stdout if line.endswith("\n")]
    store = store_at(shared_place)
    store.append("trip", [entry()])
    entries, _ = store.read("trip")
    written = [one.milestone.reason for one in entries[:-1]]
    assert len(written) >= 2 * len(acknowledged)
    assert written == [f"{number} {part}" for number in range(len(written) // 2) for part in "ab"]
    store.close()


def test_processes_append_side_by_side(shared_place):
    """Several processes append to one session at once, also the first time; every entry is there, in order."""
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
release = store.hold("trip", "run-1")
child = os.fork()
if child == 0:
    assert len(store.read("trip")[0]) == 1
    assert store.hold("trip", "run-1") is None and store.is_held("trip", "run-1")
    release()
    store.append("trip", [entry])
    store.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert store.is_held("trip", "run-1")
store.append("trip", [entry])
assert len(store.read("trip")[0]) == 3
print("fine")
"""


def test_a_forked_process_goes_on_by_itself(shared_place):
    """After a fork both processes use the store, and only the first one holds what it held."""
    with child(FORKING, shared_place) as process:
        assert process.communicate(timeout=60)[0] == "fine\n"


ORPHANING = """
import os, sys
from agentkit.sessions.stores import store_at
store = store_at(sys.argv[1])
release = store.hold("trip", "run-1")
if os.fork() == 0:
    print("there", flush=True)
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
"""


def test_a_forked_process_keeps_nothing_held(shared_place):
    """When a process is killed, its run is free, though a process that it had forked lives on."""
    store = store_at(shared_place)
    with child(ORPHANING, shared_place) as holder:
        assert holder.stdout.readline() == "there\n"
        assert store.is_held("trip", "run-1")
        holder.kill()
        holder.wait()
        while store.is_held("trip", "run-1"):  # a server needs a moment to notice
            pass
    store.close()
