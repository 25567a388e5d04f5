"""A program of a user: it uses every public name, passes a strict type check, and runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, assert_type

from agentkit import (
    LLM,
    Agent,
    AgentKitError,
    Approval,
    ApprovalRequest,
    ConfigError,
    Decision,
    File,
    HostedTool,
    Image,
    Knowledge,
    LimitExceeded,
    Limits,
    MCPServer,
    ModelError,
    NoProvider,
    Policy,
    Response,
    Rule,
    RunContext,
    RunError,
    RunFinished,
    RunResult,
    SafetyLevel,
    Session,
    Suite,
    TextDelta,
    Tool,
    ToolError,
    ToolResult,
    Toolset,
    Usage,
    Verdict,
    Window,
    agent,
    budget,
    calculator_tool,
    core_tools,
    current_datetime_tool,
    default_tools,
    fetch_url_tool,
    json_parse_tool,
    list_directory_tool,
    python_tool,
    read_file_tool,
    shell_tool,
    string_length_tool,
    system_tools,
    tool,
    web_search_tool,
    web_tools,
    wikipedia_tool,
    write_file_tool,
)
from agentkit.errors import RateLimited
from agentkit.evals import Case, contains
from agentkit.events import Event, ToolCallFinished
from agentkit.testing import FakeServer, ScriptedLLM, call, say


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(name="look_up", level=SafetyLevel.NETWORK, timeout_seconds=5)
async def look_up(word: str, language: str = "en") -> list[str]:
    """Look a word up."""
    await asyncio.sleep(0)
    return [f"{word} ({language})"]


def judge(arguments: Mapping[str, Any]) -> Decision:
    """Allow only small things to be erased."""
    small = len(arguments["name"]) < 10
    return Decision(Verdict.ALLOW if small else Verdict.DENY, "size", "It is small." if small else "It is large.")


def erase(name: str) -> str:
    """Erase something."""
    if not name:
        raise ToolError("Say what to erase.")
    return f"{name} is gone"


erase_tool = Tool(erase, level="system", judge=judge)


def approve(request: ApprovalRequest) -> bool:
    """Approve erasing, and nothing else."""
    return request.tool == "erase" and request.decision.verdict is Verdict.ASK


async def approve_later(request: ApprovalRequest) -> bool:
    """Async variant of `approve`."""
    await asyncio.sleep(0)
    return approve(request)


def use_tools() -> None:
    """Tools are still functions, with their own types."""
    assert_type(add(1, 2), int)
    assert_type(calculator_tool(expression="2**10"), dict[str, Any])
    assert_type(add.invoke({"a": 1, "b": 2}), ToolResult)
    assert calculator_tool(expression="2**10")["result"] == 1024
    assert string_length_tool(text="four")["characters"] == 4
    assert json_parse_tool(json_string="[1]")["data"] == [1]
    assert "date" in current_datetime_tool()
    assert asyncio.run(look_up("agent")) == ["agent (en)"]
    assert add.invoke('{"a": 1, "b": 2}').content == "3"
    assert erase_tool.judge({"name": "x" * 20}).denied
    tools = core_tools + Toolset([add, erase_tool])
    assert_type(tools, Toolset)
    assert_type(tools.only("add"), Toolset)
    assert erase_tool not in default_tools
    assert erase_tool not in tools.up_to(SafetyLevel.NETWORK)


def use_judged_tools() -> None:
    """Judged tools return their decisions, and do not run calls that their judge denies."""
    assert default_tools == core_tools + web_tools + system_tools
    assert web_tools.names == (web_search_tool.name, fetch_url_tool.name, wikipedia_tool.name)
    assert system_tools.only("run_shell", "run_python").names == (shell_tool.name, python_tool.name)
    assert_type(shell_tool.judge({"command": "find / -delete"}), Decision)
    assert "blocked for safety" in shell_tool(command="find / -delete")["error"]
    assert fetch_url_tool(url="http://127.0.0.1/")["status"] == "denied"
    assert write_file_tool(path="note.txt", content="hello")["bytes_written"] == 5
    assert read_file_tool(path="note.txt")["content"] == "hello"
    assert "note.txt" in list_directory_tool()["files"]
    assert python_tool(code="6 * 7")["output"] == "42\n"
    rule = Rule(Verdict.DENY, "write_file", {"path": {"matches": r".*\.sql"}}, match=[{"path": "a.sql"}])
    llm = ScriptedLLM(call("write_file", path="a.sql", content="x"), call("write_file", path="b", content="x"), "Done.")
    policy = Policy(SafetyLevel.NETWORK, [rule])
    spelled = Policy("NETWORK", [Rule("deny", "write_file", rule.where, match=rule.match)])
    assert_type(spelled.level, SafetyLevel)
    assert spelled == policy
    writer = Agent("writer", system_tools, llm=llm, policy=policy, approve=lambda _: Approval.ONCE)
    result = writer.run("Write!")
    assert [decision.allowed for decision in result.decisions] == [False, True]
    assert_type(result.changes, str)
    assert "+x" in result.changes
    assert "b" in result.undo().removed


def use_agent() -> None:
    """An agent returns a string or a complete result."""
    llm = ScriptedLLM([call("add", a=1, b=2), call("erase", name="it")], "Done.", "A cat.", "A report.", "Bye.")
    helper = Agent("helper", [add, look_up, erase_tool], "Be brief.", 5, llm=llm, safety="network", approve=approve)
    received: list[str] = []
    helper.on(ToolCallFinished, lambda event: received.append(event.result.content))
    result = helper.run("Do it.")
    assert_type(result, RunResult[str])
    assert_type(result.output, str)
    assert_type(result.usage, Usage)
    assert_type(result.decisions, tuple[Decision, ...])
    assert (result.output, result.status, sorted(received)) == ("Done.", "done", ["3", "it is gone"])
    assert_type(helper(["What is this?", Image("https://example.org/cat.png"), Path(__file__)]), str)
    assert_type(helper(File.read(b"%PDF-", "a.pdf")), str)
    for event in helper.stream("Bye!"):
        assert_type(event, Event)
        if isinstance(event, TextDelta):
            assert_type(event.text, str)
        if isinstance(event, RunFinished):
            assert_type(event.result, RunResult[Any] | RunResult[str])
    assert_type(helper.history, list[dict[str, Any]])
    assert helper.usage.requests == 5
    helper.reset()
    assert helper.history == []


async def use_agent_awaiting() -> None:
    """Async variant of `use_agent`."""
    llm = ScriptedLLM(call("look_up", word="agent"), say("An agent.", usage=Usage(3, 2, requests=1)), "Bye.")
    received_events: list[Event] = []
    helper = Agent("helper", [look_up], llm=llm, approve=approve_later, listeners=[received_events.append])
    result = await helper.arun("What is an agent?")
    assert_type(result, RunResult[str])
    assert result.output == "An agent."
    async with aclosing(helper.astream("Bye!")) as events:
        async for event in events:
            assert_type(event, Event)


def failure_of(action: Callable[[], object]) -> AgentKitError:
    """Return the agentkit error that an action raises."""
    try:
        action()
    except AgentKitError as error:
        return error
    raise RuntimeError("It did not fail.")


def use_errors() -> None:
    """The class of each error states who must act, and all are AgentKitErrors."""
    llm = ScriptedLLM(call("add", a=1, b=2), "Three so far.", RateLimited("Later."))
    limited = Agent("limited", [add], max_iterations=1, llm=llm)
    at_cap = failure_of(lambda: limited("Add!"))
    assert isinstance(at_cap, LimitExceeded)
    assert isinstance(at_cap, RunError)
    assert at_cap.result.tool_calls[0].result.value == 3
    refused = failure_of(lambda: limited("Add!"))
    assert isinstance(refused, ModelError)
    assert_type(refused.status, int | None)
    unknown = failure_of(lambda: LLM(provider="bogus"))
    assert isinstance(unknown, NoProvider)
    assert isinstance(unknown, ConfigError)


def use_models() -> None:
    """A model can be called without an agent, and the one-line agent without settings."""
    with FakeServer("Hello.", say("Hi.", call("add", a=1, b=2)), "Hanoi.", "Eight million.") as server:
        llm = LLM(base_url=server.base_url, model="any")
        assert_type(llm.chat("Hi!"), str)
        response = llm.complete("Hi!", tools=[add])
        assert_type(response, Response)
        assert response.tool_calls[0].name == "add"
        llm.close()
        assert_type(agent("What is the capital of Vietnam?", base_url=server.base_url), str)
        texts = [event.text for event in agent.stream("How many live there?") if isinstance(event, TextDelta)]
        assert "".join(texts) == "Eight million."
        assert_type(agent.history, list[dict[str, Any]])
        assert_type(agent.usage, Usage)
        agent.reset()


@dataclass
class Invoice:
    """An invoice."""

    number: str
    total: float


def use_typed_answers() -> None:
    """Extraction from a text returns the given type, which the type checker infers."""
    llm = ScriptedLLM('{"number": "A1", "total": 30}', '{"result": ["A1"]}', "good", '{"result": null}')
    invoice = llm.extract("Invoice A1: 30 EUR", Invoice, instruction="Amounts are in EUR.")
    assert_type(invoice, Invoice)
    assert invoice.total == 30
    numbers = llm.extract("Invoice A1: 30 EUR", list[str])
    assert_type(numbers, list[str])
    mood: Literal["good", "bad"] = llm.extract("I like it.", Literal["good", "bad"])
    assert mood == "good"
    nothing: Invoice | None = asyncio.run(llm.aextract("Hello!", Invoice | None, retries=0))
    assert nothing is None


def use_typed_agents() -> None:
    """An agent returns its output type, which the type checker infers."""
    llm = ScriptedLLM('{"number": "A1", "total": 30}', '{"result": ["A1"]}', '{"result": "good"}')
    clerk = Agent("clerk", output_type=Invoice, llm=llm, limits=Limits(seconds=60), session=Session())
    assert_type(clerk, Agent[Invoice])
    result = clerk.run("Read the invoice!")
    assert_type(result, RunResult[Invoice])
    assert_type(result.output, Invoice)
    assert result.output.total == 30
    assert_type(clerk.as_tool(), Tool[[str], Invoice])
    numbers = Agent("lister", output_type=list[str], llm=llm).run("Which numbers?")
    assert_type(numbers.output, list[str])
    mood: Literal["good", "bad"] = Agent("judge", output_type=Literal["good", "bad"], llm=llm).run("Hello!").output
    assert mood == "good"
    reader = Agent("reader", llm=ScriptedLLM('{"number": "A1", "total": 30}', '{"result": ["A1"]}'))
    assert_type(reader.run("Read the invoice!", output_type=Invoice), RunResult[Invoice])
    assert_type(reader.run("Which numbers?", output_type=list[str], limits=Limits(seconds=60)).output, list[str])


def show(run: RunContext[Invoice], currency: str = "EUR") -> str:
    """Show the invoice."""
    assert_type(run.value, Invoice)
    return f"{run.value.total} {currency}"


def use_a_context() -> None:
    """A tool and the instruction receive the context of the run; its text can be streamed."""
    llm = ScriptedLLM(call("show"), "30 EUR.", "You are welcome.")
    clerk = Agent("clerk", [show], lambda run: f"Invoice {run.value.number}.", llm=llm, context=Invoice("A0", 0))
    result = clerk.run("What is to be paid?", context=Invoice("A1", 30))
    assert result.tool_calls[0].result.content == "30 EUR"
    assert show(RunContext(Invoice("A2", 5)), "USD") == "5 USD"
    pieces = clerk.stream_text("Thank you.", context=Invoice("A1", 30))
    assert_type("".join(pieces), str)


def use_waiting_runs() -> None:
    """A paused run is resumed with a person's answer, here or in another process."""
    erase_call = call("erase", name="it")
    helper = Agent("helper", [erase_tool], llm=ScriptedLLM(erase_call, "Done."), approve=lambda _: Approval.LATER)
    paused = helper.run("Erase it!")
    assert paused.status == "paused"
    assert_type(paused.pending[0].question, str)
    assert_type(paused.resume({paused.pending[0].id: True}), RunResult[str])
    other = Agent("helper", [erase_tool], llm=ScriptedLLM("It stays."), handoffs=[helper])
    assert other.resume(paused.to_json(), "It is mine.").output == "It stays."
    helper.handoffs = [other]


