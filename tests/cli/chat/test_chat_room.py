"""Tests for lines of a chat: prompts, commands, undo, retries, and interruptions."""

import signal
import threading

import click
import pytest

from agentkit import Approval
from agentkit.errors import SessionError
from agentkit.events import TextDelta
from agentkit.sessions.session import Session
from agentkit.testing import FakeServer, call, fail, say, slow

SUM = call("calculator", expression="2+2")
WRITE = call("write_file", path="note.txt", content="hello")


def texts(server, number=-1):
    """Return the contents of the messages of a request, without the instruction."""
    return [message.get("content") for message in server.requests[number].json["messages"][1:]]


def test_undo_reverts_changes_run_by_run(room_with, notes, tmp_path):
    """Changes are shown, and /undo reverts them run by run, then raises an error if none is left."""
    with FakeServer(WRITE, "One.", call("write_file", path="note.txt", content="bye"), "Two.") as server:
        room = room_with(server, approve=lambda _: True)
        assert room.execute("Write it.") == 0
        assert "+hello" in notes.printed
        room.execute("Write another.")
        assert notes.printed.endswith("To undo this: /undo")
        room.execute("/undo")
        assert (tmp_path / "note.txt").read_text() == "hello"
        room.execute("/undo")
        assert "note.txt" in notes.printed
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(SessionError, match="There is nothing to undo in this conversation"):
            room.execute("/undo")


def test_file_references_in_a_prompt(room_with, tmp_path):
    """@FILE in a prompt inserts the content of the file, @@FILE its name; other @ words are unchanged."""
    (tmp_path / "a.pdf").write_bytes(b"%PDF-")
    (tmp_path / "a.txt").write_text("hi")
    with FakeServer("One.", "Two.", "Three.") as server:
        room = room_with(server)
        room.execute("Compare @a.pdf, please, with (@a.txt) and @a.txt!")
        room.execute("What is @@a.pdf @@a.txt, @ada, a@a.pdf and @?")
        room.execute("/retry")
        parts = texts(server, 0)[0]
        assert [part["type"] for part in parts] == ["text", "file", "text", "text", "text"]
        assert parts[3]["text"] == "[What follows is the file a.txt.]\nhi\n[Here ends the file a.txt.]"
        assert (
            "".join(part.get("text", "") for part in (*parts[:3], parts[4])) == "Compare , please, with (@a.txt) and !"
        )
        assert texts(server, 1)[-1] == "What is @a.pdf @a.txt, @ada, a@a.pdf and @?"
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04\x14\0\0\0")
    with pytest.raises(click.UsageError, match=r"not a file that models read.*as text: @@a\.zip"):
        room.execute("Unpack @a.zip")


def test_dry_run_is_reported(room_with, notes, tmp_path):
    """With --dry-run, the diff is shown with a note that nothing was changed."""
    with FakeServer(WRITE, "One.") as server:
        room_with(server, approve=lambda _: True, dry_run=True).execute("Write it.")
    assert "+hello" in notes.told[0]
    assert notes.told[1] == "No changes were made: --dry-run."
    assert list(tmp_path.iterdir()) == []


def test_undo_reverts_runs_of_a_reopened_session(room_with, notes, tmp_path):
    """/undo reverts the changes of earlier runs of a reopened session."""
    with FakeServer(WRITE, "One.") as server:
        room_with(server, approve=lambda _: True, session="trip").execute("Write it.")
        room_with(server, session="trip").execute("/undo")
    assert list(tmp_path.iterdir()) == []


def test_retry_resends_the_prompt_without_the_old_answer(room_with, notes):
    """/retry sends the last prompt again, and stores the previous answer in a separate session."""
    with FakeServer("One.", "Two.", "Three.") as server:
        room = room_with(server)
        room.execute("first")
        room.execute("second")
        assert room.execute("/retry") == 0
        assert texts(server) == ["first", "One.", "second"]
        assert "> second" in notes.printed
    now, old = Session.summaries()
    assert [each.text for each in Session.open(name=old.name).messages[1::2]] == ["One.", "Two."]
    assert [each.text for each in room.conversation.messages[1::2]] == ["One.", "Three."]
    assert old.name.startswith(f"{now.name}, before ")


def test_retry_of_the_first_prompt(room_with):
    """/retry repeats a failed or first prompt, and raises an error if there is none."""
    with FakeServer(fail(403, "no"), "One.", "Two.") as server:
        room = room_with(server)
        assert room.execute("first") == 1
        assert room.execute("/retry") == 0
        assert room.execute("/retry") == 0
        assert texts(server) == ["first"]
        with pytest.raises(SessionError, match="There is no prompt to repeat yet"):
            room_with(server).execute("/retry")


def test_retry_without_a_session(room_with, notes, tmp_path):
    """Without a session, /retry drops the old answer and reports that its file changes remain."""
    with FakeServer("Zero.", WRITE, "One.", "Two.") as server:
        room = room_with(server, approve=lambda _: True, no_session=True)
        room.execute("zero")
        room.execute("first")
        room.execute("/retry")
        assert texts(server) == ["zero", "Zero.", "first"]
        assert "Changes made by the last answer remain; /undo reverts them." in notes.printed
        with pytest.raises(SessionError, match="not stored, so it has no name"):
            room.execute("/session rename trip")
        room.execute("/session")
        assert "This conversation is not stored, so it has no name." in notes.printed
    assert (tmp_path / "note.txt").exists()
    assert Session.summaries() == []


