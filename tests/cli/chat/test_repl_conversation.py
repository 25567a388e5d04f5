"""Tests for complete conversations at a pseudo-terminal."""

import stat

import pytest

from agentkit.sessions.session import Session
from agentkit.settings import state_folder
from agentkit.testing import FakeServer, call, fail, slow

pytestmark = pytest.mark.slow

SUM = call("calculator", expression="1250 * 0.17")


def test_conversation_at_a_terminal(at_terminal):
    """Prompts are answered in turn, calls are shown with decision and time, and leaving shows how to continue."""
    with FakeServer(SUM, "It is **212.5**.", "Two hundred and twelve and a half.") as server:
        chat = at_terminal(server=server)
        chat.say("How much is 1250 * 0.17?")
        shown = chat.until("It is 212.5.")
        assert 'calculator(expression="1250 * 0.17") → 212.5  [allow: safety-level · ' in shown
        chat.say("And in words?")
        chat.until("Two hundred and twelve and a half.")
        chat.until("> ")
        chat.type("\x04")
        code, last = chat.ends()
    (session,) = Session.summaries()
    assert (code, session.runs, session.name.startswith("how-much-is-1250-")) == (0, 2, True)
    assert f"Continue with: agentkit chat -c   (later: agentkit chat --session {session.name})" in last
    assert server.requests[-1].json["messages"][1]["content"] == "How much is 1250 * 0.17?"


def test_chat_with_an_agent_from_a_file(at_terminal, tmp_path):
    """`--agent` reads the instruction, tools and level from a file; /tools overrides its tools."""
    (tmp_path / "clerk.txt").write_text("tools: calculator\nsafety: safe\n\nYou are a clerk.\n")
    with FakeServer("Yes.", "No.") as server:
        chat = at_terminal("--agent", str(tmp_path / "clerk.txt"), server=server)
        chat.say("Are you there?")
        chat.until("Yes.")
        chat.say("/tools string_length")
        chat.until("string_length")
        chat.say("And now?")
        chat.until("No.")
        chat.type("\x04")
        chat.ends()
    first, second = (request.json for request in server.requests)
    assert [each["messages"][0]["content"] for each in (first, second)] == ["You are a clerk."] * 2
    assert [each["tools"][0]["function"]["name"] for each in (first, second)] == ["calculator", "string_length"]


def test_prompt_history_is_private(at_terminal):
    """The prompt history has mode 0600 and no keys; --no-session writes none."""
    history = state_folder() / "chat-history"
    with FakeServer("ok", repeat=True) as server:
        chat = at_terminal("--no-session", server=server)
        chat.say("hi")
        chat.say("/quit")
        assert chat.ends()[0] == 0
        assert not history.exists()
        chat = at_terminal(server=server)
        chat.say(f"my key is ghp_{'a1' * 20}")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "my key is [redacted" in history.read_text()
    assert Session.summaries()[0].name.startswith("my-key-is-")


def test_ctrl_c_stops_the_answer_and_twice_exits(at_terminal):
    """Ctrl-C stops an answer and stores the received part; twice at an empty prompt exits."""
    with FakeServer(slow("one two three four five six", between_seconds=0.4), "Seven.") as server:
        chat = at_terminal(server=server)
        chat.say("Count.")
        chat.until("two")
        chat.type("\x03")
        chat.until("Stopped. The answer so far is stored; /retry repeats the prompt.")
        chat.say("Go on.")
        chat.until("Seven.")
        chat.until("> ")
        chat.type("half a prompt\x03\x03")
        chat.until("To exit, press Ctrl-C once more, or Ctrl-D.")
        chat.until("> ")
        chat.type("\x03")
        assert chat.ends()[0] == 0
        contents = [message["content"] for message in server.requests[-1].json["messages"]]
    assert contents[1:2] == ["Count."]
    assert contents[2].startswith("one two")
    assert contents[2].endswith("[The person has interrupted this answer.]")
    assert contents[3] == "Go on."


