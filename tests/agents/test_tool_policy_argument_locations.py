"""Tests for rules about paths, which match the resolved location as well as the spelling."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from agentkit import Agent, Approval, Policy, Rule, Tool
from agentkit.agents.tool_policy import ToolPolicyContext, judge_call
from agentkit.errors import ConfigError
from agentkit.events import ToolCallStarted
from agentkit.messages import ToolCall
from agentkit.safety.approval import Grants
from agentkit.testing import ScriptedLLM, call
from agentkit.tooling.toolset import Toolset
from agentkit.tools.files import read_file_tool, search_files_tool, write_file_tool
from agentkit.workspace.workspace import Workspace

FILES = (write_file_tool, read_file_tool, search_files_tool)


@pytest.fixture
def folder(tmp_path):
    """Return a workspace with folders, links to them, and a link to the workspace itself."""
    work = tmp_path / "work"
    for name in ("prod/deep", "docs", "src", "a/b"):
        (work / name).mkdir(parents=True)
    (work / "prod/q").write_text("live")
    (work / "lnk").symlink_to("prod")
    (work / "docs/out").symlink_to("../src")
    (work / "a/b/up").symlink_to("../../lnk")
    (work / "file-lnk").symlink_to("prod/q")
    (work / "absolute").symlink_to(work / "prod")
    (work / "later").symlink_to("not-yet")
    (tmp_path / "alias").symlink_to(work)
    (tmp_path / "other").symlink_to("alias")
    return work


def copy(source: str, destination: str) -> str:
    """Copy a file."""
    return f"{source} {destination}"


def pack(paths: list[str]) -> str:
    """Pack files."""
    return str(paths)


def stow(file_path: Path) -> str:
    """Stow a file away."""
    return str(file_path)


def tools_in(workspace):
    """Return tools that work in a workspace: two declare their path arguments, and one does not."""
    return [
        Tool(copy, within=lambda _: tools_in(None)[0], paths=["source", "destination"], level="SYSTEM"),
        Tool(pack, within=lambda _: tools_in(None)[1], paths=["paths"], level="SYSTEM"),
        Tool(stow, within=lambda _: tools_in(None)[2], level="SYSTEM"),
    ]


def verdict(folder, rule, tool, arguments, level="SYSTEM"):
    """Return the verdict on a call under one rule."""
    workspace = Workspace(folder.parent / "alias")
    tools = Toolset([*[each.within(workspace) for each in FILES], *tools_in(workspace)])
    policy_context = ToolPolicyContext(tools, (Policy(level, [rule]),), Grants(), workspace)
    return judge_call(ToolCall("id", tool, json.dumps(arguments)), policy_context, ()).decision.verdict.value


PATHS = {
    "prod": [
        *("prod/q", "prod//q", "./prod/q", "prod/./q", "prod/deep/../q", "docs/../prod/q", "prod/new/file"),
        *("lnk/q", "lnk/deep/new", "lnk/../prod/q", "a/b/up/q", "a/../lnk/q", "absolute/q", "PROD/q", "Prod/q"),
        *("{folder}/prod/q", "{folder}/lnk/q", "{alias}/prod/q", "{alias}/lnk/q", "{folder}//lnk//q"),
    ],
    "other": ["docs/q", "q", "production/q", "prod.txt", "a/b/q", "later", "{folder}/docs/q", "{alias}/docs/q"],
}
SPELLINGS = [
    "prod",
    "prod/",
    "./prod",
    "prod//",
    "src/../prod",
    "lnk",
    "a/b/up",
    "{folder}/prod",
    "{alias}/prod",
    "PROD",
]


def spelling_pairs(kind):
    """Return every spelling of a rule with one path, and every path with one spelling of a rule."""
    paths = PATHS[kind]
    return [*((rule, paths[0]) for rule in SPELLINGS), *((SPELLINGS[0], path) for path in paths[1:])]


def spelled(text, folder):
    """Return a path of the table in this folder."""
    return text.format(folder=folder, alias=folder.parent / "alias", other=folder.parent / "other")


@pytest.mark.parametrize(("rule", "path"), spelling_pairs("prod"))
def test_deny_rule_on_a_folder_applies_to_every_spelling(folder, rule, path):
    """A deny rule on a folder applies to every spelling of a path below it."""
    where = {"path": {"below": spelled(rule, folder)}}
    call_of = {"path": spelled(path, folder), "content": "x"}
    assert verdict(folder, Rule("deny", "write_file", where), "write_file", call_of) == "deny"


@pytest.mark.parametrize(("rule", "path"), spelling_pairs("other"))
def test_paths_elsewhere_are_not_denied(folder, rule, path):
    """A deny rule does not apply to other paths with the same prefix."""
    where = {"path": {"below": spelled(rule, folder)}}
    call_of = {"path": spelled(path, folder), "content": "x"}
    assert verdict(folder, Rule("deny", "write_file", where), "write_file", call_of) == "allow"


FILES_IN_RULES = [
    "prod/q",
    "./prod/q",
    "prod//q",
    "docs/../prod/q",
    "lnk/q",
    "{folder}/prod/q",
    "{alias}/lnk/q",
    "PROD/Q",
]
TESTS_OF_A_FILE = {
    "equals": lambda path: {"equals": path},
    "one_of": lambda path: {"one_of": ["other.txt", path]},
    "the value itself": lambda path: path,
}


@pytest.mark.parametrize("test", TESTS_OF_A_FILE.values(), ids=TESTS_OF_A_FILE)
@pytest.mark.parametrize("rule", FILES_IN_RULES)
def test_file_is_denied_in_every_spelling(folder, test, rule):
    """Tests for a whole path compare the file, not its spelling."""
    denial = Rule("deny", "write_file", {"path": test(spelled(rule, folder))})
    for path in ("prod/q", "./prod//q", "lnk/q", "a/b/up/q", "{folder}/prod/q", "Prod/Q"):
        call_of = {"path": spelled(path, folder), "content": "x"}
        assert verdict(folder, denial, "write_file", call_of) == "deny", path
    for path in ("docs/q", "prod/q.txt", "prod/deep/q"):
        call_of = {"path": spelled(path, folder), "content": "x"}
        assert verdict(folder, denial, "write_file", call_of) == "allow", path


@pytest.mark.parametrize("pattern", [r"\./prod/.*", r"prod/q", r".*/work/prod/q"])
@pytest.mark.parametrize("path", ["prod/q", "./prod//q", "lnk/q"])
def test_pattern_denies_every_spelling(folder, pattern, path):
    """A pattern is matched against the given, relative, dotted and absolute path."""
    rule = Rule("deny", "write_file", {"path": {"matches": pattern}})
    assert verdict(folder, rule, "write_file", {"path": path, "content": "x"}) == "deny"


@pytest.mark.parametrize("spelling", ["notes/q", "./notes/q", "lnk/q"])
def test_lists_of_paths_are_compared_in_every_spelling(folder, spelling):
    """Rules apply to one path or to all paths of a list, in every spelling."""
    given = {"paths": ["docs/x", "prod//q"]}
    real = spelling.replace("notes", "prod")
    assert verdict(folder, Rule("deny", "pack", {"paths": {"one_of": [real, "z"]}}), "pack", given) == "deny"
    if spelling != "lnk/q":
        assert verdict(folder, Rule("deny", "pack", {"paths": ["./docs/x", real]}), "pack", given) == "deny"


ALLOWED = [
    ({"below": "docs"}, "docs/x.md", "allow"),
    ({"below": "docs"}, "docs/out/evil.py", "ask"),
    ({"below": "docs"}, "docs/out/../x.md", "allow"),
    ({"below": "docs"}, "docs/../src/evil.py", "ask"),
    ({"below": "docs"}, "DOCS/x.md", "ask"),
    ({"below": "docs"}, "{folder}/docs/x.md", "allow"),
    ({"below": "{folder}/docs"}, "docs/x.md", "allow"),
    ({"below": "{alias}/docs"}, "docs/x.md", "allow"),
    ({"below": "{alias}/docs"}, "docs/out/evil.py", "ask"),
    ({"below": "/docs"}, "docs/x.md", "ask"),
    ({"below": "lnk"}, "lnk/q", "ask"),
    ({"below": "prod"}, "lnk/q", "ask"),
    ({"below": "."}, "lnk/q", "allow"),
    ({"matches": r"docs/.*"}, "docs/x.md", "allow"),
    ({"matches": r"docs/.*"}, "docs/out/evil.py", "ask"),
    ({"contains": r"docs"}, "docs/out/evil.py", "ask"),
    ({"equals": "docs/out/evil.py"}, "docs/out/evil.py", "ask"),
    ({"one_of": ["docs/x.md"]}, "./docs//x.md", "allow"),
    ({"equals": "./docs//x.md"}, "docs/x.md", "allow"),
    ({"equals": "{alias}/docs/x.md"}, "docs/x.md", "allow"),
    ({"equals": "DOCS/x.md"}, "docs/x.md", "ask"),
    ({"equals": "lnk/q"}, "lnk/q", "ask"),
]


@pytest.mark.parametrize(("test", "path", "expected"), ALLOWED)
def test_allow_rule_checks_the_resolved_path(folder, test, path, expected):
    """An allow rule matches if both the path and its resolved location match."""
    test = {name: spelled(value, folder) if isinstance(value, str) else value for name, value in test.items()}
    arguments = {"path": spelled(path, folder), "content": "x"}
    rule = Rule("allow", "write_file", {"path": test})
    assert verdict(folder, rule, "write_file", arguments, "NETWORK") == expected


OF_TOOLS = [
    ("deny", "copy", "source", {"below": "prod"}, {"source": "lnk/q", "destination": "x"}, "deny"),
    ("deny", "copy", "destination", {"below": "prod"}, {"source": "x", "destination": "a/b/up/q"}, "deny"),
    ("deny", "copy", "destination", {"matches": "prod/.*"}, {"source": "x", "destination": "lnk/q"}, "deny"),
    ("deny", "copy", "destination", {"equals": "prod/q"}, {"source": "x", "destination": "file-lnk"}, "deny"),
    ("deny", "copy", "destination", {"below": "prod"}, {"source": "lnk/q", "destination": "x"}, "allow"),
    ("deny", "pack", "paths", {"below": "prod"}, {"paths": ["docs/x", "lnk/q"]}, "deny"),
    ("deny", "pack", "paths", {"matches": "prod/.*"}, {"paths": ["docs/x", "lnk/q"]}, "deny"),
    ("deny", "pack", "paths", {"below": "prod"}, {"paths": ["docs/x", "q"]}, "allow"),
    ("allow", "pack", "paths", {"below": "docs"}, {"paths": ["docs/x", "docs/y"]}, "allow"),
    ("allow", "pack", "paths", {"below": "docs"}, {"paths": ["docs/x", "docs/out/y"]}, "ask"),
    ("allow", "pack", "paths", {"below": "docs"}, {"paths": []}, "ask"),
    ("allow", "pack", "paths", {"below": "docs"}, {"paths": ["docs/x", "/etc/passwd"]}, "ask"),
    ("deny", "stow", "file_path", {"below": "prod"}, {"file_path": "lnk/q"}, "deny"),
    ("allow", "stow", "file_path", {"below": "docs"}, {"file_path": "docs/out/q"}, "ask"),
    ("allow", "stow", "file_path", {"below": "docs"}, {"file_path": "docs/q"}, "allow"),
    ("deny", "read_file", "path", {"below": "prod"}, {"file_path": "lnk/q"}, "deny"),
    ("deny", "search_files", "path", {"below": "prod"}, {"pattern": "x", "path": "lnk"}, "deny"),
]


@pytest.mark.parametrize("row", OF_TOOLS)
def test_every_path_argument_is_resolved(folder, row):
    """Rules apply to declared path arguments and to those that a rule tests with `below`."""
    says, tool, argument, test, arguments, expected = row
    level = "SYSTEM" if says == "deny" else "NETWORK"
    assert verdict(folder, Rule(says, tool, {argument: test}), tool, arguments, level) == expected


def test_function_outside_the_workspace_uses_the_current_folder(folder):
    """Paths of a function outside the workspace are relative to the current directory."""
    tool, before = Tool(stow, level="SYSTEM"), Path.cwd()
    home = os.environ["HOME"]
    rows = [("prod", "lnk/q", "deny"), (f"{folder}/prod", "lnk/q", "deny"), (f"{home}/prod", "~/prod/q", "deny")]
    os.chdir(folder)
    try:
        for below, path, expected in [*rows, ("prod", "docs/q", "allow")]:
            policy = Policy("SYSTEM", [Rule("deny", "stow", {"file_path": {"below": below}})])
            policy_context = ToolPolicyContext(Toolset([tool]), (policy,), Grants(), Workspace(folder))
            made = ToolCall("id", "stow", json.dumps({"file_path": path}))
            assert judge_call(made, policy_context, ()).decision.verdict == expected
    finally:
        os.chdir(before)


@pytest.mark.parametrize("mode", ["run", "arun"])
@pytest.mark.parametrize("tool", [write_file_tool, read_file_tool, search_files_tool])
def test_link_moved_before_running_is_not_followed(folder, tool, mode):
    """File tools access only the location that was judged."""

    def approve(_request):
        (folder / "docs/out").unlink()
        (folder / "docs/out").symlink_to("../prod")
        return Approval.ONCE

    rules = [Rule("deny", tool.name, {"path": {"below": "prod"}}), Rule("ask", tool.name, {"path": {"below": "src"}})]
    (folder / "src/q").write_text("test")
    (folder / "prod/q").write_text("live")
    arguments = {"path": "docs/out/q"} | {"write_file": {"content": "x"}, "search_files": {"pattern": "live"}}.get(
        tool.name, {}
    )
    llm = ScriptedLLM(call(tool.name, **arguments), "Done.")
    agent = Agent("x", [tool], llm=llm, policy=Policy("SYSTEM", rules), workspace=folder, approve=approve)
    result = agent.run("go") if mode == "run" else asyncio.run(agent.arun("go"))
    refused = result.tool_calls[0].result
    assert (refused.status, refused.decision.rule) == ("denied", "approval-lapsed")
    assert ((folder / "prod/q").read_text(), (folder / "src/q").read_text()) == ("live", "test")


def test_link_moved_after_the_decision_is_rejected(folder):
    """A path that resolves to another location after the decision is rejected."""

    def on_event(event):
        if isinstance(event, ToolCallStarted):
            (folder / "docs/out").unlink()
            (folder / "docs/out").symlink_to("../prod")

    rules = [Rule("deny", "write_file", {"path": {"below": "prod"}})]
    (folder / "prod/q").write_text("live")
    llm = ScriptedLLM(call("write_file", path="docs/out/q", content="x"), "Done.")
    agent = Agent(
        "x", [write_file_tool], llm=llm, policy=Policy("SYSTEM", rules), workspace=folder, listeners=[on_event]
    )
    result = agent.run("go")
    assert "points to another file" in result.tool_calls[0].result.content
    assert (folder / "prod/q").read_text() == "live"


@pytest.mark.parametrize("folder", ["~/prod", "$HOME/prod", "../prod", "a/../../prod", ""])
def test_folder_that_matches_no_path_is_rejected(folder):
    """A `below` rule with `~`, a variable or a folder above the workspace is rejected."""
    with pytest.raises(ConfigError, match="takes a folder, relative to the workspace or absolute"):
        Rule("deny", "write_file", {"path": {"below": folder}})
