"""Does an approver that wants to know of the run know of it?"""

import asyncio
from dataclasses import dataclass
from functools import partial

import pytest

from agentkit import Agent, Approval, ConfigError, RunContext, tool
from agentkit.mcp import ToolServer
from agentkit.testing import ScriptedLLM, call, record, replay


@dataclass
class Shop:
    """Whose shop it is."""

    owner: str


@tool(level="SYSTEM")
def refund(order: int) -> str:
    """Refund an order."""
    return f"{order} is refunded"


def ask_owner(request, run: RunContext[Shop]):
    """An says yes, the others no."""
    return run.value.owner == "An" or f"{run.value.owner} does not want {run.agent} to"


async def ask_owner_afar(run: RunContext[Shop], request):
    """The same from afar, its parameters the other way round."""
    await asyncio.sleep(0)
    return ask_owner(request, run)


class Desk:
    """The same as an object."""

    def __call__(self, request, *, run: RunContext[Shop]):
        """The answer."""
        return ask_owner(request, run)


ASK = (call("refund", order=7), "Done.")


def clerk(*lines, **options):
    """An agent that must ask."""
    return Agent("clerk", tools=[refund], llm=ScriptedLLM(*lines), **options)


def told(result):
    """What the calls of a run have come to."""
    return [used.result.status for used in result.tool_calls]


@pytest.mark.parametrize("approve", [ask_owner, ask_owner_afar, Desk(), Desk().__call__, partial(ask_owner_afar)])
def test_an_approver_is_told_whose_run_it_is(approve):
    """The same question is answered by who the run belongs to, blocking or awaiting."""
    agent = clerk(*ASK, *ASK, approve=approve, remember=False)
    assert told(agent.run("Refund 7.", context=Shop("An"))) == ["ok"]
    denied = asyncio.run(agent.arun("Refund 7.", context=Shop("Bo"))).tool_calls[0].result
    assert (denied.status, "Bo does not want clerk to" in denied.error) == ("denied", True)


def test_who_answers_later_is_told_too():
    """The function by which a waiting run is resumed gets the context of that run."""
    agent = clerk(*ASK, approve=lambda _: Approval.LATER)
    paused = agent.run("Refund 7.", context=Shop("An"))
    assert told(paused.resume(ask_owner)) == ["ok"]


def test_an_agent_that_is_set_to_work_asks_for_the_run_that_did():
    """The approver of the agent above knows of its own run; what it wants to answer later is a no."""
    worker = clerk(*ASK)
    boss = Agent("boss", tools=[worker.as_tool()], llm=ScriptedLLM(call("clerk", request="Refund 7."), "Done."))
    boss.approve = ask_owner
    assert "Done." in boss.run("Refund 7.", context=Shop("An")).tool_calls[0].result.content
    messages = worker.llm.requests[-1].messages
    assert "7 is refunded" in messages[-1].content


def test_the_agent_that_takes_over_asks_its_own_approver():
    """After a handoff the name of the agent is that of the one that leads."""
    heard = []

    def note(request, run: RunContext[Shop]):
        heard.append(run.agent)
        return True

    llm = ScriptedLLM(call("hand_off_to_clerk"), *ASK)
    lead = Agent("lead", handoffs=[Agent("clerk", tools=[refund], approve=note, llm=llm)], llm=llm)
    assert lead.run("Refund 7.", context=Shop("An")).status == "done"
    assert heard == ["clerk"]


@pytest.mark.parametrize("given", [None, "An"])
def test_a_run_that_lacks_what_the_approver_needs_does_not_begin(given):
    """What the run is given is checked before anybody is asked."""
    agent = clerk("never", approve=ask_owner)
    with pytest.raises(ConfigError, match="The approver needs a Shop as the context of its run"):
        agent.run("Refund 7.", context=given)
    assert agent.llm.requests == []


def test_what_was_answered_is_replayed(tmp_path):
    """A recording holds the answer; the approver is not asked again."""
    agent = clerk(*ASK, approve=ask_owner)
    with record(tmp_path / "run.jsonl"):
        agent.run("Refund 7.", context=Shop("An"))
    agent.reset()
    with replay(tmp_path / "run.jsonl"):
        assert told(agent.run("Refund 7.", context=Shop("An"))) == ["ok"]


@pytest.mark.parametrize("approve", [lambda: True, lambda _request, _other: True, 5])
def test_what_cannot_be_asked_is_refused(approve):
    """A function of nothing, or of more than a request and a run, is refused when the agent is made."""
    with pytest.raises(ConfigError, match="approve= takes a function from an ApprovalRequest, and maybe a Run"):
        clerk(approve=approve)


def test_clients_of_a_server_are_no_run():
    """An approver that needs a run cannot be asked for clients over MCP."""
    with pytest.raises(ConfigError, match="MCP clients have no run"):
        ToolServer([refund], approve=ask_owner)