def test_multiline_prompt(at_terminal):
    """Alt-Enter, Ctrl-J and pasted text add lines to a prompt; Enter sends it."""
    with FakeServer("ok", repeat=True) as server:
        chat = at_terminal(server=server)
        chat.until("> ")
        chat.type("one\x1b\rtwo\nthree\x1b[200~\nfour\nfive\x1b[201~\r")
        chat.until("ok")
        chat.say("/quit")
        chat.ends()
    assert server.requests[0].json["messages"][-1]["content"] == "one\ntwo\nthree\nfour\nfive"


def test_errors_do_not_end_the_conversation(at_terminal):
    """An unknown command or a provider error is reported, and the conversation continues."""
    with FakeServer(fail(403, "not for you"), "ok") as server:
        chat = at_terminal(server=server)
        chat.say("/safty system")
        chat.until("Did you mean '/safety'?")
        chat.say("hi")
        chat.until("not for you")
        chat.say("hi")
        chat.until("ok")
        chat.say("/quit")
        assert chat.ends()[0] == 0


def test_commands_are_completed(at_terminal):
    """Tab completes commands and their arguments."""
    with FakeServer() as server:
        chat = at_terminal(server=server)
        chat.until("> ")
        chat.type("/saf")
        chat.until("what runs without approval")
        chat.type("\t sys")
        chat.until("approval too")  # only changes are drawn, so not every letter of the line above
        chat.type("\t\r")
        chat.until("SYSTEM: changes to this machine run without approval too")
        chat.say("/quit")
        assert chat.ends()[0] == 0


def test_dumb_terminal(at_terminal):
    """On a dumb terminal, the chat and its commands work without control sequences."""
    with FakeServer(SUM, "It is **212.5**.", "ok") as server:
        chat = at_terminal(server=server, variables={"TERM": "dumb", "VISUAL": "true"})
        chat.say("2+2?")
        chat.until("It is **212.5**.")
        chat.say("/session new")
        chat.say("/session")
        chat.until("2-2-")
        chat.say("/clear")
        chat.until("A new conversation.")
        chat.say("/edit")
        chat.until("The prompt is empty, so nothing was sent.")
        chat.say("/nonsense")
        chat.until("The command /nonsense does not exist.")
        chat.say("")
        chat.say("again")
        chat.until("ok")
        chat.until("> ")
        chat.type("\x04")
        code, last = chat.ends()
    assert (code, "\x1b" in chat.raw) == (0, False)
    assert "Continue with: agentkit chat -c" in last


def test_dumb_terminal_shows_the_last_answer(at_terminal, command, tmp_path, monkeypatch):
    """With -c, a dumb terminal shows the last answer as plain Markdown source."""
    monkeypatch.chdir(tmp_path)
    with FakeServer("**Hanoi**.") as server:
        command("What is the capital of Vietnam?", server=server)
        chat = at_terminal("-c", server=server, variables={"TERM": "dumb"})
        chat.until("**Hanoi**.")
        chat.say("/quit")
        assert chat.ends()[0] == 0


def test_screen_is_cleared(at_terminal):
    """/clear empties the screen and starts a new conversation."""
    with FakeServer("ok", "ok") as server:
        chat = at_terminal(server=server)
        chat.say("hi")
        chat.until("ok")
        chat.say("/clear")
        chat.until("A new conversation. The old one is the session 'hi-")
        assert "\x1b[2J" in chat.raw
        chat.say("again")
        chat.until("ok")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    assert len(server.requests[-1].json["messages"]) == 2


def test_no_color_variable(at_terminal):
    """With NO_COLOR, the output contains no colour sequences."""
    with FakeServer("# Title\n\n**bold** `code`") as server:
        chat = at_terminal(server=server, variables={"NO_COLOR": "1"})
        chat.say("hi")
        chat.until("bold code")
        chat.say("/quit")
        chat.ends()
    assert "\x1b[36m" not in chat.raw


def test_continue_shows_the_last_messages(at_terminal, command, tmp_path, monkeypatch):
    """-c opens the last session of the folder and shows its last messages."""
    monkeypatch.chdir(tmp_path)
    with FakeServer("Hanoi.", "Paris.") as server:
        command("What is the capital of Vietnam?", server=server)
        chat = at_terminal("-c", server=server)
        assert "> What is the capital of Vietnam?" in chat.until("Hanoi.")
        chat.say("And of France?")
        chat.until("Paris.")
        chat.say("/quit")
        chat.ends()
    assert len(server.requests[-1].json["messages"]) == 4


