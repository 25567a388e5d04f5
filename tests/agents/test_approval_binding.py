"""Tests for approvals, which are bound to real locations and to the content of scripts."""

import os
from pathlib import Path

import pytest

from agentkit import Agent, Approval, RunResult, Tool
from agentkit.agents.tool_policy import approval_binding, changed_files_denial
from agentkit.decisions import Decision, Verdict
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.files import file_tools, write_file_tool
from agentkit.tools.system import shell_tool
from agentkit.workspace.workspace import Workspace

ALLOWED = Decision(Verdict.ALLOW, "test", "Approved.")
LINES = [
    "bash deploy.sh",
    "./deploy.sh --now",
    "env A=1 bash deploy.sh",
    "cd . && sh deploy.sh",
    "bash < deploy.sh",
    "cat deploy.sh | bash",
    "bash *.sh",
    "source deploy.sh",
    "python3 deploy.sh",
    "make -f deploy.sh",
    "bash -c './deploy.sh'",
    "awk -f deploy.sh x",
    "sed -fdeploy.sh x",
    "bash --rcfile deploy.sh -i",
    'eval "$(cat deploy.sh)"',
    'bash -c "$(cat deploy.sh)"',
    'for f in *.sh; do bash "$f"; done',
    "find . -name '*.sh' -exec bash {} +",
    "xargs -a deploy.sh -I{} bash -c {}",
    "cp deploy.sh copy.sh; bash copy.sh",
    """python3 -c "exec(open('deploy.sh').read())" """,
]


@pytest.fixture
def folder(tmp_path):
    """A workspace with a script and a folder, and a folder outside of it."""
    work = tmp_path / "work"
    (work / "out").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    script = work / "deploy.sh"
    script.write_text("echo good\n")
    script.chmod(0o755)
    return work


def agent(folder, *lines, approve, tools=(shell_tool,)):
    """Return an agent of the lowest level, whose changes all require approval."""
    return Agent("helper", list(tools), llm=ScriptedLLM(*lines), approve=approve, safety="network", workspace=folder)


def last(result):
    """Return the result of the last tool call."""
    return result.tool_calls[-1].result


@pytest.mark.parametrize("line", LINES)
def test_call_is_bound_to_the_content_of_its_script(folder, line):
    """A changed script invalidates the approval, however the command names the script."""
    tool = shell_tool.within(Workspace(folder))
    bound = approval_binding(tool, {"command": line}, str(folder))
    assert changed_files_denial(ALLOWED, bound, str) is None
    (folder / "deploy.sh").write_text("echo evil\n")
    lapsed = changed_files_denial(ALLOWED, bound, str)
    assert lapsed is not None
    assert lapsed.denied
    assert ".sh" in lapsed.reason


@pytest.mark.for_each(("count", "more"), [(1, ""), (3, ""), (4, " and 1 more"), (5, " and 2 more")])
def test_refusal_names_the_first_three_changed_files(count, more, folder):
    """The reason names up to three changed files, and counts the others."""
    names = [f"{number}.sh" for number in range(count)]
    for name in names:
        (folder / name).write_text("echo good\n")
    command = {"command": " && ".join(f"bash {name}" for name in names)}
    bound = approval_binding(shell_tool.within(Workspace(folder)), command, str(folder))
    for name in names:
        (folder / name).write_text("echo evil\n")
    named = ", ".join(repr(str(folder / name)) for name in names[:3])
    reason = f"The call was not run: {named}{more} changed after the approval was requested."
    assert changed_files_denial(ALLOWED, bound, str).reason == reason


def test_makefile_counts_as_a_script(folder):
    """A `make` command is bound to the content of the makefile."""
    (folder / "Makefile").write_text("all:\n\techo good\n")
    bound = approval_binding(shell_tool.within(Workspace(folder)), {"command": "make all"}, str(folder))
    (folder / "Makefile").write_text("all:\n\techo evil\n")
    assert changed_files_denial(ALLOWED, bound, str) is not None


FOLDERS_AS_SCRIPTS = ["make -C d", "python3 d", "bash d", "find d -exec bash {} \\;", "sh d/", "source d"]


