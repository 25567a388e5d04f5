"""Tests for the file tools: results, decisions, undo, and agentkit's own records."""

import json
import os
import threading

import pytest

from agentkit.decisions import SafetyLevel, Verdict
from agentkit.errors import Blocked
from agentkit.tools.files import (
    access_check,
    edit_file_in,
    edit_file_tool,
    list_directory_in,
    list_directory_tool,
    read_file_in,
    read_file_tool,
    search_files_in,
    search_files_tool,
    write_file_in,
    write_file_tool,
)
from agentkit.workspace.journal import Journal
from agentkit.workspace.workspace import Workspace

LEVELS = {"read": SafetyLevel.NETWORK, "write": SafetyLevel.SYSTEM}
TOOLS = (read_file_tool, write_file_tool, edit_file_tool, list_directory_tool, search_files_tool)


@pytest.fixture
def folder(tmp_path):
    """The folder of a workspace."""
    folder = tmp_path / "ws"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / ".env").write_text("API_KEY=hidden-value\n")
    return folder


@pytest.fixture
def workspace(folder):
    """The workspace of that folder."""
    return Workspace(folder)


def test_tools_are_described():
    """The tools have the documented names, parameters, levels and descriptions."""
    described = {tool.name: list(tool.parameters["properties"]) for tool in TOOLS}
    assert described == {
        "read_file": ["path", "offset", "limit", "column"],
        "write_file": ["path", "content"],
        "edit_file": ["path", "old_text", "new_text"],
        "list_directory": ["path"],
        "search_files": ["pattern", "path", "glob"],
    }
    for tool in TOOLS:
        assert tool.level is SafetyLevel.SYSTEM
        assert len(tool.description) > 40
        assert all(parameter["description"] for parameter in tool.parameters["properties"].values())


def test_file_is_read(workspace):
    """A short file is read as a whole."""
    assert read_file_in(workspace)(path="a.txt") == {
        "path": "a.txt",
        "content": "one\ntwo\n",
        "total_lines": 2,
        "bytes": 8,
    }


def test_document_is_read_as_text(workspace, folder, docx, pdf):
    """The text of a PDF or office document is returned in parts."""
    (folder / "plan.docx").write_bytes(docx("Plan", "Thirty days."))
    (folder / "report.pdf").write_bytes(pdf("Call before nine."))
    read = read_file_in(workspace)
    assert read(path="plan.docx", limit=2)["content"] == "# Plan\n\n"
    assert read(path="plan.docx", offset=3)["content"] == "Thirty days."
    assert read(path="report.pdf")["content"] == "[Page 1]\nCall before nine."
    assert "cannot be edited" in read(path="report.pdf")["note"]


def test_unreadable_document_is_reported(workspace, folder, docx):
    """A damaged or unsupported document returns an error, and secrets in documents are hidden."""
    (folder / "cut.docx").write_bytes(docx("Plan", "Thirty days.")[:50])
    (folder / "old.doc").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100))
    (folder / "key.docx").write_bytes(docx("Key", "sk-proj-" + "a1B2" * 12))
    read = read_file_in(workspace)
    assert "damaged" in read(path="cut.docx")["error"]
    assert "save it as DOCX" in read(path="old.doc")["error"]
    assert "a1B2a1B2" not in read(path="key.docx")["content"]


def test_file_is_read_in_parts(workspace, folder):
    """A long file is returned in parts with the next offset, and invalid UTF-8 is reported."""
    tool = read_file_in(workspace)
    assert tool("a.txt", limit=1)["next_offset"] == 2
    assert "status" not in tool("a.txt", limit=1)
    (folder / "long.txt").write_text("x" * 99 + "\n" * 1 + ("y" * 99 + "\n") * 5_000)
    result = tool.invoke({"path": "long.txt"})
    assert result.status == "truncated"
    assert result.value["next_offset"] == 2_561
    (folder / "old.txt").write_bytes(b"caf\xe9")
    old = tool("old.txt")
    assert "detected as cp1252" in old.pop("note")
    assert old == {"path": "old.txt", "content": "café", "total_lines": 1, "bytes": 4, "encoding": "cp1252"}
    (folder / "line.txt").write_text("z" * 300_000)
    assert "is longer" in tool("line.txt")["note"]


