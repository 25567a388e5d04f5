"""Tests that paths, links and races give no access to anything outside the workspace."""

import contextlib
import ctypes
import json
import os
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest

from agentkit.errors import ToolError
from agentkit.tools.files import list_directory_in, read_file_in, write_file_in
from agentkit.workspace.safe_open import open_beneath, open_by_component
from agentkit.workspace.workspace import Workspace

ROWS = [json.loads(line) for line in (Path(__file__).parents[1] / "workspace/paths.jsonl").read_text().splitlines()]
TOOLS = {"read_file": read_file_in, "write_file": write_file_in, "list_directory": list_directory_in}
OPENERS = {"kernel": open_beneath, "by component": open_by_component}
SECRET = "OUTSIDE"
RENAME_EXCHANGE = 2


def make_socket(path):
    """Create a socket in the file system."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)


def make_file(path, content):
    """Create a file and its parent folders."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(content)


STEPS = {
    "mkdir": lambda path: Path(path).mkdir(parents=True, exist_ok=True),
    "file": make_file,
    "symlink": os.symlink,
    "hardlink": os.link,
    "fifo": os.mkfifo,
    "socket": make_socket,
}
SETUP = [
    *(["file", "{ws}/a.txt", "inside"], ["file", "{ws}/sub/deep/x.txt", "deep"]),
    *(["file", "{out}/plain.txt", SECRET], ["file", "{ws2}/plain.txt", SECRET]),
]


def assert_done(decision, result):
    """Assert that the call was allowed and succeeded."""
    assert (decision.verdict, result.status) == ("allow", "ok"), result.error


def assert_refused(_, result):
    """Assert that the call failed with a reason."""
    assert result.error
    assert result.status in {"failed", "denied"}


def assert_objected(decision, _):
    """Assert that the judge did not allow the call, and states what would be allowed."""
    assert decision.verdict in {"ask", "deny"}
    assert decision.remedy


EXPECTED = {
    "ok": assert_done,
    "inside": assert_done,
    "refuse": assert_refused,
    "deny": assert_objected,
    "ask": assert_objected,
    "ok_or_refuse": lambda *_: None,
    "outside_unchanged": lambda *_: None,
}


def outside(folder):
    """Return every path outside the workspace with its content and permissions."""
    places = [place for place in folder.rglob("*") if folder / "ws" not in (place, *place.parents)]
    return {place: (place.lstat().st_mode, place.read_bytes() if place.is_file() else None) for place in places}


@pytest.mark.for_each("opener", OPENERS)
@pytest.mark.for_each("row", ROWS, ids=lambda row: row["id"])
def test_path_is_judged_and_opened_as_specified(row, opener, tmp_path_factory):
    """Paths outside the workspace are inaccessible, and every path inside it works."""
    with tempfile.TemporaryDirectory(dir=tmp_path_factory.getbasetemp()) as folder:
        check_row(row, OPENERS[opener], Path(folder))


def check_row(row, opener, folder):
    """Judge and open the path of a row in a folder."""
    names = {"{ws2}": f"{folder}/ws2", "{ws}": f"{folder}/ws", "{out}": f"{folder}/out"}

    def placed(text):
        for name, place in names.items():
            text = text.replace(name, place)
        return text

    for verb, *arguments in SETUP + row["setup"]:
        STEPS[verb](*map(placed, arguments))
    before = outside(folder)
    tool = TOOLS[row["op"]](Workspace(names["{ws}"], opener=opener))
    arguments = {"path": placed(row["path"])} | ({"content": "new"} if row["op"] == "write_file" else {})
    decision, result = tool.judge(arguments), tool.invoke(arguments)

    assert outside(folder) == before
    assert SECRET not in result.content
    assert decision.evidence in arguments["path"]
    EXPECTED[row["expect"]](decision, result)
    if row["expect"] == "inside":
        assert any(place.read_text() == "new" for place in (folder / "ws").rglob("*") if place.is_file())


def exchange(one, other):
    """Exchange two names atomically."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), RENAME_EXCHANGE)
    assert done == 0, os.strerror(ctypes.get_errno())


@pytest.fixture
def swapping():
    """Return a function that starts exchanging two names repeatedly until the test ends."""
    stop = threading.Event()
    threads = []

    def swap(one, other):
        while not stop.is_set():
            exchange(one, other)
            time.sleep(0)

    def start(one, other):
        threads.append(threading.Thread(target=swap, args=[one, other]))
        threads[-1].start()

    yield start
    stop.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("tries", [200, pytest.param(4_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
@pytest.mark.parametrize("operation", ["read", "write", "list"])
@pytest.mark.parametrize("what", ["folder", "file"])
def test_race_does_not_lead_outside(what, operation, opener, tries, tmp_path, swapping):
    """With a link that is swapped in and out repeatedly, nothing outside is read or changed."""
    inside, out = tmp_path / "ws", tmp_path / "out"
    make_file(inside / "race/data.txt", "inside")
    make_file(out / "data.txt", SECRET)
    if what == "folder":
        (inside / "link").symlink_to(out)
        swapping(inside / "race", inside / "link")
    else:
        (inside / "race/link").symlink_to(out / "data.txt")
        swapping(inside / "race/data.txt", inside / "race/link")
    make_file(out / "only-outside.txt", SECRET)
    workspace = Workspace(inside, opener=opener)
    before = outside(tmp_path)
    operations = {
        "read": lambda _: SECRET in workspace.read("race/data.txt").lines.content,
        "write": lambda number: workspace.write("race/data.txt", f"new {number}") is None,
        "list": lambda _: "only-outside.txt" in [entry.name for entry in workspace.list("race")],
    }
    leaks = 0
    for number in range(tries):
        with contextlib.suppress(ToolError):
            leaks += operations[operation](number)
    assert leaks == 0
    assert outside(tmp_path) == before
