"""Tests for the system tools: results, limits, isolation and decisions."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from agentkit import Agent
from agentkit.decisions import Label, SafetyLevel, Verdict
from agentkit.errors import ConfigError
from agentkit.sandbox.guard.module_facades import TABLE
from agentkit.sandbox.isolation import MECHANISMS
from agentkit.sandbox.process import Confinement, command_boundary
from agentkit.sandbox.python import POOL, python_boundary
from agentkit.sandbox.watchdog import MEGABYTE, ProcessLimits
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.system import python_tool, python_tool_with, shell_tool, shell_tool_in
from agentkit.workspace.workspace import Workspace

ROOT = Path(__file__).parents[2]
SECCOMP_ONLY = frozenset({"seccomp"})
pytestmark = pytest.mark.skipif(
    not (python_boundary().is_strong and command_boundary().is_strong), reason="this machine lacks a strong boundary"
)


@pytest.fixture
def shell(tmp_path):
    """The shell tool of a workspace with one file."""
    (tmp_path / "notes.txt").write_text("hello\n")
    return shell_tool_in(Workspace(tmp_path))


def test_workspace_is_a_folder_name(tmp_path):
    """A folder name is accepted as workspace; a missing folder is rejected when the tool is created."""
    (tmp_path / "here.txt").touch()
    for folder in (tmp_path, str(tmp_path)):
        assert shell_tool_in(folder)(command="ls")["output"] == "here.txt\n"
    with pytest.raises(ConfigError, match="is not a folder"):
        shell_tool_in(tmp_path / "nosuch")


def test_unknown_isolation_is_rejected():
    """An unknown isolation is a configuration error when the tool is created."""
    with pytest.raises(ConfigError, match="Unknown isolation 'requird'"):
        python_tool_with(sandbox="requird")


def test_command_returns_its_output(shell):
    """A command returns its output, both streams, its return code and its confinement."""
    result = shell(command="cat notes.txt missing.txt")
    assert result["command"] == "cat notes.txt missing.txt"
    assert result["output"].startswith("hello\n")
    assert result["stdout"] == "hello\n"
    assert "missing.txt" in result["stderr"]
    assert (result["return_code"], result["status"], result["truncated"]) == (1, "ok", False)
    assert "namespaces" in result["boundary"]
    assert "error" not in result


def test_command_timeout_is_reported(tmp_path):
    """A timed out command returns an error with the limit, its output so far and no return code."""
    tool = shell_tool_in(Workspace(tmp_path), Confinement(limits=ProcessLimits(timeout_seconds=0.5)))
    result = tool(command="echo before; sleep 20")
    assert "after 0.5 seconds" in result["error"]
    assert (result["output"], result["status"]) == ("before\n", "timed_out")
    assert "return_code" not in result


def test_descriptions_state_the_limits(tmp_path):
    """The description states the limits and network access, also in another workspace."""
    granted = Confinement(network=True, limits=ProcessLimits(timeout_seconds=600))
    description = shell_tool_in(Workspace(tmp_path), granted).within(Workspace(tmp_path)).description
    assert "after 600 seconds" in description
    assert "may use the network" in description
    usual = shell_tool_in(Workspace(tmp_path)).description
    assert "after 30 seconds" in usual
    assert "has no network" in usual
    code = python_tool_with(limits=ProcessLimits(timeout_seconds=2.5, memory_bytes=2**30)).description
    assert "after 2.5 seconds, or when it wants more than 1,024 MB" in code
    assert "after 10 seconds, or when it wants more than 512 MB" in python_tool.description


def test_long_output_is_reported_as_truncated(tmp_path):
    """If the middle of an output is omitted, the status is `truncated`."""
    tool = shell_tool_in(Workspace(tmp_path), Confinement(limits=ProcessLimits(output_bytes=100)))
    result = tool(command="seq 1000")
    assert (result["status"], result["truncated"], result["return_code"]) == ("truncated", True, 0)


def test_denied_command_is_not_run(shell, tmp_path):
    """A denied command does not run, for any caller."""
    output = shell(command="rm -rf /")
    assert (output["command"], output["status"], output["decision"]["verdict"]) == ("rm -rf /", "denied", "deny")
    assert "Command blocked for safety" in output["error"]
    result = shell.invoke({"command": "rm -rf /"})
    assert result.status == "denied"
    assert "Command blocked for safety" in result.error
    assert (tmp_path / "notes.txt").exists()


def test_reading_is_allowed(shell):
    """A command that only reads is allowed; one that bash cannot parse is not."""
    assert shell.judge({"command": "cat notes.txt | head -1"}).verdict is Verdict.ALLOW
    assert shell.judge({"command": "echo 'x"}).verdict is not Verdict.ALLOW


def test_invalid_command_is_reported(shell):
    """An invalid command returns an error."""
    result = shell.function(command="echo \ud800")
    assert (result["status"], result["boundary"]) == ("failed", "none: it was not run")
    assert "surrogate" in result["error"]


def test_default_workspace_is_the_current_folder(tmp_path, monkeypatch):
    """Without a workspace, the tool uses the current folder at each call."""
    monkeypatch.chdir(tmp_path)
    assert shell_tool(command="pwd")["stdout"] == f"{tmp_path.resolve()}\n"


def test_unavailable_isolation_denies_commands(tmp_path):
    """If strong isolation is required but unavailable, commands are denied with a remedy."""
    confinement = Confinement(isolation="required", available=SECCOMP_ONLY)
    decision = shell_tool_in(Workspace(tmp_path), confinement).judge({"command": "ls"})
    assert (decision.verdict, decision.rule) == (Verdict.DENY, "shell.isolation-required")
    assert "is not available on this machine" in decision.reason
    assert decision.remedy


def test_unconfined_command_is_judged_more_strictly(tmp_path):
    """A command that changes files is not allowed automatically without strong isolation."""
    weak = shell_tool_in(Workspace(tmp_path), Confinement(available=SECCOMP_ONLY)).judge({"command": "touch made.txt"})
    assert weak.verdict is not Verdict.ALLOW


def test_commands_that_may_read_keys_need_approval(tmp_path):
    """Without a private root, a command that reads through files with keys needs approval."""
    (tmp_path / "app.py").write_text("print()\n")
    weak, strong = (
        shell_tool_in(Workspace(tmp_path), mode) for mode in (Confinement(available=SECCOMP_ONLY), Confinement())
    )
    search = {"command": "grep -rn print ."}
    assert weak.judge(search).verdict is Verdict.ALLOW
    (tmp_path / ".env").write_text("KEY=1\n")
    assert (weak.judge(search).verdict, weak.judge(search).rule) == (Verdict.ASK, "shell.exposed")
    assert weak.judge({"command": "grep -n print app.py"}).verdict is Verdict.ALLOW
    assert strong.judge(search).verdict is Verdict.ALLOW


def test_code_returns_its_output():
    """Code returns its printed text followed by the value of its last expression."""
    result = python_tool(code="print('one')\n6 * 7")
    assert (result["output"], result["status"]) == ("one\n42\n", "ok")
    assert result["code"] == "print('one')\n6 * 7"
    assert "seccomp" in result["boundary"]
    assert "error" not in result


@pytest.mark.for_each(
    ("code", "output"),
    [
        ("6 * 7", "42\n"),
        ("None", ""),
        ("x = 1", ""),
        ("print('no newline', end='')\n'value'", "no newline\n'value'\n"),
        ("''", "''\n"),
        ("import math\nprint(math.sqrt(2))", "1.4142135623730951\n"),
        ("```python\nprint(1)\n2\n```", "1\n2\n"),
        ("\n~~~ \r\n'a'\n~~~\n", "'a'\n"),
        ("````py\nprint('```')\n````\n\n", "```\n"),
        ("Here is the code:\n\n```python\nprint(1)\n```\nIt prints 1.", "1\n"),
        ("```json\n{}\n```\n1. Then\n   ```py\n   x = 2\n   ```\n   ```\n   x\n   ```", "2\n"),
        ("```python\nprint(3)", "3\n"),
        ('x = """\n```\nprint(4)\n```\n"""\nlen(x)', "18\n"),
    ],
)
def test_output_resembles_a_notebook(code, output):
    """Printed text is unchanged, a value is on a separate line, and None is omitted."""
    assert python_tool(code=code)["output"] == output


@pytest.mark.for_each(
    ("code", "words"),
    [
        ("print('x')\n1 / 0", "ZeroDivisionError"),
        ("def f(:", "SyntaxError"),
        ("import os", "'os' is not available"),
        ("open('/etc/passwd')", "open"),
        ("[].__class__.__base__.__subclasses__()", "line 1"),
        ("x" * 100_001, "100,001 bytes"),
        ("```python\n1 / 0\n```", "line 2: `1 / 0`"),
        ("So:\n```python\n1\n```\n```python\n1 / 0\n```", "line 6: `1 / 0`"),
        ("```python\n\n```", "in one block or without a fence"),
        ("```bash\nls\n```", "write the Python code alone"),
    ],
)
def test_error_of_code_includes_its_output(code, words):
    """Code that fails or is rejected returns an error and its output so far."""
    result = python_tool(code=code)
    assert words in result["error"]
    assert result["status"] == "failed"
    assert result["output"] == ("x\n" if "print" in code else "")


def test_code_timeout_is_reported():
    """Code that exceeds its time limit is stopped and returns its output so far."""
    result = python_tool_with(limits=ProcessLimits(timeout_seconds=0.5))(code="print('x')\nwhile True: pass")
    assert (result["status"], result["output"]) == ("timed_out", "x\n")
    assert "after 0.5 seconds" in result["error"]


STATEFUL_LIMITS = ProcessLimits(
    timeout_seconds=1.0,
    memory_bytes=400 * MEGABYTE,
    processes=8,
    file_bytes=MEGABYTE,
    scratch_bytes=MEGABYTE,
    open_files=64,
)


def stateful_results(*codes, llm=None, **options):
    """Return the results of consecutive code calls in one run with shared variables."""
    python = python_tool_with(limits=STATEFUL_LIMITS, stateful=True)
    llm = llm or ScriptedLLM(*(call("run_python", code=code) for code in codes), "Done.")
    result = Agent("helper", [python], llm=llm, **options).run("Compute.")
    return [used.result.value for used in result.tool_calls]


def sandbox_workers():
    """The live worker processes of this process."""
    return {each.pid for each in psutil.Process().children() if each.is_running() and each.status() != "zombie"}


def test_stateful_code_shares_names_within_a_run():
    """Variables, functions, classes and imports persist between calls of a run, also after errors."""
    results = stateful_results(
        "import math\nprices = [3, 4]\ndef total(): return math.fsum(prices)\nclass Sum:\n    value = 5",
        "prices.append(Sum.value)\nrest = 1 / 0",
        "print(total())",
        "def broken(",
        "total() + Sum().value",
    )
    assert [each["output"] for each in results] == ["", "", "12.0\n", "", "17.0\n"]
    assert [each["variables"] for each in results] == ["kept"] * 5
    assert "ZeroDivisionError" in results[1]["error"]
    assert "All variables remain" in results[1]["error"]
    assert not any("note" in each for each in results)


@pytest.mark.parametrize(
    ("code", "words"),
    [("while True: pass", "timed out after 1 seconds"), ("x = 'x' * 10**9", "ran out of memory")],
)
def test_stateful_code_that_is_ended_loses_its_variables(code, words):
    """After a call that was ended, the result states that the variables are lost, and the next call has none."""
    ended, after = stateful_results("x = 1", code, "x")[1:]
    assert words in ended["error"]
    assert "are lost: define again" in ended["error"]
    assert ended["variables"] == "lost"
    assert "NameError" in after["error"]
    assert "began without the variables" in after["note"]


def test_runs_have_separate_variables():
    """Each run has a separate worker that ends with the run; the stateless tool stores nothing."""
    before, llm = sandbox_workers(), ScriptedLLM(call("run_python", code="secret = 1"), "Done.")
    python = python_tool_with(limits=STATEFUL_LIMITS, stateful=True)
    agent = Agent("helper", [python], llm=llm)
    agent.run("Compute.")
    assert sandbox_workers() - before <= {each.program.pid for _, each in POOL._waiting}
    llm = ScriptedLLM(call("run_python", code="secret"), "Done.")
    value = agent.run("And now?", llm=llm).tool_calls[0].result.value
    assert "NameError" in value["error"]
    assert "began without the variables" in value["note"]
    assert "NameError" in python(code="secret")["error"]
    plain = Agent("helper", [python_tool], llm=ScriptedLLM(*(call("run_python", code=c) for c in ("x = 1", "x")), "."))
    assert "NameError" in plain.run("Compute.").tool_calls[1].result.value["error"]


def test_stateful_calls_of_one_response_run_in_order():
    """Calls of one response run in order, sync and async; cancelling ends the worker."""
    codes = [call("run_python", code=f"x = {'0' if n == 0 else 'x * 10 + ' + str(n)}\nx") for n in range(5)]
    python = python_tool_with(limits=STATEFUL_LIMITS, stateful=True)
    agent = Agent("helper", [python], llm=ScriptedLLM(codes, "Done."), remember=False)
    assert [used.result.value["output"] for used in agent.run("Count.").tool_calls][-1] == "1234\n"
    agent.llm = ScriptedLLM(codes, "Done.")
    result = asyncio.run(agent.arun("Count."))
    assert [used.result.value["output"] for used in result.tool_calls][-1] == "1234\n"


def test_stateful_code_is_judged(monkeypatch):
    """The policy applies to every call, and a container, which runs one call only, is rejected with the reason."""
    python, answers = python_tool_with("off", STATEFUL_LIMITS, stateful=True), [True, False]
    llm = ScriptedLLM(call("run_python", code="x = 1"), call("run_python", code="x"), "Done.")
    agent = Agent("helper", [python], llm=llm, approve=lambda _: answers.pop(0), safety="system")
    assert [used.result.status for used in agent.run("Compute.").tool_calls] == ["ok", "denied"]
    assert not answers
    monkeypatch.setenv("AGENTKIT_SANDBOX", "docker")
    decision = python_tool_with(stateful=True).judge({"code": "1"})
    assert decision.denied
    assert "Docker container" in decision.reason


@pytest.mark.parametrize(
    ("command", "status"), [("cat notes.txt; exit 3", "failed"), ("false", "failed"), ("cat notes.txt", "ok")]
)
def test_non_zero_exit_code_is_a_failed_call(shell, tmp_path, command, status):
    """A non-zero exit code is a failed call, and the model reads the output and the code."""
    llm = ScriptedLLM(call("run_shell", command=command), "Done.")
    (used,) = Agent("helper", [shell], llm=llm, workspace=tmp_path).run("Test.").tool_calls
    assert (used.result.status, used.result.error) == (status, None)
    assert used.result.value["output"] == ("" if command == "false" else "hello\n")
    assert f'"return_code": {used.result.value["return_code"]}' in llm.requests[1].messages[-1].content


def test_isolated_code_needs_no_approval():
    """With strong isolation, code needs no approval, although its level is SYSTEM."""
    decision = python_tool.judge({"code": "import os"})
    assert (decision.verdict, decision.rule, decision.level) == (Verdict.ALLOW, "python.sandboxed", SafetyLevel.NETWORK)
    assert python_tool.level is shell_tool.level is SafetyLevel.SYSTEM


def test_unisolated_code_needs_approval():
    """Without isolation, code needs approval, and the reason names the missing mechanisms."""
    decision = python_tool_with("off").judge({"code": "1"})
    assert (decision.verdict, decision.rule) == (Verdict.ASK, "python.uncontained")
    assert "seccomp" in decision.reason
    assert python_tool_with("off")(code="1 + 1")["output"] == "2\n"


def test_code_may_require_isolation():
    """Requiring isolation has no effect if strong isolation is available."""
    assert python_tool_with("required")(code="print(1)")["output"] == "1\n"


def test_descriptions_name_limits_and_modules():
    """The descriptions state limits and list only modules that are available."""
    assert (shell_tool.name, list(shell_tool.parameters["properties"])) == ("run_shell", ["command"])
    assert (python_tool.name, list(python_tool.parameters["properties"])) == ("run_python", ["code"])
    assert "30 seconds" in shell_tool.description
    named = python_tool.description.partition("such as ")[2].partition(". Files")[0]
    words = set(named.replace(",", " ").split()) - {"and"}
    assert len(words) > 10
    assert words <= TABLE.keys()


def test_tools_do_not_block_the_event_loop():
    """Both tools can be awaited concurrently."""

    async def main():
        started = time.monotonic()
        calls = [shell_tool.ainvoke({"command": "sleep 0.5; echo x"}) for _ in range(2)]
        calls += [python_tool.ainvoke({"code": "print(1)"}) for _ in range(2)]
        results = await asyncio.gather(*calls)
        return [result.value["output"] for result in results], time.monotonic() - started

    outputs, _ = asyncio.run(main())
    assert outputs == ["x\n", "x\n", "1\n", "1\n"]


WITHOUT_POSIX = """
import os, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty"):
    sys.modules[name] = None
