"""Tests for suites: names, cases and scorers."""

import asyncio

import pytest

from agentkit import evals
from agentkit.errors import ConfigError
from agentkit.evals import Case, Suite, contains, exact, numeric


def test_suite_is_run(always):
    """A report counts the passed cases of a suite."""
    suite = Suite("sums", [Case("What is 17% of 2,400?", expected=408)], scorers=[numeric()])
    report = suite.run(always("It is 408."))
    assert "1 of 1" in str(report)
    assert report.success_rate == 1.0


def test_suite_can_be_run_asynchronously(sums, always):
    """`arun` gives the same result as `run`."""
    blocking, awaiting = sums.run(always("It is 4.")), asyncio.run(sums.arun(always("It is 4.")))
    assert [trial.outcome for trial in awaiting.trials] == [trial.outcome for trial in blocking.trials]
    assert awaiting.success_rate == 0.25


@pytest.mark.parametrize(
    "arguments",
    [
        ("", [Case("x", 1)], [exact()]),
        ("x", [], [exact()]),
        ("x", ["What?"], [exact()]),
        ("x", [Case("x")], [exact()]),
        ("x", [Case("x", 1)], ()),
        ("x", [Case("x", 1)], [3]),
        ("x", [Case("x", 1), Case("x", 1)], [exact()]),
    ],
)
def test_invalid_suite_arguments_are_rejected(arguments):
    """A suite without a name, cases or scorers, or with duplicate ids, raises a ConfigError."""
    with pytest.raises(ConfigError):
        Suite(*arguments)


def test_scorers_of_a_case():
    """Scorers of a case replace those of the suite; scorers that cannot compare are skipped."""
    case, other = Case("x", 1, scorers=[exact()]), Case("y", tool_calls=["add"], scorers=[lambda *_: True])
    suite = Suite("x", [case, other], numeric())
    assert [scorer.name for scorer in suite.scorers_of(case)] == ["exact"]
    assert [scorer.name for scorer in suite.scorers_of(other)] == ["<lambda>"]


def test_some_of_the_cases(sums, always):
    """Cases can be selected by object or id, and an unknown one raises an error."""
    first, second, *_ = sums.cases
    report = sums.run(always("2"), cases=[second.id, first])
    assert [trial.case for trial in report.trials] == [first, second]
    with pytest.raises(ConfigError, match="no case 'nix'"):
        sums.run(always("2"), cases=["nix"])


def test_digest_identifies_a_suite(sums):
    """The digest of a suite depends on its cases, expectations and scorers, but not on its name."""
    cases = list(sums)
    same = Suite("other name", cases, [numeric()])
    others = [
        Suite("sums", cases[:-1], [numeric()]),
        Suite("sums", [*cases[:-1], Case(cases[-1].text, 9, id=cases[-1].id)], [numeric()]),
        Suite("sums", cases, [numeric(0.5)]),
        Suite("sums", cases, [contains()]),
    ]
    assert same.digest == sums.digest
    assert len({sums.digest, *(other.digest for other in others)}) == 5
    assert (len(sums), repr(sums)) == (4, "Suite('sums', 4 cases, scorers=[numeric(0.0, relative=1e-09, decimal='.')])")


def test_suite_from_a_file(tmp_path, always):
    """A suite is read from a file, and named after it."""
    (tmp_path / "capitals.jsonl").write_text('{"prompt": "Of Vietnam?", "expected": "Hanoi"}\n')
    suite = Suite.read(tmp_path / "capitals.jsonl", [contains()])
    assert (suite.name, suite.run(always("Hanoi.")).success_rate) == ("capitals", 1.0)
    assert Suite.read(tmp_path / "capitals.jsonl", [contains()], name="other").name == "other"


def test_public_names_can_be_imported():
    """The package exports exactly its public names."""
    assert all(getattr(evals, name) for name in evals.__all__)
    assert set(evals.__all__) <= set(dir(evals))
    with pytest.raises(AttributeError, match="no attribute 'nix'"):
        _ = evals.nix