@pytest.mark.parametrize("path", ["missing.txt", "sub", ""])
def test_failure_is_reported(path, workspace):
    """A failed call returns the path and an error."""
    for tool, arguments in (
        (read_file_in(workspace), {}),
        (write_file_in(workspace), {"content": "x"}),
        (edit_file_in(workspace), {"old_text": "a", "new_text": "b"}),
    ):
        if path == "missing.txt" and tool.name == "write_file":
            continue
        result = tool.invoke({"path": path, **arguments})
        assert (result.status, result.value["path"], result.value["error"]) == ("failed", path, result.error)
        assert json.loads(result.content)["error"]


def test_file_is_written(workspace, folder):
    """Writing returns the number of bytes and whether the file was created."""
    tool = write_file_in(workspace)
    assert tool("sub/new/é.txt", "é\n") == {
        "path": "sub/new/é.txt",
        "success": True,
        "bytes_written": 3,
        "created": True,
    }
    assert tool("a.txt", "x")["created"] is False
    (folder / "b.txt").hardlink_to(folder / "a.txt")
    assert "1 more name(s)" in tool("a.txt", "y")["note"]
    assert (folder / "b.txt").read_text() == "x"


def test_file_is_edited(workspace, folder):
    """Editing returns a diff of the changes."""
    result = edit_file_in(workspace)("a.txt", "two", "TWO")
    assert result["success"] is True
    assert "-two\n+TWO\n" in result["changes"]
    assert (folder / "a.txt").read_text() == "one\nTWO\n"


def test_folder_is_listed(workspace, folder):
    """Folders and files are listed by name."""
    tool = list_directory_in(workspace)
    assert tool() == {"path": ".", "directories": ["sub"], "files": [".env", "a.txt"]}
    assert tool("missing")["error"] == "'missing' does not exist."
    for number in range(1_200):
        os.close(os.open(folder / "sub" / str(number), os.O_CREAT))
    result = tool.invoke({"path": "sub"})
    assert result.status == "truncated"
    assert (len(result.value["files"]), result.value["total_entries"]) == (1_000, 1_200)


def test_search_skips_secret_files(workspace, folder):
    """A search returns the file and line of each match and skips files that contain secrets."""
    tool = search_files_in(workspace)
    assert tool("one|hidden") == {
        "pattern": "one|hidden",
        "path": ".",
        "matches": [{"path": "a.txt", "line": 1, "text": "one"}],
        "files_searched": 1,
    }
    assert tool("hidden")["status"] == "empty"
    assert "not a regular expression" in tool("(")["error"]
    (folder / "many.txt").write_text("x\n" * 300)
    assert tool("x", "many.txt")["status"] == "truncated"


def test_slow_pattern_times_out(workspace, folder):
    """A pattern that takes too long returns a timeout with the matches found before."""
    (folder / "b.txt").write_text("a" * 60 + "!")
    (folder / "a.txt").write_text("aaa")
    result = search_files_in(workspace).invoke({"pattern": "^(a+)+$"})
    assert result.status == "timed_out"
    assert result.value["matches"] == [{"path": "a.txt", "line": 1, "text": "aaa"}]


def test_file_path_is_an_alias_of_path(workspace):
    """`file_path` is accepted as an alias of `path`."""
    tool = read_file_in(workspace)
    assert tool(file_path="a.txt")["path"] == "a.txt"
    assert tool.invoke('{"file_path": "a.txt"}').status == "ok"
    assert tool.invoke({"file_path": "a.txt", "path": "a.txt"}).decision.rule == "bad-arguments"
    assert list_directory_in(workspace)(file_path="sub")["files"] == []


