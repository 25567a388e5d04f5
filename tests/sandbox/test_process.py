"""Tests for the isolation, limits and cleanup of shell commands."""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from agentkit.errors import ConfigError, SandboxError
from agentkit.sandbox import bubblewrap
from agentkit.sandbox.isolation import MECHANISMS
from agentkit.sandbox.mounts import command_mounts
from agentkit.sandbox.process import (
    PLAIN_COMMAND,
    Confinement,
    bash_can_parse,
    check_syntax,
    command_boundary,
    run_command,
)
from agentkit.sandbox.watchdog import Cancellation, ProcessLimits, run_cancellable

ROOT = Path(__file__).parents[2]
TOKEN = "CANARY-91bc"
WITHOUT_BUBBLEWRAP = MECHANISMS - {"bubblewrap"}
MODES = {
    "bubblewrap": Confinement(),
    "worker": Confinement(available=WITHOUT_BUBBLEWRAP),
    "landlock": Confinement(available=frozenset({"landlock", "seccomp"})),
    "off": Confinement(isolation="off"),
}
STRONG = [name for name in ("bubblewrap", "worker") if command_boundary(MODES[name]).is_strong]
CLOSED = [*STRONG, "landlock"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        len(STRONG) < 2,
        reason="bubblewrap is not installed" if shutil.which("bwrap") is None else "this machine lacks user namespaces",
    ),
]
IN_BUBBLEWRAP = pytest.mark.skipif(not bubblewrap.mechanisms(MECHANISMS), reason="bubblewrap is not installed")


@pytest.fixture
def workspace(tmp_path):
    """A workspace with a repository with hooks, keys and settings."""
    for name, text in {
        "notes.txt": "hello\n",
        ".env": TOKEN,
        ".env.local": TOKEN,
        ".env.example": "KEY=\n",
        ".git/config": "[core]\n",
        ".git/hooks/pre-commit": "#!/bin/sh\n",
        ".ssh/id_rsa": TOKEN,
        ".aws/credentials": TOKEN,
        "agentkit.toml": "[policy]\n",
        ".bashrc": "PS1=x\n",
        ".mcp.json": "{}\n",
    }.items():
        path = tmp_path / "workspace" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "outside.txt").write_text(TOKEN)
    return tmp_path / "workspace"


def limited(confinement, **limits):
    """Return the same confinement with other limits."""
    return Confinement(isolation=confinement.isolation, available=confinement.available, limits=ProcessLimits(**limits))


def survivors(mark):
    """Return the processes with this word in their command line."""
    found = [process.info for process in psutil.process_iter(["pid", "cmdline"])]
    return [info["pid"] for info in found if mark in " ".join(info["cmdline"] or ())]


@pytest.mark.parametrize("mode", MODES)
def test_command_runs_in_its_workspace(mode, workspace):
    """A command runs in its workspace, and its output and exit code are returned."""
    outcome = run_command("pwd; cat notes.txt; echo err >&2; echo new > new.txt; exit 7", workspace, MODES[mode])
    assert outcome.stdout == f"{workspace}\nhello\n"
    assert (outcome.stderr, outcome.return_code, outcome.status, outcome.error) == ("err\n", 7, "ok", "")
    assert (workspace / "new.txt").read_text() == "new\n"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", ["-x", "--help", "", "true #", "cat", "read x; echo $x", "exit 300"])
def test_any_text_is_a_command(mode, command, workspace):
    """A command can look like an option, be empty or read input, which is empty."""
    outcome = run_command(command, workspace, MODES[mode])
    assert outcome.status == "ok"
    assert outcome.return_code in {0, 1, 44, 127}


@pytest.mark.parametrize("mode", MODES)
def test_signal_is_part_of_the_exit_code(mode, workspace):
    """A command killed by a signal returns 128 plus its number, as in shells."""
    assert run_command("kill -15 $$", workspace, MODES[mode]).return_code == 143


@pytest.mark.parametrize("mode", MODES)
def test_command_has_no_secret_of_the_environment(mode, workspace, monkeypatch):
    """A command receives only harmless variables and an empty home folder."""
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "MY_TOKEN", "LD_PRELOAD_X", "BASH_ENV", "PROMPT_COMMAND"):
        monkeypatch.setenv(name, TOKEN)
    monkeypatch.setenv("LC_NUMERIC", "C")
    printed = run_command("env; ls -A ~; cat /proc/[0-9]*/environ 2>/dev/null", workspace, MODES[mode]).output
    assert "LC_NUMERIC=C" in printed
    if mode != "off":
        assert TOKEN not in printed


