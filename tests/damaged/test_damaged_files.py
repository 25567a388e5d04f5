"""Tests that damaged and foreign files end in errors of agentkit, with 200 versions of each kind of file."""

import contextlib
import csv
import io
import json
import os
import zipfile

import pytest

from agentkit import Agent, Session, tool
from agentkit.agents.agent_file import read_manifesto
from agentkit.cli.settings import is_trusted, project_file, trust
from agentkit.documents.office import office_text
from agentkit.errors import AgentKitError
from agentkit.evals import Case, Suite, contains
from agentkit.evals.case import read_cases
from agentkit.evals.optimization.history import SearchLog
from agentkit.knowledge import Knowledge, Memory
from agentkit.manifest import Manifest
from agentkit.manifest.build import manifest_of
from agentkit.mcp.config import read_servers
from agentkit.mcp.definitions import Definition, Pins
from agentkit.mcp.login_store import StoredLogin
from agentkit.sessions.cassettes.file import read_cassette
from agentkit.sessions.cassettes.playback import Player
from agentkit.sessions.transcript import session_text
from agentkit.sessions.transfer import read_export
from agentkit.settings import state_folder
from agentkit.testing import ScriptedLLM, call, record, record_or_replay
from agentkit.tools.files import write_file_in
from agentkit.tools.skills import skill_tools
from agentkit.usage import Charge
from agentkit.workspace.journal import Journal
from agentkit.workspace.workspace import Workspace

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("AGENTKIT_DAMAGED_FILES", "200"))
SUITE = Suite("sums", [Case("What is 2+2?", "4", id="two"), Case("And 3?", "6", id="three")], contains())
URL = "https://mcp.example.org/mcp"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(*lines):
    """Return an agent with a scripted model."""
    return Agent("adder", tools=[add], llm=ScriptedLLM(*(lines or (call("add", a=2, b=2), "It is 4."))), approve=None)


def embed(texts):
    """Return vectors of eight numbers."""
    return [[float(len(text) + index) for index in range(8)] for text in texts]


def make_knowledge(path):
    """Write a file of knowledge and memory."""
    with_vectors = Knowledge(path, embed=embed)
    with_vectors.add_text("# Leave\n\nThirty days of leave a year.", "handbook", metadata={"year": 2024, "tags": ["a"]})
    (path.parent / "notes.md").write_text("# Notes\n\nCall before nine.\n")
    with_vectors.add(path.parent / "notes.md", metadata={"year": 2025})
    with_vectors.close()
    with Memory(path) as memory:
        memory.remember("The user lives in Hanoi.", metadata={"kind": "place"})


def use_knowledge(path):
    """Use a file of knowledge and memory."""
    with Knowledge(path, embed=embed) as knowledge:
        found = knowledge.search("days of leave", where={"year": 2024})
        assert isinstance(found, list)
        assert all(isinstance(each.metadata, dict) for each in knowledge.documents)
        knowledge.refresh()
        knowledge.add_text("Thirty-one days.", "handbook")
        knowledge.remove("handbook")
    with Memory(path) as memory:
        memory.recall("Where?")


def make_sessions(path):
    """Write a file of sessions."""
    session = Session.open(path, "sums")
    agent().within(session).run("What is 2+2?")
    session.store.close()  # writes the log into the file


def use_sessions(path):
    """Use a file of sessions."""
    for summary in Session.summaries(path):
        session = Session.open(path, summary.name)
        assert isinstance(session.messages, tuple)
        assert session.usage is not None
        assert session.unfinished is not None
        assert session_text(session.name, session.entries)
    Session.open(path, "sums").fork("copy")


def make_export(path):
    """Write an exported session."""
    session = Session()
    agent().within(session).run("What is 2+2?")
    session.export(path)


def use_export(path):
    """Use an exported session."""
    name, entries = read_export(path)
    assert session_text(name, entries)


def make_cassette(path):
    """Write a cassette."""
    with record(path):
        agent().run("What is 2+2?")


def use_cassette(path):
    """Use a cassette."""
    read_cassette(path, hide=True)
    Player(path, partial=True)


def make_journal(path):
    """Write the record of a run."""
    (path.parent / "work").mkdir()
    workspace = Workspace(path.parent / "work", journal=Journal(path.parent / "journal"))
    write_file_in(workspace)("a.txt", "one\n")
    write_file_in(workspace)("a.txt", "two\n")
    next((path.parent / "journal").glob("*.journal")).rename(path)


