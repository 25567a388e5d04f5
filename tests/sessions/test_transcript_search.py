"""Tests for titles of sessions and full-text search in them."""

import pytest

from agentkit import Agent, core_tools
from agentkit.messages import AssistantMessage, UserMessage
from agentkit.sessions.session import Session
from agentkit.sessions.transcript import search_sessions, title_of
from agentkit.testing import ScriptedLLM, call


@pytest.fixture
def place(tmp_path):
    """A file for sessions."""
    return tmp_path / "sessions.db"


def test_title_is_the_first_prompt_of_an_unnamed_session():
    """Generated names are replaced by the prompt; earlier branches state their time."""
    session = Session()
    session.append([UserMessage("Where  to\ngo?"), AssistantMessage("To Hue.")])
    entries = session.entries
    assert title_of("where-to-go-0a1b", entries) == "Where to go?"
    assert title_of("where-to-go-0a1b, before 2026-11-27 10:11:12.1", entries) == (
        "Where to go? (before 2026-11-27 10:11)"
    )
    assert title_of("my trip", entries) == "my trip"
    assert title_of("where-to-go-0a1b", []) == "where-to-go-0a1b"


def test_search_finds_prompts_answers_and_calls(place):
    """All words must occur, in any case and place; the newest sessions come first, up to a maximum."""
    for number, answer in enumerate(("It is 42.", "It is much.")):
        session = Session.open(place, f"s{number}")
        llm = ScriptedLLM(call("calculator", expression="6*7"), answer)
        Agent("helper", core_tools, llm=llm, session=session).run("How much is SIX times seven?")
    store = session.store
    assert [each.name for each in search_sessions(store, "six HOW")] == ["s1", "s0"]
    assert [each.name for each in search_sessions(store, "calculator 6*7", limit=1)] == ["s1"]
    (found,) = search_sessions(store, "42. times")
    assert (found.name, "42." in found.snippet) == ("s0", True)
    assert list(search_sessions(store, "  ")) == []
    assert list(search_sessions(store, "six nothing")) == []


@pytest.mark.parametrize("is_kept", [True, False])
def test_without_last_run(place, is_kept):
    """`without_last_run` drops the last run and keeps the full session under another name."""
    session = Session.open(place, "s") if is_kept else Session("s")
    llm = ScriptedLLM(call("calculator", expression="6*7"), "42.", "Hello.")
    agent = Agent("helper", core_tools, llm=llm, session=session)
    agent.run("6*7?")
    agent.run("Hi")
    cut = session.without_last_run()
    assert [each.content for each in cut.messages if isinstance(each, UserMessage)] == ["6*7?"]
    if is_kept:
        assert [each.name.partition(",")[0] for each in Session.summaries(place)] == ["s", "s"]
        again = cut.without_last_run()
        assert again.messages == ()
        given = Session.open(place, "given")
        given.append([UserMessage("One?"), AssistantMessage("One."), UserMessage("Two?"), AssistantMessage("Two.")])
        assert [each.text for each in given.without_last_run().messages if isinstance(each, AssistantMessage)] == [
            "One."
        ]