SECRET_READS = [
    "cat .env",
    "cat .env.local",
    "cat .ssh/id_rsa",
    "cat .aws/credentials",
    "cat ../outside.txt",
    "cat $(pwd)/../outside.txt",
    "ln -s ../outside.txt l; cat l",
    "ln ../outside.txt l; cat l",
    "cat /proc/1/root$(pwd)/../outside.txt",
    "cat /proc/{host}/root$(pwd)/../outside.txt",
    "cat /proc/{host}/environ",
    "grep -r CANARY . ..",
    "tar c . .. | strings",
    "cp -r .. copy; cat copy/outside.txt",
    "find / -name outside.txt -exec cat {{}} + 2>/dev/null",
    "unshare -Ur cat ../outside.txt; unshare -rm umount .env; cat .env",
    "umount .env; cat .env",
    "mount -t tmpfs x /mnt && cat .env",
    "exec 3< ../outside.txt; cat <&3",
    "env -i bash -c 'cat ../outside.txt'",
    "cat /etc/shadow | grep :",
]


@pytest.mark.parametrize("mode", STRONG)
@pytest.mark.parametrize("command", SECRET_READS)
def test_secrets_cannot_be_read(mode, command, workspace, monkeypatch):
    """Keys in the workspace, files outside of it and the host's environment are not accessible to a command."""
    monkeypatch.setenv("HOST_SECRET", TOKEN)
    outcome = run_command(command.format(host=os.getpid()), workspace, MODES[mode])
    assert TOKEN not in outcome.output
    assert "root:" not in outcome.output


@pytest.mark.parametrize("mode", STRONG)
@pytest.mark.parametrize("name", [".env ", ".env.", "id_rsa .", "prod.env  "])
def test_secret_with_spaces_or_dots_behind_its_name_is_hidden(mode, name, workspace):
    """A name that equals that of a secret file except for trailing spaces or dots is hidden."""
    (workspace / name).write_text(TOKEN)
    outcome = run_command(f"cat '{name}' ; ls", workspace, MODES[mode])
    assert TOKEN not in outcome.output
    assert name in outcome.output


@pytest.mark.parametrize("command", ["cat ../outside.txt", "ls /root", "cat /etc/shadow", "cat /proc/{host}/environ"])
def test_landlock_alone_protects_files_outside(command, workspace, monkeypatch):
    """If no root can be built, files outside the workspace and the system's programs are not accessible."""
    monkeypatch.setenv("HOST_SECRET", TOKEN)
    outcome = run_command(command.format(host=os.getpid()), workspace, MODES["landlock"])
    assert TOKEN not in outcome.output
    assert outcome.return_code != 0
    assert not outcome.boundary.is_strong


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in STRONG])
def test_folder_like_a_repository_runs_nothing(mode, workspace):
    """Without a strong sandbox, git ignores bare repositories made of ordinary files."""
    planted = workspace / "data"
    for folder in ("objects", "refs"):
        (planted / folder).mkdir(parents=True)
    (planted / "HEAD").write_text("ref: refs/heads/main\n")
    (planted / "config").write_text("[core]\nbare = false\nworktree = ..\nfsmonitor = touch ran; false\n")
    outcome = run_command(
        "cd data && git status; git init -q ../own && cd ../own && git status", workspace, MODES[mode]
    )
    assert "On branch" in outcome.stdout
    assert not list(workspace.rglob("ran"))


WRITES = [
    "echo x > ../outside.txt",
    "echo x > /etc/agentkit_touch",
    "echo x > /usr/agentkit_touch",
    "rm -rf ../outside.txt",
    "mv ../outside.txt .",
    "chmod 777 ../outside.txt",
    "touch -d 2001-01-01 ../outside.txt",
    "ln -s ../outside.txt l; echo x > l",
    'python3 -c \'open("../outside.txt", "w")\'',
    "truncate -s 0 ../outside.txt",
]