for name in dir(os):
    if name.startswith(("O_DIR", "O_NO", "O_CLO", "gete", "getu", "fork", "kill", "setsid", "mkfifo", "uname")):
        delattr(os, name)
from agentkit import calculator_tool, read_file_tool, shell_tool, write_file_tool
from agentkit.tools.system import python_tool
from agentkit.workspace.journal import Journal
print(calculator_tool(expression="6 * 7")["result"])
print(write_file_tool(path="a.txt", content="x")["success"], read_file_tool(path="a.txt")["content"])
Journal.of_this_machine().runs()
for tool, arguments in ((shell_tool, {"command": "ls"}), (python_tool, {"code": "1"})):
    print(tool(**arguments)["error"])
"""


def test_tools_can_be_imported_on_limited_platforms(tmp_path):
    """Without POSIX modules, core and file tools work, and system tools name the supported platforms."""
    code = [sys.executable, "-c", WITHOUT_POSIX]
    environment = os.environ | {"AGENTKIT_HOME": str(tmp_path / "home"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(code, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert (lines[:2], done.stderr) == (["42", "True x"], "")
    assert [line.count("run on Linux and macOS only") for line in lines[2:]] == [1, 1]


def test_creating_the_tools_starts_nothing():
    """Creating the tools starts no process and imports only the standard library."""
    code = (
        "import sys, os; sys.path.insert(0, sys.argv[1]); import agentkit.tools.system, threading;"
        "print(os.listdir('/proc/self/task').__len__(), open('/proc/self/task/%d/children' % os.getpid()).read(),"
        " 'pydantic' in sys.modules, 'tree_sitter' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(ROOT)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False", "False"]


def test_code_without_the_required_isolation_is_rejected():
    """If the required isolation is unavailable, judge and tool reject the code."""
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from agentkit.tools.system import python_tool_with\n"
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6))\n"
        "tool = python_tool_with()\n"
        "print(tool.judge({'code': '1'}).rule, tool.function(code='1')['boundary'])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(ROOT)], capture_output=True, text=True, check=False)
    assert done.stdout == "python.isolation-required none: it was not run\n"


def test_all_mechanisms_have_a_name():
    """Every mechanism has a description."""
    assert {"landlock", "seccomp", "bubblewrap", "user"} <= MECHANISMS


def test_command_changes_can_be_undone(tmp_path):
    """Files that a command creates, changes or removes are shown in a diff and can be restored."""
    (tmp_path / "old.txt").write_text("old\n")
    (tmp_path / "gone.txt").write_text("gone\n")
    workspace = Workspace(tmp_path)
    shell_tool_in(workspace)(command="echo new > new.txt; echo more >> old.txt; mv gone.txt moved.txt")
    assert {"+new", "+more", "-gone"} <= set(workspace.changes.splitlines())
    workspace.undo()
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"old.txt": "old\n", "gone.txt": "gone\n"}


@pytest.mark.parametrize("name", ["-e1eid.py", "x -e1eid.py"])
def test_file_name_that_looks_like_an_option_needs_approval(tmp_path, name):
    """A pattern that matches ordinary files is allowed, unless the name of a file could be an option."""
    judge = shell_tool.within(Workspace(tmp_path)).judge
    (tmp_path / "plain.py").write_text("x\n")
    assert judge({"command": "sed -n 1p *.py"}).allowed
    (tmp_path / name).write_text("x\n")
    decision = judge({"command": "sed -n 1p *.py"})
    assert (decision.allowed, decision.rule) == (False, "shell.option")
    assert name in decision.reason
    assert judge({"command": "sed -n 1p -- *.py; wc -l *.py"}).allowed, "an option is not possible there"


def test_command_in_a_dry_run_changes_nothing(tmp_path):
    """In a dry run, a command cannot write in its workspace, and the result states that."""
    shell = shell_tool_in(Workspace(tmp_path, dry_run=True))
    result = shell(command="echo x > x.txt || echo no")
    assert "no\n" in result["output"]
    assert "dry run" in result["note"]
    assert list(tmp_path.iterdir()) == []
    assert "note" not in shell(command="ls")


def test_dry_run_without_isolation_is_denied(tmp_path):
    """Without isolation, a dry run allows only commands that read."""
    weak = shell_tool_in(Workspace(tmp_path, dry_run=True), Confinement(available=SECCOMP_ONLY))
    assert weak.judge({"command": "touch x.txt"}).rule == "shell.dry-run"
    assert weak.judge({"command": "ls"}).verdict is Verdict.ALLOW


def test_network_makes_results_untrusted(tmp_path):
    """A shell with network access has untrusted results."""
    granted = shell_tool_in(Workspace(tmp_path), Confinement(network=True))
    assert granted.labels == {Label.PRIVATE, Label.UNTRUSTED}
    assert shell_tool.labels == {Label.PRIVATE}
    assert python_tool.labels == set()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [(shell_tool, {"command": "sleep 29"}), (python_tool, {"code": "while True: pass"})],
    ids=["run_shell", "run_python"],
)
def test_cancelled_call_stops_its_processes(tool, arguments):
    """A cancelled call ends promptly and leaves no process running."""

    async def cancel():
        task = asyncio.create_task(tool.ainvoke(arguments))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    started = time.monotonic()
    asyncio.run(cancel())
    assert time.monotonic() - started < 8
    assert not [
        found for found in psutil.process_iter(["cmdline"]) if "sleep 29" in " ".join(found.info["cmdline"] or [])
    ]


def test_child_processes_cannot_read_host_variables(tmp_path, monkeypatch):
    """Commands can read neither environment variables of the host nor those of its processes."""
    monkeypatch.setenv("PLANTED_API_KEY", "planted-7f3a9c")
    monkeypatch.setenv("PLANTED_HARMLESS_NAME", "planted-7f3a9c")
    command = "env; set; cat /proc/*/environ /proc/self/environ 2>/dev/null | tr '\\0' '\\n'; ps aux"
    output = shell_tool_in(Workspace(tmp_path)).function(command=command)
    assert output["return_code"] == 0
    assert "planted" not in output["output"].replace("PLANTED", "")
    assert "PLANTED" not in output["output"]


def test_keys_at_any_depth_are_hidden(tmp_path, monkeypatch):
    """Files named like keys, links to them, and the state folder cannot be read by a command."""
    monkeypatch.setenv("AGENTKIT_STATE", str(tmp_path / "state"))
    for name in ("sub/.env", "a/b/id_rsa", "state/journal", "linked.txt", "plain.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("planted-91")
    (tmp_path / "link.pem").symlink_to("linked.txt")
    workspace = Workspace(tmp_path)
    output = shell_tool_in(workspace).function(
        command="cat sub/.env a/b/id_rsa linked.txt link.pem state/*; echo; cat plain.txt"
    )
    assert output["stdout"] == "\nplanted-91"


def test_settings_created_by_a_script_are_removed_and_reported(tmp_path):
    """Settings that a script creates are removed, reported with the remedy, and stored in the journal."""
    (tmp_path / "make.py").write_text("import os; os.mkdir('.vscode'); open('.vscode/tasks.json', 'w').write('evil-1')")
    workspace = Workspace(tmp_path)
    output = shell_tool_in(workspace).function(command="python3 make.py; echo x > agentkit.toml")
    assert ".vscode" in output["note"]
    assert "agentkit.toml" in output["note"]
    assert "write_file" in output["note"]
    assert [path.name for path in tmp_path.iterdir()] == ["make.py"]
    assert not workspace.undo().removed


def deepen(folder):
    """Create nested folders until the path of the last one is too long."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(50):
        os.mkdir("d" * 100, dir_fd=here)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_unsearchable_workspace_needs_approval(tmp_path):
    """A command judged before is not run; the next one needs approval, and its result states the problem."""
    shell = shell_tool_in(Workspace(tmp_path))
    assert shell.judge({"command": "ls"}).verdict is Verdict.ALLOW
    deepen(tmp_path)
    output = shell.function(command="ls")
    assert (output["status"], output["boundary"]) == ("failed", "none: it was not run")
    decision = shell.judge({"command": "ls"})
    assert (decision.verdict, decision.rule) == (Verdict.ASK, "shell.unsearched")
    output = shell.function(command="ls")
    assert output["status"] == "ok"
    assert "Not all of the workspace was searched" in output["note"]


