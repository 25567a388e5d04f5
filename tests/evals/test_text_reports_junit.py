"""Tests for JUnit reports, parsed with junitparser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped

from agentkit import Limits
from agentkit.evals import Case, Report, Suite, Trial, contains


@pytest.fixture
def suites(mixed):
    """Return the report as parsed by junitparser."""
    return JUnitXml.fromstring(mixed.to_junit().encode())


def test_each_agent_is_a_test_suite(suites, mixed):
    """Each agent is a test suite with the counts of its trials."""
    found = list(suites)
    assert len(found) == 2
    for suite, figures in zip(found, mixed.figures, strict=True):
        assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (12, 6, 2, 0)
        assert suite.time == pytest.approx(sum(case.time for case in suite), abs=0.01)
        properties = {each.name: each.value for each in suite.properties()}
        assert float(properties["success_rate"]) == pytest.approx(figures.rate.value, abs=1e-6)
        assert float(properties["interval_low"]) < float(properties["interval_high"])


def test_each_trial_is_a_test_case(suites):
    """Each trial is a test case, with wrong answers as failures and other problems as errors."""
    cases = list(next(iter(suites)))
    assert [case.name for case in cases][:7] == [
        *("works", "fails", "refused", "breaks", "loops", "denied"),
        "works [2]",
    ]
    kinds = [[type(result) for result in case.result] for case in cases][:6]
    assert kinds == [[], [Failure], [Failure], [Error], [Failure], []]
    assert cases[1].result[0].message.startswith("numeric: 3 is not 2")
    assert "answer: It is 3." in cases[1].result[0].text


def test_invalid_xml_characters_are_escaped(mixed):
    """Markup and characters that are invalid in XML are escaped."""
    text = mixed.to_junit()
    assert JUnitXml.fromstring(text.encode()) is not None
    assert not set(text) & set("\x00\x1b\ufffe")
    assert "<script>" not in text
    assert "\\u{0}\\u{1b}" in text


@given(st.text(st.characters(codec=None)))
def test_any_text_produces_valid_xml(text):
    """The document is valid XML for any text in prompts, errors and names."""
    trial = Trial(Case(text if text.strip() else "x", text, id=text), text, error=text, model=text)
    document = Report(text, (trial,), text).to_junit()
    assert JUnitXml.fromstring(document.encode()) is not None


def test_undone_trials_are_skipped(always):
    """Only trials that were not run because of the limits are reported as skipped."""
    report = Suite("x", [Case("?", "yes")], contains()).run(always("yes"), limits=Limits(input_tokens=1))
    (suite,) = JUnitXml.fromstring(report.to_junit().encode())
    assert (suite.tests, suite.skipped, suite.failures, suite.errors) == (1, 1, 0, 0)
    assert isinstance(next(iter(suite)).result[0], Skipped)


def test_long_texts_are_cut():
    """Very long answers do not make the file grow without bounds."""
    assert len(Report("x", (Trial(Case("x" * 100_000), "a", error="e"),)).to_junit()) < 50_000
