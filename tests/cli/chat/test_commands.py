"""Tests for the commands of a chat, which begin with a slash."""

import os
import sys

import pytest

from agentkit.cli.chat.commands import COMMANDS, completions, parse_command, unescape_prompt
from agentkit.errors import AgentKitError, ConfigError
from agentkit.messages import UserMessage
from agentkit.sessions.session import Session
from agentkit.testing import FakeServer


@pytest.mark.for_each(
    ("line", "command"),
    [
        ("/help", ("help", "")),
        ("  /HELP  ", ("help", "")),
        ("/model  gpt-x ", ("model", "gpt-x")),
        ("/edit two\nlines", ("edit", "two\nlines")),
        ("/etc/hosts, what is it?", None),
        ("//help", None),
        ("/ what", None),
        ("what is /help?", None),
        ("", None),
    ],
)
def test_command_in(line, command):
    """A command is a word after a slash at the start of the line; a path is not a command."""
    assert parse_command(line) == command


def test_two_slashes_are_replaced_by_one():
    """Two slashes at the start of a prompt are replaced by one."""
    assert (unescape_prompt("//help me"), unescape_prompt("/x"), unescape_prompt("x")) == ("/help me", "/x", "x")


def test_unknown_command_suggests_the_closest(room_with):
    """An unknown command raises an error with a suggestion, and sends no request."""
    with FakeServer() as server:
        room = room_with(server)
        with pytest.raises(ConfigError, match=r"The command /modle does not exist\. Did you mean '/model'\?"):
            room.execute("/modle x")
        with pytest.raises(ConfigError, match=r"The command /zzz does not exist\. All commands: /help"):
            room.execute("/zzz")


def test_help_lists_every_command(room_with, notes):
    """/help lists all commands and keys."""
    with FakeServer() as server:
        room_with(server).execute("/help")
    printed = notes.printed
    assert [name for name in COMMANDS if f"/{name}" not in printed] == []
    assert "Ctrl-C stops an answer" in printed


def test_tools_command(room_with, notes):
    """/tools lists the tools, and /tools NAMES replaces them."""
    with FakeServer("ok", "ok") as server:
        room = room_with(server)
        room.execute("/tools")
        assert "run_shell             SYSTEM   may need approval" in notes.printed
        room.execute("/tools calculator, web")
        assert notes.printed.splitlines()[0] == "calculator  SAFE"
        room.execute("hi")
        room.execute("/tools none")
        assert "The model has no tools." in notes.printed
        room.execute("hi")
        with pytest.raises(AgentKitError, match="No tool is named 'calculatr'"):
            room.execute("/tools calculatr")
    offered = [[tool["function"]["name"] for tool in each.json.get("tools", [])] for each in server.requests]
    assert offered == [["calculator", "web_search", "fetch_url", "wikipedia"], []]


def test_model_command_shows_fallbacks(room_with, notes):
    """/model shows the fallbacks below the model."""
    with FakeServer() as server:
        room_with(server).execute("/model ollama:qwen3 | lmstudio:gemma")
    assert notes.printed.splitlines() == [
        "ollama:qwen3  http://127.0.0.1:11434/v1",
        "fallback  lmstudio:gemma at http://127.0.0.1:1234/v1 (decided by model=)",
    ]


def test_model_command(room_with, notes):
    """/model NAME changes the model and preserves the history; /model shows it."""
    with FakeServer("One.", "Two.") as server:
        room = room_with(server)
        room.execute("/model")
        assert notes.printed == f"openai:gpt-5.4-mini  {server.base_url}"
        room.execute("hi")
        room.execute("/model other-model")
        room.execute("again")
        assert [request.json["model"] for request in server.requests] == ["gpt-5.4-mini", "other-model"]
        assert len(server.requests[-1].json["messages"]) == 4
        assert room.conversation.usage.requests == 2
        notes.told.clear()
        room.execute("/model offline")
        assert notes.printed.startswith("offline:needle3")
        with pytest.raises(AgentKitError):
            room.execute("/model ollama:")
        assert room.conversation.llm.provider == "offline"


def test_safety_command(room_with, notes):
    """/safety LEVEL changes the safety level and describes it."""
    with FakeServer("ok") as server:
        room = room_with(server)
        room.execute("/safety")
        assert notes.printed.startswith("NETWORK: computing and reading the web run without approval. Other")
        llm = room.conversation.llm
        room.execute("hi")
        room.execute("/safety SAFE")
        assert notes.printed.startswith("SAFE: only computing runs")
        assert room.conversation.llm is llm
        with pytest.raises(ConfigError, match="SAFE"):
            room.execute("/safety none")