def test_recorded_chat_is_replayed(at_terminal, command, tmp_path, monkeypatch):
    """--record writes all runs of a chat to one cassette."""
    with FakeServer("One.", "Two.") as server:
        chat = at_terminal("--record", "chat.cassette", server=server)
        chat.say("first")
        chat.say("second")
        chat.say("/quit")
        assert chat.ends()[0] == 0
    monkeypatch.chdir(tmp_path)
    shown = command("show", "chat.cassette")[0]
    assert "2 runs" in shown
    assert "Two." in shown


def test_yes_approves_every_call(at_terminal, tmp_path):
    """-y prints a warning and approves every call."""
    with FakeServer(call("write_file", path="a.txt", content="hello"), "Done.") as server:
        chat = at_terminal("-y", server=server)
        chat.until("Warning: -y approves every call")
        chat.say("Write it.")
        chat.until("Done.")
        chat.until("To undo this: /undo")
        chat.say("/quit")
        chat.ends()
    assert (tmp_path / "a.txt").read_text() == "hello"


def test_offline_model_at_a_terminal(at_terminal, tmp_path):
    """--offline starts with a note about the offline model, whose answers are shown with their indentation."""
    (tmp_path / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    chat = at_terminal("--offline", "--tools", "code")
    chat.until("It does not chat")
    chat.say("read calc.py")
    chat.until("\ndef add(a, b):\n    return a + b\n")
    chat.say("/model")
    chat.until("offline:needle3")
    chat.say("/quit")
    assert chat.ends()[0] == 0


def test_chat_with_an_agent_from_a_program(at_terminal, tmp_path):
    """`--agent FILE.py:NAME` starts a chat with that agent and shows its guarded answers."""
    (tmp_path / "bot.py").write_text(
        "from agentkit import Agent\nclerk = Agent('clerk', guardrails=[lambda output: f'{output} Kind regards.'])\n"
    )
    with FakeServer("Yes.", "No.") as server:
        chat = at_terminal("--agent", str(tmp_path / "bot.py:clerk"), server=server)
        chat.say("Are you there?")
        chat.until("Yes. Kind regards.")
        chat.say("/tools string_length")
        chat.until("string_length")
        chat.say("And now?")
        chat.until("No. Kind regards.")
        chat.type("\x04")
        chat.ends()
    assert [len(each.json.get("tools", [])) for each in server.requests] == [0, 1]


@pytest.mark.parametrize("line", ["exit", "quit", "/exit", "Quit"])
def test_exit_and_quit_end_the_chat(at_terminal, line):
    """`exit` and `quit` end the chat, whose first prompt may be given on the command line."""
    with FakeServer("Hello.") as server:
        chat = at_terminal("Hi", "there", server=server)
        chat.until("> Hi there")
        chat.until("Hello.")
        chat.say(line)
        assert chat.ends()[0] == 0
    assert len(server.requests) == 1


def test_changes_of_the_folder_can_be_approved_until_revoked(at_terminal, tmp_path):
    """Typing w approves all changes of the folder, /safety shows and revokes this, and l postpones the call."""
    other = call("write_file", path="other.txt", content="x")
    third = call("write_file", path="third.txt", content="x")
    with FakeServer(call("write_file", path="note.txt", content="hello"), other, "Done.", third) as server:
        chat = at_terminal(server=server)
        chat.say("Write.")
        chat.until("Allow it?")
        chat.type("w\r")
        chat.until("Done.")
        chat.until("workspace changes")
        chat.type("/safety network\r")  # the prompt is drawn with the status line
        chat.until("NETWORK:")
        chat.say("Write more.")
        chat.until("Allow it?")
        chat.type("l\r")
        chat.until("/resume")
        chat.say("/quit")
        chat.ends()
    assert {path.name for path in tmp_path.iterdir()} == {"note.txt", "other.txt"}