def test_named_settings_are_kept_except_those_of_agentkit(tmp_path):
    """Settings files named in a command are kept, but those of agentkit are removed."""
    shell = shell_tool_in(Workspace(tmp_path))
    command = "mkdir .vscode && echo x > .vscode/tasks.json && echo x > agentkit.toml"
    assert shell.judge({"command": command}).verdict is Verdict.ASK
    output = shell.function(command=command)
    assert "It created .vscode" in output["note"]
    assert [path.name for path in tmp_path.iterdir()] == [".vscode"]


@pytest.mark.for_each(("count", "more"), [(10, ""), (12, " and 2 more")])
def test_notes_list_ten_files_by_name(count, more, tmp_path_factory):
    """A note lists the first ten of the settings and secrets that a command created, and counts the others."""
    shell = shell_tool_in(Workspace(tmp_path_factory.mktemp("ws")))
    numbers = sorted(map(str, range(count)))
    each = "mkdir -p d$n/.vscode; echo x > d$n/.vscode/tasks.json; echo x > d$n/agentkit.toml; echo K=1 > d$n/.env"
    note = shell.function(command=f"for n in {' '.join(numbers)}; do {each}; done")["note"]
    settings, secrets, removed = (
        f"{', '.join(f'd{number}/{name}' for number in numbers[:10])}{more}"
        for name in (".vscode", ".env", "agentkit.toml")
    )
    assert f"It created {settings}, which other programs run or obey later." in note
    assert f"It created {removed}, which other programs run or obey later. These files were removed." in note
    assert f"appeared while it ran: {secrets}. The output" in note


