"""Tests for runs with a separate session or a share of a budget, and the results of failed runs."""

from collections import Counter
from contextvars import copy_context
from dataclasses import fields

import pytest

from agentkit import Agent, Limits, RunResult, SafetyLevel, Session, Tool, system_tools
from agentkit.agents.budget import Budget
from agentkit.agents.prompt_run import (
    SHARED,
    Job,
    PromptRun,
    ResumingAgent,
    SharedBudget,
    exhausted_limit,
    recreate_error,
    remaining_limits,
    reserve_part,
)
from agentkit.agents.run_config import NONE
from agentkit.errors import MissingExtra, RunError, SessionError, Unreachable
from agentkit.testing import ScriptedLLM, call
from agentkit.tooling.run_context import NO_RUN
from agentkit.usage import UNLIMITED, Price, Usage

PRICE = Price(1, 1)


def len_of(text: str) -> int:
    """Count characters."""
    return len(text)


def spent(limits, **taken):
    """Return a budget with the given usage."""
    budget = Budget(limits)
    for name, value in taken.items():
        setattr(budget.spent, name, value)
    return budget


@pytest.mark.parametrize(
    ("limits", "taken", "name"),
    [
        ({"tool_calls": 3}, {"counts": Counter(tool_calls=3)}, "tool_calls"),
        ({"tool_calls": 3}, {"counts": Counter(tool_calls=2)}, None),
        ({"output_tokens": 100}, {"output_tokens": 95}, "output_tokens"),
        ({"output_tokens": 100}, {"output_tokens": 50}, None),
        ({"cost": 1.0}, {"dollars": 1.0}, "cost"),
        ({}, {}, None),
    ],
)
def test_used_up_budget_is_detected(limits, taken, name):
    """A budget is used up if no request fits, and checking does not change it."""
    budget = spent(Limits(**limits), **taken)
    before = budget.spent.output_tokens, budget.spent.dollars
    limit = exhausted_limit(budget, lambda: PRICE)
    assert (limit and limit.limit) == name
    assert (budget.spent.output_tokens, budget.spent.dollars) == pytest.approx(before)


def test_remaining_limits_of_a_budget():
    """The remaining limits of a budget include those of its parent."""
    above = spent(Limits(tool_calls=10, seconds=None, cost=2.0), counts=Counter(tool_calls=8), dollars=3.0)
    budget = Budget(Limits(total_tokens=1_000, tool_calls=5, seconds=60), above)
    budget.spent.add(300, 200, 0)
    left = remaining_limits(budget)
    assert (left.total_tokens, left.tool_calls, left.input_tokens, left.repeated_calls) == (500, 2, None, None)
    assert 0 < left.seconds <= 60
    assert 0 < left.cost < 0.001
    assert remaining_limits(Budget(UNLIMITED)) == UNLIMITED


def test_remaining_budget_is_divided_equally():
    """The remaining budget is divided and held for the runs, unless it is too small."""
    budget = Budget(Limits(tool_calls=4, total_tokens=100))
    assert reserve_part(budget, 5) is None
    assert budget.spent.counts["tool_calls"] == 0
    part = reserve_part(budget, 2)
    assert (part.tool_calls, part.total_tokens) == (2, 50)
    assert (budget.spent.counts["tool_calls"], budget.spent.total_tokens) == (2, 50)


def test_every_limit_is_shared_or_separate():
    """Each limit is either shared among runs or applies to each run separately."""
    own = {"calls_per_response", "repeated_calls", "seconds", "unknown_price"}
    assert {each.name for each in fields(Limits)} == {*SHARED, *own}


@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "total_tokens", "cost"])
def test_every_limit_on_requests_refuses_a_request(name):
    """Each limit on requests refuses a request once it is reached."""
    budget = Budget(Limits(**{name: 20}))
    budget.spent.add(20, 20, 20.0)
    assert budget.reserve(1, lambda: 50, lambda: PRICE).limit == name
    assert name in SHARED
    assert budget.spent.of(name) >= 20