@pytest.mark.parametrize(
    ("access", "path", "verdict", "rule"),
    [
        ("read", "a.txt", "allow", "workspace.read"),
        ("write", "a.txt", "allow", "workspace.write"),
        ("read", "missing", "allow", "workspace.read"),
        ("read", "", "allow", "workspace.read"),
        ("read", ".env", "deny", "workspace.secret"),
        ("write", "sub/.env", "deny", "workspace.secret"),
        ("read", "~/.ssh/id_rsa", "deny", "workspace.secret"),
        ("read", "/etc/shadow", "deny", "workspace.secret"),
        ("read", "/etc/hostname", "deny", "workspace.outside"),
        ("write", "../x", "deny", "workspace.outside"),
        ("write", ".git/hooks/pre-commit", "ask", "workspace.protected"),
        ("read", ".git/config", "allow", "workspace.read"),
        ("read", "link", "deny", "workspace.secret"),
        ("write", "hooks/pre-commit", "deny", "workspace.protected"),
        ("read", "up/x", "deny", "workspace.outside"),
    ],
)
def test_call_is_judged(access, path, verdict, rule, workspace, folder):
    """Secrets and outside paths are denied, hooks require approval, and reads have a lower level."""
    (folder / "link").symlink_to(".env")
    (folder / ".git/hooks").mkdir(parents=True)
    (folder / "hooks").symlink_to(".git/hooks")
    (folder / "up").symlink_to("..")
    tool = read_file_in(workspace) if access == "read" else write_file_in(workspace)
    decision = tool.judge({"path": path} | ({} if access == "read" else {"content": "x"}))
    assert (decision.verdict, decision.rule, decision.level) == (verdict, rule, LEVELS[access])
    assert decision.evidence == path
    assert bool(decision.remedy) is (verdict != "allow")
    assert not decision.egress


def test_denied_direct_call_returns_the_decision(workspace):
    """A denied direct call returns the path, status, decision and an error with a remedy."""
    result = write_file_in(workspace)("../x.txt", "x")
    assert (result["path"], result["status"], result["decision"]["rule"]) == ("../x.txt", "denied", "workspace.outside")
    assert "outside the workspace" in result["error"]
    assert "give workspace=" in result["error"]


@pytest.mark.parametrize(
    ("access", "place", "refused"),
    [
        ("read", ".env", True),
        ("write", ".env", True),
        ("write", ".git/config", True),
        ("read", ".git/config", False),
        ("write", "b.txt", False),
    ],
)
def test_resolved_path_is_checked_again(access, place, refused, workspace):
    """The resolved path is checked again on access, in case a link has replaced the file."""
    check = access_check(workspace, "a.txt", access)
    if refused:
        with pytest.raises(Blocked):
            check(place)
    else:
        check(place)
    access_check(workspace, ".git/config", "write")(".git/config")


def test_secret_is_not_read_during_a_link_race(workspace, folder):
    """A secret is never returned while a link to it is swapped in concurrently."""
    stop = threading.Event()
    (folder / "x").write_text("harmless")

    def swap():
        while not stop.is_set():
            (folder / "tmp").symlink_to(".env")
            (folder / "tmp").rename(folder / "x")
            (folder / "tmp").write_text("harmless")
            (folder / "tmp").rename(folder / "x")

    thread = threading.Thread(target=swap)
    thread.start()
    tool = read_file_in(workspace)
    results = [tool.invoke({"path": "x"}) for _ in range(2_000)]
    stop.set()
    thread.join()
    assert not any("hidden-value" in result.content for result in results)
    assert {result.decision.verdict for result in results} <= {Verdict.ALLOW, Verdict.DENY}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_tool_can_be_made_for_another_workspace(tool, workspace, folder):
    """The tools work in the current folder, and each can be made for another workspace."""
    moved = tool.within(workspace)
    assert (moved.name, type(moved), moved.is_in_workspace) == (tool.name, type(tool), True)
    assert list_directory_tool.within(workspace)()["directories"] == ["sub"]
    assert "pyproject.toml" in list_directory_tool()["files"]