def test_preview_lists_ten_files_by_name(shell):
    """The preview of a command lists the first ten files of each kind, and counts the others."""
    command = f"cat {' '.join(f'{number}.txt' for number in range(10, 22))}; touch new.txt; bash run.sh"
    read = ", ".join(f"{number}.txt" for number in range(10, 20))
    summary = shell.preview({"command": command}).summary
    assert summary[-3:] == ("runs: run.sh", f"reads: {read} and 2 more", "changes: new.txt")


def test_unrecordable_changes_do_not_hide_the_result(tmp_path):
    """If the changes of a command cannot be recorded, its result is returned with a note."""
    command = 'python3 -c \'import os\nfor _ in range(300): os.mkdir("d"); os.chdir("d")\nprint(1)\''
    output = shell_tool_in(Workspace(tmp_path)).function(command=command)
    assert output["stdout"] == "1\n"
    assert "cannot be undone" in output.get("note", "cannot be undone")


BOTH_LAUNCHERS = {"bubblewrap": Confinement(), "worker": Confinement(available=MECHANISMS - {"bubblewrap"})}


@pytest.fixture
def repository(tmp_path):
    """A workspace that is a repository with one commit, as created by `git init` without a template."""
    (tmp_path / "notes.txt").write_text("hello\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(tmp_path)]
    for line in (["init", "-q", "--template="], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *line], check=True)
    return tmp_path


