"""Tests that the parsers of git's files read what git itself reads."""

import subprocess

import pytest

from agentkit.git import index, settings
from agentkit.git.repository import find

CONFIGS = [
    '# c\n[user]\n\tname = "A B" ; x\n\temail = a@b.c # y\n[core] bare\n pager = "a \\"q\\" # no" tail   \n',
    '[remote "Ori\\"g"]\n url = a\\\nb\n x\n[a.B] c = 1\n[e]\n v =\n w = "  x "\n t = a\\tb\n',
    "\ufeff[a]\r\n\tb = c d  \r\n[A]\r\n\tB=2\r\n",
    '[diff "x.y Z"]\ntextconv = a;b\n[diff "x"]command="a;b"\n',
]


def git(folder, *words):
    """Return the output of a git command."""
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("text", CONFIGS)
def test_settings_are_read_as_git_reads_them(text, tmp_path):
    """Quotes, comments, continued lines and names without a value are parsed as git parses them."""
    (tmp_path / "config").write_bytes(text.encode())
    listed = git(tmp_path, "config", "-f", "config", "--list", "-z").split("\0")[:-1]
    expected = [(key, value if found else "true") for key, found, value in (each.partition("\n") for each in listed)]
    assert settings.read(str(tmp_path / "config")) == expected


def test_identity_follows_conditional_includes(tmp_path):
    """An identity in a conditional include is used only in the included folder."""
    (tmp_path / ".gitconfig").write_text(
        '[user]\nname = Ann\nemail = a@home\n[includeIf "gitdir:~/work/"]\npath = work.inc\n'
    )
    (tmp_path / "work.inc").write_text("[user]\nemail = a@work\n")
    environment = {"HOME": str(tmp_path)}
    assert settings.identity(environment, f"{tmp_path}/work/x/.git") == settings.Identity("Ann", "a@work")
    assert settings.identity(environment, f"{tmp_path}/other/.git").email == "a@home"
    assert settings.identity({"HOME": f"{tmp_path}/none"}) == settings.Identity()


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("objects", ["sha1", "sha256"])
def test_index_is_read_as_git_lists_it(version, objects, tmp_path):
    """Each version of the index, with either kind of object names, lists the files that git lists."""
    git(tmp_path, "init", "-q", f"--object-format={objects}")
    for name in ("a", "deep/er/b", "deep/er/c" * 30, "\u00e4 b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", "-A")
    git(tmp_path, "update-index", "--index-version", version)
    if version == "3":
        git(tmp_path, "update-index", "--skip-worktree", "a")
    repository = find(str(tmp_path))
    data = (tmp_path / ".git/index").read_bytes()
    assert data[7] == int(version)
    listed = git(tmp_path, "ls-files", "-s", "-z").split("\0")[:-1]
    found = index.parse_entries(data, repository.oid_bytes)
    assert [f"{e.mode:o} {e.oid.hex()} 0\t{e.path.decode()}" for e in found] == listed
    assert index.has_same_entries(data, data)
    assert index.parse_entries(data[:-40] + b"x", repository.oid_bytes) != []


def test_racy_entry_is_refreshed(tmp_path):
    """A file committed in the same second as the index is recorded as unchanged; a changed one is not."""
    git(tmp_path, "init", "-q")
    for name in ("same", "changed"):
        (tmp_path / name).write_text("one\n")
    git(tmp_path, "add", "-A")
    (tmp_path / "changed").write_text("two\n")
    place = str(tmp_path / ".git/index")
    found = index.load(place, [b"same"])
    assert found.is_racy(found.entries[b"same"])
    assert index.refresh(place, found, {b"same": str(tmp_path / "same")})
    after = index.load(place, [b"same"])
    assert not after.is_racy(after.entries[b"same"])
    assert git(tmp_path, "diff", "--name-only") == "changed\n"
    (tmp_path / ".git/index.lock").touch()
    assert not index.refresh(place, found, {b"same": str(tmp_path / "same")})


def test_at_most_20_000_settings_are_read(tmp_path):
    """A file with more settings than the limit is read up to it."""
    (tmp_path / "config").write_text("[a]\n" + "b = 1\n" * 20_001)
    assert len(settings.read(str(tmp_path / "config"))) == 20_000
