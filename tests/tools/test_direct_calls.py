"""Tests for direct calls of shipped tools by a program, without an agent."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentkit import Decision, Tool, Verdict
from agentkit.errors import Blocked, ToolError
from agentkit.safety.shell.judge import judge_command
from agentkit.sandbox.process import command_boundary
from agentkit.tools.files import edit_file_tool, read_file_tool, write_file_tool
from agentkit.tools.system import shell_tool, shell_tool_in
from agentkit.workspace.change_detection import MAX_FILES
from agentkit.workspace.journal import Journal
from agentkit.workspace.workspace import Workspace

COMMANDS = json.loads((Path(__file__).parent / "direct_commands.json").read_text())


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, with a folder `build` that contains a file."""
    monkeypatch.chdir(tmp_path)
    build = tmp_path / "build"
    build.mkdir()
    (build / "app.o").write_text("compiled")
    return tmp_path


def records():
    """Return the recorded runs and calls of this machine."""
    return Journal.of_this_machine().runs()


def command(*arguments):
    """Return the output of `agentkit ARGUMENTS` in the current folder."""
    process = subprocess.run(
        [sys.executable, "-m", "agentkit", *arguments], text=True, capture_output=True, check=False
    )
    return process.stdout + process.stderr


@pytest.mark.for_each("text", COMMANDS["destroy"])
def test_destructive_commands_must_be_confirmed(text):
    """A recursive or forced deletion in any spelling is marked as destructive in its decision."""
    decision = judge_command(text, workspace="/workspace")
    assert decision.destroys or decision.denied
    undoable = judge_command(text, workspace="/workspace", unrestorable=lambda _: "")
    assert (undoable.destroys, undoable.denied) == (decision.destroys, decision.denied)
    lost = judge_command(text, workspace="/workspace", unrestorable=lambda _: "it is too large")
    assert (lost.destroys, lost.denied) == (decision.destroys, decision.denied)


@pytest.mark.for_each("text", COMMANDS["run"])
def test_other_commands_need_no_confirmation(text):
    """A command that would be allowed or need approval in a run can be called directly."""
    decision = judge_command(text, workspace="/workspace")
    assert not decision.destroys
    assert not decision.denied


def test_unconfirmed_destruction_is_blocked_with_a_remedy(folder):
    """A destructive direct call changes nothing, and its error names the way to confirm it."""
    output = shell_tool(command="rm -rf build")
    assert output["error"].startswith("Command blocked for safety: it deletes recursively or by force.")
    assert "confirmed(" in output["error"]
    assert "confirm=True" in output["error"]
    assert output["decision"]["rule"] == "unconfirmed"
    assert shell_tool.invoke({"command": "rm -rf build"}).status == "denied"
    assert asyncio.run(shell_tool.ainvoke({"command": "rm -rf build"})).status == "denied"
    assert (folder / "build" / "app.o").exists()
    assert not records()


@pytest.mark.skipif(not command_boundary().is_strong, reason="this machine lacks a strong boundary")
def test_undoable_deletion_needs_confirmation_outside_a_run(folder):
    """A deletion that can be undone runs without confirmation in a run, but not in a direct call."""
    command = {"command": "rm -rf build"}
    in_run = shell_tool_in(Workspace(folder).for_run("r"))
    assert in_run.decide(command)[1].allowed
    decision = shell_tool.decide(command)[1]
    assert decision.allowed
    assert decision.rule == "shell.undoable"
    assert shell_tool.invoke(command).status == "denied"
    assert (folder / "build" / "app.o").exists()
    assert not records(), "judging a deletion leaves no record"
    assert in_run.run(*in_run.decide(command)).ok
    assert not (folder / "build").exists()


@pytest.mark.skipif(not command_boundary().is_strong, reason="this machine lacks a strong boundary")
def test_confirmed_destruction_beyond_the_journal(folder):
    """A confirmed call may delete more than the journal can store, and states that it cannot be undone."""
    for number in range(MAX_FILES + 1):
        (folder / "build" / f"{number}.o").touch()
    assert not shell_tool.decide({"command": "rm -rf build"})[1].allowed
    assert shell_tool.invoke({"command": "rm -rf build"}).status == "denied"
    output = shell_tool.confirmed(command="rm -rf build")
    assert not (folder / "build").exists()
    assert "cannot be undone" in output["note"]


def test_confirmed_destruction_can_be_undone(folder):
    """A confirmed deletion can be undone by its result or at the command line."""
    result = shell_tool.invoke({"command": "rm -rf build"}, confirm=True)
    assert result.ok
    assert not (folder / "build").exists()
    assert result.undo().restored == ("build/app.o",)
    assert (folder / "build" / "app.o").read_text() == "compiled"
    assert shell_tool.confirmed(command="rm -rf build")["return_code"] == 0
    assert not (folder / "build").exists()
    assert "build/app.o" in command("undo")
    assert (folder / "build" / "app.o").read_text() == "compiled"


def test_confirmation_is_for_one_call(folder):
    """After a confirmed call the next one must be confirmed again."""
    shell_tool.confirmed(command="rm -rf build")
    (folder / "build").mkdir()
    assert "error" in shell_tool(command="rm -rf build")
    assert (folder / "build").exists()


