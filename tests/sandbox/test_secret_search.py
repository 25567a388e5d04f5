"""Tests for the search for secrets in workspaces of any content, which never weakens the sandbox."""

import base64
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

import pytest

from agentkit.errors import SandboxError
from agentkit.sandbox.isolation import MECHANISMS
from agentkit.sandbox.process import Confinement, command_boundary, run_command
from agentkit.sandbox.secret_search import survey
from agentkit.sandbox.watchdog import Cancellation

TOKEN = "CANARY-5d1e"
ROWS = [json.loads(line) for line in (Path(__file__).parent / "awkward_workspaces.jsonl").read_text().splitlines()]
MODES = {"bubblewrap": Confinement(), "worker": Confinement(available=MECHANISMS - {"bubblewrap"})}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not command_boundary().is_strong, reason="this machine lacks user namespaces"),
]
READ_ALL = (
    "chmod -R 700 shut; grep -rn CANARY . ; find . -type f -exec cat {} + ; timeout 3 cat .env other/.env keys/*/*"
)


def build(folder, row):
    """Create the files, links and special files of a row."""
    for name in row.get("files", ()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TOKEN)
    for name, target in row.get("links", {}).items():
        (folder / name).symlink_to(target)
    for name, target in row.get("hard", {}).items():
        os.link(folder / target, folder / name)
    for name in row.get("fifos", ()):
        os.mkfifo(folder / name)
    for name in row.get("sockets", ()):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / name))
    for name in row.get("unreadable", ()):
        (folder / name).chmod(0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: json.dumps(row)[:50])
def test_content_of_a_workspace_does_not_weaken_the_sandbox(mode, row, tmp_path):
    """Links, special files, nested secrets and odd names do not weaken the sandbox, and secrets stay hidden."""
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "notes.txt").write_text("hello\n")
    build(folder, row)
    outcome = run_command(f"cat notes.txt; {READ_ALL}", str(folder), MODES[mode], searched=True)
    for name in row.get("unreadable", ()):
        (folder / name).chmod(0o700)
    assert outcome.boundary.is_strong
    assert outcome.stdout.startswith("hello\n")
    assert TOKEN not in outcome.output
    assert not outcome.created.removed


@pytest.mark.parametrize("mode", MODES)
def test_many_secrets_are_hidden(mode, tmp_path):
    """Hundreds of key files, more than fit in bubblewrap's command line, are all hidden."""
    for number in range(700):
        (tmp_path / f"decoy{number}.pem").write_text("x")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".env").write_text(TOKEN)
    outcome = run_command("cat sub/.env; cat *.pem 2>/dev/null | wc -c", str(tmp_path), MODES[mode], searched=True)
    assert outcome.boundary.is_strong
    assert outcome.stdout == "0\n"


def test_incomplete_search_is_reported(tmp_path):
    """A workspace with more entries, secrets or levels than can be searched is reported as incomplete."""
    for number in range(20):
        (tmp_path / f"{number}.pem").write_text("x")
    assert survey(str(tmp_path)).incomplete_because == ""
    assert "too many files" in survey(str(tmp_path), max_entries=10).incomplete_because
    assert "more than 10 files" in survey(str(tmp_path), max_places=10).incomplete_because
    assert "too long" in survey(str(tmp_path), max_seconds=-1).incomplete_because


def test_incomplete_search_rejects_the_command(tmp_path):
    """If a path is too long to be searched, the command is rejected before it runs."""
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(50):
        os.mkdir("d" * 100, dir_fd=folder)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    with pytest.raises(SandboxError, match="was not run"):
        run_command("touch made", str(tmp_path), searched=True)
    assert not (tmp_path / "made").exists()
    assert run_command("true", str(tmp_path)).incomplete_because


def test_second_search_sees_changes(tmp_path):
    """A cached folder is searched again after a change, even if its timestamps were restored."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    time.sleep(0.1)
    assert not survey(str(tmp_path)).hidden
    before = (tmp_path / "a" / "b").stat()
    (tmp_path / "a" / "b" / ".env").write_text(TOKEN)
    os.utime(tmp_path / "a" / "b", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [*survey(str(tmp_path)).hidden] == [f"{tmp_path}/a/b/.env"]


def test_cached_search_depends_on_the_root(tmp_path):
    """The cached result for one workspace does not affect which folders another workspace locks."""
    (tmp_path / ".github/workflows").mkdir(parents=True)
    time.sleep(0.1)
    assert not survey(str(tmp_path / ".github")).locked
    assert [*survey(str(tmp_path)).locked] == [f"{tmp_path}/.github/workflows"]


DISTURB = """
import contextlib, os, time
n = 0
while True:
    n += 1
    open(f"k{n % 3}.pem", "w").close()
    os.rename("d", "e")
    time.sleep(0.004)
    os.path.exists(f"k{(n + 1) % 3}.pem") and os.unlink(f"k{(n + 1) % 3}.pem")
    while os.path.exists("e"):  # until the sandbox has removed a mount point that it created in place of d
        with contextlib.suppress(OSError):
            os.rename("e", "d")
        time.sleep(0.004)
    open("turns", "w").write(str(n))
