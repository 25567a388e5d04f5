"""Tests for conditional tools: when a tool is offered, and when a call of it is denied."""

import asyncio
from functools import partial

import pytest

from agentkit import Agent, Approval, ConfigError, Limits, RunContext, Tool, Toolset, core_tools, read_file_tool, tool
from agentkit.code_mode import program_tool
from agentkit.mcp import ToolServer
from agentkit.testing import ScriptedLLM, call, record, replay
from agentkit.workspace.workspace import Workspace


def delete(name: str) -> str:
    """Delete an account."""
    return f"{name} is deleted"


def is_admin(run):
    """Return whether the run is an administrator's."""
    return run.value == "admin"


async def is_admin_async(run: RunContext[str]):
    """Async variant of `is_admin`."""
    await asyncio.sleep(0)
    return run.value == "admin"


ASK = (call("delete", name="bo"), "Done.")


def clerk(*lines, tools, **options):
    """An agent whose model follows a script."""
    return Agent("clerk", tools=tools, llm=ScriptedLLM(*lines), **options)


def offered(agent):
    """The names of the tools in each request."""
    return [[spec.name for spec in request.tools] for request in agent.llm.requests]


def statuses(result):
    """Return the status and the rule of each call of a run."""
    return [(used.result.status, used.result.decision.rule) for used in result.tool_calls]


@pytest.mark.for_each(
    "condition", [is_admin, is_admin_async, partial(lambda wanted, run: run.value == wanted, "admin")]
)
@pytest.mark.for_each("run", ["run", "arun", "stream", "astream"])
def test_tool_is_offered_only_if_its_condition_holds(condition, run):
    """A conditional tool is offered when its condition holds; otherwise a call of it is denied."""

    async def gathered(agent, value):
        return [event async for event in agent.astream("Delete bo.", context=value)][-1].result

    runs = {
        "run": lambda agent, value: agent.run("Delete bo.", context=value),
        "arun": lambda agent, value: asyncio.run(agent.arun("Delete bo.", context=value)),
        "stream": lambda agent, value: list(agent.stream("Delete bo.", context=value))[-1].result,
        "astream": lambda agent, value: asyncio.run(gathered(agent, value)),
    }
    agent = clerk(*ASK, *ASK, tools=[Tool(delete, when=condition)], remember=False)
    assert statuses(runs[run](agent, "admin")) == [("ok", "safety-level")]
    assert statuses(runs[run](agent, "guest")) == [("denied", "not-offered")]
    assert offered(agent) == [["delete"], ["delete"], [], []]


def test_condition_sees_the_current_messages():
    """A condition sees the messages that the model reads next, including the newest prompt and results."""
    seen = []

    def has_looked(run):
        seen.append([type(message).__name__ for message in run.messages])
        return any(getattr(message, "name", "") == "look" for message in run.messages)

    @tool
    def look() -> str:
        """Look."""
        return "it is bo's"

    agent = clerk(call("look"), *ASK, tools=[look, Tool(delete, when=has_looked)])
    assert statuses(agent.run("Delete bo.")) == [("ok", "safety-level")] * 2
    assert offered(agent) == [["look"], ["look", "delete"], ["look", "delete"]]
    assert seen[:2] == [["UserMessage"], ["UserMessage", "AssistantMessage", "ToolMessage"]]


def test_condition_is_evaluated_for_each_request():
    """A condition is evaluated again for each request, so a tool call can make another tool available."""
    signed_in = []

    @tool
    def sign_in() -> str:
        """Sign in."""
        signed_in.append("bo")
        return "welcome"

    later = Toolset([delete]).when(lambda: bool(signed_in))
    agent = clerk(call("sign_in"), call("delete", name="bo"), "Done.", tools=[sign_in, later])
    assert statuses(agent.run("Delete bo.")) == [("ok", "safety-level"), ("ok", "safety-level")]
    assert offered(agent) == [["sign_in"], ["sign_in", "delete"], ["sign_in", "delete"]]


def test_condition_of_a_toolset_is_evaluated_once():
    """The shared condition of a toolset is evaluated once per request."""
    questions = []
    agent = clerk("Hello.", tools=core_tools.when(lambda: not questions.append(1)))
    agent.run("Hello")
    assert (len(questions), offered(agent)) == (1, [list(core_tools.names)])


def test_all_conditions_must_hold():
    """A condition of a toolset does not replace the condition of its tools."""
    tools = Toolset([Tool(delete, when=is_admin)]).when(lambda: True)
    agent = clerk(*ASK, tools=tools)
    assert statuses(agent.run("Delete bo.", context="guest")) == [("denied", "not-offered")]


def test_condition_is_evaluated_again_on_resuming():
    """Resuming evaluates the condition again: an approved call is denied if it no longer holds."""
    tools = [Tool(delete, level="system", when=is_admin)]
    agent = clerk(*ASK, tools=tools, approve=lambda _: Approval.LATER)
    saved = agent.run("Delete bo.", context="admin").to_json()
    for value, outcome in (("guest", ("denied", "not-offered")), ("admin", ("ok", "safety-level"))):
        again = clerk("Done.", tools=tools)
        assert statuses(again.resume(saved, True, context=value)) == [outcome]


