"""Tests for the parsing of case files."""

import json

import pytest

from agentkit.content import File, Image
from agentkit.errors import ConfigError
from agentkit.evals import Case, ExpectedCall, SimulatedUser
from agentkit.evals.case import read_cases

ROWS = [
    {"prompt": "What is 2+2?", "expected": 4, "tags": ["sums"], "id": "two"},
    {"prompt": ["What?", {"image": "https://example.org/x.png"}], "expected": {"a": [1]}},
    {"prompt": ["What?", {"file": "https://example.org/x.pdf", "name": "x.pdf"}, {"file": "data:audio/wav;base64,"}]},
    {"prompt": "x", "tool_calls": ["add", {"tool": "add", "arguments": {"a": 1}}, ["add", {"b": 2}]], "tags": None},
    {"prompts": ["Hello", {"prompt": "And?", "expected": 3}, ["What?", {"image": "https://example.org/x.png"}]]},
    {"prompts": {"goal": "Buy a ticket.", "persona": "Ann", "max_prompts": 4}, "expected": "sold"},
    {"arguments": {"a": 1, "b": [2]}, "expected": 3},
]


def written(tmp_path, text, name="cases.jsonl"):
    """Return a file with this text."""
    place = tmp_path / name
    place.write_text(text, "utf-8")
    return place


def test_json_lines(tmp_path):
    """Cases are read from JSON lines, empty lines are skipped and null counts as missing."""
    cases = read_cases(written(tmp_path, "\n".join(map(json.dumps, ROWS)) + "\n\n"))
    assert cases[0] == Case("What is 2+2?", 4, tags=["sums"], id="two")
    assert cases[1].content == ("What?", Image("https://example.org/x.png"))
    assert cases[2].content[1:] == (File("https://example.org/x.pdf", "x.pdf"), File("data:audio/wav;base64,"))
    assert cases[3].expected_calls == (
        ExpectedCall("add"),
        ExpectedCall("add", {"a": 1}),
        ExpectedCall("add", {"b": 2}),
    )
    assert [each.expected for each in cases[4].turns] == [None, 3, None]
    assert cases[5].user == SimulatedUser("Buy a ticket.", "Ann", max_prompts=4)
    assert cases[6].arguments == {"a": 1, "b": [2]}


def test_case_can_be_parsed_from_its_data(tmp_path):
    """The data of a case parses to the same case."""
    cases = read_cases(written(tmp_path, "\n".join(map(json.dumps, ROWS))))
    again = read_cases(written(tmp_path, "\n".join(json.dumps(case.to_data()) for case in cases)))
    assert again == cases


def test_cases_are_read_from_csv(tmp_path):
    """Cases are read from CSV with a header row, and quoted values may contain newlines."""
    text = (
        'Prompt,expected,tags,tool_calls\n"What is\n2+2?",4,"sums, easy",calculator\n,,,\n'
        'x,,,"[[""add"", {""a"": 1}]]"\n'
    )
    one, two = read_cases(written(tmp_path, text, "cases.csv"))
    assert (one.text, one.expected, one.tags) == ("What is\n2+2?", "4", ("sums", "easy"))
    assert one.expected_calls == (ExpectedCall("calculator"),)
    assert (two.expected, two.expected_calls) == (None, (ExpectedCall("add", {"a": 1}),))


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\x0b", "\x0c"], ids=ascii)
def test_other_line_separators_do_not_end_a_row(tmp_path, end):
    """Other line separators belong to the value and do not start a new row."""
    (case,) = read_cases(written(tmp_path, f"prompt,expected\r\na{end}b,c\r\n", "cases.csv"))
    assert (case.text, case.expected) == (f"a{end}b", "c")


def test_lone_carriage_return_is_rejected(tmp_path):
    """A carriage return inside a row is an error."""
    place = tmp_path / "cases.csv"
    place.write_bytes(b"prompt,expected\na,b\rc,d\n")
    with pytest.raises(ConfigError, match="line 2: this is not a row"):
        read_cases(place)


def test_relative_workspace_starts_at_the_file(tmp_path):
    """A relative workspace is resolved from the folder of the file."""
    (case,) = read_cases(written(tmp_path, '{"prompt": "x", "workspace": "fixtures"}'))
    assert case.workspace == str(tmp_path / "fixtures")