def test_session_command(room_with, notes):
    """/session lists, opens, creates and renames sessions."""
    with FakeServer("One.", "Two.", "Three.", "Four.") as server:
        room = room_with(server)
        room.execute("/session")
        assert notes.printed.startswith("This conversation has not begun.")
        with pytest.raises(AgentKitError, match="There is no conversation to rename yet"):
            room.execute("/session rename trip")
        room.execute("first")
        with pytest.raises(AgentKitError, match="/session rename takes a name"):
            room.execute("/session rename")
        room.execute("/session rename trip")
        assert notes.printed == "This session is now 'trip'."
        room.execute("/session new")
        room.execute("second")
        room.execute("/session new other")
        room.execute("third")
        room.execute("/session trip")
        printed = notes.printed
        assert printed.startswith(
            "A new conversation begins with your next prompt.\nBegan 'other'.\nSession trip, 2 messages.\n> first"
        )
        assert printed.endswith("One.")
        room.execute("fourth")
        room.execute("/session")
        assert "* trip  " in notes.printed
        with pytest.raises(AgentKitError, match=r"No session is named 'tripp'\. Did you mean 'trip'"):
            room.execute("/session tripp")
        with pytest.raises(AgentKitError, match=r"No session is named 'zzz'\. To begin one"):
            room.execute("/session zzz")
    assert len(server.requests[-1].json["messages"]) == 4
    assert sorted(each.runs for each in Session.summaries()) == [1, 1, 2]


def test_cost_command(room_with, notes):
    """/cost shows tokens and cost of this chat, of the last answer and of the session."""
    with FakeServer("ok", "ok") as server:
        room = room_with(server)
        room.execute("/cost")
        assert notes.printed.startswith("this chat     0 tokens in")
        room.execute("hi")
        room.execute("hi")
        room.execute("/cost")
    assert notes.printed.splitlines() == [
        "this chat     20 tokens in, 10 out, cost unknown",
        "last answer   10 tokens in, 5 out, cost unknown",
        "this session  20 tokens in, 10 out, cost unknown",
    ]


def test_save_command(room_with, notes, tmp_path):
    """/save writes the conversation to a file; a missing file name or an empty chat raises an error."""
    with FakeServer("ok") as server:
        room = room_with(server)
        with pytest.raises(AgentKitError, match="/save takes a file"):
            room.execute("/save")
        with pytest.raises(AgentKitError, match="The conversation is empty"):
            room.execute("/save a.md")
        room.execute("hi")
        room.execute("/save a.md")
        assert notes.printed == "Saved: a.md"
    assert "## You" in (tmp_path / "a.md").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="the editor is a shell script")
def test_edit_sends_the_text_of_the_editor(room_with, notes, monkeypatch, tmp_path):
    """/edit opens the editor with the given text and sends the result, unless it is empty."""
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/begin/begin and end/" "$1"\necho "a second line" >> "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    with FakeServer("ok") as server:
        room = room_with(server)
        room.execute("/edit begin")
        assert server.requests[0].json["messages"][-1]["content"] == "begin and end\na second line"
        assert notes.printed == "> begin and end\n> a second line"
        monkeypatch.setenv("VISUAL", "true")
        room.execute("/edit")
        assert notes.printed == "The prompt is empty, so nothing was sent."


def test_clear_starts_a_new_conversation(room_with, notes):
    """/clear empties the screen and starts a new conversation; the old one remains stored."""
    with FakeServer("ok", "ok") as server:
        room = room_with(server)
        room.execute("/clear")
        assert notes.printed == "(an empty screen)\nA new conversation."
        room.execute("hi there")
        room.execute("/clear")
        assert "(an empty screen)\nA new conversation. The old one is the session 'hi-there-" in notes.printed
        room.execute("hi again")
    assert len(server.requests[-1].json["messages"]) == 2
    assert len(Session.summaries()) == 2


def test_quit_raises_eof_error(room_with):
    """/quit raises EOFError."""
    with FakeServer() as server, pytest.raises(EOFError):
        room_with(server).execute("/quit")


def test_completions(tmp_path):
    """Commands and their arguments are completed; prompts are not."""
    Session.open(name="trip").append([UserMessage("hi")])
    assert [word for word, _ in completions("/s", None)] == ["/safety", "/session", "/save"]
    assert [word for word, _ in completions("/safety s", None)] == ["safe", "system"]
    assert {("web", "collection"), ("calculator", "SAFE")} <= set(completions("/tools ", None))
    assert ("trip", "1 run") in completions("/session ", None)
    assert list(completions("/session x", os.devnull)) == []
    for started in ("hi /s", "/safety s x", "/edit a\nb", "/cost x", "x"):
        assert list(completions(started, None)) == []
