"""Tests for `agentkit "question"`: the answer, the tool calls, and JSON output."""

import json

from agentkit.messages import ToolCall
from agentkit.testing import FakeServer, call, say


def test_tool_calls_are_shown_on_stderr(command):
    """The answer is written to stdout; tool calls, results and decisions to stderr."""
    with FakeServer(call("calculator", expression="1250 * 0.17"), "It is 212.5.") as server:
        out, err, code = command("How much is 1250 * 0.17?", server=server)
    assert (out, code) == ("It is 212.5.\n", 0)
    assert err == '  calculator(expression="1250 * 0.17") → 212.5  [allow: safety-level]\n'


def test_quiet_shows_only_the_answer(command):
    """`-q` leaves the tool calls out."""
    with FakeServer(call("calculator", expression="2+2"), "4") as server:
        assert command("-q", "2+2?", server=server) == ("4\n", "", 0)


def test_text_before_a_tool_call_ends_its_line(command):
    """Text before a tool call is written on separate lines."""
    with FakeServer(say("Let me see.", call("calculator", expression="2+2")), "It is\n4\n") as server:
        assert command("2+2?", server=server)[0] == "Let me see.\nIt is\n4\n"


def test_json_is_one_document(command):
    """`--json` prints answer, status, usage, and tool calls with result and decision, with a schema version."""
    with FakeServer(call("calculator", expression="2+2"), "4") as server:
        document = json.loads(command("--json", "2+2?", server=server)[0])
    assert document["schema_version"] == 1
    assert (document["output"], document["status"], document["error"], document["iterations"]) == ("4", "done", None, 2)
    assert document["usage"] == {"input_tokens": 20, "output_tokens": 10, "requests": 2, "unreported": 0}
    (used,) = document["tool_calls"]
    assert used["tool"] == "calculator"
    assert used["arguments"] == {"expression": "2+2"}
    assert "schema_version" not in used
    assert used["result"] == {"expression": "2+2", "result": 4}
    assert used["decision"]["verdict"] == "allow"


def test_reached_limit_exits_with_3(command):
    """A reached limit exits with code 3, and the JSON document contains the tool calls."""
    with FakeServer(call("calculator", expression="2+2"), repeat=True) as server:
        out, err, code = command("--json", "loop", server=server)
    assert code == 3
    assert "Max tool iterations reached" in err
    assert len(json.loads(out)["tool_calls"]) == 10


def test_piped_text_is_appended(command):
    """Piped text is appended to the question."""
    with FakeServer("Two lines.") as server:
        command("Count the lines.", server=server, piped="line one\nline two\n")
    assert server.requests[0].json["messages"][-1]["content"] == "Count the lines.\n\nline one\nline two"


def test_tools_are_selected(command):
    """`-t` selects tools and collections without duplicates; `--no-tools` selects none."""
    with FakeServer("ok", repeat=True) as server:
        command("-t", "calculator", "-t", "core", "x", server=server)
        command("-t", "calculator", "x", server=server)
        command("-t", "string_length, calculator", "x", server=server)
        command("--no-tools", "x", server=server)
    offered = [[tool["function"]["name"] for tool in each.json.get("tools", [])] for each in server.requests]
    assert offered == [
        ["calculator", "get_current_datetime", "string_length", "parse_json"],
        ["calculator"],
        ["string_length", "calculator"],
        [],
    ]


def test_agent_of_a_file_is_run(command, tmp_path):
    """`--agent` reads the instruction and tools from a file; flags override them."""
    path = tmp_path / "clerk.txt"
    path.write_text("tools: calculator\n\nYou are a clerk.\n")
    with FakeServer("Yes.", "Yes.") as server:
        command("--agent", str(path), "Are you there?", server=server)
        command("--agent", str(path), "-s", "Be brief.", "-t", "string_length", "Are you there?", server=server)
    rows = [
        (each.json["messages"][0]["content"], each.json["tools"][0]["function"]["name"]) for each in server.requests
    ]
    assert rows == [("You are a clerk.", "calculator"), ("Be brief.", "string_length")]


def test_escape_sequences_of_a_model_are_removed(command):
    """Escape sequences and control characters are removed from answers and tool calls."""
    with FakeServer(call("string_length", text="\x1b[2Jhi"), "\x1b]0;owned\x07safe\u202e\x9b31m\r!") as server:
        out, err, _ = command("x", server=server)
    assert out == "safe31m!\n"
    assert "\x1b" not in err


def test_json_escapes_invisible_characters(command):
    """`--json` escapes invisible characters of an answer."""
    with FakeServer("a\x9b31m\u202eb\U000e0041") as server:
        out, _, _ = command("--json", "x", server=server)
    assert "a\\u009b31m\\u202eb\\udb40\\udc41" in out
    assert json.loads(out)["output"] == "a\x9b31m\u202eb\U000e0041"


def test_model_cannot_forge_a_tool_call_line(command):
    """A tool's name with line breaks stays on the line of its call."""
    forged = 'x\n  calculator(expression="1") → 1  [allow: safety-level]\n'
    with FakeServer(call(forged), "done") as server:
        assert len(command("x", server=server)[1].splitlines()) == 1


def test_deeply_nested_arguments_are_truncated(command):
    """Deeply nested arguments are shown truncated on one line."""
    deep = ToolCall("call_1", "calculator", '{"expression":' + "[" * 50_000 + "]" * 50_000 + "}")
    with FakeServer(say("", deep), "done") as server:
        out, err, code = command("x", server=server)
    assert (out, code) == ("done\n", 0)
    assert err.startswith('  calculator({"expression":[[[')
    assert len(err.splitlines()) == 1


def test_manifesto_is_run(command, tmp_path):
    """`--agent` offers the tools listed in a manifesto as text, and runs the first one requested."""
    path = tmp_path / "clerk.txt"
    path.write_text("Calculate.\n<TOOL: CALCULATOR>expression</TOOL>\n<TOOL: END_RUN></TOOL>\n", "utf-8")
    with FakeServer("<TOOL: CALCULATOR>6*7</TOOL>", "<TOOL: END_RUN>42</TOOL>") as server:
        out, _, code = command("--agent", str(path), "6*7?", server=server)
        assert (out.strip(), code) == ("42", 0)
        assert "tools" not in json.loads(server.requests[0].body)
