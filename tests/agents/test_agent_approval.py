"""Tests for approvers: which return values approve a call, and what an approver cannot change."""

import asyncio
import functools

import pytest

from agentkit import Agent, ApprovalRequest, Tool
from agentkit.testing import ScriptedLLM, call


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def approve_immediately(request):
    """Approve the request."""
    return True


def approve_nothing(request):
    """Deny the request."""
    return False


def approve_almost(value, request):
    """Return a truthy value that is not True."""
    return value


async def approve_later(request):
    """Approve the request after a delay."""
    await asyncio.sleep(0)
    return True


async def refuse_later(request):
    """Deny the request after a delay."""
    await asyncio.sleep(0)
    return False


def approve_badly(request):
    """Raise an error."""
    raise LookupError("nobody home")


async def approve_badly_later(request):
    """Raise an error after a delay."""
    await asyncio.sleep(0)
    raise LookupError("nobody home")


def recording_tool():
    """Return a tool that requires approval, and the list of its calls."""
    ran = []

    def erase(name: str) -> None:
        ran.append(name)

    return Tool(erase, level="SYSTEM"), ran


class Approver(list):
    """An approver that approves, although its instance is falsy."""

    def __call__(self, request):
        """Approve the request."""
        return isinstance(request, ApprovalRequest)


@pytest.mark.for_each(
    ("approve", "expected"),
    [
        (None, "There is no approver."),
        (approve_nothing, "refused"),
        (refuse_later, "refused"),
        (functools.partial(approve_almost, "no"), "refused"),
        (functools.partial(approve_almost, None), "the approver returned None; return True to approve"),
        *(
            (functools.partial(approve_almost, value), "return True to approve")
            for value in (1, "yes", [True], object())
        ),
        (approve_badly, "LookupError: nobody home"),
        (approve_badly_later, "LookupError: nobody home"),
    ],
)
@pytest.mark.for_each("mode", ["run", "arun"])
def test_only_true_approves(approve, expected, mode):
    """A call is denied without an approver, or if the approver fails or returns anything but True."""
    tool, ran = recording_tool()
    llm = ScriptedLLM(call("erase", name="it"), "I may not.")
    agent = Agent("helper", [tool], approve=approve, llm=llm)
    result = agent.run("go") if mode == "run" else asyncio.run(agent.arun("go"))
    assert (result.output, ran) == ("I may not.", [])
    assert expected in llm.requests[1].messages[-1].content
    (decision,) = result.decisions
    assert (decision.denied, decision.rule, result.tool_calls[0].result.status) == (True, "safety-level", "denied")


@pytest.mark.parametrize("approve", [approve_immediately, approve_later, Approver()])
@pytest.mark.parametrize("mode", ["run", "arun"])
def test_true_approves(approve, mode):
    """An approver that returns True allows the call, and the decision records it."""
    tool, ran = recording_tool()
    agent = Agent("helper", [tool], approve=approve, llm=ScriptedLLM(call("erase", name="it"), "Done."))
    result = agent.run("go") if mode == "run" else asyncio.run(agent.arun("go"))
    assert ran == ["it"]
    assert (result.decisions[0].allowed, result.decisions[0].reason[:9]) == (True, "Approved.")


def test_approver_cannot_change_the_arguments():
    """Changes that an approver makes to the arguments do not affect the call."""

    def tamper(request):
        request.arguments["name"] = "something else"
        return True

    tool, ran = recording_tool()
    Agent("helper", [tool], approve=tamper, llm=ScriptedLLM(call("erase", name="it"), "Done."))("go")
    assert ran == ["it"]


def test_approver_cannot_change_nested_arguments():
    """Changes that an approver makes inside nested arguments do not affect the call."""

    def show(request):
        request.arguments["options"]["token"] = "***"
        return True

    def send(options: dict[str, str]) -> str:
        return options["token"]

    llm = ScriptedLLM(call("send", options={"token": "real"}), "Done.")
    result = Agent("helper", [Tool(send, level="SYSTEM")], approve=show, llm=llm).run("go")
    assert result.tool_calls[0].result.value == "real"


def test_approver_is_called_inside_a_running_loop():
    """A blocking run calls an async approver, even inside a running event loop."""

    async def cell():
        tool = Tool(add, "erase", level="SYSTEM")
        agent = Agent("helper", [tool], approve=approve_later, llm=ScriptedLLM(call("erase", a=1, b=2), "Done."))
        return agent.run("go")

    assert asyncio.run(cell()).tool_calls[0].result.value == 3


def test_approver_that_is_interrupted_ends_the_run(find_faults):
    """A KeyboardInterrupt in an approver ends the run, and the call is reported as interrupted."""

    def interrupt(request):
        raise KeyboardInterrupt

    tool = Tool(add, "erase", level="SYSTEM")
    agent = Agent("helper", [tool], approve=interrupt, llm=ScriptedLLM([call("erase", a=1, b=2), call("nope")]))
    with pytest.raises(KeyboardInterrupt):
        agent("go")
    assert find_faults(agent.history) == []
    assert "interrupted" in agent.history[2]["content"]
