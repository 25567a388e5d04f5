"""Tests for `agentkit tools`: list, show, run."""

import json

import pytest

from agentkit.cli.main import run
from agentkit.cli.tools import exit_code
from agentkit.decisions import Decision
from agentkit.messages import ToolResult


def test_every_tool_is_listed_with_its_level(capsys):
    """`tools list` prints a line for each tool."""
    assert run(["tools", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines][:4] == [
        ["get_current_datetime", "SAFE"],
        ["calculator", "SAFE"],
        ["string_length", "SAFE"],
        ["parse_json", "SAFE"],
    ]


def test_json_list_has_the_schemas(capsys):
    """`tools list --json` has the name, level, description and parameters of each tool."""
    assert run(["tools", "list", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)[1]
    assert (entry["name"], entry["level"]) == ("calculator", "SAFE")
    assert entry["parameters"]["required"] == ["expression"]


def test_named_tools_are_listed(tmp_path, capsys):
    """`tools list` accepts collections, tools and files, and reports tools without a description."""
    (tmp_path / "own.py").write_text("def price(thing: str): ...")
    assert run(["tools", "list", "calculator,string_length", f"{tmp_path / 'own.py'}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["calculator", "string_length", "price"]
    assert lines[-1].endswith("(no description: the tool has no docstring)")


def test_tool_is_shown(capsys):
    """`tools show` prints the description and parameters."""
    assert run(["tools", "show", "calculator"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("calculator  SAFE\n")
    assert '"expression"' in out


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        (["calculator", "expression=2+2"], "expression: 2+2\nresult: 4\n"),
        (["calculator", "expression=2==2"], None),
        (["string_length", "text=a b"], "text: a b\ncharacters: 3\nwords: 2\nlines: 1\n"),
        (
            ["parse_json", 'json_string={"a": [1]}'],
            '{\n  "success": true,\n  "data": {\n    "a": [\n      1\n    ]\n  }\n}\n',
        ),
    ],
)
def test_tool_runs_without_a_model(arguments, out, capsys):
    """`tools run` prints the result and exits with 1 if the tool fails; the first = separates key and value."""
    code = run(["tools", "run", *arguments])
    shown = capsys.readouterr()
    assert code == (0 if out else 1)
    assert shown.out == (out or "")
    assert bool(shown.err) is not bool(out)


def test_only_invalid_arguments_suggest_tools_show(capsys):
    """Only invalid arguments suggest `agentkit tools show`; other tool errors do not."""
    assert run(["tools", "run", "read_file", "path=nosuch"]) == 1
    assert capsys.readouterr().err == "Error: 'nosuch' does not exist.\n"
    assert run(["tools", "run", "calculator"]) == 2
    assert capsys.readouterr().err.endswith("To see its parameters: agentkit tools show calculator\n")


def test_json_result_has_status_and_decision(capsys):
    """`tools run --json` has the result, status, decision and time."""
    assert run(["tools", "run", "calculator", "expression=1/0", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["schema_version"], document["tool"], document["status"]) == (1, "calculator", "failed")
    assert document["error"] == document["result"]["error"]
    assert document["decision"]["verdict"] == "allow"
    assert document["seconds"] >= 0


def test_unknown_argument_is_reported(capsys):
    """An unknown argument is an error that lists the parameters; "=" in plain text is accepted."""
    assert run(["tools", "run", "calculator", "expr=2+2"]) == 2
    assert "calculator has no parameter 'expr'.\nIts parameters are: expression." in capsys.readouterr().err
    for text in ("text=a=b", "a==b", "LANG=C", "a b=c"):
        assert run(["tools", "run", "string_length", text]) == 0


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (ToolResult("t", "ok", "4", 4), 0),
        (ToolResult("t", "failed", "", error="No.", decision=Decision("allow", "rule", "Harmless.")), 1),
        (ToolResult("t", "denied", "", error="No.", decision=Decision("deny", "rule", "Forbidden.")), 4),
        (ToolResult("t", "failed", "", error="No.", decision=Decision("deny", "bad-arguments", "None given.")), 2),
    ],
)
def test_exit_codes(result, code):
    """Denied calls exit with 4, failed calls with 1, and calls with invalid arguments with 2."""
    assert exit_code(result) == code


def test_deeply_nested_value_is_shown(capsys):
    """A deeply nested value is shown without a traceback, also with --json."""
    deep = "json_string=" + "[" * 900 + "]" * 900
    for options in ([], ["--json"]):
        assert run(["tools", "run", "parse_json", deep, *options]) in {0, 1}
        shown = capsys.readouterr()
        assert shown.out or shown.err
