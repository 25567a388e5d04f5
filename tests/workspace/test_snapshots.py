"""Tests for states of paths before and after a change, and their diffs."""

import subprocess
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentkit.workspace.snapshots import ABSENT, FOLDER, FileChange, State, merge_changes, unified_diff


def file(text, mode=0o644):
    """Return the state of a file with this content."""
    return State.of("file", text if isinstance(text, bytes) else text.encode(), mode)


def change(before, after, path="f.txt"):
    """Return a change of one path."""
    return FileChange("/ws", path, before, after, "write_file", 1.0)


def test_diff_is_unified():
    """Changes are rendered like git diffs."""
    assert unified_diff([change(file("a\nb\nc\n"), file("a\nB\nc\n"))]) == (
        "diff --git a/f.txt b/f.txt\n--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    )


LINES = st.lists(st.sampled_from(["", "x", "y", "def f():", "    return é"]), max_size=30)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))
NAMES = st.sampled_from(["f.txt", "a b.txt", 'quo"te.txt', "é.txt"])


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(old=TEXTS, new=TEXTS, path=NAMES)
@example(old="x\nx\nx\n\nx", new="x\nx\nx\nx\n\nx", path="f.txt")
@example(old="t\n" * 9, new="y\n" + "t\n" * 10, path="f.txt")
def test_git_can_apply_the_diff(old, new, path, tmp_path_factory):
    """The diff of any two texts converts one into the other when git applies it."""
    tmp_path = tmp_path_factory.mktemp("diff")
    states = [file(old) if old else ABSENT, file(new) if new else ABSENT]
    diff = unified_diff([change(*states, path)])
    if old:
        (tmp_path / path).write_bytes(old.encode())
    if diff:
        done = subprocess.run(
            ["git", "apply", "--whitespace=nowarn"], cwd=tmp_path, input=diff.encode(), check=False, capture_output=True
        )
        assert done.returncode == 0, (done.stderr, diff)
    assert (tmp_path / path).read_bytes() == new.encode() if new else not (tmp_path / path).exists()


@pytest.mark.for_each(
    ("before", "after", "text"),
    [
        (ABSENT, file("a\n"), "new file mode 100644\n--- /dev/null\n+++ b/f.txt\n@@ -0,0 +1 @@\n+a\n"),
        (file("a"), ABSENT, "+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n"),
        (file(b"\0\1"), file(b"\0\1\2"), "Binary files differ: a file of 2 bytes became a file of 3 bytes."),
        (file("a"), State.of("link", b"/etc"), "a file of 1 bytes became a link to '/etc'."),
        (State.of("link", b"x"), ABSENT, "a link to 'x' became nothing."),
        (State("other"), FOLDER, "a special file became a folder."),
        (file("a", 0o644), file("a", 0o755), "old mode 100644\nnew mode 100755\n"),
        (State("file", None, 0o644, "1 2", 7), file("a"), "Too large to show: a file of 7 bytes became a file of 1"),
    ],
)
def test_every_kind_of_change_is_rendered(before, after, text):
    """New, deleted, binary, linked and large files have specific renderings."""
    assert text in unified_diff([change(before, after)])


@pytest.mark.parametrize(
    ("before", "after"), [(ABSENT, FOLDER), (FOLDER, ABSENT), (file("a"), file("a")), (FOLDER, FOLDER)]
)
def test_unchanged_files_and_folders_have_no_diff(before, after):
    """Folders and unchanged files are omitted from a diff."""
    assert unified_diff([change(before, after)]) == ""


def test_diff_is_bounded():
    """A long diff omits whole files and states their number."""
    changes = [change(ABSENT, file(f"{'x' * 400}\n"), f"{number}.txt") for number in range(9)]
    diff = unified_diff(changes, 1_500)
    assert len(diff) <= 1_500
    assert "The differences of 7 more files are too long to show." in diff


def test_diff_of_long_texts_is_quick():
    """Texts of many different lines are compared in bounded time."""
    old = "".join(f"{number * 7_919 % 40_009}\n" for number in range(40_000))
    new = "".join(sorted(old.splitlines(keepends=True)))
    started = time.perf_counter()
    assert unified_diff([change(file(old), file(new))], 10_000_000).startswith("diff")
    assert time.perf_counter() - started < 10


def test_changes_of_one_path_are_merged():
    """Several changes of a path are merged into one, with the first and the last state."""
    one, two, three = file("1"), file("2"), file("3")
    joined = merge_changes([change(one, two), change(ABSENT, one, "g"), change(two, three)])
    assert [(each.path, each.before, each.after) for each in joined] == [("f.txt", one, three), ("g", ABSENT, one)]


def test_state_is_encoded_without_its_content():
    """A state can be encoded and decoded without its content."""
    state = file("a", 0o600)
    assert State.from_dict(state.to_dict(), b"a") == state
    assert "content" not in state.to_dict()


def test_states_are_compared_by_content():
    """Files with the same content are equal, whatever their permissions and number of links."""
    assert file("a", 0o600).is_like(State.of("file", b"a", 0o644, 3))
    assert not file("a").is_like(State.of("link", b"a"))
