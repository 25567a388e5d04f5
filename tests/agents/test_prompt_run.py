"""What is told of one run, when it has a session of its own, a share of a budget, and perhaps an end of its own?"""

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
    left_of,
    made_error,
    part_of,
    used_up,
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
    """A budget of which so much was taken."""
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
def test_what_is_used_up(limits, taken, name):
    """A budget is used up when it leaves no room for a request; looking takes nothing of it."""
    budget = spent(Limits(**limits), **taken)
    before = budget.spent.output_tokens, budget.spent.dollars
    limit = used_up(budget, lambda: PRICE)
    assert (limit and limit.limit) == name
    assert (budget.spent.output_tokens, budget.spent.dollars) == pytest.approx(before)


def test_what_is_left():
    """What is left of a budget, and of the one above it, are the limits of a run elsewhere."""
    above = spent(Limits(tool_calls=10, seconds=None, cost=2.0), counts=Counter(tool_calls=8), dollars=3.0)
    budget = Budget(Limits(total_tokens=1_000, tool_calls=5, seconds=60), above)
    budget.spent.add(300, 200, 0)
    left = left_of(budget)
    assert (left.total_tokens, left.tool_calls, left.input_tokens, left.repeated_calls) == (500, 2, None, None)
    assert 0 < left.seconds <= 60
    assert 0 < left.cost < 0.001
    assert left_of(Budget(UNLIMITED)) == UNLIMITED


def test_equal_parts_of_what_is_left():
    """What is left is parted among runs and held for them; what is too little for all of them is not parted."""
    budget = Budget(Limits(tool_calls=4, total_tokens=100))
    assert part_of(budget, 5) is None
    assert budget.spent.counts["tool_calls"] == 0
    part = part_of(budget, 2)
    assert (part.tool_calls, part.total_tokens) == (2, 50)
    assert (budget.spent.counts["tool_calls"], budget.spent.total_tokens) == (2, 50)


def test_every_limit_is_shared_or_each_runs_own():
    """A limit is either one that runs share, and can be parted among them, or holds for each run by itself."""
    own = {"calls_per_response", "repeated_calls", "seconds", "unknown_price"}
    assert {each.name for each in fields(Limits)} == {*SHARED, *own}


@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "total_tokens", "cost"])
def test_every_limit_of_requests_stops_one(name):
    """Each limit that requests are counted by leaves no room for a request once it is taken."""
    budget = Budget(Limits(**{name: 20}))
    budget.spent.add(20, 20, 20.0)
    assert budget.reserve(1, lambda: 50, lambda: PRICE).limit == name
    assert name in SHARED
    assert budget.spent.of(name) >= 20


def test_share_is_the_same_budget():
    """What one run spends, all see; one that was refused beside others takes nothing more, as it goes on after them."""
    shared = Budget(Limits(total_tokens=100))
    one, two = (SharedBudget.of(shared, is_alone=False) for _ in range(2))
    held = one.reserve(10, lambda: 80, lambda: None)
    refusal = two.reserve(10, lambda: 80, lambda: None)
    assert (refusal.limit, one.refusal, two.refusal) == ("total_tokens", None, refusal)
    one.settle(held, Usage(10, 10), lambda: None)
    assert two.reserve(10, lambda: 80, lambda: None) == refusal
    assert SharedBudget.of(shared, is_alone=True).reserve(10, lambda: 80, lambda: None).max_tokens == 70


def test_share_of_one_that_is_alone():
    """Who is alone may ask for less after a refusal."""
    share = SharedBudget.of(Budget(Limits(total_tokens=100)), is_alone=True)
    assert share.reserve(90, lambda: 80, lambda: None, fewest=20).limit == "total_tokens"
    assert share.reserve(70, lambda: 80, lambda: None, fewest=20).max_tokens == 30


def test_run_that_cannot_go_on_is_saved_with_its_changes(tmp_path):
    """What a run had changed before nothing was left for it stays that run's: its result is saved and read again."""
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
def test_error_by_its_name(kind, made):
    """An error that was told elsewhere is of its own class where it can be made of its text, else a RunError."""
    error = made_error(kind, "It went wrong.")
    assert (type(error), str(error)) == (made, "It went wrong.")
    assert made is not MissingExtra


def test_damaged_session_is_a_failed_result(tmp_path):
    """When the sessions cannot be read any more, each result says so."""
    file = tmp_path / "s.db"
    agent = Agent("echo", llm=ScriptedLLM("Hello.", repeat=True), session=Session.open(file, "trip"))
    agent.session.store.close()
    for each in tmp_path.glob("s.db*"):
        each.unlink()
    file.write_text("This is no database. " * 1_000, "utf-8")
    results = agent.map(["a", "b"])
    assert [type(result.error) for result in results] == [SessionError, SessionError]


def test_session_that_was_made_of_messages(tmp_path):
    """A session that began with messages from elsewhere belongs to no prompt."""
    session = Session.open(tmp_path / "s.db", "trip")
    Session("trip/0000", session.store).append(list(Agent("x", llm=ScriptedLLM("Hi.")).run("Hello?").messages))
    result = Agent("echo", llm=ScriptedLLM("Hello.", repeat=True), session=session).map(["Hello?"])[0]
    assert isinstance(result.error, SessionError)


def test_lead_of_a_result_is_the_agent():
    """Whoever goes on with a result knows the agent's name, order and plans."""
    agent = Agent("helper", instruction="Be brief.", llm=ScriptedLLM("Hi."))
    lead = ResumingAgent(agent, Session())
    plan = lead.config_from(agent._plan(NO_RUN, None, NONE, lambda: agent.llm))
    assert (lead.name, plan.instruction, plan.lead) == ("helper", "Be brief.", agent)


def test_lead_of_a_result_can_be_handed_to():
    """A conversation may be handed to whoever goes on with a result, with the tools and the policy of its agent."""
    tool = Tool(len_of, level="SYSTEM")
    agent = Agent("helper", [tool], safety="SYSTEM", llm=ScriptedLLM("Hi."))
    (result,) = agent.map(["go"])
    front = Agent("front", handoffs=[result.lead], safety="SAFE", llm=ScriptedLLM())
    assert front.as_tool().level is SafetyLevel.SYSTEM
    assert (result.lead.tools, result.lead.policy) == (agent.tools, agent.policy)