@pytest.mark.parametrize("mode", CLOSED)
@pytest.mark.parametrize("command", WRITES)
def test_nothing_outside_is_changed(mode, command, workspace):
    """A command changes nothing outside of its workspace."""
    if mode == "landlock" and command.startswith(("chmod", "touch")):
        pytest.skip("Landlock does not restrict modes and times")
    outside = workspace.parent / "outside.txt"
    before = outside.stat()
    run_command(command, workspace, MODES[mode])
    assert outside.read_text() == TOKEN
    assert (outside.stat().st_mode, outside.stat().st_mtime) == (before.st_mode, before.st_mtime)
    assert not Path("/etc/agentkit_touch").exists()
    assert not Path("/usr/agentkit_touch").exists()


@pytest.mark.parametrize("mode", STRONG)
@pytest.mark.parametrize(
    "command",
    [
        "echo x > .git/config",
        "echo x > .git/hooks/pre-commit",
        "echo x > .git/hooks/post-commit",
        "rm -rf .git/hooks",
        "mv .git/hooks hooks",
        "mv .git git && echo x > git/config",
        "sed -i s/policy/x/ agentkit.toml",
        "git config core.fsmonitor x",
        "mv .git g && cp -r g .git && echo x > .git/config && echo x > .git/hooks/pre-commit",
        'python3 -c \'import os; os.rename(".git", "g2"); os.mkdir(".git"); open(".git/config", "w")\'',
        "echo x > .env",
        "echo x > .bashrc; mv .bashrc b; rm -f .bashrc; cp notes.txt .bashrc",
        "for f in .mcp.json .bashrc; do ln -sf notes.txt $f; done",
    ],
)
def test_settings_of_later_runs_cannot_be_changed(mode, command, workspace):
    """Hooks, settings of the repository and of the agent, and keys cannot be changed."""
    run_command(command, workspace, MODES[mode])
    names = (".git/config", ".git/hooks/pre-commit", "agentkit.toml", ".env", ".bashrc", ".mcp.json")
    fields = {name: (workspace / name) for name in names}
    if not fields[".git/config"].exists():
        fields = {name: workspace / name.replace(".git/", "git/") for name in fields}
    texts = ["[core]\n", "#!/bin/sh\n", "[policy]\n", TOKEN, "PS1=x\n", "{}\n"]
    assert [path.read_text() for path in fields.values()] == texts


@pytest.mark.parametrize("mode", STRONG)
def test_workspace_may_be_read_only(mode, workspace):
    """For a trial run, the workspace can be read but not changed."""
    confinement = Confinement(writable=False, available=MODES[mode].available)
    outcome = run_command("cat notes.txt; echo x > notes.txt; rm notes.txt; touch a", workspace, confinement)
    assert outcome.output.startswith("hello\n")
    assert (workspace / "notes.txt").read_text() == "hello\n"
    assert not (workspace / "a").exists()


OPEN_KERNEL_FILES = """
import os
own = {"self", "thread-self", *filter(str.isdigit, os.listdir("/proc"))}
tried, opened = set(), []
for top in ("/proc", "/sys"):
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if folder != "/proc" or name not in own]
        for path in (f"{folder}/{name}" for name in files):
            tried.add(path)
            try:  # never written to: these are the files of this machine's kernel
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                opened.append(path)
            except OSError:
                pass
print("/proc/sys/kernel/core_pattern" in tried, len(tried) > 500, opened)
"""
USE_OWN_FILES = """
echo one > /dev/stdout; cat <(echo two); echo three | tee /proc/self/fd/2 > /dev/null; echo four > >(cat); wait
python3 -c 'import subprocess; subprocess.run(["bash", "-c", "echo five > /dev/fd/1"])'
"""
WAYS_INTO_THE_KERNEL = {
    **{name: MODES[name] for name in CLOSED},
    "worker without Landlock": Confinement(available=WITHOUT_BUBBLEWRAP - {"landlock"}),
    "no mount namespace": Confinement(available=WITHOUT_BUBBLEWRAP - {"mount"}),
}