@pytest.mark.parametrize("workspace", ["..", "/etc", "out", "inner/../../x", "loop", "\0"])
def test_workspace_outside_the_folder_is_rejected(tmp_path, workspace):
    """A case file cannot name a workspace outside its folder, also not through a link."""
    folder = tmp_path / "cases"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match=r"line 1: the workspace .* is not in the folder"):
        read_cases(written(folder, json.dumps({"prompt": "x", "workspace": workspace})))


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ('{"prompt": "x"}\n{"prompt": 3}', "a.jsonl", "line 2: A prompt is"),
        ("{", "a.jsonl", "line 1: this is not JSON"),
        ('{"prompt": "x", "workspace": 3}', "a.jsonl", "line 1: Case(workspace=) takes the path of a folder"),
        ("[1]", "a.jsonl", "line 1: a case must be an object"),
        ('{"question": "x"}', "a.jsonl", "line 1: a case has no field 'question'"),
        ('{"expected": 3}', "a.jsonl", "line 1: the prompt is missing"),
        ('{"prompt": [{"image": 3}]}', "a.jsonl", "line 1: A prompt is"),
        ("prompt,expected\nx,1,2", "a.csv", "line 2: the row has 3 values, and the first line names 2"),
        ("prompt,tool_calls\nx,[1", "a.csv", "line 2: this is not JSON"),
        ('prompt\n"x', "a.csv", "line 2: this is not a row"),
        ("prompt,expected\n,1", "a.csv", "line 2: the prompt is missing"),
    ],
)
def test_invalid_row_is_reported(tmp_path, text, name, expected):
    """The error for an invalid row contains its line number."""
    with pytest.raises(ConfigError) as raised:
        read_cases(written(tmp_path, text, name))
    assert expected in str(raised.value)


def test_many_invalid_rows_are_summarized(tmp_path):
    """The first few invalid rows are reported with the number of the remaining ones."""
    with pytest.raises(ConfigError, match="… and 2 more"):
        read_cases(written(tmp_path, "{\n" * 7))


def test_invalid_case_files_are_rejected(tmp_path):
    """Files of other types, missing files, and files that are not UTF-8 or too long are rejected."""
    with pytest.raises(ConfigError, match=r"\.jsonl and \.csv"):
        read_cases(tmp_path / "cases.txt")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_cases(tmp_path / "cases.csv")
    (tmp_path / "a.csv").write_bytes(b"prompt\n\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_cases(tmp_path / "a.csv")
    with (tmp_path / "b.csv").open("wb") as file:
        file.truncate(200_000_001)
    with pytest.raises(ConfigError, match="too many"):
        read_cases(tmp_path / "b.csv")


def test_conversations_in_csv(tmp_path):
    """Prompts and arguments in CSV are parsed as JSON."""
    text = 'expected,prompts,arguments\nbye,"[""Hello"", ""And?""]",\n3,,"{""a"": 1}"\n'
    one, two = read_cases(written(tmp_path, text, "cases.csv"))
    assert (one.text, two.arguments) == ("Hello / And?", {"a": 1})


@pytest.mark.parametrize(
    "row",
    [
        {"prompts": []},
        {"prompts": "Hello"},
        {"prompts": [{"prompt": "x", "id": "y"}]},
        {"prompts": [{"goal": "x"}]},
        {"prompts": {"persona": "x"}},
        {"prompts": {"goal": "x", "model": "y"}},
        {"prompt": "x", "arguments": {"a": 1}},
        {"arguments": [1]},
    ],
)
def test_invalid_conversations_are_reported(tmp_path, row):
    """Invalid conversations, users and arguments are reported with their line."""
    with pytest.raises(ConfigError, match="line 1"):
        read_cases(written(tmp_path, json.dumps(row)))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_cells_are_stripped_and_separated_as_spreadsheets_do(separator, tmp_path):
    """Commas, semicolons and tabs separate values, and surrounding spaces are removed."""
    rows = [["prompt", " expected ", "tags"], [" What is 2+2? ", " 4 ", "math easy"], [" ", " ", " "]]
    (case,) = read_cases(written(tmp_path, "\n".join(map(separator.join, rows)), "cases.csv"))
    assert (case.prompt, case.expected, case.tags) == ("What is 2+2?", "4", ("math", "easy"))