@pytest.mark.parametrize("line", FOLDERS_AS_SCRIPTS)
def test_command_on_a_folder_is_bound_to_its_files(folder, line):
    """A command on a folder is bound to the files in the folder."""
    (folder / "d").mkdir()
    (folder / "d" / "Makefile").write_text("all:\n\techo good\n")
    bound = approval_binding(shell_tool.within(Workspace(folder)), {"command": line}, str(folder))
    assert changed_files_denial(ALLOWED, bound, str) is None
    (folder / "d" / "Makefile").write_text("all:\n\techo evil\n")
    assert changed_files_denial(ALLOWED, bound, str) is not None
    result = agent(folder, call("run_shell", command=line), "Done.", approve=lambda *_: True).run("Go on.")
    assert result.text == "Done."


ODD_SCRIPTS = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a folder without permissions": lambda path: path.mkdir(0),
    "a file without permissions": lambda path: path.touch(0),
    "nothing": lambda _: None,
}


@pytest.mark.parametrize("make", ODD_SCRIPTS.values(), ids=ODD_SCRIPTS)
@pytest.mark.parametrize("line", ["bash odd", "bash odd/inner", "bash o*d", f"bash {'x' * 300}", "bash 'o[d'"])
def test_unreadable_script_does_not_fail_the_run(folder, make, line):
    """An unreadable script requires approval and does not fail the run."""
    make(folder / "odd")
    questions = []
    helper = agent(folder, call("run_shell", command=line), "Done.", approve=lambda *_: questions.append(1))
    assert helper.run("Go on.").text == "Done."
    assert questions


@pytest.mark.parametrize("line", ["cp deploy.sh out/x", "rm -r out", "echo 1 > out/x", "mv out/a out/b"])
def test_call_is_bound_to_real_locations(folder, line):
    """Replacing a folder with a link invalidates the approval."""
    bound = approval_binding(shell_tool.within(Workspace(folder)), {"command": line}, str(folder))
    assert changed_files_denial(ALLOWED, bound, str) is None
    (folder / "out").rmdir()
    (folder / "out").symlink_to(folder.parent / "elsewhere")
    assert changed_files_denial(ALLOWED, bound, str) is not None


def test_other_changes_keep_the_approval_valid(folder):
    """Changes to files that a command reads or writes do not invalidate the approval."""
    bound = approval_binding(shell_tool.within(Workspace(folder)), {"command": "cp deploy.sh out/x"}, str(folder))
    (folder / "deploy.sh").write_text("echo other\n")
    (folder / "out" / "x").write_text("there already")
    assert changed_files_denial(ALLOWED, bound, str) is None


def test_special_files_do_not_block(folder):
    """Binding a pipe or an unreadable file does not block."""
    os.mkfifo(folder / "pipe.sh")
    bound = approval_binding(shell_tool.within(Workspace(folder)), {"command": "bash pipe.sh"}, str(folder))
    assert changed_files_denial(ALLOWED, bound, str) is None


def test_script_changed_during_the_approval_is_not_run(folder):
    """A script that is changed during the approval is not run, and a repeated call asks again."""
    questions = []

    def approve(request):
        questions.append(request.arguments["command"])
        if len(questions) == 1:
            (folder / "deploy.sh").write_text("touch evil\n")
        return True

    line = {"command": "bash deploy.sh"}
    result = agent(folder, call("run_shell", **line), call("run_shell", **line), "Done.", approve=approve).run("go")
    first, second = (each.result for each in result.tool_calls)
    assert first.status == "denied"
    assert "deploy.sh" in first.error
    assert "changed after the approval was requested" in first.error
    assert first.decision.rule == "approval-lapsed"
    assert second.ok
    assert len(questions) == 2


@pytest.mark.parametrize("tools", ["shipped", "own"])
def test_path_swapped_for_a_link_is_not_written(folder, tools):
    """A tool does not write to a path that was replaced with a link after the request."""

    def put(path: str) -> str:
        (folder / path).write_text("x")
        return "written"

    def approve(_):
        (folder / "out").rmdir()
        (folder / "out").symlink_to(folder.parent / "elsewhere")
        return True

    tool = write_file_tool if tools == "shipped" else Tool(put, "write_file", level="SYSTEM")
    arguments = {"path": "out/a.txt"} | ({"content": "x"} if tools == "shipped" else {})
    result = agent(folder, call("write_file", **arguments), "Done.", approve=approve, tools=[tool]).run("go")
    assert not last(result).ok
    assert not list((folder.parent / "elsewhere").iterdir())