"""


@pytest.mark.parametrize("mode", MODES)
def test_race_does_not_weaken_the_sandbox(mode, tmp_path):
    """While another command creates key files and moves folders, a command fails or is fully confined."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / ".env").write_text(TOKEN)
    (tmp_path / "disturb.py").write_text(DISTURB)
    cancellation = Cancellation()
    running = "python3 disturb.py", str(tmp_path), MODES[mode], cancellation
    other = threading.Thread(target=run_command, args=running)
    other.start()
    try:
        while not (tmp_path / "turns").exists() and other.is_alive():
            time.sleep(0.01)
        outcomes = [attempt(tmp_path, MODES[mode]) for _ in range(4)]
        assert other.is_alive()
    finally:
        cancellation.cancel()
        other.join()
    assert [outcome for outcome in outcomes if outcome and not outcome.boundary.is_strong] == []
    assert [outcome for outcome in outcomes if outcome and TOKEN in outcome.output] == []
    assert len([*tmp_path.rglob(".env")]) == 1


def attempt(folder, confinement):
    """Return the outcome of a command that searches for the secret, or None if it could not be run."""
    with contextlib.suppress(SandboxError):
        return run_command("cat d/.env e/.env", str(folder), confinement)


MOUNTED = """
import sys
from agentkit.sandbox.isolation import MECHANISMS
from agentkit.sandbox.process import Confinement, run_command
for available in (MECHANISMS, MECHANISMS - {"bubblewrap"}):
    outcome = run_command("cat *.txt d/*; ls d", sys.argv[1], Confinement(available=available))
    print(outcome.output, outcome.incomplete_because)
"""


def test_secret_mounted_under_another_name_is_hidden(tmp_path):
    """A bind mount of a secret is hidden, and other mounts stay readable."""
    home, folder = tmp_path / "home", tmp_path / "w"
    for each in (home / ".ssh", folder / "d"):
        each.mkdir(parents=True)
    for path in (home / ".ssh/id_rsa", folder / ".env"):
        path.write_text(TOKEN)
    (home / "plain.txt").write_text("plain\n")
    for name in ("notes.txt", "copy.txt", "keys.txt"):
        (folder / name).touch()
    mounts = ((home / "plain.txt", "notes.txt"), (folder / ".env", "copy.txt"), (home / ".ssh/id_rsa", "keys.txt"))
    script = "".join(f"mount --bind '{source}' '{folder}/{name}' && " for source, name in mounts)
    script += f"mount --bind '{home}/.ssh' '{folder}/d' && exec '{sys.executable}' -c \"$0\" '{folder}'"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script, MOUNTED], capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    assert done.stdout.count("plain\n") == done.stdout.count("id_rsa\n") == 2, done.stdout + done.stderr
    assert TOKEN not in done.stdout


def test_secret_created_before_the_start_is_hidden(tmp_path, monkeypatch):
    """A key file created between the search and the start of the command is hidden."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("bubblewrap is not installed")
    folder, programs = tmp_path / "w", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    (programs / "bwrap").write_text(
        f"#!/bin/sh\n[ -e '{folder}' ] && echo {TOKEN} > '{folder}/late.env'\nexec {bwrap} \"$@\"\n"
    )
    (programs / "bwrap").chmod(0o755)
    command_boundary()
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    outcome = run_command("cat late.env; ls", str(folder), searched=True)
    assert outcome.stdout == "late.env\n"
    assert TOKEN not in outcome.output


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("kind", ["created", "replaced"])
def test_secret_created_during_a_command_is_removed_from_output(kind, writable, tmp_path):
    """A key file created or replaced during the command is reported, and its values are removed from the output."""
    folder, fifo = tmp_path / "w", tmp_path / "w/started"
    folder.mkdir()
    os.mkfifo(fifo)
    if kind == "replaced":
        (folder / "late.env").write_text("OLD=1\n")
    (tmp_path / "new").write_text(f'# keys\nexport API_KEY="{TOKEN}"\nDEBUG=1\n')

    def create():
        fifo.read_bytes()
        (tmp_path / "new").rename(folder / "late.env")

    other = threading.Thread(target=create)
    other.start()
    command = "echo > started; until grep -qs KEY late.env; do sleep 0.02; done; cat late.env; base64 -w0 late.env"
    outcome = run_command(command, str(folder), Confinement(writable=writable))
    other.join()
    assert outcome.appeared == ("late.env",)
    assert outcome.output.startswith('# keys\nexport API_KEY="[redacted: secret]"\nDEBUG=1\n')
    encoded = base64.b64encode((folder / "late.env").read_bytes()).decode()
    assert TOKEN not in outcome.output
    assert encoded not in outcome.output