def interrupted(front, kind, number=1):
    """Press Ctrl-C when the front end receives the nth event of that type."""
    received = []

    def hear(event):
        front.events.append(event)
        if isinstance(event, TextDelta):
            front.text += event.text
        if isinstance(event, kind):
            received.append(event)
            if len(received) == number:
                signal.raise_signal(signal.SIGINT)

    front.render = hear


def test_interrupted_answer_is_stored(room_with, notes):
    """An interrupted answer is stored with a note about the interruption, and sent to the model."""
    with FakeServer("one two three", "ok") as server:
        room = room_with(server)
        interrupted(notes, TextDelta)
        assert room.execute("Count.") == 130
        assert notes.printed == "Stopped. The answer so far is stored; /retry repeats the prompt."
        room.execute("Go on.")
        count, output, more = texts(server)
    assert (count, more) == ("Count.", "Go on.")
    assert output.startswith("one")
    assert output.endswith("\n\n[The person has interrupted this answer.]")


def test_tool_calls_before_an_interruption_are_stored(room_with, notes, tmp_path):
    """Tool calls completed before an interruption are stored once, and can be undone."""
    with FakeServer(say("I write.", WRITE), "ok now", "fine") as server:
        room = room_with(server, approve=lambda _: True)
        interrupted(notes, TextDelta, 3)
        assert room.execute("Write.") == 130
        assert "+hello" in notes.printed
        room.execute("Go on.")
        assert texts(server)[0::4] == ["Write.", "Go on."]
        room.execute("/undo")
    assert list(tmp_path.iterdir()) == []


def test_second_ctrl_c_does_not_prevent_storing(room_with, notes):
    """A second Ctrl-C while the answer is being stored does not prevent storing it."""
    with FakeServer(slow("one two three", between_seconds=0.01), repeat=True) as server:
        room = room_with(server)
        stopping = []

        def hear(event):
            if isinstance(event, TextDelta) and not stopping:
                stopping.append(event)
                try:
                    signal.raise_signal(signal.SIGINT)
                finally:
                    signal.raise_signal(signal.SIGINT)

        notes.render = hear
        assert room.execute("Count.") == 130
        assert len(room.conversation.messages) == 2


def test_ctrl_c_without_a_person_raises(room_with, notes):
    """Without a person at the terminal, Ctrl-C raises KeyboardInterrupt."""
    with FakeServer("one two", repeat=True) as server:
        room = room_with(server, is_person=False)
        interrupted(notes, TextDelta)
        with pytest.raises(KeyboardInterrupt):
            room.execute("Count.")


def test_conversation_in_a_thread(room_with, notes):
    """A conversation in another thread runs without signal handlers."""
    codes = []
    with FakeServer("one two") as server:
        room = room_with(server)
        thread = threading.Thread(target=lambda: codes.append(room.execute("Count.")))
        thread.start()
        thread.join(60)
    assert codes == [0]


def test_resume_after_a_limit(room_with, notes, capsys):
    """A reached limit is reported with the command that continues the run, /resume."""
    with FakeServer(SUM, SUM, "So far.", "Four.") as server:
        room = room_with(server, limits=("tool_calls=1",))
        assert room.execute("loop") == 3
        assert capsys.readouterr().err.endswith("\nContinue with: /resume\n")
        room.conversation.change(limits=("tool_calls=10",))
        assert room.execute("/resume") == 0
        assert notes.events[-1].result.output == "Four."


def test_pending_run_is_resumed(room_with, notes, tmp_path):
    """A pending call is reported when its session is opened, and /resume continues the run."""
    with FakeServer(WRITE, "Done.") as server:
        room = room_with(server, approve=lambda _: Approval.LATER, session="trip")
        assert room.execute("Write it.") == 130
        assert notes.printed == "The run waits for your answer about write_file. Continue with: /resume"
        room = room_with(server, approve=lambda _: True, session="trip")
        assert "A run of this session did not end. To continue it: /resume" in notes.printed
        assert room.execute("/resume") == 0
    assert (tmp_path / "note.txt").read_text() == "hello"
    with pytest.raises(SessionError, match="There is nothing to resume"):
        room.execute("/resume")


def test_offline_model_reports_its_limitations(room_with, notes):
    """A chat with the offline model starts with a note about its limitations."""
    room = room_with(offline=True)
    assert "It does not chat" in notes.printed
    assert room.bar == "offline model · network · /help"


def test_status_bar_shows_the_cost(room_with, monkeypatch):
    """The status bar shows the model, the safety level and the cost so far."""
    from agentkit import LLM
    from agentkit.usage import Price

    with FakeServer("ok") as server:
        room = room_with(server, safety="safe")
        assert room.bar == "gpt-5.4-mini · safe · /help"
        room.conversation.llm = LLM(base_url=server.base_url, model="mine", price=Price(input=1_000, output=1_000))
        room.execute("hi")
    assert room.bar == "mine · safe · ≈ $0.0150 · /help"


def test_leaving_shows_the_command_to_continue(room_with, notes):
    """Leaving shows the command that continues the session, if a session was stored."""
    with FakeServer("ok", "ok") as server:
        room = room_with(server, session="my trip")
        room.leave()
        assert notes.printed == ""
        room.execute("hi")
        room.leave()
        assert notes.printed == "Continue with: agentkit chat -c   (later: agentkit chat --session 'my trip')"
        room = room_with(server, no_session=True)
        room.execute("hi")
        room.leave()
        assert notes.printed == ""
