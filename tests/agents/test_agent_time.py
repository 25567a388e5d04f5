"""Tests for the time limit of runs that wait for approvers and guardrails."""

import asyncio
import threading
import time

import pytest

from agentkit import Agent, Limits, SafetyLevel, Tool
from agentkit.testing import ScriptedLLM, call, record, replay

MODES = ["blocking", "awaiting"]
HANGING = 30.0
"""Longer than any of these runs takes; waiting for it is a failure."""


def run(agent, mode):
    """Return the result of a run, and whether it ended before the hanging function."""
    began = time.monotonic()
    result = agent.run("go") if mode == "blocking" else asyncio.run(agent.arun("go"))
    assert time.monotonic() - began < HANGING / 2
    return result


@pytest.fixture
def hangs():
    """Functions that hang until the test is over."""
    over = threading.Event()

    def blocking(_):
        over.wait(HANGING)

    async def awaiting(_):
        await asyncio.sleep(HANGING)

    yield {"blocking": blocking, "awaiting": awaiting}
    over.set()


def clerk(paid, **options):
    """Return an agent that requests a call that needs approval, and never finishes by itself."""

    def pay(euros: int) -> str:
        """Pay."""
        paid.append(euros)
        return "paid"

    llm = ScriptedLLM(call("pay", euros=5), repeat=True)
    return Agent("clerk", [Tool(pay, level=SafetyLevel.SYSTEM)], llm=llm, limits=Limits(seconds=0.3), **options)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("approver", MODES)
def test_unanswered_approval_ends_at_the_time_limit(tmp_path, hangs, mode, approver):
    """A pending approval is abandoned at the time limit, and the call is not made, also in a replay."""
    paid = []
    with record(tmp_path / "c"):
        result = run(clerk(paid, approve=hangs[approver]), mode)
    assert (result.status, result.limit, paid) == ("limit", "seconds", [])
    assert "reached its time limit before anybody answered" in result.tool_calls[0].result.error
    with replay(tmp_path / "c"):
        replayed = run(clerk(paid, approve=hangs[approver]), mode)
    assert (replayed.status, replayed.limit, replayed.messages) == ("limit", "seconds", result.messages)


@pytest.mark.parametrize("mode", MODES)
def test_no_approval_is_requested_after_the_time_limit(mode):
    """After the time limit, no further approval is requested."""
    paid, questions = [], []

    def approve(request):
        questions.append(request.arguments["euros"])
        time.sleep(0.4)
        return True

    agent = clerk(paid, approve=approve)
    agent.llm = ScriptedLLM([call("pay", euros=5), call("pay", euros=6)], repeat=True)
    result = run(agent, mode)
    assert (result.status, result.limit, paid, questions) == ("limit", "seconds", [], [5])
    assert "reached its time limit" in result.tool_calls[1].result.error


def hanging_check(function, what, *, is_async):
    """Return a guardrail for prompts or answers that calls the function."""

    async def check_prompt(prompt):
        return await function(prompt)

    async def check_output(output):
        return await function(output)

    def block_prompt(prompt):
        return function(prompt)

    def block_output(output):
        return function(output)

    awaiting = check_prompt if what == "prompt" else check_output
    blocking = block_prompt if what == "prompt" else block_output
    return awaiting if is_async else blocking


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("check", MODES)
@pytest.mark.parametrize("what", ["prompt", "output"])
def test_guardrail_that_hangs_ends_at_the_time_limit(hangs, mode, check, what):
    """A guardrail that does not finish ends the run at its time limit, without unchecked output."""
    checks = [hanging_check(hangs[check], what, is_async=check == "awaiting")]
    agent = Agent("a", llm=ScriptedLLM("Secret.", repeat=True), guardrails=checks, limits=Limits(seconds=0.3))
    result = run(agent, mode)
    assert (result.status, result.limit, result.output) == ("limit", "seconds", "")
