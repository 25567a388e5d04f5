"""Tests for judges that receive the run context, for calls from any caller."""

import asyncio
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from agentkit import Agent, ConfigError, Decision, RunContext, Tool, tool
from agentkit.code_mode import program_tool
from agentkit.decisions import Verdict
from agentkit.errors import Blocked
from agentkit.mcp import ToolServer
from agentkit.testing import ScriptedLLM, call


@dataclass
class Account:
    """The context of a run: an account and its limit."""

    owner: str
    most: int


seen: list[RunContext[Account]] = []


def within_means(arguments: Mapping[str, Any], run: RunContext[Account]) -> Decision:
    """Deny amounts above the limit of the account."""
    seen.append(run)
    if arguments["euros"] > run.value.most:
        return Decision(Verdict.DENY, "too-much", f"{run.value.owner} may send {run.value.most} at most.")
    return Decision(Verdict.ALLOW, "enough", "It is within means.")


class Judge:
    """A judge that is a callable object."""

    def __call__(self, arguments: Mapping[str, Any], *, run: RunContext[Account]) -> Decision:
        """Return the decision."""
        return within_means(arguments, run)


def wrapped(*arguments: Any, **others: Any) -> Decision:
    """A judge with a decorator."""
    return within_means(*arguments, **others)


wrapped.__wrapped__ = within_means


def turned(_more: str, run: RunContext[Account], arguments: Mapping[str, Any]) -> Decision:
    """A decorated judge with its parameters in the other order."""
    return within_means(arguments, run)


JUDGES = [
    within_means,
    Judge(),
    Judge().__call__,
    wrapped,
    partial(turned, "more"),
]
AN, BO = Account("An", 50), Account("Bo", 5)


def send(euros: int) -> str:
    """Send money."""
    return f"{euros} sent"


def clerk(*lines: Any, judge: Any = within_means, **options: Any) -> Agent:
    """Return an agent that sends money."""
    return Agent("clerk", tools=[Tool(send, judge=judge)], llm=ScriptedLLM(*lines), **options)


@pytest.mark.parametrize("judge", JUDGES)
def test_judge_receives_the_context_of_the_run(judge: Any) -> None:
    """The decision on a call depends on the context of its run, sync and async."""
    agent = clerk(*[call("send", euros=20), "Done."] * 2, judge=judge, remember=False)
    (first,) = agent.run("Send 20.", context=AN).decisions
    (other,) = asyncio.run(agent.arun("Send 20.", context=BO)).decisions
    assert (first.verdict, other.rule, other.reason) == (Verdict.ALLOW, "too-much", "Bo may send 5 at most.")


def test_judge_receives_call_details() -> None:
    """The judge receives the agent, run, session, call and messages of the call."""
    seen.clear()
    result = clerk(call("send", euros=20), "Done.", session="bo").run("Send 20.", context=AN)
    (run,) = seen
    assert (run.agent, run.session, run.call) == ("clerk", "bo", result.tool_calls[0].call.id)
    assert run.run
    assert [message.text for message in run.messages] == ["Send 20.", ""]


def test_program_calls_are_judged_with_the_run_context() -> None:
    """A call made by a program is judged with the context of the current run."""
    code = "print(send(euros=20))"
    agent = Agent(
        "clerk",
        tools=program_tool([Tool(send, judge=within_means)]),
        llm=ScriptedLLM(*[call("run_program", code=code), "Done."] * 2),
        remember=False,
    )
    assert "20 sent" in agent.run("Send 20.", context=AN).tool_calls[0].result.content
    assert "Bo may send 5 at most" in agent.run("Send 20.", context=BO).tool_calls[0].result.content


def test_missing_context_for_a_judge_raises_an_error() -> None:
    """A run without the context that a judge requires raises an error before any request."""
    agent = clerk("never")
    with pytest.raises(ConfigError, match="The judge of send needs a Account as the context of its run"):
        agent.run("Send 20.")
    assert agent.llm.requests == []


def test_judge_with_context_asks_outside_of_a_run() -> None:
    """Outside of a run a judge that requires one returns `ask`, and a direct call is allowed."""
    paying = Tool(send, judge=within_means)
    decision = paying.judge({"euros": 20})
    assert (decision.verdict, decision.rule) == (Verdict.ASK, "no-run")
    assert paying(euros=20) == "20 sent"
    assert paying.invoke({"euros": 20}).ok
    assert paying.judge({"euros": 20}, RunContext(AN)).rule == "enough"
    assert paying.judge({"euros": 20}, RunContext(BO)).rule == "too-much"


