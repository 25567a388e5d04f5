"""Tests for `agentkit knowledge`: adding, searching and removing documents."""

import json
import os
import pty

import pytest
from click.testing import CliRunner

from agentkit.cli.knowledge import knowledge
from agentkit.cli.terminal import ANSWERED, FAILED
from agentkit.errors import ConfigError
from agentkit.testing import FakeServer


@pytest.fixture
def typed(tmp_path, monkeypatch):
    """Run a command in a folder with a document; return the outcome."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leave.md").write_text("# Leave\n\nEverybody has thirty days.\n", "utf-8")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0")

    def run(*words):
        return CliRunner().invoke(knowledge, words, standalone_mode=False)

    return run


def test_documents_are_added_and_found(typed, tmp_path):
    """Added documents are found with position and section; unreadable files are reported on stderr."""
    added = typed("add", ".")
    assert added.return_value == ANSWERED
    assert added.stdout.startswith("1 added, 0 updated")
    assert "picture.png: it is not text" in added.stderr
    found = typed("search", "how many days?")
    assert found.return_value == ANSWERED
    assert found.stdout == f"{tmp_path}/leave.md:1-3  (Leave)\n# Leave\n\nEverybody has thirty days.\n"
    assert typed("list").stdout == f"     1  markdown  {tmp_path}/leave.md\n"


def test_new_file_is_announced(typed, tmp_path):
    """A file that `add` creates is named, also if nothing could be added."""
    tried = typed("add", "nosuch.md")
    assert "does not exist" in str(tried.exception)
    assert (tmp_path / "knowledge.db").exists()
    assert "Created: knowledge.db" in tried.stderr


def test_json_output(typed, tmp_path):
    """Each command prints JSON with --json."""
    assert json.loads(typed("add", "leave.md", "--json").stdout)["added"] == [f"{tmp_path}/leave.md"]
    (passage,) = json.loads(typed("search", "days", "--json").stdout)
    assert (passage["citation"], passage["position"]) == (f"{tmp_path}/leave.md:1-3", "lines 1-3")
    assert json.loads(typed("list", "--json").stdout)[0]["kind"] == "markdown"


def test_exit_code_without_a_result(typed):
    """The exit code is 1 if nothing was added, found or removed."""
    assert typed("add", "picture.png").return_value == FAILED
    found = typed("search", "anything")
    assert (found.return_value, found.stdout, found.stderr) == (FAILED, "", "No passage was found.\n")
    assert typed("remove", "leave.md").return_value == FAILED


def test_documents_are_removed(typed):
    """A removed document is no longer listed."""
    typed("add", "leave.md")
    removed = typed("remove", "leave.md")
    assert (removed.return_value, removed.stdout) == (ANSWERED, "1 removed\n")
    assert typed("list").stdout == ""


def test_passage_without_a_section(typed, tmp_path):
    """A passage without a section is shown below its location; --store selects another file."""
    (tmp_path / "note.txt").write_text("Some words.", "utf-8")
    typed("add", "note.txt", "--store", "other.db")
    assert typed("search", "words", "--store", "other.db").stdout == f"{tmp_path}/note.txt:1\nSome words.\n"
    typed("add", "leave.md")
    assert typed("search", "words").return_value == FAILED


@pytest.mark.parametrize("words", [["search", "days"], ["list"], ["remove", "leave.md"], ["embed", "ollama:first"]])
def test_reading_commands_create_no_file(typed, tmp_path, words):
    """Commands other than `add` raise an error if no knowledge is stored, and create no file."""
    outcome = typed(*words, "--store", "other.db")
    assert str(outcome.exception) == "'other.db' contains no knowledge. To add some: agentkit knowledge add FILE"
    assert not (tmp_path / "other.db").exists()


def test_embedding_model(typed, monkeypatch):
    """--embed uses the named model; a different model requires embedding the passages again."""
    with FakeServer() as server:
        monkeypatch.setenv("OLLAMA_BASE_URL", server.base_url)
        assert typed("add", "leave.md", "--embed", "ollama:first").return_value == ANSWERED
        assert "thirty" in typed("search", "day", "--embed", "ollama:first").stdout
        refused = typed("search", "day", "--embed", "ollama:other")
        assert isinstance(refused.exception, ConfigError)
        assert "agentkit knowledge embed MODEL" in str(refused.exception)
        assert typed("embed", "ollama:other").stdout == "1 passage embedded\n"
        assert typed("search", "day", "--embed", "ollama:other").return_value == ANSWERED
        assert [request.json["model"] for request in server.requests] == ["first", "first", "other", "other"]


@pytest.fixture
def elsewhere(typed, tmp_path_factory):
    """A folder outside of the current one that was added and has changed since."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "diary.md").write_text("Dear diary.")
    typed("add", ".", str(folder))
    (folder / "diary.md").write_text("Dear diary, hello.")
    return folder


def test_places_outside_need_an_option(typed, elsewhere):
    """Without a terminal, `refresh` lists the places outside of the folder, and reads them only with --outside."""
    output = typed("refresh")
    assert (output.return_value, "0 updated" in output.stdout) == (FAILED, True)
    assert f"outside {elsewhere}: not read" in output.stderr
    assert json.loads(typed("refresh", "--json").stdout)["outside"] == [str(elsewhere)]
    read = typed("refresh", "--outside")
    assert (read.return_value, "1 updated" in read.stdout) == (ANSWERED, True)


@pytest.mark.parametrize(("keys", "updated"), [(b"y\n", 1), (b"n\n", 0)])
def test_places_outside_need_approval(keys, updated, spawn, elsewhere):
    """At a terminal, `refresh` shows the places outside of the folder and asks for approval."""
    keyboard, screen = pty.openpty()
    with os.fdopen(keyboard, "wb", buffering=0) as fingers:
        process = spawn("knowledge", "refresh", stdin=screen)
        os.close(screen)
        fingers.write(keys)
        out, err = process.communicate(timeout=60)
    assert f"{updated} updated" in out
    assert f"outside {elsewhere}" in err
    assert process.returncode == (ANSWERED if updated else FAILED)