def test_run_can_be_undone(workspace, folder):
    """The changes of all tools in a run form one diff and are undone together."""
    run = workspace.for_run("r", "a run")
    write_file_tool.within(run)("new.txt", "x\n")
    edit_file_tool.within(run)("a.txt", "one", "1")
    assert run.changes.count("diff --git") == 2
    run.undo()
    assert (folder / "a.txt").read_text() == "one\ntwo\n"
    assert not (folder / "new.txt").exists()


def own_places(folder):
    """Return the paths of agentkit's records in a workspace: by name, in another case, and by a link."""
    (folder / "state").mkdir()
    (folder / "way").symlink_to("state")
    return ("state/journal/1~r.journal", "way/x", "state", "STATE/x", "a/../state/key")


@pytest.mark.parametrize("access", ["read", "write"])
def test_agentkit_records_are_inaccessible(access, folder, workspace, monkeypatch):
    """The records of agentkit can be neither read nor written, wherever they are stored."""
    monkeypatch.setenv("AGENTKIT_STATE", str(folder / "state"))
    for path in own_places(folder):
        arguments = {"path": path} if access == "read" else {"path": path, "content": "x"}
        tool = read_file_in(workspace) if access == "read" else write_file_in(workspace)
        decision = tool.judge(arguments)
        assert (decision.verdict, decision.rule) == (Verdict.DENY, "workspace.secret"), path
        with pytest.raises(Blocked):
            access_check(workspace, path, access)("state/journal/x")
    assert list_directory_in(workspace).judge({"path": "state"}).verdict is Verdict.DENY
    assert edit_file_in(workspace).judge({"path": "state/a", "old_text": "", "new_text": ""}).verdict is Verdict.DENY
    assert write_file_in(workspace).judge({"path": "states/a", "content": ""}).verdict is not Verdict.DENY


def test_agentkit_records_are_not_searched(folder, workspace, monkeypatch):
    """A search skips the records of agentkit, including a journal inside the workspace."""
    monkeypatch.setenv("AGENTKIT_STATE", str(folder / "state"))
    for name in ("state", "kept"):
        (folder / name).mkdir()
        (folder / name / "x.txt").write_text("needle\n")
    assert len(search_files_in(workspace)("needle")["matches"]) == 1
    assert search_files_in(Workspace(folder, journal=Journal(folder / "kept")))("needle")["matches"] == []


def test_workspace_in_the_state_folder_is_inaccessible(folder, workspace, monkeypatch):
    """Files of a workspace inside the state folder of agentkit cannot be read."""
    monkeypatch.setenv("AGENTKIT_STATE", str(folder.parent))
    assert read_file_in(workspace).judge({"path": "a.txt"}).verdict is Verdict.DENY


MARKED = "k=[redacted: API key]\n"


def test_redaction_marker_is_not_written(folder, workspace):
    """Writing a redaction marker is denied unless the file really contains it."""
    write, edit = write_file_in(workspace), edit_file_in(workspace)
    for arguments in ({"path": "a.txt", "content": MARKED}, {"path": "new.txt", "content": MARKED}):
        decision = write.judge(arguments)
        assert (decision.verdict, decision.rule) == (Verdict.DENY, "workspace.redacted")
        assert "secret that you were not shown" in decision.reason
    assert edit.judge({"path": "a.txt", "old_text": "one", "new_text": MARKED}).rule == "workspace.redacted"
    assert edit.judge({"path": "a.txt", "old_text": MARKED, "new_text": f"a{MARKED}"}).verdict is not Verdict.DENY
    (folder / "a.txt").write_text(MARKED)
    assert write.judge({"path": "a.txt", "content": f"a\n{MARKED}"}).verdict is not Verdict.DENY
    assert write.judge({"path": "a.txt", "content": MARKED * 2}).verdict is Verdict.DENY


@pytest.mark.parametrize("path", ["b.sql/.", "c.sql/y/..", "d.sql/"])
def test_name_of_a_file_cannot_be_hidden(path, folder, workspace):
    """A path that does not end with the name of the file cannot be written."""
    result = write_file_in(workspace)(path=path, content="x")
    assert (result["success"], "name a file" in result["error"]) == (False, True)
    assert not list(folder.glob("*.sql"))