def test_shared_budget_of_several_runs():
    """Runs share one budget, and a run that was refused reserves nothing until it runs again."""
    shared = Budget(Limits(total_tokens=100))
    one, two = (SharedBudget.of(shared, is_alone=False) for _ in range(2))
    held = one.reserve(10, lambda: 80, lambda: None)
    refusal = two.reserve(10, lambda: 80, lambda: None)
    assert (refusal.limit, one.refusal, two.refusal) == ("total_tokens", None, refusal)
    one.settle(held, Usage(10, 10), lambda: None)
    assert two.reserve(10, lambda: 80, lambda: None) == refusal
    assert SharedBudget.of(shared, is_alone=True).reserve(10, lambda: 80, lambda: None).max_tokens == 70


def test_shared_budget_of_a_single_run():
    """A single run may reserve less after a refusal."""
    share = SharedBudget.of(Budget(Limits(total_tokens=100)), is_alone=True)
    assert share.reserve(90, lambda: 80, lambda: None, min_tokens=20).limit == "total_tokens"
    assert share.reserve(70, lambda: 80, lambda: None, min_tokens=20).max_tokens == 30


def test_run_without_budget_is_saved_with_its_changes(tmp_path):
    """A run without remaining budget keeps its id and changes, and its result can be saved."""
    lines = [call("write_file", path="a.txt", content="x"), call("write_file", path="b.txt", content="x")]
    with ScriptedLLM(*lines, "Stopped.") as llm:
        agent = Agent("writer", system_tools, llm=llm, workspace=tmp_path, safety="SYSTEM", max_iterations=2)
        earlier = agent.run("Write two files.")
    share = spent(Limits(total_tokens=10), output_tokens=10)
    single = PromptRun(agent, Job(0, "Write two files.", earlier=earlier), SharedBudget.of(share, is_alone=True))
    result = copy_context().run(single.run).result
    assert (result.status, result.limit, result.run_id) == ("limit", "total_tokens", earlier.run_id)
    assert RunResult.from_json(result.to_json()).run_id == earlier.run_id


@pytest.mark.parametrize(
    ("kind", "made"),
    [("Unreachable", Unreachable), ("MissingExtra", RunError), ("Any", RunError), ("NoSuchError", RunError)],
)
def test_error_is_created_by_its_name(kind, made):
    """An error from another process has its own class if it can be created, or else RunError."""
    error = recreate_error(kind, "It went wrong.")
    assert (type(error), str(error)) == (made, "It went wrong.")
    assert made is not MissingExtra


def test_damaged_session_is_a_failed_result(tmp_path):
    """If the sessions cannot be read, each result has an error."""
    file = tmp_path / "s.db"
    agent = Agent("echo", llm=ScriptedLLM("Hello.", repeat=True), session=Session.open(file, "trip"))
    agent.session.store.close()
    for each in tmp_path.glob("s.db*"):
        each.unlink()
    file.write_text("This is no database. " * 1_000, "utf-8")
    results = agent.map(["a", "b"])
    assert [type(result.error) for result in results] == [SessionError, SessionError]


def test_session_of_imported_messages_is_rejected(tmp_path):
    """A stored session that starts with imported messages is rejected by a map."""
    session = Session.open(tmp_path / "s.db", "trip")
    Session("trip/0000", session.store).append(list(Agent("x", llm=ScriptedLLM("Hi.")).run("Hello?").messages))
    result = Agent("echo", llm=ScriptedLLM("Hello.", repeat=True), session=session).map(["Hello?"])[0]
    assert isinstance(result.error, SessionError)


def test_lead_of_a_result_is_the_agent():
    """The lead of a mapped result has the name, instruction and plan of its agent."""
    agent = Agent("helper", instruction="Be brief.", llm=ScriptedLLM("Hi."))
    lead = ResumingAgent(agent, Session())
    plan = lead.config_from(agent._run_config(NO_RUN, None, NONE, lambda: agent.llm))
    assert (lead.name, plan.instruction, plan.active_agent) == ("helper", "Be brief.", agent)


def test_lead_of_a_result_can_be_a_handoff_target():
    """The lead of a mapped result can be a handoff target, with its agent's tools and policy."""
    tool = Tool(len_of, level="SYSTEM")
    agent = Agent("helper", [tool], safety="SYSTEM", llm=ScriptedLLM("Hi."))
    (result,) = agent.map(["go"])
    front = Agent("front", handoffs=[result.last_agent], safety="SAFE", llm=ScriptedLLM())
    assert front.as_tool().level is SafetyLevel.SYSTEM
    assert (result.last_agent.tools, result.last_agent.policy) == (agent.tools, agent.policy)
