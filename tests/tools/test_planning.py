"""Tests for plans and notes."""

import json
from dataclasses import replace

import pytest

from agentkit import Agent
from agentkit.decisions import Label, Verdict
from agentkit.event_rendering import plan_text
from agentkit.messages import AssistantMessage, ToolCall, ToolMessage
from agentkit.server.event_stream import history
from agentkit.sessions.context_window import Fitted, Window, fit_with_plan
from agentkit.sessions.session import Session
from agentkit.sessions.token_estimates import Estimates
from agentkit.testing import ScriptedLLM, call, say
from agentkit.tools.planning import note_tools, planning_tools
from agentkit.usage import Usage
from agentkit.workspace.workspace import Workspace

STEPS = [{"step": "read the code", "status": "done"}, {"step": "fix  it", "status": "active"}]


def test_plan_is_rendered_as_a_checklist():
    """A valid `update_plan` call is rendered as a checklist, and other calls are ignored."""
    assert plan_text(ToolCall("1", "update_plan", json.dumps({"steps": STEPS}))) == "[x] read the code\n[>] fix it"
    for name, arguments in (("other", json.dumps({"steps": STEPS})), ("update_plan", "{"), ("update_plan", "[1]")):
        assert not plan_text(ToolCall("1", name, arguments))
    for steps in ("no", [1], [{"step": "a", "status": "soon"}]):
        assert not plan_text(ToolCall("1", "update_plan", json.dumps({"steps": steps})))


@pytest.mark.parametrize("steps", [[], [{"step": " ", "status": "done"}], [STEPS[0]] * 51])
def test_invalid_plan_is_rejected(steps):
    """A plan with a wrong number of steps or an empty step returns an error."""
    result = planning_tools["update_plan"].invoke({"steps": steps})
    assert result.error == "A plan has 1 to 50 steps, each with a text."


@pytest.mark.parametrize("summarise", [False, True])
def test_plan_is_retained_in_a_shortened_conversation(summarise):
    """The prompt contains the newest plan when its call was removed or summarised."""
    text = "word " * 400
    lines = [call("update_plan", steps=STEPS), *(call("echo", text=f"{at} {text}") for at in range(8)), "done"]

    def answer(request):
        is_summary = "record of a conversation" in request.instruction
        line = "A summary." if is_summary else lines.pop(0)
        counted = Usage(Estimates().total(request.messages, request.instruction, request.tools), 5, requests=1)
        return replace(say(line) if isinstance(line, str) else say("", line), usage=counted)

    def echo(text: str) -> str:
        """Return the text."""
        return text

    llm = ScriptedLLM(answer, repeat=True)
    agent = Agent("a", [*planning_tools, echo], llm=llm, window=Window(tokens=3_000, summarise=summarise))
    assert agent.run("work", limits=None).status == "done"
    last = [each for each in llm.requests if "record of a conversation" not in each.instruction][-1]
    calls = [each for message in last.messages for each in getattr(message, "tool_calls", ())]
    content = str([message.content for message in last.messages if hasattr(message, "content")])
    assert "update_plan" not in [each.name for each in calls]
    assert content.count("[>] fix it") == 1
    assert "[>] fix it" not in str([each.content for each in llm.requests[1].messages if hasattr(each, "by_person")])


def test_notes_are_files_with_an_index(tmp_path):
    """A note is written, listed by its first line, read and undone; its results are private and untrusted."""
    agent = Agent(
        "a",
        note_tools(),
        llm=ScriptedLLM(
            call("read_notes"),
            call("write_note", name="build", about="How to build", text="Run make."),
            [call("read_notes"), call("read_notes", name="build")],
            "ok",
        ),
        workspace=tmp_path,
        safety="system",
    )
    result = agent.run("go")
    values = [used.result.value for used in result.tool_calls]
    assert values[0] == {"notes": {}}
    assert values[2] == {"notes": {"build": "How to build"}}
    assert values[3]["content"] == "# How to build\n\nRun make.\n"
    assert {label for used in result.tool_calls for label in used.result.labels} == set(Label)
    assert "+Run make." in result.changes
    result.undo()
    assert not (tmp_path / "notes/build.md").exists()


@pytest.mark.parametrize("name", ["../up", "a b", "", "x" * 65])
def test_names_of_notes_are_not_paths(tmp_path, name):
    """A note cannot be written or read outside of its folder."""
    for tool in note_tools().within(Workspace(tmp_path)):
        given = {"name": name, "about": "x", "text": "y"} if tool.name == "write_note" else {"name": name}
        result = tool.invoke(given)
        assert not result.ok
        assert not list(tmp_path.rglob("*.md"))


def test_writing_a_note_needs_approval(tmp_path):
    """At the default level a note needs approval, and the request shows its text."""
    questions = []
    llm = ScriptedLLM(call("write_note", name="n", about="", text="hello"), "ok")
    Agent(
        "a", note_tools(), llm=llm, workspace=tmp_path, approve=lambda request: questions.append(request) or True
    ).run("x")
    assert questions[0].decision.verdict is Verdict.ASK
    assert "+# n" in questions[0].preview.diff
    assert (tmp_path / "notes/n.md").read_text() == "# n\n\nhello\n"


def test_transcript_and_page_show_the_plan(tmp_path):
    """The transcript renders the checklist, and the page gets it with the result of the call."""
    session = Session.open(tmp_path / "s.db", "plan")
    Agent("a", planning_tools, llm=ScriptedLLM(call("update_plan", steps=STEPS), "ok"), session=session).run("x")
    stored = Session.open(tmp_path / "s.db", "plan")
    assert "[>] fix it" in stored.show()
    plans = [each["plan"] for each in history(stored.entries, (), {}) if "plan" in each]
    assert plans == ["[x] read the code\n[>] fix it"]


def test_conversation_without_a_prompt_has_no_plan():
    """Without a user message, a conversation is shortened without adding the plan."""
    plan = AssistantMessage("", (ToolCall("1", "update_plan", json.dumps({"steps": STEPS})),))
    messages = [plan, ToolMessage("1", "update_plan", "ok"), AssistantMessage("done")]

    def newest(given, _room):
        return Fitted(tuple(given[-1:]), 1)

    assert fit_with_plan(messages, messages, newest, 10).messages == (messages[-1],)