def use_unions() -> None:
    """Unions and literals are inferred exactly, of agents and of runs."""
    llm = ScriptedLLM('{"number": "A1", "total": 3}', "3")
    either = Agent("reader", llm=llm, output_type=Invoice | int)
    assert_type(either, Agent[Invoice | int])
    assert_type(either.run("Read it."), RunResult[Invoice | int])
    grader = Agent("grader", llm=llm, output_type=Literal["low", "high"])
    assert_type(grader, Agent[Literal["low", "high"]])
    assert_type(Agent("reader", llm=llm).run("Read it.", output_type=int | str).value, int | str | None)
    assert_type(budget(Limits(cost=1)).usage, Usage)


def use_further_names() -> None:
    """Documents, hosted tools, servers, windows and suites are imported from agentkit itself."""
    assert_type(Agent("reader", window=Window(tokens=8_000)), Agent[str])
    assert_type(Agent("reader", tools=[HostedTool("web_search")]), Agent[str])
    assert_type(Suite("sums", [Case("1 + 1?", "2")], [contains()]), Suite)
    assert_type(MCPServer("uvx mcp-server-time"), MCPServer)
    with Knowledge(":memory:") as knowledge:
        assert_type(knowledge, Knowledge)


def main() -> None:
    """Use everything."""
    use_tools()
    use_judged_tools()
    use_agent()
    asyncio.run(use_agent_awaiting())
    use_errors()
    use_models()
    use_typed_answers()
    use_typed_agents()
    use_a_context()
    use_waiting_runs()
    use_unions()
    use_further_names()
    sys.stdout.write("everything works\n")


if __name__ == "__main__":
    main()
