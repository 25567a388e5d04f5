"""The leaderboard benchmark scores as the leaderboard does, on separate halves of the questions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.offline.leaderboard import CATEGORIES, fits, same, sampled, tool, verdict

ROOT = Path(__file__).parents[2]
WANTED = [("area", {"base": [10], "unit": ["cm", ""]})]


@pytest.fixture
def folder(tmp_path):
    """A folder with twenty questions of one category, in the leaderboard's format."""
    function = {
        "name": "geo.area",
        "description": "The area.",
        "parameters": {"type": "dict", "properties": {"base": {"type": "float"}}, "required": ["base"]},
    }
    questions = [
        {"id": f"q{index}", "question": [[{"role": "user", "content": f"Area {index}"}]], "function": [function]}
        for index in range(20)
    ]
    answers = [{"id": f"q{index}", "ground_truth": [{"geo.area": {"base": [index]}}]} for index in range(20)]
    (tmp_path / "possible_answer").mkdir()
    for path, rows in (("", questions), ("possible_answer", answers)):
        text = "\n".join(map(json.dumps, rows))
        (tmp_path / path / "BFCL_v4_simple_python.json").write_text(text, "utf-8")
    return tmp_path


def test_halves_are_disjoint(folder):
    """The halves of the questions are reproducible and disjoint, and a smaller sample is a prefix."""
    halves = [
        [question["id"] for question in sampled(folder, "simple_python", half, 99)]
        for half in ("development", "held-out")
    ]
    assert sorted(halves[0] + halves[1]) == sorted(f"q{index}" for index in range(20))
    assert [question["id"] for question in sampled(folder, "simple_python", "held-out", 3)] == halves[1][:3]


def test_question_has_its_tools_and_expected_calls(folder):
    """Dots in names become underscores, and Python types become JSON types."""
    question = sampled(folder, "simple_python", "held-out", 1)[0]
    (spec,) = question["tools"]
    assert (spec.name, spec.parameters["type"], spec.parameters["properties"]["base"]) == (
        "geo_area",
        "object",
        {"type": "number"},
    )
    assert question["wanted"] == [("geo_area", {"base": [int(question["text"].split()[1])]})]


def test_schemas_are_read_to_any_depth():
    """Parameters may be named `type`, lists have item types, and untyped parameters are allowed."""
    shape = {
        "type": "dict",
        "properties": {"type": {"type": "tuple", "items": {"type": "float"}}, "any": {"type": "any"}},
    }
    assert tool({"name": "f", "description": "", "parameters": shape}).parameters["properties"] == {
        "type": {"type": "array", "items": {"type": "number"}},
        "any": {},
    }


@pytest.mark.for_each(
    ("calls", "expected"),
    [
        ([("area", {"base": 10})], True),
        ([("area", {"base": 10, "unit": "CM"})], True),
        ([("area", {"base": 10, "unit": "m"})], False),
        ([("area", {"base": 10, "height": 1})], False),
        ([("area", {})], False),
        ([("volume", {"base": 10})], False),
        ([("area", {"base": 10})] * 2, False),
        ([], False),
    ],
)
def test_calls_match_accepted_arguments(calls, expected):
    """Each expected call is made once with accepted values, and optional arguments may be omitted."""
    assert fits(WANTED, calls) is expected


@pytest.mark.for_each(
    ("possible", "value", "expected"),
    [
        ("New York, NY", "new york NY", True),
        (["a", "b"], ["A", "b"], True),
        (["a", "b"], ["b", "a"], False),
        ({"city": ["Rome"], "zip": ["", "1"]}, {"city": "rome"}, True),
        ({"city": ["Rome"]}, "rome", False),
        (1, True, False),
        (1, 1.0, True),
        ("1", 1, False),
    ],
)
def test_values_are_compared_as_the_leaderboard_does(possible, value, expected):
    """Strings are compared without case, spaces and some marks, lists in order, objects by field."""
    assert same(possible, value) is expected


@pytest.mark.for_each(
    ("wanted", "calls", "suggested", "expected"),
    [
        (WANTED, [("area", {"base": 10})], [], "correct"),
        (WANTED, [("area", {"base": 9})], [], "wrong"),
        (WANTED, [], [("area", {"base": 10})], "correct if confirmed"),
        (WANTED, [], [("area", {"base": 9})], "unconfirmed"),
        (WANTED, [], [], "declined"),
        ([], [], [], "correct"),
        ([], [], [("area", {"base": 9})], "unconfirmed"),
        ([], [("area", {"base": 9})], [], "wrong"),
    ],
)
def test_verdict_compares_calls(wanted, calls, suggested, expected):
    """Only a call can be wrong, and if no call is expected, making no call is right."""
    assert verdict(wanted, calls, suggested) == expected


def test_missing_questions_are_explained(tmp_path):
    """Without the questions the command says how to get them."""
    command = [sys.executable, "-m", "benchmarks.offline.leaderboard", "--folder", str(tmp_path)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, "pip install --no-deps bfcl-eval" in done.stderr) == (2, True)
    assert len(CATEGORIES) == 7
