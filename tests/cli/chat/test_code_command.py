"""Tests for `agentkit code`: the tools of a coding agent, and the instructions of a trusted folder."""

import io

import pytest

from agentkit.agents.coding import INSTRUCTION
from agentkit.cli.chat.screen import ChatScreen
from agentkit.events import ToolCallFinished
from agentkit.messages import ToolCall, ToolResult
from agentkit.testing import FakeServer, call

STEPS = [{"step": "read", "status": "done"}, {"step": "fix", "status": "active"}, {"step": "test", "status": "pending"}]
PLAN = call("update_plan", steps=STEPS)


def system(server):
    """Return the instruction in the newest request."""
    return server.requests[-1].json["messages"][0]["content"]


def test_code_plans_edits_and_shows_the_plan_and_the_diff(typed_line, tmp_path):
    """The plan is shown as a checklist, and the change as a diff."""
    (tmp_path / "a.py").write_text("x = 1\n")
    edit = call("edit_file", path="a.py", old_text="1", new_text="2")
    with FakeServer(PLAN, edit, "Fixed.") as server:
        out, err, code = typed_line("code", "-y", server=server, piped=b"Fix it.\n")
    assert (code, out) == (0, "Fixed.\n")
    assert "  [x] read\n  [>] fix\n  [ ] test\n" in err
    assert "+x = 2" in err
    assert system(server) == INSTRUCTION


def test_terminal_shows_the_plan():
    """The chat at a terminal shows the checklist instead of the call; a failed call is shown as failed."""
    stream = io.StringIO()
    screen = ChatScreen(stream, has_colour=False)
    used = ToolCall("1", "update_plan", PLAN.arguments)
    screen.render(ToolCallFinished(used, ToolResult("update_plan", "ok", "1 of 3 done")))
    assert stream.getvalue().splitlines()[-3:] == ["  [x] read", "  [>] fix", "  [ ] test"]
    screen.render(ToolCallFinished(used, ToolResult("update_plan", "failed", "", error="no")))
    assert "update_plan(" in stream.getvalue()


@pytest.mark.parametrize("arguments", [("code",), ("chat", "--tools", "code")])
def test_project_instructions_must_be_trusted(typed_line, tmp_path, arguments):
    """AGENTS.md and skills are ignored with a note until they are trusted, and again when they change."""
    skill = tmp_path / ".agents/skills/release/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: release\ndescription: Make a release.\n---\nTag it.\n")
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    with FakeServer("ok", "ok", "ok") as server:
        _, err, _ = typed_line(*arguments, server=server, piped=b"x\n")
        assert "AGENTS.md and the skills in .agents/skills of this folder are not trusted" in err
        assert system(server) == INSTRUCTION
        assert typed_line("config", "trust")[2] == 0
        _, err, _ = typed_line(*arguments, server=server, piped=b"x\n")
        assert err == ""
        assert "Use tabs." in system(server)
        assert "load_skill" in [each["function"]["name"] for each in server.requests[-1].json["tools"]]
        skill.write_text(skill.read_text() + "Then push.\n")
        typed_line(*arguments, server=server, piped=b"x\n")
        assert system(server) == INSTRUCTION


def test_code_has_more_iterations_and_respects_settings(typed_line, own_user_file, tmp_path):
    """A coding agent has a limit of 100 iterations unless a limit is set; a project file can name the collection."""
    with FakeServer(*[call("search_files", pattern=f"{at}") for at in range(11)], "done", "no", "yes") as server:
        assert typed_line("code", server=server, piped=b"x\n")[:1] == ("done\n",)
        own_user_file('tools = ["code"]\ninstruction = "Be brief."\n[limits]\niterations = 1\n')
        typed_line("ask", "x", server=server)
        assert system(server).startswith("Be brief.")
        (tmp_path / "agentkit.toml").write_text('tools = ["code", "calculator"]\n')
        typed_line("ask", "x", server=server)
        names = [each["function"]["name"] for each in server.requests[-1].json["tools"]]
    assert "task" in names
    assert "calculator" not in names


def test_nothing_to_trust_is_an_error(typed_line):
    """A folder without a project file, AGENTS.md and skills cannot be trusted."""
    _, err, code = typed_line("config", "trust")
    assert code == 2
    assert "no project file" in err