@pytest.mark.parametrize("mode", WAYS_INTO_THE_KERNEL)
def test_kernel_files_cannot_be_opened_for_writing(mode, workspace):
    """Root in the sandbox cannot open any file below /proc and /sys for writing."""
    (workspace / "walk.py").write_text(OPEN_KERNEL_FILES)
    outcome = run_command("python3 walk.py", workspace, WAYS_INTO_THE_KERNEL[mode])
    assert outcome.output == "True True []\n"


@pytest.mark.parametrize("mode", WAYS_INTO_THE_KERNEL)
def test_command_uses_its_own_descriptors_by_name(mode, workspace):
    """/dev/stdout, /dev/fd, process substitution and /proc/self/fd work although /proc is read-only."""
    outcome = run_command(USE_OWN_FILES, workspace, WAYS_INTO_THE_KERNEL[mode])
    assert sorted(outcome.output.split()) == ["five", "four", "one", "three", "two"]


CONNECT = "exec 3<>/dev/tcp/127.0.0.1/{port} && echo CONNECTED"


@pytest.mark.parametrize("mode", CLOSED)
@pytest.mark.parametrize(
    "command",
    [
        CONNECT,
        "echo x > /dev/udp/127.0.0.1/{port} && echo CONNECTED",
        'python3 -c \'import socket as s; s.create_connection(("127.0.0.1", {port})); print("CONNECTED")\'',
        'python3 -c \'import socket as s; s.socket(s.AF_UNIX).connect("{unix}"); print("CONNECTED")\'',
        'python3 -c \'import socket as s; s.socket(s.AF_UNIX).connect("\\0{abstract}"); print("CONNECTED")\'',
    ],
)
def test_command_has_no_network(mode, command, workspace):
    """A command cannot connect to a service of this machine on any kind of socket."""
    unix, abstract = str(workspace / "socket"), f"agentkit-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as path,
        socket.socket(socket.AF_UNIX) as name,
    ):
        path.bind(unix)
        path.listen()
        name.bind(f"\0{abstract}")
        name.listen()
        words = {"port": server.getsockname()[1], "unix": unix, "abstract": abstract}
        outcome = run_command(command.format(**words), workspace, MODES[mode])
        for listener in (server, path, name):
            listener.settimeout(0)
            with pytest.raises(BlockingIOError):
                listener.accept()
    if "udp" not in command or mode == "landlock":
        assert "CONNECTED" not in outcome.output