def test_confirmation_does_not_override_a_denial():
    """A call that the judge denies is denied even if it is confirmed."""
    assert shell_tool.confirmed(command="rm -rf /")["status"] == "denied"
    assert shell_tool.invoke({"command": "mkfs.ext4 disk.img"}, confirm=True).status == "denied"


def test_model_cannot_confirm():
    """No parameter of the tool can confirm a call."""
    result = shell_tool.invoke({"command": "rm -rf build", "confirm": True})
    assert not result.ok
    assert Path("build/app.o").exists()


@pytest.mark.parametrize("is_async", [False, True])
def test_custom_destructive_tool_must_be_confirmed(is_async):
    """A call that the judge of a custom tool marks as destructive must be confirmed."""

    def judge(_):
        return Decision(Verdict.ALLOW, "mine", "It drops a table.", destroys="it drops a table.")

    def drop(table: str) -> str:
        return f"dropped {table}"

    async def adrop(table: str) -> str:
        return f"dropped {table}"

    tool = Tool(adrop if is_async else drop, judge=judge)
    with pytest.raises(Blocked, match=r"Command blocked for safety: it drops a table\."):
        tool("users")
    assert tool.invoke({"table": "users"}, confirm=True).value == "dropped users"
    assert asyncio.run(tool.ainvoke({"table": "users"}, confirm=True)).value == "dropped users"


def test_file_tools_are_journalled(folder):
    """Direct writes can be undone by `agentkit undo`, the latest first."""
    (folder / "a.txt").write_text("one")
    assert write_file_tool(path="a.txt", content="two") == {
        "path": "a.txt",
        "success": True,
        "bytes_written": 3,
        "created": False,
    }
    edit_file_tool(path="a.txt", old_text="two", new_text="three")
    assert "a.txt" in command("undo")
    assert (folder / "a.txt").read_text() == "two"
    command("undo")
    assert (folder / "a.txt").read_text() == "one"
    result = write_file_tool.invoke({"path": "new/b.txt", "content": "b"})
    assert result.undo().removed == ("new/b.txt",)
    assert not (folder / "new").exists()


def test_undo_of_a_call_preserves_later_changes(folder):
    """A call whose file was changed afterwards is not undone."""
    result = write_file_tool.invoke({"path": "a.txt", "content": "1"})
    (folder / "a.txt").write_text("by hand")
    with pytest.raises(ToolError, match="changed since"):
        result.undo()
    assert (folder / "a.txt").read_text() == "by hand"


def test_calls_without_changes_are_not_recorded():
    """Reads, failed calls and writes of identical content leave no record."""
    write_file_tool(path="a.txt", content="1")
    before = len(records())
    write_file_tool(path="a.txt", content="1")
    write_file_tool(path="a.txt/b", content="1")
    read_file_tool(path="a.txt")
    shell_tool(command="ls; mkdir -p build")
    shell_tool(command="exit 3")
    assert len(records()) == before
    assert len(list(Journal.of_this_machine().folder.iterdir())) == before
    with pytest.raises(ToolError, match="nothing to undo"):
        read_file_tool.invoke({"path": "a.txt"}).undo()


def test_number_of_recorded_calls_is_limited():
    """The newest hundred records of calls are stored, and do not displace records of runs."""
    run = Journal.of_this_machine().begin("a run", "kept")
    run.note("begun")
    for number in range(130):
        write_file_tool(path="a.txt", content=str(number))
    items = list(Journal.of_this_machine().folder.iterdir())
    assert len(items) == 101
    assert Journal.of_this_machine().find("kept").notes == ("begun",)


def test_concurrent_calls_have_separate_records(folder):
    """Undoing one of several concurrent results reverts only its own change."""
    results = {}

    def write(name):
        results[name] = write_file_tool.invoke({"path": name, "content": name})

    threads = [threading.Thread(target=write, args=[f"{number}.txt"]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, result in list(results.items())[::2]:
        assert result.undo().removed == (name,)
    assert len(list(folder.glob("*.txt"))) == 4


def test_call_works_without_a_writable_journal(folder, monkeypatch):
    """If the state folder cannot be created, the call works and states that it cannot be undone later."""
    (folder / "file").write_text("")
    monkeypatch.setenv("AGENTKIT_STATE", str(folder / "file" / "state"))
    written = write_file_tool.invoke({"path": "a.txt", "content": "1"})
    assert "`agentkit undo` cannot take it back" in written.value["note"]
    assert written.undo().removed == ("a.txt",)
    run = shell_tool.invoke({"command": "touch b.txt"})
    assert "`agentkit undo` cannot take it back" in run.value["note"]
    assert (folder / "b.txt").exists()


def test_command_line_confirms_with_an_option(folder):
    """`agentkit tools run` blocks destructive calls, names the option for confirming, and accepts it."""
    blocked = command("tools", "run", "run_shell", "rm -rf build")
    assert "--confirm" in blocked
    assert (folder / "build").exists()
    command("tools", "run", "run_shell", "rm -rf build", "--confirm")
    assert not (folder / "build").exists()
    assert "build/app.o" in command("undo")