@pytest.mark.parametrize("mode", BOTH_LAUNCHERS)
def test_deleted_objects_of_git_are_reported(repository, mode):
    """Deleted git objects are reported, and files of the sandbox do not count as changes."""
    workspace = Workspace(repository)
    (repository / "wipe.py").write_text("import shutil\nshutil.rmtree('.git/objects', ignore_errors=True)\n")
    none = shell_tool_in(workspace, BOTH_LAUNCHERS[mode])(command="python3 wipe.py")
    assert "deleted objects of the git repository" in none["note"]
    assert "cannot restore them" in none["note"]
    undone = workspace.undo()
    assert not [name for name in undone.removed if "config.worktree" in name or "attributes" in name]


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "echo x >> notes.txt && git commit -qam y",
        "git gc -q",
        "git repack -qad",
        "git checkout -q -b other && git stash list",
    ],
)
def test_ordinary_work_with_git_loses_no_objects(repository, command):
    """Commands that add or repack objects are not reported as deleting any."""
    workspace = Workspace(repository)
    output = shell_tool_in(workspace).function(command=f"export EMAIL=a@example.com; {command}")
    assert output["return_code"] == 0
    assert "deleted objects" not in output.get("note", "")
    assert not [name for name in workspace.undo().removed if "config.worktree" in name or "attributes" in name]


def test_change_of_git_settings_fails_with_a_hint(repository):
    """The git configuration is read-only for commands, and the note says that the user can change it."""
    before = (repository / ".git/config").read_text()
    result = shell_tool_in(repository)(command="git config user.name x")
    assert result["return_code"] != 0
    assert "ask the user to run this one" in result["note"]
    assert (repository / ".git/config").read_text() == before
