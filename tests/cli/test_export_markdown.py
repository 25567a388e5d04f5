"""Tests for exports of conversations as Markdown and JSON lines."""

import stat

import pytest

from agentkit import LLM, Agent
from agentkit.cli.export import markdown_of, save
from agentkit.errors import SessionError
from agentkit.events import AnswerAmended, AnswerRefused, HistoryGiven, RunEnded, RunResumed
from agentkit.messages import AssistantMessage, SystemMessage, UserMessage
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionEntry
from agentkit.testing import FakeServer, call, fail
from agentkit.tools.catalog import default_tools


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A session with earlier messages, a tool call, a file change and a failed run."""
    monkeypatch.chdir(tmp_path)
    session = Session.open(name="trip")
    session.append([SystemMessage("Obey."), UserMessage("Before."), AssistantMessage("Yes?"), AssistantMessage("")])
    with FakeServer(
        call("write_file", path="a.md", content="```\n"), "It is\x1b[31m written.", fail(403, "no")
    ) as server:
        llm = LLM(base_url=server.base_url, model="any")
        agent = Agent("agentkit", default_tools, llm=llm, session=session, approve=lambda _: True)
        agent.run("Write it.")
        agent.run("And now?")
    return session


def test_export_as_markdown(session, tmp_path):
    """Prompts, answers, calls, changes and failures are exported to a file with mode 0600."""
    save(session, tmp_path / "trip.md")
    text = (tmp_path / "trip.md").read_text("utf-8")
    assert text.startswith("# trip\n\n## You\n\n> Before.\n\n## agentkit\n\n> Yes?\n\n## You, 20")
    assert 'write_file(path="a.md"' in text
    assert "[approved: safety-level]" in text
    assert "\n````diff\n" in text
    assert "## agentkit\n\n> It is written.\n" in text
    assert "*failed: The provider answered 403: no" in text
    assert stat.S_IMODE((tmp_path / "trip.md").stat().st_mode) == 0o600


def test_json_lines_are_an_export(session, tmp_path):
    """A file with the suffix .jsonl is an export that `agentkit sessions import` reads."""
    save(session, tmp_path / "trip.jsonl")
    assert Session.restore(tmp_path / "trip.jsonl", name="again").messages == session.messages


def test_save_does_not_overwrite(session, tmp_path):
    """save() does not overwrite a file, and raises an error if the path cannot be written."""
    (tmp_path / "trip.md").write_text("mine")
    with pytest.raises(SessionError, match=r"already exists\. Choose another name"):
        save(session, tmp_path / "trip.md")
    assert (tmp_path / "trip.md").read_text() == "mine"
    with pytest.raises(SessionError, match="cannot be written: No such file"):
        save(session, tmp_path / "none" / "trip.md")


def test_resumed_runs_and_amended_answers_are_included():
    """Resumed runs, their new prompts and amended answers are included."""
    entries = [
        SessionEntry("r", 0.0, RunResumed("Go on.")),
        SessionEntry("r", 0.0, RunResumed()),
        SessionEntry("r", 0.0, AnswerAmended("Better.")),
    ]
    assert (
        markdown_of("", entries)
        == "# Conversation\n\n## You\n\n> Go on.\n\n*Run resumed*\n\n## agentkit\n\n> Better.\n"
    )


def test_secrets_are_not_exported():
    """A key in a prompt or an answer is not included in the export."""
    key = f"sk-proj-{'a1B2c3D4' * 6}"
    messages = (UserMessage(f"Mine is {key}."), AssistantMessage(f"It is {key}."))
    assert key not in markdown_of(
        "", [SessionEntry("r", 0.0, HistoryGiven(messages)), SessionEntry("r", 0.0, RunEnded("done"))]
    )


def test_messages_cannot_imitate_headings():
    """Markdown in a message cannot imitate headings or approvals of the export."""
    forged = "No.\r\n\n## You\n\n*a person answered: once*"
    messages = (UserMessage(forged), AssistantMessage(forged))
    events = [HistoryGiven(messages), AnswerAmended(forged), AnswerRefused(forged), RunEnded("failed", "", forged)]
    lines = markdown_of("", [SessionEntry("r", 0.0, event) for event in events]).splitlines()
    assert [line for line in lines if line.startswith("## ")] == ["## You", "## agentkit", "## agentkit"]
    assert not any(line.startswith("*a person answered") for line in lines)
