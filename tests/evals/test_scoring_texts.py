"""Tests for scorers of texts, patterns and JSON."""

from dataclasses import dataclass

import pytest

from agentkit import Agent
from agentkit.errors import ConfigError
from agentkit.evals import Case, Suite, contains, exact, json_equal, matches
from agentkit.evals.scorers import is_expected_call
from agentkit.messages import ToolCall
from agentkit.testing import ScriptedLLM


@pytest.mark.parametrize(
    ("answer", "expected", "passed"),
    [
        ("Hanoi", "Hanoi", True),
        (" Hanoi\n", "Hanoi", True),
        ("hanoi", "Hanoi", False),
        ("Huế", ["Hanoi", "Huế"], True),
        ("408", 408, True),
        ("It is Hanoi.", "Hanoi", False),
    ],
)
def test_exact(scoring, answer, expected, passed):
    """The exact scorer requires the same text or one of several."""
    assert scoring(exact(), answer, expected).passed is passed


def test_exact_without_case(scoring):
    """The case can be ignored, and the reason of a miss has the actual and the expected text."""
    assert scoring(exact(ignore_case=True), "HANOI", "Hanoi").passed
    assert scoring(exact(), "x", ["a", "b"]).reason == '"x" is not "a" or "b"'


def test_contains(scoring):
    """A text is found ignoring case by default, and several texts must all be found."""
    assert scoring(contains(), "It is hanoi.", "Hanoi").passed
    assert not scoring(contains(ignore_case=False), "It is hanoi.", "Hanoi").passed
    missed = scoring(contains(), "It is Hanoi.", ["Hanoi", "Vietnam", "1010"])
    assert (missed.passed, missed.reason) == (False, '"Vietnam", "1010" is missing')
    assert scoring(contains(), "the answer is true", True).passed


def test_matches(scoring):
    """The regular expression is given to the scorer or expected by the case."""
    assert scoring(matches(r"\b4\d8\b"), "It is 408.").passed
    assert scoring(matches(), "It is 408.", r"\d{3}").passed
    assert scoring(matches("HANOI", ignore_case=True), "Hanoi").passed
    missed = scoring(matches(r"\d{4}"), "It is 408.")
    assert (missed.passed, missed.reason) == (False, r'"\\d{4}" is not found')


def test_invalid_regular_expression_is_rejected(answering):
    """An invalid regular expression raises a ConfigError when it is given or first used."""
    with pytest.raises(ConfigError, match="not a valid regular expression"):
        matches("(")
    with pytest.raises(ConfigError, match="not a valid regular expression"):
        matches()(Case("x", expected=3), answering("y"))


@pytest.mark.parametrize(
    ("answer", "expected", "reason"),
    [
        ('{"a": 1, "b": [1, 2]}', {"b": [1, 2], "a": 1}, ""),
        ('{"a": 1.0}', {"a": 1}, ""),
        ('{"a": 0.30000000000000004}', {"a": 0.3}, ""),
        ('```json\n{"a": true}\n```', '{"a": true}', ""),
        ("null", "null", ""),
        ('"Hanoi"', "Hanoi", ""),
        ('{"a": true}', {"a": 1}, ".a is true, not 1"),
        ('{"a": 1}', {"a": True}, ".a is 1, not true"),
        ('{"a": "1"}', {"a": 1}, '.a is "1", not 1'),
        ('{"a": 1}', {"a": 1, "b": 2}, 'the answer lacks "b"'),
        ('{"a": 1, "b": 2}', {"a": 1}, 'the answer has in addition "b"'),
        ('{"a": [1]}', {"a": [1, 2]}, ".a has 1 entries, not 2"),
        ('{"a": [1, {"b": 2}]}', {"a": [1, {"b": 3}]}, ".a[1].b is 2, not 3"),
        ("[1]", {"a": 1}, 'the answer is [1], not {"a": 1}'),
    ],
)
def test_json_equal(scoring, answer, expected, reason):
    """JSON is compared by value, and the first difference is reported with its path."""
    score = scoring(json_equal(), answer, expected)
    assert (score.passed, score.reason) == (not reason, reason)


def test_answer_that_is_not_json_is_reported(scoring):
    """An answer that is not JSON is reported in the reason."""
    assert scoring(json_equal(), "It is 3.", 3).reason.startswith("the answer is not JSON")


@dataclass
class City:
    """A city."""

    name: str
    inhabitants: int


def test_typed_answer(answering):
    """An answer of an output type is compared as JSON."""
    result = answering('{"name": "Huế", "inhabitants": 1236000}', output_type=City)
    assert result.output == City("Huế", 1236000)
    assert json_equal()(Case("x", {"name": "Huế", "inhabitants": 1236000}), result).passed


def test_long_texts_are_cut_in_reasons(scoring):
    """A reason shows the beginning of a long text."""
    assert len(scoring(exact(), "x" * 1_000, "y" * 1_000).reason) < 200


def test_numbers_too_large_for_a_float():
    """A number that is too large for a float is compared without raising an error."""
    huge = "1" + "0" * 400
    for expected, outcome in (("1.5", "failed"), (huge, "passed")):
        agent = Agent("one", llm=ScriptedLLM(huge))
        (trial,) = Suite("x", [Case("one", expected)], json_equal()).run(agent).trials
        assert (trial.outcome, trial.is_finished) == (outcome, True)
    (wanted,) = Case("one", tool_calls=[("f", {"n": 1.5})]).expected_calls
    assert not is_expected_call(wanted, ToolCall("1", "f", f'{{"n": {huge}}}'))


@pytest.mark.parametrize("scorer", [exact(), contains(), matches(), json_equal(), exact(ignore_case=True)])
@pytest.mark.parametrize(("answer", "expected"), [("Hu\u1ebf", "Hue\u0302\u0301"), ("Hue\u0302\u0301", "Hu\u1ebf")])
def test_accents(scoring, scorer, answer, expected):
    """Composed and decomposed accents are equal."""
    if scorer.name == "json_equal":
        answer = f'"{answer}"'
    assert scoring(scorer, answer, expected).passed