@pytest.mark.parametrize("mode", STRONG)
def test_network_access_can_be_granted(mode, workspace):
    """A command with network access can connect to what its host can, and the boundary states it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        confinement = Confinement(network=True, available=MODES[mode].available, isolation="required")
        outcome = run_command(CONNECT.format(port=server.getsockname()[1]), workspace, confinement)
    assert outcome.output == "CONNECTED\n"
    assert "net" not in outcome.boundary.mechanisms


DAEMONS = [
    "sleep {mark} & sleep 60",
    "setsid sleep {mark} & sleep 60",
    "(setsid nohup sleep {mark} >/dev/null 2>&1 &) ; sleep 60",
    'python3 -c "import os,time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n'
    "  os.execlp('sleep', 'sleep', '{mark}')\n os._exit(0)\ntime.sleep(60)\"",
    "trap '' TERM INT HUP; while :; do sleep {mark}; done",
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", DAEMONS)
@pytest.mark.parametrize("waits", [True, False])
def test_child_processes_end_with_the_command(mode, command, waits, workspace):
    """Processes started by a command end with it, even in a separate session and after a timeout."""
    mark = f"{9_000_000 + abs(hash((mode, command, waits))) % 900_000}"
    text = command.format(mark=mark)
    if not waits:
        text = text.replace("sleep 60", "sleep 0.2").replace("time.sleep(60)", "time.sleep(.2)")
    started = time.monotonic()
    is_endless = waits or "while" in command
    outcome = run_command(text, workspace, limited(MODES[mode], timeout_seconds=0.8 if is_endless else 15))
    assert time.monotonic() - started < 20
    assert outcome.status == ("timed_out" if is_endless else "ok")
    assert survivors(mark) == []


@pytest.mark.parametrize("mode", STRONG)
def test_fork_bomb_is_ended(mode, workspace):
    """A fork bomb is ended by the process limit."""
    confinement = limited(MODES[mode], processes=64, timeout_seconds=15)
    command = "f() { [ $1 -gt 0 ] && { f $(($1 - 1)) | f $(($1 - 1)) & }; sleep 20; }; f 6"
    outcome = run_command(command, workspace, confinement)
    assert outcome.status == "failed"
    assert "more than 64 processes" in outcome.error


@pytest.mark.parametrize("mode", MODES)
def test_too_many_processes_are_ended(mode, workspace):
    """A command that exceeds its process limit is ended with all its processes."""
    command = "for n in $(seq 90); do setsid sleep 9712345 & done; sleep 9712345"
    outcome = run_command(command, workspace, limited(MODES[mode], processes=64, timeout_seconds=15))
    assert "more than 64 processes" in outcome.error
    assert survivors("9712345") == []


@pytest.mark.parametrize("mode", MODES)
def test_memory_is_limited(mode, workspace):
    """A command that exceeds its memory limit gets an error or is ended."""
    code = "python3 -c 'import time\na = []\nwhile True: a.append(bytearray(10 ** 7)); time.sleep(0.01)'"
    outcome = run_command(code, workspace, limited(MODES[mode], memory_bytes=200_000_000, timeout_seconds=20))
    assert "MemoryError" in outcome.stderr or "memory" in outcome.error


@pytest.mark.parametrize("mode", MODES)
def test_long_output_is_cut_in_the_middle(mode, workspace):
    """Long output keeps its beginning and its end, with a note about the omitted bytes."""
    outcome = run_command("seq 100000", workspace, limited(MODES[mode], output_bytes=1000))
    assert outcome.truncated
    assert outcome.output.startswith("1\n2\n3\n")
    assert outcome.output.endswith("99999\n100000\n")
    assert "588,895 bytes left out" in outcome.output
    assert outcome.return_code == 0


def test_partial_output_is_returned():
    """Output written before a timeout is returned."""
    outcome = run_command(
        "echo so far; sleep 60", "/usr", Confinement(writable=False, limits=ProcessLimits(timeout_seconds=0.5))
    )
    assert (outcome.output, outcome.status, outcome.return_code) == ("so far\n", "timed_out", None)
    assert "after 0.5 seconds" in outcome.error


@pytest.mark.parametrize(
    ("masked", "mode"),
    [
        ("bubblewrap", "seccomp"),
        pytest.param("seccomp", "bubblewrap", marks=IN_BUBBLEWRAP),
        ("user", "Landlock"),
        ("pid", "seccomp"),
        pytest.param("landlock", "bubblewrap", marks=IN_BUBBLEWRAP),
    ],
)
def test_masked_mechanism_is_reported_or_refused(masked, mode, workspace):
    """Without one mechanism, a command runs with the others, which are listed, or fails if all are required."""
    confinement = Confinement(available=MECHANISMS - {masked})
    outcome = run_command("echo x", workspace, confinement)
    assert outcome.output == "x\n"
    assert masked not in outcome.boundary.mechanisms
    assert mode in outcome.boundary.describe()
    assert outcome.boundary == command_boundary(confinement)
    required = Confinement(available=MECHANISMS - {masked}, isolation="required")
    if outcome.boundary.is_strong:
        assert run_command("echo x", workspace, required).output == "x\n"
    else:
        with pytest.raises(SandboxError, match=f"no .*{masked}|no .*mount"):
            run_command("touch ran", workspace, required)
        assert not (workspace / "ran").exists()


@pytest.mark.parametrize("command", ["a\0b", "echo \ud800"])
def test_invalid_command_is_rejected(command, workspace):
    """A command with a NUL character or a lone surrogate raises a SandboxError."""
    with pytest.raises(SandboxError, match="not run"):
        run_command(command, workspace)


@pytest.mark.parametrize("folder", ["/", "/does/not/exist", "/etc/passwd"])
def test_workspace_must_be_a_folder(folder):
    """A command without a workspace folder, or with the root folder as workspace, is not run."""
    with pytest.raises(SandboxError, match="workspace"):
        run_command("true", folder)


@pytest.mark.parametrize("mode", ["bubblewrap", "worker"])
def test_too_long_command_is_rejected(mode, workspace):
    """A command longer than the kernel accepts raises a SandboxError or fails."""
    outcome_or_error = None
    try:
        outcome_or_error = run_command("true " + "x" * 200_000, workspace, MODES[mode])
    except SandboxError as error:
        outcome_or_error = error
    assert isinstance(outcome_or_error, SandboxError) or outcome_or_error.return_code != 0


def test_unknown_isolation_is_rejected():
    """An unknown isolation value raises an error."""
    with pytest.raises(ConfigError, match="auto"):
        Confinement(isolation="none")


def test_command_can_be_awaited_and_cancelled(workspace):
    """Awaiting a command does not block, and cancelling it ends all its processes."""

    async def main():
        outcome = await run_cancellable(lambda request: run_command("echo x", workspace, cancellation=request))
        assert outcome.output == "x\n"
        sleeping = run_cancellable(lambda request: run_command("sleep 9512345", workspace, cancellation=request))
        await asyncio.wait_for(sleeping, 0.5)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert survivors("9512345") == []


def test_command_can_be_cancelled_from_another_thread(workspace):
    """A command ends when another thread cancels it."""
    cancellation = Cancellation()
    threading.Timer(0.3, cancellation.cancel).start()
    outcome = run_command("sleep 60", workspace, Confinement(), cancellation)
    assert (outcome.status, outcome.error) == ("failed", "It was cancelled.")


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from agentkit.sandbox.process import *
available = frozenset(sys.argv[3].split(","))
print("ready", flush=True)
run_command("setsid sleep 9612345 & sleep 9612345", sys.argv[2], Confinement(available=available))
"""