def test_conditions_after_a_handoff():
    """After a handoff, the tool conditions of the second agent apply."""
    other = clerk(*ASK, tools=[Tool(delete, when=is_admin)])
    other.name = "other"
    first = clerk(call("hand_off_to_other"), tools=[], handoffs=[other])
    assert statuses(first.run("Delete bo.", context="guest"))[-1] == ("denied", "not-offered")


@pytest.mark.parametrize(("value", "output"), [("admin", "bo is deleted"), ("guest", "ToolError")])
def test_program_cannot_call_a_tool_without_its_condition(value, output):
    """Conditions also apply to calls by a program, and to the program tool itself."""
    programs = program_tool([Tool(delete, when=is_admin)]).when(lambda: True)
    agent = clerk(call("run_program", code="print(delete('bo'))"), "Done.", tools=[programs], safety="system")
    result = agent.run("Delete bo.", context=value).tool_calls[0].result
    assert output in str(result.value)


def test_program_outside_a_run_cannot_call_conditional_tool():
    """A program tool outside a run cannot call a conditional tool; calling it directly works."""
    conditional = Tool(delete, when=lambda: True)
    statuses = program_tool([conditional]).invoke({"code": "delete('bo')"})
    assert "is not available now" in str(statuses.value)
    assert conditional("bo") == conditional.invoke({"name": "bo"}).value == "bo is deleted"


def test_search_excludes_tools_whose_condition_fails():
    """A searchable tool whose condition does not hold is neither listed, found nor offered."""
    tools = [Toolset([Tool(delete, when=is_admin)]).searchable()]
    lines = (call("find_tools", query="delete account"), *ASK)
    admin, guest = clerk(*lines, tools=tools), clerk(*ASK, tools=tools)
    admin.run("Delete bo.", context="admin")
    guest.run("Delete bo.", context="guest")
    assert offered(admin) == [["find_tools"], ["find_tools", "delete"], ["find_tools", "delete"]]
    assert offered(guest) == [[], []]


def broken(_run):
    """Fail."""
    raise KeyError("role")


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        (broken, r"The condition of delete failed \(KeyError: 'role'\)"),
        (lambda: "yes", "The condition of delete returned str; it must return True or False"),
    ],
)
def test_error_in_a_condition_fails_the_run(condition, error):
    """A condition that raises an error fails the run before any request is sent."""
    agent = clerk("never", tools=[Tool(delete, when=condition)])
    result = agent.run("Delete bo.", context="admin")
    assert result.status == "failed"
    with pytest.raises(Exception, match=error):
        result.raise_for_status()
    assert agent.llm.requests == []


def test_error_in_a_condition_on_resuming_fails_the_run():
    """An approved call is not made if the tool's condition raises an error on resuming."""
    agent = clerk(*ASK, tools=[Tool(delete, level="system", when=lambda: True)], approve=lambda _: Approval.LATER)
    saved = agent.run("Delete bo.").to_json()
    result = clerk("never", tools=[Tool(delete, level="system", when=broken)]).resume(saved, True)
    assert (result.status, "KeyError" in str(result.error)) == ("failed", True)


def test_slow_condition_reaches_the_time_limit():
    """A slow condition ends the run at its time limit."""

    async def slow():
        await asyncio.sleep(60)

    agent = clerk("never", tools=[Tool(delete, when=slow)], limits=Limits(seconds=0.05))
    assert agent.run("Delete bo.").status == "limit"


def test_conditional_tool_is_replayed(tmp_path):
    """A run with a conditional tool can be replayed."""
    agent = clerk(*ASK, tools=[Tool(delete, when=is_admin)])
    with record(tmp_path / "run.jsonl"):
        first = agent.run("Delete bo.", context="admin")
    agent.reset()
    with replay(tmp_path / "run.jsonl"):
        assert agent.run("Delete bo.", context="admin").output == first.output


@pytest.mark.parametrize("given", [True, "admin", divmod, bool])
def test_invalid_condition_is_rejected(given):
    """An invalid condition raises ConfigError."""
    with pytest.raises(ConfigError, match="when= takes a function"):
        Tool(delete, when=given)
    with pytest.raises(ConfigError, match="when= takes a function"):
        core_tools.when(given)


def test_copied_tool_keeps_its_condition():
    """A tool keeps its condition in another workspace and with another description."""
    conditional = read_file_tool.when(is_admin)
    assert conditional.conditions
    assert set(conditional.described("Read.").within(Workspace()).conditions) == set(conditional.conditions)


def test_tool_server_rejects_conditional_tools():
    """A tool server rejects tools with a condition, as MCP clients have no run."""
    with pytest.raises(ConfigError, match="'delete' has a condition on the run, and MCP clients have no run"):
        ToolServer([Tool(delete, when=is_admin)])
