"""Tests for answers to a search: the stored ones, then the suite and the proposer, within a budget."""

import json

import pytest

from agentkit import LLM, Agent, Limits
from agentkit.errors import ConfigError, Unreachable
from agentkit.evals import Case, Suite
from agentkit.evals.optimization.candidates import Candidate
from agentkit.evals.optimization.history import (
    HELD_OUT,
    TRAIN,
    DatasetHalf,
    SearchEnvironment,
    SearchLog,
    check_prices,
    limits_or_unlimited,
)
from agentkit.evals.optimization.search import CaseMeasurement, Measure, Proposer, SearchStopped
from agentkit.testing import ScriptedLLM
from agentkit.usage import UNLIMITED, Price

ORIGINAL = Candidate({"instruction": "Be brief."})
SUITE = Suite("s", [Case("a", id="a"), Case("b", id="b"), Case("c", id="c")], [lambda *_: True])


def world(within, *lines, **options):
    """A search environment with training cases a and b, held-out case c, and a scripted model."""
    halves = {TRAIN: DatasetHalf(SUITE, SUITE.cases[:2]), HELD_OUT: DatasetHalf(SUITE, SUITE.cases[2:])}
    own = Agent("helper", llm=ScriptedLLM(*(lines or ["yes"]), repeat=True), **options)
    return SearchEnvironment(own, halves, Proposer(lambda *_: "x"), SearchLog(None, "", {}), within, 8)


def test_known_measurements_are_reused():
    """A case that was already measured with a candidate is not run again."""
    here = world(UNLIMITED)
    assert here.answer(Measure(ORIGINAL, ("a",))) == {"a": CaseMeasurement(1.0)}
    assert here.answer(Measure(ORIGINAL, ("a", "b"))) == {"a": CaseMeasurement(1.0), "b": CaseMeasurement(1.0)}
    assert [request.messages[0].content for request in here.agent.llm.requests] == ["a", "b"]


def test_final_measurement_is_reserved():
    """The cost of the final held-out measurement is reserved with a margin of a quarter."""
    limits = Limits(total_tokens=1_000, input_tokens=900, cost=1.0, unknown_price=Price(1_000, 1_000), seconds=None)
    here = world(limits)
    here.measured(HELD_OUT, ORIGINAL, ["c"])
    here.reserve_final(ORIGINAL)
    left = here.search_budget.limits
    assert (left.total_tokens, left.input_tokens, left.output_tokens) == (1_000 - 15 - 19, 900 - 10 - 13, None)
    assert left.cost == pytest.approx(1.0 - 0.015 * 2.25)
    assert left.tool_calls == 100
    assert left.seconds is None
    assert here.search_budget.parent is here.budget
    here.release()
    assert here.search_budget is here.budget


def test_requests_are_charged_before_they_are_sent(tmp_path):
    """A request is charged in the file at its maximum cost before it is sent."""
    path, seen = tmp_path / "search.jsonl", []

    def line(_request):
        seen.append(json.loads(path.read_text("utf-8").splitlines()[-1])["charged"])
        return "yes"

    halves = {TRAIN: DatasetHalf(SUITE, SUITE.cases[:2]), HELD_OUT: DatasetHalf(SUITE, SUITE.cases[2:])}
    own, function = Agent("helper", llm=ScriptedLLM(line, repeat=True)), Proposer(lambda *_: "x")
    limits = Limits(total_tokens=100_000)
    here = SearchEnvironment(own, halves, function, SearchLog(path, "", {}), limits, 1)
    here.answer(Measure(ORIGINAL, ("a", "b")))
    here.lineage.close()
    assert [each["output_tokens"] for each in seen] == [16_384, 16_389]  # five remain of the first request
    lines = path.read_text("utf-8").splitlines(keepends=True)
    value = json.loads(lines[-1])["charged"]
    assert (value["input_tokens"], value["output_tokens"]) == (20, 10)
    killed_at = next(number for number, each in enumerate(lines) if '"output_tokens":16389' in each)
    path.write_text("".join(lines[: killed_at + 1]), "utf-8")
    again = SearchEnvironment(own, halves, function, SearchLog(path, "", {}), limits, 1)
    assert again.budget.charged.output_tokens == 16_389
    again.lineage.close()


def test_fully_reserved_budget_makes_no_requests():
    """A budget that only covers the final measurement leaves nothing for the search."""
    here = world(Limits(total_tokens=30, seconds=60.0))
    here.measured(HELD_OUT, ORIGINAL, ["c"])
    here.reserve_final(ORIGINAL)
    assert here.answer(Measure(ORIGINAL, ("a",))) == SearchStopped("the limit of 30 total tokens is used up")
    assert len(here.agent.llm.requests) == 1


def test_model_error_stops_the_search():
    """A trial that fails with a model error stops the search and returns the reason."""
    answer = world(UNLIMITED, Unreachable("gone")).answer(Measure(ORIGINAL, ("a",)))
    assert isinstance(answer, SearchStopped)
    assert "gone" in answer.reason


def test_limit_of_one_run_does_not_stop_the_search():
    """A run that reaches the agent's limits counts as failed and does not stop the search."""
    here = world(UNLIMITED, limits=Limits(total_tokens=1))
    (measured,) = here.answer(Measure(ORIGINAL, ("a",))).values()
    assert (measured.score, measured.failure.answer) == (0, "")
    assert "limit of 1 total tokens" in measured.failure.error


def test_only_a_cost_limit_requires_prices():
    """Only a cost limit requires known prices."""
    unknown = ScriptedLLM("")
    priced = LLM(base_url="http://127.0.0.1:9/v1", model="any", price=Price(1, 1))
    check_prices(Limits(total_tokens=1), unknown)
    check_prices(Limits(cost=1, unknown_price="free"), unknown)
    check_prices(Limits(cost=1), priced, None)
    with pytest.raises(ConfigError, match=r"The price of .* is unknown"):
        check_prices(Limits(cost=1), priced, unknown)


def test_without_limits_only_the_rounds_end_a_search():
    """Without limits the search ends after its rounds."""
    assert limits_or_unlimited(None) == UNLIMITED
    assert limits_or_unlimited(Limits(cost=1)) == Limits(cost=1)