@pytest.mark.parametrize("is_changed", [False, True])
def test_later_approval_is_bound_to_the_original_files(folder, is_changed):
    """An approval given later by another program is bound to the files at the time of the request."""
    calling = agent(folder, call("run_shell", command="bash deploy.sh"), approve=lambda _: Approval.LATER)
    saved = calling.run("go").to_json()
    if is_changed:
        (folder / "deploy.sh").write_text("touch evil\n")
    other = agent(folder, "Done.", approve=None)
    result = other.resume(RunResult.from_json(saved), True)
    assert last(result).ok is not is_changed
    assert ("good" in last(result).content) is not is_changed
    assert not (folder / "evil").exists()


def test_lasting_approval_ends_with_the_script(folder):
    """An approval for the run covers a script only while its content is unchanged."""
    questions = []

    def approve(request):
        questions.append(request)
        return Approval.RUN

    line = call("run_shell", command="bash deploy.sh")
    change = Tool(lambda: (folder / "deploy.sh").write_text("echo new\n"), "change", "Change it.")
    helper = agent(folder, line, line, call("change"), line, "Done.", approve=approve, tools=[shell_tool, change])
    assert helper.run("go").text == "Done."
    assert len(questions) == 2


@pytest.mark.parametrize(
    ("arguments", "meanwhile", "is_applied"),
    [
        ({"content": "new\n"}, "old\nline\n", True),
        ({"content": "new\n"}, "other\nline\n", False),
        ({"content": "new\n"}, None, False),
        ({"old_text": "old", "new_text": "new"}, "old\nline\nmore\n", True),
        ({"old_text": "old", "new_text": "new"}, "first\nold\nline\n", True),
        ({"old_text": "old", "new_text": "new"}, "old too\nline\n", False),
    ],
)
def test_only_the_shown_diff_is_applied(folder, arguments, meanwhile, is_applied):
    """A file change during the approval invalidates it if the diff would be different."""
    file, name = folder / "a.txt", "write_file" if "content" in arguments else "edit_file"
    file.write_text("old\nline\n")

    def approve(request):
        assert "-old" in request.preview.diff
        if meanwhile is None:
            file.unlink()
        else:
            file.write_text(meanwhile)
        return True

    line = call(name, path="a.txt", **arguments)
    result = agent(folder, line, "Done.", approve=approve, tools=file_tools).run("go")
    assert (last(result).ok, last(result).decision.rule == "approval-lapsed") == (is_applied, not is_applied)
    assert (file.exists() and "new" in file.read_text()) is is_applied


@pytest.mark.parametrize("is_changed", [True, False])
def test_later_approval_is_bound_to_the_shown_diff(folder, is_changed):
    """A saved run applies the diff that was shown, or nothing."""
    file = folder / "a.txt"
    file.write_text("old\n")
    line = call("write_file", path="a.txt", content="new\n")
    paused = agent(folder, line, approve=lambda _: Approval.LATER, tools=file_tools).run("go")
    file.write_text("other\n" if is_changed else "old\n")
    other = agent(folder, "Done.", approve=None, tools=file_tools)
    result = other.resume(RunResult.from_json(paused.to_json()), True)
    assert last(result).ok is not is_changed
    assert file.read_text() == ("other\n" if is_changed else "new\n")


def test_permanent_approval_covers_later_diffs(folder):
    """A permanent approval covers later diffs of the same file."""
    (folder / "a.txt").write_text("old\n")
    lines = [call("write_file", path="a.txt", content=f"{number}\n") for number in (1, 2)]
    questions = []
    helper = agent(folder, *lines, "Done.", approve=lambda _: questions.append(1) or Approval.ALWAYS, tools=file_tools)
    helper.run("go")
    assert (len(questions), (folder / "a.txt").read_text()) == (1, "2\n")
