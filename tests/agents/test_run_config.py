"""Tests for budgets of a block of code."""

import asyncio
import threading

import pytest

from agentkit import Agent, ConfigError, Limits, Usage, budget
from agentkit.testing import ScriptedLLM


def spending(lines=5):
    """Return an agent whose requests have 10 input tokens each."""
    return Agent("helper", llm=ScriptedLLM(*["Hi."] * lines), remember=False)


def test_runs_of_several_agents_share_a_budget():
    """Runs of any agents within the block share the limits; runs outside the block are not limited."""
    one, two = spending(), spending()
    with budget(Limits(input_tokens=29)) as shared:
        assert one.run("Hi!").status == "done"
        assert two.run("Hi!").status == "done"
        assert one.run("Hi!").limit == "input_tokens"
        assert shared.usage == Usage(20, 10, requests=2)
    assert one.run("Hi!").status == "done"


def test_nested_blocks():
    """The limits of an outer block also apply in a nested block."""
    agent = spending()
    with budget(Limits(input_tokens=19)):
        with budget(Limits(input_tokens=100)):
            assert agent.run("Hi!").status == "done"
            assert agent.run("Hi!").limit == "input_tokens"
        assert agent.run("Hi!").limit == "input_tokens"


def test_threads_enter_the_same_budget():
    """A thread shares the limits by entering the same budget object."""
    agent, shared, statuses = spending(), budget(Limits(input_tokens=25)), []

    def work():
        with shared:
            statuses.append(agent.run("Hi!").status)

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert statuses == ["done", "done", "limit"]


def test_tasks_share_a_budget():
    """Tasks started in the block share its limits."""
    agent = spending()

    async def main():
        with budget(Limits(input_tokens=36)):
            return await asyncio.gather(*(agent.arun("Hi!") for _ in range(3)))

    assert sorted(result.status for result in asyncio.run(main())) == ["done", "done", "limit"]


def test_arguments_of_a_budget():
    """A budget accepts limits, and has no usage before it is entered."""
    assert budget(Limits(cost=1)).usage == Usage()
    assert repr(budget(Limits(cost=1))).startswith("budget(Limits(")
    with pytest.raises(ConfigError, match=r"budget\(\) takes Limits"):
        budget(5)