@pytest.mark.parametrize("available", [MECHANISMS, WITHOUT_BUBBLEWRAP, frozenset({"seccomp"})])
def test_commands_end_with_their_host(available, workspace):
    """When the host is killed, its commands end shortly afterwards."""
    arguments = [sys.executable, "-c", PROGRAM, str(ROOT), str(workspace), ",".join(available)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as program:
        program.stdout.readline()
        deadline = time.monotonic() + 20
        while not survivors("sleep 9612345") and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        program.kill()
    deadline = time.monotonic() + 10
    while survivors("sleep 9612345") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert survivors("sleep 9612345") == []


AS_NOBODY = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.path.insert(0, sys.argv[1])
from agentkit.sandbox.process import *
from agentkit.sandbox.python import run_python
for available in (MECHANISMS, MECHANISMS - {"bubblewrap"}):
    confinement = Confinement(available=available, isolation="required")
    outcome = run_command("id -u; echo x > made; cat made", sys.argv[2], confinement)
    print(outcome.output.split(), outcome.boundary.is_strong)
outcome = run_python("print(6 * 7); open('/etc/passwd')", guard=False, sandbox="required")
print(outcome.output.split()[0], outcome.boundary.is_strong, outcome.error[:17])
"""


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/usr/bin/python3").exists(), reason="needs root and a system Python")
def test_unprivileged_user_has_the_same_sandbox(tmp_path):
    """Without privileges, the sandbox is as strong as root's."""
    shutil.copytree(ROOT / "agentkit", tmp_path / "agentkit", ignore=shutil.ignore_patterns("__pycache__", "guard"))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for folder in (workspace, tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o777)
    done = subprocess.run(
        ["/usr/bin/python3", "-c", AS_NOBODY, str(tmp_path), str(workspace)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["['65534', 'x'] True"] * 2 + ["42 True FileNotFoundError"]


@pytest.mark.parametrize("command", ["echo x", "for i in 1 2; do echo $i; done", "cat <<E\nx\nE", "-c", "[[ a = b ]]"])
def test_valid_command_is_parsed_by_bash(command):
    """A command that bash can parse is accepted without running it."""
    assert bash_can_parse(command)


@pytest.mark.parametrize(
    "command", ["echo 'x", "if", "for", "echo )", "a\0b", "echo \ud800", "case x in", "x" * 300_000, "$(", "done"]
)
def test_invalid_command_is_rejected_by_bash(command):
    """A command that bash cannot parse is rejected."""
    assert not bash_can_parse(command)


def test_bash_is_started_only_if_needed():
    """Plain commands are not parsed by bash, and others are parsed once, with the same results as bash."""
    started = check_syntax.cache_info().misses
    for command in ("ls -la", "grep -rn 'a b' src | wc -l", 'git commit -m "x" && make', "if=1 echo in do done"):
        assert bash_can_parse(command), command
    assert check_syntax.cache_info().misses == started
    for command in ("echo $(ls)", "echo $(ls)", "time ls", "ls; if", "ls | do", "echo a ||", "! ls"):
        assert bash_can_parse(command) is (command[-2:] not in ("if", "do", "||")), command
    assert check_syntax.cache_info().misses == started + 6


@pytest.mark.parametrize(
    "name", ["everyday.jsonl", "attacks/shell_hostile.jsonl", "attacks/shell_hostile_syntax.jsonl"]
)
def test_plain_commands_are_those_that_bash_parses(name):
    """Every command that is accepted as plain is one that bash can parse."""
    rows = Path(__file__).parents[1].joinpath("safety", name).read_text("utf-8").splitlines()
    plain = [text for text in (json.loads(row)["input"] for row in rows) if PLAIN_COMMAND.fullmatch(text)]
    assert len(plain) > 100
    script = "".join(f"f{number}() {{ {text}; }}\n" for number, text in enumerate(plain))
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_bash_only_parses_the_command(tmp_path):
    """Parsing a command with bash has no effect."""
    assert bash_can_parse(f"touch {tmp_path}/x")
    assert list(tmp_path.iterdir()) == []


@IN_BUBBLEWRAP
def test_bubblewrap_is_probed_before_it_is_used(monkeypatch, tmp_path):
    """Without bubblewrap, or with too few mechanisms requested, it provides none."""
    assert bubblewrap.mechanisms(MECHANISMS) >= {"bubblewrap", "mount", "seccomp"}
    assert bubblewrap.mechanisms(MECHANISMS - {"mount"}) == frozenset()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bubblewrap.mechanisms(MECHANISMS - {"uts"}) == frozenset()


@IN_BUBBLEWRAP
def test_failure_of_bubblewrap_is_an_error():
    """An error of bubblewrap is raised with its message, and is not the exit code of a command."""
    chosen = bubblewrap.mechanisms(MECHANISMS)
    with (
        contextlib.closing(bubblewrap.Gate()) as gate,
        bubblewrap.run_in_bubblewrap(["true"], ["--ro-bind", "/does/not/exist", "/x"], chosen, gate.passed) as wrapped,
        pytest.raises(SandboxError, match="/does/not/exist"),
    ):
        gate.wait(wrapped)


def test_homes_are_hidden_except_for_tools(monkeypatch, tmp_path):
    """In a home folder, a command has access to folders of programs, without their keys."""
    home, workspace = tmp_path / "people" / "me", tmp_path / "workspace"
    for name in (".cargo/bin/tool", ".cargo/credentials.toml", "diary.txt", ".ssh/id", "apps/bin/app", "own/run"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(TOKEN if "bin" not in name else "#!/bin/sh\necho tool\n")
        (home / name).chmod(0o755)
    workspace.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home}/.cargo/bin:{home}/apps/bin:/usr/bin:/bin")
    outcome = run_command(
        f"tool; app; cd {home}; find . -type f; cat diary.txt .ssh/id .cargo/credentials.toml", workspace
    )
    assert outcome.stdout.startswith("tool\ntool\n")
    assert "diary.txt\n" not in outcome.stdout
    assert TOKEN not in outcome.output
    view = command_mounts(str(workspace), str(tmp_path), writable=True, scratch_bytes=100)
    assert ("tmpfs", str(home), "65536") in view.mounts


def test_commands_leak_no_resources(workspace):
    """Repeated commands leak no processes, file descriptors or threads."""

    def counts():
        process = psutil.Process()
        return len(process.children(recursive=True)), process.num_fds(), threading.active_count()

    run_command("true", workspace)
    before = counts()
    for n in range(12):
        run_command("echo $RANDOM; sleep 0 &", workspace, MODES["worker" if n % 3 == 0 else "bubblewrap"])
    assert counts() == before


@pytest.mark.parametrize("mode", MODES)
def test_new_settings_of_a_command_are_removed(mode, tmp_path):
    """New settings of editors, repositories and the agent are removed and reported, with their contents."""
    command = "mkdir -p .git/hooks .vscode .agentkit/x; echo x > agentkit.toml; ln -s /etc .idea; echo y > .vscode/y"
    outcome = run_command(f"{command}; echo x > .git/hooks/pre-commit", tmp_path, MODES[mode])
    assert {*outcome.created.removed} == {".git/hooks", "agentkit.toml", ".agentkit", ".vscode", ".idea"}
    assert [path.name for path in tmp_path.iterdir()] == [".git"]
    assert {each.path: each.content for each in outcome.created.contents} == {
        ".git/hooks/pre-commit": b"x\n",
        "agentkit.toml": b"x\n",
        ".vscode/y": b"y\n",
        ".idea": b"/etc",
    }


@pytest.mark.parametrize("mode", STRONG)
def test_settings_symlink_is_removed_without_target(mode, tmp_path):
    """A symbolic link in place of a settings file is removed, and its target is not."""
    text = tmp_path / "kept"
    text.mkdir()
    outcome = run_command("ln -s kept .agentkit; ln -s kept agentkit.toml", tmp_path, MODES[mode])
    assert len(outcome.created.removed) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("mode", STRONG)
def test_temporary_files_share_a_limit(mode, workspace):
    """Files outside the workspace share one size limit."""
    confinement = limited(MODES[mode], scratch_bytes=8_000_000, file_bytes=50_000_000)
    places = "~ /var/tmp /dev/shm /dev /root /home /run /etc/ssl/private .ssh .aws"
    command = (
        f"for place in {places}; do head -c 20000000 /dev/zero > $place/big; done 2>/dev/null\n"
        f"for place in {places}; do stat -c %s $place/big; done 2>/dev/null | paste -sd+ | bc"
    )
    command = command.replace("paste -sd+ | bc", "python3 -c 'import sys; print(sum(map(int, sys.stdin)))'")
    assert int(run_command(command, workspace, confinement).stdout) <= 13_000_000


@pytest.mark.parametrize("mode", STRONG)
def test_additional_files_can_be_hidden(mode, workspace):
    """Named files and folders are shown empty, except the workspace itself."""
    (workspace / "deep").mkdir()
    (workspace / "deep" / "key.pem").write_text(TOKEN)
    (workspace / "state").mkdir()
    (workspace / "state" / "journal").write_text(TOKEN)
    hidden = (f"{workspace}/deep/key.pem", f"{workspace}/state", str(workspace.parent), "/not/there")
    confinement = Confinement(available=MODES[mode].available, hidden=hidden)
    outcome = run_command("cat notes.txt deep/key.pem state/*; echo x > state/y; ls deep state", workspace, confinement)
    assert TOKEN not in outcome.output
    assert outcome.stdout.startswith("hello\n")
    assert "key.pem" in outcome.stdout
    assert (workspace / "deep" / "key.pem").read_text() == TOKEN
    assert not (workspace / "state" / "y").exists()


@pytest.mark.parametrize("mode", STRONG)
def test_command_does_not_see_the_host_name(mode, workspace):
    """The host name inside the sandbox is "sandbox"."""
    assert run_command("uname -n", workspace, MODES[mode]).output == "sandbox\n"


@pytest.mark.parametrize("mode", STRONG)
def test_hidden_file_keeps_its_size_and_times(mode, workspace):
    """A hidden file keeps its size, times and executable bit, cannot be opened, and is unchanged on the host."""
    (workspace / ".env").chmod(0o755)
    os.utime(workspace / ".env", ns=(10**18 + 123, 10**18 + 123))
    command = "stat -c '%F %a %s %.9Y' .env; cat .env; chmod 600 .env; rm -f .env; mv .env x"
    outcome = run_command(command, workspace, MODES[mode])
    assert outcome.stdout == f"regular file 311 {len(TOKEN)} 1000000000.000000123\n"
    assert "Permission denied" in outcome.stderr
    assert (workspace / ".env").read_text() == TOKEN
    assert (workspace / ".env").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("mode", STRONG)
def test_hidden_file_may_exceed_the_file_size_limit(mode, workspace):
    """The limit on a command's files does not apply to the covers of hidden files."""
    with (workspace / ".env").open("r+b") as file:
        file.truncate(30_000_000)
    outcome = run_command("stat -c %s .env", workspace, limited(MODES[mode], file_bytes=1_000_000))
    assert outcome.stdout == "30000000\n"