def use_journal(path):
    """Use the record of a run."""
    journal = Journal(path.parent)
    for each in journal.runs():
        assert each.notes is not None
        assert isinstance(each.diff, str)
        assert each.is_undone in (True, False)
    journal.last()


def make_jsonl(path):
    """Write a suite in JSON lines."""
    rows = [
        {
            "prompt": ["What?", {"image": "https://example.org/x.png"}],
            "expected": {"a": [1]},
            "tags": ["sums"],
            "id": "a",
        },
        {"prompts": ["Hello", {"prompt": "And?", "expected": 3}], "workspace": "fixtures"},
        {"prompts": {"goal": "Buy a ticket.", "persona": "Ann", "max_prompts": 4}, "expected": "sold"},
        {"prompt": "x", "tool_calls": ["add", {"tool": "add", "arguments": {"a": 1}}, ["add", {"b": 2}]]},
        {"arguments": {"a": 1, "b": [2]}, "expected": 3},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_csv(path):
    """Write a suite in CSV."""
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(("prompt", "expected", "tags", "tool_calls", "arguments"))
    rows.writerow(("What is 2+2?", "4", "sums easy", '["add", ["add", {"a": 1}]]', ""))
    rows.writerow(("", "3", "", "", '{"a": 1}'))
    path.write_text(out.getvalue())


def make_agent(path):
    """Write an agent file."""
    path.write_text(
        "name: Clerk\ntools:\n- core\n- wikipedia\nmodel: openai:gpt-4o\nsafety: network\n"
        "limits: cost 0.50, seconds 20\nsession: none\nworkspace: files\n\nBe kind, and brief.\n"
    )


def make_settings(path):
    """Write the settings of a project."""
    path.write_text(
        'model = "openai:gpt-4o"\nsafety = "network"\ntools = ["core"]\n[limits]\ncost = 0.5\nseconds = 20\n'
    )


def use_settings(path):
    """Use the settings of a project."""
    found = project_file(path.parent)
    assert found is None or found.values is not None


def make_manifest(path):
    """Write a manifest."""
    path.write_text(str(manifest_of(agent(), path.parent)))


def make_servers(path):
    """Write a list of MCP servers."""
    servers = {
        "files": {"command": "npx", "args": ["-y", "files"], "env": {"A": "b", "N": 1}, "cwd": "${workspaceFolder}"},
        "web": {"type": "http", "url": URL, "headers": {"X-Key": "${env:NOTHING:-none}"}, "disabled": False},
    }
    path.write_text(json.dumps({"mcpServers": servers}, indent=1))


def make_login(path):
    """Write a login."""
    login = StoredLogin(URL, path.parent)
    login.write({"tokens": {"access_token": "a", "expires_in": 3600}, "client": {"client_id": "x"}})
    login.path.rename(path)


def use_login(path):
    """Use a login."""
    login = StoredLogin(URL, path.parent / "logins")
    login.path.parent.mkdir(exist_ok=True)
    login.path.write_bytes(path.read_bytes())
    login.path.chmod(0o600)
    login.read()


def make_pins(path):
    """Write the accepted tools of an MCP server."""
    pins = Pins(path.parent, URL)
    pins.write({"add": Definition("add", "Add.", {"type": "object"}, {"readOnlyHint": True})})
    pins.path.rename(path)


def use_pins(path):
    """Use the accepted tools of an MCP server."""
    pins = Pins(path.parent / "pins", URL)
    pins.path.parent.mkdir(exist_ok=True)
    pins.path.write_bytes(path.read_bytes())
    pins.read()


def make_ledger(path):
    """Write the trials of a suite."""
    SUITE.run(agent("4", "6"), resume=path)


def use_ledger(path):
    """Use the trials of a suite."""
    SUITE.run(agent(*["4"] * 4), resume=path)


def make_lineage(path):
    """Write the record of a search."""
    search = SearchLog(path, "k", {"suite": "s"})
    search.add_charge(Charge(1, 2, {"tool_calls": 3}))
    search.add_charge(Charge(4, 5, {"tool_calls": 6}))
    search.close()


def use_lineage(path):
    """Use the record of a search."""
    SearchLog(path, "k", {"suite": "s"}).close()


def make_skill(path):
    """Write a skill."""
    path.write_text("---\nname: sums\ndescription: >\n  How sums\n  are done.\nlicense: MIT\n---\n\n# Sums\n\nAdd.\n")


def use_skill(path):
    """Use a skill."""
    skill_tools(path.parent)


def make_trusted(path):
    """Write the list of trusted settings."""
    path.write_text(json.dumps({"/a/agentkit.toml": "0" * 64}))


def use_trusted(path):
    """Use the list of trusted settings."""
    text = state_folder() / "trusted.json"
    text.parent.mkdir(parents=True, exist_ok=True)
    text.write_bytes(path.read_bytes())
    settings = path.parent / "agentkit.toml"
    settings.write_text('model = "x"\n')
    found = project_file(path.parent)
    assert not is_trusted(found)
    trust(found)


def make_document(path):
    """Write a document of Word."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        body = "<w:p><w:r><w:t>Thirty days of leave.</w:t></w:r></w:p><w:tbl><w:tr><w:tc/></w:tr></w:tbl>" * 20
        made.writestr("word/document.xml", f'<w:document xmlns:w="w"><w:body>{body}</w:body></w:document>')
        made.writestr("docProps/core.xml", "<c><title>Leave</title></c>")


def parse_manifest(path):
    """Use a manifest."""
    Manifest.parse(path.read_bytes().decode("utf-8", "replace"), str(path))


def read_document(path):
    """Use a document of Word."""
    office_text(path.read_bytes())


# the file's name, the functions that write and read it
KINDS = {
    "knowledge": ("knowledge.db", make_knowledge, use_knowledge),
    "sessions": ("sessions.db", make_sessions, use_sessions),
    "exported session": ("session.jsonl", make_export, use_export),
    "cassette": ("a.cassette", make_cassette, use_cassette),
    "journal": ("1~a.journal", make_journal, use_journal),
    "suite in JSON lines": ("cases.jsonl", make_jsonl, read_cases),
    "suite in CSV": ("cases.csv", make_csv, read_cases),
    "trials": ("trials.jsonl", make_ledger, use_ledger),
    "search": ("search.jsonl", make_lineage, use_lineage),
    "agent": ("agent.txt", make_agent, read_manifesto),
    "settings": ("agentkit.toml", make_settings, use_settings),
    "trusted settings": ("trusted.json", make_trusted, use_trusted),
    "manifest": ("agentkit.manifest.json", make_manifest, parse_manifest),
    "MCP servers": ("mcp.json", make_servers, read_servers),
    "login": ("login.json", make_login, use_login),
    "accepted tools": ("pins.json", make_pins, use_pins),
    "skill": ("SKILL.md", make_skill, use_skill),
    "office document": ("leave.docx", make_document, read_document),
}


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_file_is_read_or_rejected(kind, damaged, tmp_path):
    """Reading a damaged file works or raises an AgentkitError with a message."""
    name, make, use = KINDS[kind]
    (tmp_path / "made").mkdir()
    path = tmp_path / "made" / name
    make(path)
    all_bytes = path.read_bytes()
    use(path)  # the undamaged file can be read
    place = tmp_path / "damaged"
    place.mkdir()
    for number, content in enumerate(damaged(all_bytes, COUNT, kind)):
        for each in place.glob("*"):
            if each.is_file():
                each.unlink()
        (place / name).write_bytes(content)
        try:
            use(place / name)
        except AgentKitError as error:
            if not str(error).strip():
                pytest.fail(f"Damage {number} raises an error without a text")


def record_on(path):
    """Record a cassette."""
    with record(path):
        pass


def record_or_replay_from(path):
    """Record a cassette unless it exists."""
    with record_or_replay(path):
        pass


NAMED = {
    **{kind: KINDS[kind][2] for kind in ("knowledge", "sessions", "exported session", "cassette", "suite in CSV")},
    **{kind: KINDS[kind][2] for kind in ("trials", "search", "agent", "MCP servers")},
    "export": make_export,
    "recording": record_on,
    "recording once": record_or_replay_from,
}


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300, ".", "missing/a", "file/a"], ids=ascii)
@pytest.mark.parametrize("kind", NAMED)
def test_invalid_path_is_rejected(kind, name, tmp_path):
    """An invalid path, such as one with a NUL or a folder, raises an AgentkitError or counts as missing."""
    (tmp_path / "file").write_text("x")
    with contextlib.suppress(AgentKitError):
        NAMED[kind](tmp_path / name)