def test_explicit_context_is_passed_to_the_judge() -> None:
    """A RunContext passed to a tool explicitly is also passed to its judge."""

    @tool(judge=within_means)
    def pay(euros: int, run: RunContext[Account]) -> str:
        """Pay."""
        return f"{run.value.owner} pays {euros}"

    assert pay(euros=20, run=RunContext(AN)) == "An pays 20"
    with pytest.raises(Blocked, match="Bo may send 5 at most"):
        pay(euros=20, run=RunContext(BO))


def test_nested_tool_call_is_judged_in_its_run() -> None:
    """A call that the function of a tool makes is judged as one of that run."""
    paying = Tool(send, judge=within_means)

    @tool
    def tip(euros: int) -> str:
        """Give a tip."""
        return paying(euros=euros)

    agent = Agent("clerk", tools=[tip], llm=ScriptedLLM(call("tip", euros=20), "Done."))
    assert agent.run("Tip 20.", context=BO).tool_calls[0].result.status == "denied"


def test_judge_with_optional_context() -> None:
    """A judge whose context defaults to None can be called outside of a run."""

    def lenient(arguments: Mapping[str, Any], run: RunContext[Account] | None = None) -> Decision:
        return Decision(Verdict.ALLOW, "known" if run else "unknown", "It may.")

    assert Tool(send, judge=lenient).judge({"euros": 20}).rule == "unknown"
    (decision,) = clerk(call("send", euros=20), "Done.", judge=lenient).run("Send 20.").decisions
    assert decision.rule == "known"
    assert Tool(send, judge=lenient).judge({"euros": 20}, RunContext(AN)).rule == "known"


def test_judge_with_context_denies_over_mcp() -> None:
    """A call to an MCP server without an approver is denied if its judge requires a run."""
    result = asyncio.run(ToolServer([Tool(send, judge=within_means)]).answer("send", {"euros": 1}))
    assert (result.status, result.decision.rule if result.decision else "") == ("denied", "no-run")


def test_invoke_with_a_context() -> None:
    """`invoke` and `ainvoke` pass the given context to the function and the judge."""

    @tool(judge=within_means)
    def pay(euros: int, run: RunContext[Account]) -> str:
        """Pay."""
        return f"{run.value.owner} pays {euros}"

    assert pay.invoke({"euros": 20}, RunContext(AN)).value == "An pays 20"
    assert asyncio.run(pay.ainvoke({"euros": 20}, RunContext(AN))).value == "An pays 20"
    assert "Bo may send 5 at most" in str(pay.invoke({"euros": 20}, RunContext(BO)).error)
    assert "receives 'run', a RunContext, from an agent's run" in str(pay.invoke({"euros": 20}).error)


def test_call_by_name_is_bound_without_inspecting_the_signature() -> None:
    """Arguments by name are bound directly, with defaults; others as `inspect` binds them."""
    bound: list[object] = []

    class CountedSignature(inspect.Signature):
        """Counts how often arguments are bound."""

        def bind(self, /, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
            bound.append(kwargs)
            return super().bind(*args, **kwargs)

    def look(key: str, limit: int = 3) -> str:
        return f"{key} {limit}"

    def allow_few(arguments: Mapping[str, Any]) -> Decision:
        return Decision(Verdict.ALLOW if arguments["limit"] < 9 else Verdict.DENY, "a-rule", "Few are allowed.")

    parameters = [*inspect.signature(look).parameters.values()]
    vars(look)["__signature__"] = CountedSignature(parameters, return_annotation=str)
    judged = Tool(look, judge=allow_few)
    assert [judged(key="a"), judged(limit=4, key="a")] == ["a 3", "a 4"]
    assert not bound
    assert judged("a", limit=5) == "a 5"
    wrong: list[dict[str, Any]] = [{}, {"key": "a", "other": 1}, {"limit": 1}]
    for arguments in wrong:
        with pytest.raises(TypeError):
            judged(**arguments)
    assert len(bound) == 4
