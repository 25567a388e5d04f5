"""Tests for approvers that receive the context of the run."""

import asyncio
from dataclasses import dataclass
from functools import partial

import pytest

from agentkit import Agent, Approval, ConfigError, RunContext, tool
from agentkit.mcp import ToolServer
from agentkit.testing import ScriptedLLM, call, record, replay


@dataclass
class Shop:
    """The context of a shop."""

    owner: str


@tool(level="SYSTEM")
def refund(order: int) -> str:
    """Refund an order."""
    return f"{order} is refunded"


def ask_owner(request, run: RunContext[Shop]):
    """Approve if the owner is An."""
    return run.value.owner == "An" or f"{run.value.owner} does not want {run.agent} to"


async def ask_owner_async(run: RunContext[Shop], request):
    """Async approver with the parameters in the other order."""
    await asyncio.sleep(0)
    return ask_owner(request, run)


class Desk:
    """A callable approver with the same answers."""

    def __call__(self, request, *, run: RunContext[Shop]):
        """Return the answer."""
        return ask_owner(request, run)


ASK = (call("refund", order=7), "Done.")


def clerk(*lines, **options):
    """Return an agent whose calls need approval."""
    return Agent("clerk", tools=[refund], llm=ScriptedLLM(*lines), **options)


def statuses(result):
    """Return the status of each call of a run."""
    return [used.result.status for used in result.tool_calls]


@pytest.mark.parametrize("approve", [ask_owner, ask_owner_async, Desk(), Desk().__call__, partial(ask_owner_async)])
def test_approver_receives_the_context(approve):
    """An approver receives the context of the run, also when it is async."""
    agent = clerk(*ASK, *ASK, approve=approve, remember=False)
    assert statuses(agent.run("Refund 7.", context=Shop("An"))) == ["ok"]
    denied = asyncio.run(agent.arun("Refund 7.", context=Shop("Bo"))).tool_calls[0].result
    assert (denied.status, "Bo does not want clerk to" in denied.error) == ("denied", True)


def test_approver_passed_to_resume_receives_the_context():
    """An approver function passed to `resume` receives the context of the run."""
    agent = clerk(*ASK, approve=lambda _: Approval.LATER)
    paused = agent.run("Refund 7.", context=Shop("An"))
    assert statuses(paused.resume(ask_owner)) == ["ok"]


def test_approver_of_the_caller_is_used_for_workers():
    """The caller's approver is used for calls of a worker, with the context of the caller's run."""
    worker = clerk(*ASK)
    boss = Agent("boss", tools=[worker.as_tool()], llm=ScriptedLLM(call("clerk", request="Refund 7."), "Done."))
    boss.approve = ask_owner
    assert "Done." in boss.run("Refund 7.", context=Shop("An")).tool_calls[0].result.content
    messages = worker.llm.requests[-1].messages
    assert "7 is refunded" in messages[-1].content


def test_approver_after_a_handoff():
    """After a handoff, the approver receives the name of the active agent."""
    received = []

    def note(request, run: RunContext[Shop]):
        received.append(run.agent)
        return True

    llm = ScriptedLLM(call("hand_off_to_clerk"), *ASK)
    lead = Agent("lead", handoffs=[Agent("clerk", tools=[refund], approve=note, llm=llm)], llm=llm)
    assert lead.run("Refund 7.", context=Shop("An")).status == "done"
    assert received == ["clerk"]


@pytest.mark.parametrize("given", [None, "An"])
def test_run_without_the_context_of_the_approver_is_rejected(given):
    """A run without the context that the approver needs raises ConfigError."""
    agent = clerk("never", approve=ask_owner)
    with pytest.raises(ConfigError, match="The approver needs a Shop as the context of its run"):
        agent.run("Refund 7.", context=given)
    assert agent.llm.requests == []


def test_recorded_answer_is_replayed(tmp_path):
    """A replay uses the recorded answer without calling the approver."""
    agent = clerk(*ASK, approve=ask_owner)
    with record(tmp_path / "run.jsonl"):
        agent.run("Refund 7.", context=Shop("An"))
    agent.reset()
    with replay(tmp_path / "run.jsonl"):
        assert statuses(agent.run("Refund 7.", context=Shop("An"))) == ["ok"]


@pytest.mark.parametrize("approve", [lambda: True, lambda _request, _other: True, 5])
def test_invalid_approver_is_rejected(approve):
    """An approver with an invalid signature is rejected when the agent is created."""
    with pytest.raises(ConfigError, match="approve= takes a function from an ApprovalRequest, and maybe a Run"):
        clerk(approve=approve)


def test_tool_server_rejects_an_approver_with_a_run():
    """A tool server rejects an approver that needs the context of a run."""
    with pytest.raises(ConfigError, match="MCP clients have no run"):
        ToolServer([refund], approve=ask_owner)
