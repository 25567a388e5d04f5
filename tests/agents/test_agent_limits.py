"""Tests for limits of runs: iterations, tokens, costs, tool calls, time and repeated calls."""

import asyncio
import math
import threading
import time

import pytest

from agentkit import LLM, Agent, ConfigError, LimitExceeded, Limits, SafetyLevel
from agentkit.agents.effects import until
from agentkit.agents.result import RunFinished
from agentkit.errors import Unreachable
from agentkit.events import TextDelta
from agentkit.testing import FakeServer, ScriptedLLM, call, fail, say, slow
from agentkit.tooling.tool import Tool
from agentkit.usage import Price, Tariff, Usage

MODES = ["run", "arun", "stream", "astream"]
PROTOCOLS = ["chat", "responses"]
PRICE = Price(1.0, 2.0)
DEAR = Usage(1_000, 500, requests=1)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def look() -> str:
    """Look whether it is done."""
    return "Not yet."


def served(server, **options):
    """Return a client of a fake server."""
    return LLM(base_url=server.base_url, model="any", **options)


def calls(count):
    """Return the given number of different calls, each in a separate response."""
    return [call("add", a=number, b=0) for number in range(count)]


def tools_of(request):
    """The names of the tools that a request offers."""
    return [each.get("function", each)["name"] for each in request.json.get("tools", [])]


def limit_of(request):
    """Return the maximum length of the answer in a request."""
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
    return next((request.json[name] for name in names if name in request.json), None)


# Each limit alone: the result contains the work so far, and no request is sent that could exceed the limit.

HIT = {
    "iterations": (Limits(), [*calls(2), "So far."], "Max tool iterations reached (2)"),
    "tool_calls": (Limits(tool_calls=1), [*calls(2), "So far."], "limited to 1 tool calls"),
    "repeated_calls": (
        Limits(repeated_calls=1),
        [*[call("add", a=0, b=0)] * 3, "So far."],
        "add returned the same",
    ),
    "input_tokens": (Limits(input_tokens=20_000), [say("", *calls(1), usage=Usage(20_000, 5, requests=1))], "20,000"),
    "output_tokens": (Limits(output_tokens=60), [say("", *calls(1), usage=Usage(10, 50, requests=1))], "60 output"),
    "total_tokens": (Limits(total_tokens=2_000), [say("", *calls(1), usage=Usage(1_900, 50, requests=1))], "2,000"),
    "cost": (Limits(cost=0.01), [say("", *calls(1), usage=Usage(9_900, 0, requests=1))], "≈ $0.01"),
}


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("name", HIT)
def test_each_limit_stops_the_run(name, mode, find_faults, drive):
    """Each limit ends a run before a request exceeds it, and the result names the limit."""
    limits, lines, words = HIT[name]
    with FakeServer(*lines) as server:
        most = 2 if name == "iterations" else 10
        agent = Agent("helper", [add], max_iterations=most, llm=served(server, price=PRICE), limits=limits)
        result = drive(agent, mode)
        assert len(server.requests) == len(lines)
    assert (result.status, result.limit) == ("limit", name)
    assert words in str(result.error)
    assert isinstance(result.error, LimitExceeded)
    assert result.error.result is result
    assert result.tool_calls[0].result.value == 0
    assert result.output == ("So far." if lines[-1] == "So far." else "")
    assert find_faults(agent.history) == []


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each(
    "limits",
    [
        Limits(input_tokens=5),
        Limits(total_tokens=20),
        Limits(cost=0.000_01),
        Limits(output_tokens=5),
        Limits(seconds=1e-9),
    ],
)
def test_first_request_beyond_a_limit_is_not_sent(limits, mode, drive):
    """A limit that the first request could exceed ends the run before anything is sent."""
    with FakeServer() as server:
        agent = Agent("helper", [add], llm=served(server, price=PRICE), limits=limits)
        result = drive(agent, mode)
        assert server.requests == []
    assert (result.status, result.iterations, agent.history) == ("limit", 0, [])


def test_call_of_an_agent_raises_at_a_limit():
    """Calling an agent raises LimitExceeded, a RuntimeError that names the limit."""
    agent = Agent("helper", [add], max_iterations=1, llm=ScriptedLLM(*calls(1), "Zero so far."))
    with pytest.raises(RuntimeError, match="Max tool iterations reached") as raised:
        agent("go")
    assert isinstance(raised.value, LimitExceeded)
    assert raised.value.result.output == "Zero so far."


# The last answer.


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("protocol", PROTOCOLS)
def test_final_request_has_no_tools(protocol, mode, find_faults, drive):
    """At a limit that leaves room, a final request without tools asks for the answer."""
    with FakeServer(*calls(1), "It is zero.") as server:
        agent = Agent("helper", [add], "Be brief.", 1, llm=served(server, protocol=protocol))
        result = drive(agent, mode)
        first, last = server.requests
    assert (tools_of(first), "tools" in last.json) == (["add"], False)
    orders = [str(request.json.get("instructions") or request.json["messages"][0]) for request in (first, last)]
    assert [("Be brief." in order, "Answer now" in order) for order in orders] == [(True, False), (True, True)]
    assert (result.output, result.iterations) == ("It is zero.", 2)
    assert "Answer now" not in str(agent.history)
    assert find_faults(agent.history) == []


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("protocol", PROTOCOLS)
def test_tool_calls_in_the_final_answer_are_ignored(protocol, mode, find_faults, drive):
    """Tool calls in the final answer are not run, and the history stays valid."""
    with FakeServer(*calls(1), say("I must add.", *calls(1)), "Hello again.") as server:
        agent = Agent("helper", [add], "Be brief.", 1, llm=served(server, protocol=protocol))
        result = drive(agent, mode)
        assert (result.status, result.output, len(result.tool_calls)) == ("limit", "I must add.", 1)
        assert find_faults(agent.history) == []
        assert drive(agent, mode).output == "Hello again."


@pytest.mark.parametrize("mode", MODES)
def test_failed_final_answer_keeps_the_limit_status(mode, find_faults, drive):
    """If the final answer fails at a limit, the run still ends with that limit."""
    with FakeServer(*calls(1), fail(400, "No tools, no answer.")) as server:
        agent = Agent("helper", [add], max_iterations=1, llm=served(server))
        result = drive(agent, mode)
    assert (result.status, result.limit, len(result.tool_calls)) == ("limit", "iterations", 1)
    assert find_faults(agent.history) == []


@pytest.mark.parametrize("mode", MODES)
def test_final_answer_fits_within_the_token_limit(mode, drive):
    """The final answer omits the tools so that it fits within the token limit."""
    many = [Tool(add, f"add_{number}", "A tool with a long description. " * 20) for number in range(40)]
    with FakeServer(say("", call("add_1", a=1, b=2), usage=Usage(9_000, 10, requests=1)), "Three.") as server:
        agent = Agent("helper", many, llm=served(server), limits=Limits(total_tokens=12_000))
        result = drive(agent, mode)
        assert "tools" not in server.requests[1].json
        assert limit_of(server.requests[1]) < 2_990
    assert (result.status, result.limit, result.output) == ("limit", "total_tokens", "Three.")


def redacted(output):
    """Replace a word of the answer."""
    return output.replace("secret", "[…]") if isinstance(output, str) else None


@pytest.mark.parametrize("mode", MODES)
def test_final_answer_is_checked(mode, drive):
    """The final answer is parsed and checked like any other; an invalid one has no typed value."""
    agent = Agent("helper", [add], "", 1, llm=ScriptedLLM(*calls(1), "It is secret."), guardrails=[redacted])
    result = drive(agent, mode)
    assert (result.status, result.output) == ("limit", "It is […].")
    assert agent.messages[-1].text == "It is […]."
    for text, value in (("[0]", [0]), ("I do not know.", None)):
        typed = Agent(
            "helper", [add], "", 1, llm=ScriptedLLM(*calls(1), f'{{"result": {text}}}'), output_type=list[int]
        )
        result = drive(typed, mode)
        assert (result.status, result.limit, result.value) == ("limit", "iterations", value)


@pytest.mark.parametrize("mode", MODES)
def test_resuming_after_a_timeout(mode, find_faults, drive):
    """A run that timed out can be resumed with more time, and the unfinished call is reported."""
    lines = [call("hang", seconds=30), call("hang", seconds=0), "Done."]
    agent = Agent("helper", [Tool(hang, timeout_seconds=None)], llm=ScriptedLLM(*lines), limits=Limits(seconds=0.5))
    stopped = drive(agent, mode)
    result = drive(agent, mode, stopped.resumption(limits=Limits(seconds=60)))
    assert (stopped.limit, result.status, result.output) == ("seconds", "done", "Done.")
    assert [used.result.status for used in result.tool_calls] == ["timed_out", "ok"]
    assert find_faults(agent.history) == []


def test_calls_beyond_the_limit_get_an_error():
    """Calls beyond the limit get a result that explains why they were not run."""
    llm = ScriptedLLM(calls(3), "Two of three.")
    result = Agent("helper", [add], llm=llm, limits=Limits(tool_calls=2)).run("go")
    assert [used.result.status for used in result.tool_calls] == ["ok", "ok", "denied"]
    assert "limited to 2 tool calls" in llm.requests[1].messages[-1].content
    assert (result.limit, result.output) == ("tool_calls", "Two of three.")


# Resuming.


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("name", ["iterations", "tool_calls", "repeated_calls", "total_tokens", "cost"])
def test_resuming_after_a_limit(name, mode, find_faults, drive):
    """A run that reached a limit resumes from there, and the agent's limits start again."""
    limits, lines, _ = HIT[name]
    with FakeServer(*lines, *calls(1), "Done.") as server:
        most = 2 if name == "iterations" else 10
        agent = Agent("helper", [add], max_iterations=most, llm=served(server, price=PRICE), limits=limits)
        stopped = drive(agent, mode)
        result = drive(agent, mode, stopped.resumption())
    assert (result.status, result.limit, result.output) == ("done", None, "Done.")
    assert [used.result.value for used in result.tool_calls[: len(stopped.tool_calls)]] == [
        used.result.value for used in stopped.tool_calls
    ]
    assert result.iterations == stopped.iterations + 2
    assert result.usage.requests == stopped.usage.requests + 2
    assert find_faults(agent.history) == []
    assert agent.usage == result.usage


def test_new_limits_count_from_resuming():
    """The limits given on resuming count from that point, not from the start of the run."""
    llm = ScriptedLLM(*calls(3), "Three.", *calls(2), "Five.", *calls(9), "Fourteen.")
    agent = Agent("helper", [add], max_iterations=3, llm=llm)
    result = agent.run("go").resume(limits=Limits(tool_calls=2), max_iterations=2)
    assert (result.limit, result.output, len(result.tool_calls)) == ("iterations", "Five.", 5)
    result = result.resume(limits=Limits(tool_calls=9), max_iterations=20)
    assert (result.status, result.output, len(result.tool_calls)) == ("done", "Fourteen.", 14)


def test_resumed_model_is_informed_of_the_raised_limit():
    """After a final answer, the resumed model is informed that the limit was raised."""
    landed = ScriptedLLM(*calls(1), "So far.", "Done.")
    Agent("helper", [add], max_iterations=1, llm=landed).run("go").resume()
    assert "the limit was raised" in landed.requests[-1].messages[-1].content
    stopped = ScriptedLLM(say("", *calls(1), usage=Usage(10, 50, requests=1)), "Done.")
    Agent("helper", [add], llm=stopped, limits=Limits(output_tokens=60)).run("go").resume()
    assert stopped.requests[-1].messages[-1].content == "0"


def test_refused_tool_call_can_be_made_after_resuming():
    """The tool call limit starts again on resuming, so a refused call can be made."""
    agent = Agent(
        "helper", [add], llm=ScriptedLLM(*calls(2), "So far.", *calls(1), "Done."), limits=Limits(tool_calls=1)
    )
    assert agent.run("go").resume().status == "done"


# Tokens and costs.


@pytest.mark.for_each("protocol", PROTOCOLS)
@pytest.mark.for_each("mode", MODES)
def test_request_limits_the_length_of_the_answer(protocol, mode, drive):
    """Under an output token limit, a request sets the remaining tokens as its maximum."""
    with FakeServer(say("", *calls(1), usage=Usage(10, 100, requests=1)), "Done.") as server:
        agent = Agent("helper", [add], llm=served(server, protocol=protocol), limits=Limits(output_tokens=1_000))
        assert drive(agent, mode).status == "done"
        assert [limit_of(request) for request in server.requests] == [1_000, 900]


def test_no_length_is_sent_without_an_output_limit():
    """Without an output token limit, a request sets no maximum length."""
    for limits in (Limits(), Limits(input_tokens=10_000), Limits(cost=1.0, unknown_price="free")):
        with FakeServer("Hello.") as server:
            assert Agent("helper", llm=served(server), limits=limits).run("go").status == "done"
            assert limit_of(server.requests[0]) is None


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_smaller_maximum_length_is_sent(name):
    """The smaller of the LLM's own maximum length and the limit is sent, under one name."""
    with FakeServer("Hello.", "Hello.") as server:
        llm = served(server, settings={name: 300})
        for tokens in (1_000, 100):
            Agent("helper", llm=llm, limits=Limits(output_tokens=tokens)).run("go")
        assert [limit_of(request) for request in server.requests] == [300, 100]
        for request in server.requests:
            assert len({"max_tokens", "max_completion_tokens"} & request.json.keys()) == 1


def test_reasoning_model_gets_max_completion_tokens():
    """The maximum length is sent as `max_completion_tokens` to a reasoning model."""
    with FakeServer("Hello.") as server:
        llm = LLM(base_url=server.base_url, model="gpt-5.4-mini", protocol="chat")
        Agent("helper", llm=llm, limits=Limits(output_tokens=500)).run("go")
        assert server.requests[0].json["max_completion_tokens"] == 500
        assert "max_tokens" not in server.requests[0].json


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(output_tokens=100), "output_tokens"),
        (Limits(total_tokens=500), "total_tokens"),
        (Limits(cost=0.001), "cost"),
        (Limits(), "output_tokens"),
    ],
)
def test_truncated_answer_names_its_limit(limits, name):
    """An answer truncated at its token limit names the limit that caused it."""
    agent = Agent("helper", llm=Priced(say("Half an", finish_reason="length")), limits=limits)
    result = agent.run("go")
    assert (result.status, result.limit, result.output) == ("limit", name, "Half an")
    assert ("max_tokens" in str(result.error)) == (limits == Limits())


class Priced(ScriptedLLM):
    """A scripted model with a price."""

    @property
    def tariff(self):
        """Return the price of the model."""
        return Tariff("scripted", "scripted", price=PRICE)


@pytest.mark.parametrize("mode", MODES)
def test_unreported_usage_counts_as_the_maximum(mode, drive):
    """A request without reported usage counts with the maximum it could have used."""
    with FakeServer(say("", *calls(1), usage=None)) as server:
        agent = Agent("helper", [add], llm=served(server), limits=Limits(output_tokens=500))
        result = drive(agent, mode)
    assert (result.limit, result.usage.unreported, result.usage.output_tokens) == ("output_tokens", 1, 0)


def test_unknown_price_ends_the_run_under_a_cost_limit():
    """Under a cost limit, a model with an unknown price is not called, and the error names the remedy."""
    with FakeServer() as server:
        result = Agent("helper", llm=served(server), limits=Limits(cost=1.0)).run("go")
        assert server.requests == []
    assert (result.status, result.limit) == ("limit", "cost")
    assert "LLM(price=Price(...))" in str(result.error)


@pytest.mark.parametrize("unknown", ["free", Price(1.0, 2.0)])
def test_unknown_price_can_be_set(unknown):
    """With `unknown_price` set, a model without a price is called, and the limit uses that value."""
    line = say("", *calls(1), usage=Usage(1_000_000, 0, requests=1))
    with FakeServer(line, *(["Done."] if unknown == "free" else [])) as server:
        result = Agent("helper", [add], llm=served(server), limits=Limits(cost=0.5, unknown_price=unknown)).run("go")
    assert (result.status, result.cost) == ("done" if unknown == "free" else "limit", None)


def test_price_of_the_user_is_used():
    """A Price passed to the LLM is used for the cost and the limit."""
    with FakeServer(say("Hello.", usage=DEAR)) as server:
        agent = Agent("helper", llm=served(server, price=PRICE), limits=Limits(cost=1.0))
        result = agent.run("go")
    assert result.cost.dollars == pytest.approx(0.002)
    assert agent.cost == result.cost


def test_rejected_request_releases_its_reserved_tokens():
    """A rejected request releases the tokens that were reserved for it."""
    with FakeServer(fail(400, "No."), "Hello.") as server:
        agent = Agent("helper", llm=served(server), limits=Limits(output_tokens=100))
        assert agent.run("go").status == "failed"
        assert agent.run("go").output == "Hello."
        assert [limit_of(request) for request in server.requests] == [100, 100]


# Several agents.


def test_agents_as_tools_share_the_limits():
    """The usage of an agent used as a tool counts toward the limits of its caller."""

    def answer(request):
        return say("Inner.", usage=Usage(10, min(400, request.settings["max_tokens"]), requests=1))

    inner = Agent("inner", llm=ScriptedLLM(answer, repeat=True))
    outer = ScriptedLLM(*[call("inner", request=f"part {number}") for number in range(9)])
    result = Agent("outer", [inner.as_tool()], llm=outer, limits=Limits(output_tokens=1_000)).run("go")
    assert (result.status, result.limit) == ("limit", "output_tokens")
    assert result.usage.output_tokens == 1_000
    assert inner.usage.output_tokens == 400 + 400 + 185


@pytest.mark.parametrize("mode", MODES)
def test_concurrent_agents_share_the_limit(mode, drive):
    """Eight concurrent agents used as tools do not exceed the shared limit."""
    questions, together = [], threading.Barrier(3)

    def answer(request):
        questions.append(request.json["max_tokens"])
        together.wait(30)
        return say("Inner.", usage=Usage(10, request.json["max_tokens"], requests=1))

    with FakeServer(answer, answer, answer) as server:
        inner = Agent("inner", llm=served(server, max_tokens=300))
        requested_calls = [call("inner", request=f"part {number}") for number in range(8)]
        agent = Agent("outer", [inner.as_tool()], llm=ScriptedLLM(requested_calls), limits=Limits(output_tokens=915))
        result = drive(agent, mode)
    assert result.limit == "output_tokens"
    assert result.usage.output_tokens == 905
    assert questions == [300, 300, 300]


def test_tool_calls_of_agents_as_tools_are_counted():
    """The tool calls of an agent used as a tool count toward its caller's limit."""
    inner = Agent("inner", [add], llm=ScriptedLLM(*calls(2), "As far as I got."), limits=Limits(tool_calls=50))
    outer = ScriptedLLM(call("inner", request="add"), "The end.")
    result = Agent("outer", [inner.as_tool()], llm=outer, limits=Limits(tool_calls=2)).run("go")
    assert (result.status, len(inner.llm.requests)) == ("done", 3)
    assert "limited to 2 tool calls" in inner.llm.requests[-1].messages[-1].content


def test_iterations_of_nested_agents_are_separate():
    """An agent used as a tool does not count toward its caller's iterations."""
    inner = Agent("inner", [add], max_iterations=5, llm=ScriptedLLM(*calls(4), "Inner."))
    result = Agent(
        "outer", [inner.as_tool()], max_iterations=2, llm=ScriptedLLM(call("inner", request="x"), "Done.")
    ).run("go")
    assert (result.status, result.iterations) == ("done", 2)


def test_handoff_shares_the_limits():
    """After a handoff, the run continues with the remaining limits."""
    second = Agent("second", [add], llm=ScriptedLLM(*calls(2), "Second so far."))
    lines = [call("add", a=1, b=1), call("hand_off_to_second")]
    first = Agent("first", [add], handoffs=[second], max_iterations=4, llm=ScriptedLLM(*lines))
    result = first.run("go")
    assert (result.status, result.limit, result.agent) == ("limit", "iterations", "second")
    assert result.output == "Second so far."


def test_usage_of_nested_agents_is_counted_once():
    """The usage of nested agents is counted once in each calling run and agent."""
    leaf = Agent("leaf", llm=ScriptedLLM("Leaf."))
    inner = Agent("inner", [leaf.as_tool()], llm=ScriptedLLM(call("leaf", request="x"), "Inner."))
    outer = Agent("outer", [inner.as_tool()], llm=ScriptedLLM(call("inner", request="x"), "Outer."))
    result = outer.run("go")
    assert [agent.usage.requests for agent in (leaf, inner, outer)] == [1, 3, 5]
    assert result.usage == outer.usage == outer.session.usage == Usage(50, 25, requests=5)
    assert result.tool_calls[0].result.usage == Usage(30, 15, requests=3)


# Time.


TEST_IS_OVER = threading.Event()


@pytest.fixture(autouse=True)
def release_threads():
    """Release hanging threads at the end of the test."""
    TEST_IS_OVER.clear()
    yield
    TEST_IS_OVER.set()


def hang(seconds: float = 30) -> str:
    """Block for a long time."""
    TEST_IS_OVER.wait(seconds)
    return "late"


async def ahang(seconds: float = 30) -> str:
    """Wait for a long time."""
    await asyncio.sleep(seconds)
    return "late"


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("line", [slow("Late.", before_seconds=30), slow("Far too late, I fear.", between_seconds=30)])
def test_hanging_model_is_stopped_at_the_time_limit(line, mode, drive):
    """A model that does not finish its response in time ends the run at its time limit."""
    with FakeServer(line) as server:
        agent = Agent("helper", llm=served(server), limits=Limits(seconds=0.5))
        result = drive(agent, mode)
    assert (result.status, result.limit) == ("limit", "seconds")
    assert "reached its time limit" in str(result.error)


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("function", [hang, ahang])
@pytest.mark.for_each("count", [1, 3])
def test_hanging_tool_is_stopped_at_the_time_limit(count, function, mode, find_faults, drive):
    """A tool that hangs is stopped when the run reaches its time limit."""
    llm = ScriptedLLM([call(function.__name__)] * count)
    agent = Agent("helper", [Tool(function, timeout_seconds=None)], llm=llm, limits=Limits(seconds=0.5))
    result = drive(agent, mode)
    assert (result.status, result.limit) == ("limit", "seconds")
    assert {used.result.status for used in result.tool_calls} == {"timed_out"}
    assert "reached its time limit (0.5 seconds)" in str(result.error)
    assert find_faults(agent.history) == []


@pytest.mark.parametrize("mode", MODES)
def test_hanging_nested_agent_is_stopped_at_the_outer_limit(mode, drive):
    """An agent used as a tool is stopped at its caller's time limit, and the error names that limit."""
    with FakeServer(slow("Late.", before_seconds=30)) as server:
        inner = Agent("inner", llm=served(server))
        outer = Agent(
            "outer", [inner.as_tool()], llm=ScriptedLLM(call("inner", request="x")), limits=Limits(seconds=0.5)
        )
        result = drive(outer, mode)
    assert (result.status, result.limit) == ("limit", "seconds")
    assert "(0.5 seconds)" in str(result.error)
    assert not result.tool_calls[0].result.ok


def test_time_limit_excludes_the_reader_of_a_stream():
    """Time spent by the reader of a stream does not count toward the time limit."""

    async def read():
        agent, seen = Agent("helper", llm=ScriptedLLM("One two three four."), limits=Limits(seconds=0.2)), []
        async for event in agent.astream("go"):
            seen.append(event)
            if isinstance(event, TextDelta) and event.text.startswith("One"):
                await asyncio.sleep(0.4)
        return seen[-1]

    assert isinstance(asyncio.run(read()), RunFinished)


def test_slow_response_is_stopped_at_the_time_limit():
    """Iterating over a slow response raises an error at the time limit."""
    pieces = until(iter(["One", "two", "three"]), time.monotonic())
    assert next(pieces) == "One"
    with pytest.raises(Unreachable, match="reached its time limit"):
        list(pieces)
    assert list(until(iter(["One", "two"]), math.inf)) == ["One", "two"]


# Repeated calls.

THRICE = Limits(repeated_calls=3)


def test_repeated_calls_are_limited_by_default():
    """By default, the fifth identical result adds a note, and the tenth ends the run."""
    llm = ScriptedLLM(*[call("look")] * 10, "It does not change.")
    result = Agent("helper", [look], max_iterations=20, llm=llm).run("go")
    messages = ["already returned this result" in used.result.content for used in result.tool_calls]
    assert (result.limit, messages) == ("repeated_calls", [False] * 4 + [True] * 6)


@pytest.mark.parametrize("mode", MODES)
def test_repeated_calls_add_a_note_and_end_the_run(mode, drive):
    """With a limit of three, the third identical result adds a note, and the sixth ends the run."""
    llm = ScriptedLLM(*[call("look")] * 6, "It does not change.")
    result = drive(Agent("helper", [look], llm=llm, limits=THRICE), mode)
    assert (result.status, result.limit, result.output) == ("limit", "repeated_calls", "It does not change.")
    contents = [message.content for message in llm.requests[-1].messages if hasattr(message, "call_id")]
    assert ["already returned this result" in content for content in contents] == [False, False, True, True, True, True]
    assert "look returned the same result to 6 identical calls" in str(result.error)


def test_repeated_calls_ignore_argument_formatting():
    """Calls are identical even if the order or spacing of their arguments differs."""
    spelled = ['{"a": 1, "b": 2}', '{"b":2,"a":1}', '{ "a":1 , "b":2 }'] * 2
    llm = ScriptedLLM(*[call("add", text) for text in spelled], "Three.")
    assert Agent("helper", [add], llm=llm, limits=THRICE).run("go").limit == "repeated_calls"


def test_different_arguments_or_results_are_not_repeats():
    """Calls with different arguments or different results are not repeated calls."""
    count = iter(range(100))

    def tick() -> int:
        """Count."""
        return next(count)

    llm = ScriptedLLM(*[line for number in range(8) for line in (call("tick"), call("add", a=number, b=1))], "Done.")
    result = Agent("helper", [tick, add], max_iterations=20, llm=llm, limits=THRICE).run("go")
    assert result.status == "done"
    assert "already returned" not in str([used.result.content for used in result.tool_calls])


def test_truncated_results_count_as_repeated():
    """Truncated results are compared by their content, although each has a different handle."""
    llm = ScriptedLLM(*[call("long")] * 6, "Enough.")
    tool = Tool(lambda: "word " * 5_000, "long", "Say much.", max_chars=1_000)
    result = Agent("helper", [tool], llm=llm, limits=THRICE).run("go")
    assert result.limit == "repeated_calls"
    assert "already returned" in result.tool_calls[2].result.content


def test_denied_calls_count_as_repeated():
    """Denied calls count as repeated calls and end the run."""
    llm = ScriptedLLM(*[call("erase", a=1, b=1)] * 6, "I may not.")
    erase = Tool(add, "erase", level=SafetyLevel.SYSTEM)
    result = Agent("helper", [erase], llm=llm, limits=THRICE).run("go")
    assert (result.limit, len(result.tool_calls)) == ("repeated_calls", 6)
    assert ["already returned" in used.result.content for used in result.tool_calls] == [False] * 2 + [True] * 4


def test_repeated_call_among_other_calls_is_detected():
    """A repeated call is detected even if each response contains another call."""
    llm = ScriptedLLM(*[[call("look"), call("add", a=number, b=0)] for number in range(6)], "Enough.")
    assert Agent("helper", [look, add], llm=llm, limits=THRICE).run("go").limit == "repeated_calls"


def test_repeated_calls_can_be_allowed():
    """Without a limit on repeated calls, a tool may return the same result any number of times."""
    llm = ScriptedLLM(*[call("look")] * 12, "Done.")
    agent = Agent("helper", [look], max_iterations=20, llm=llm, limits=Limits(repeated_calls=None))
    assert agent.run("go").status == "done"


# The limits of one run, instead of the agent's.


@pytest.mark.parametrize("mode", MODES)
def test_limits_of_one_run(mode):
    """Limits passed with a prompt replace the agent's limits for that run."""
    helper = Agent("helper", tools=[add], llm=ScriptedLLM(*calls(1), "So far.", *calls(2), "Done."))

    async def awaited(prompt, **limits):
        if mode == "arun":
            return await helper.arun(prompt, **limits)
        return [event async for event in helper.astream(prompt, **limits)][-1].result

    def run(prompt, **limits):
        if mode.startswith("a"):
            return asyncio.run(awaited(prompt, **limits))
        return helper.run(prompt, **limits) if mode == "run" else list(helper.stream(prompt, **limits))[-1].result

    short = run("Add.", max_iterations=1)
    assert (short.status, short.limit, short.output) == ("limit", "iterations", "So far.")
    assert run("Add.").status == "done"


def test_limits_of_one_call():
    """A call accepts limits and raises an error when one is reached."""
    helper = Agent("helper", tools=[add], llm=ScriptedLLM(*calls(1), "So far."))
    with pytest.raises(LimitExceeded):
        helper("Add.", max_iterations=1)


def test_limits_of_run_override_the_resumption():
    """Limits passed to `run` override those of the resumption."""
    helper = Agent("helper", tools=[add], max_iterations=1, llm=ScriptedLLM(*calls(1), "So far.", *calls(2), "Done."))
    left = helper.run("Add.").resumption(max_iterations=1)
    assert helper.run(left, max_iterations=5).output == "Done."


@pytest.mark.parametrize("mode", MODES)
def test_invalid_limits_of_a_run_are_rejected(mode):
    """Invalid limits of a run raise ConfigError."""
    helper = Agent("helper", llm=ScriptedLLM())
    with pytest.raises(ConfigError, match=r"limits= takes Limits\(...\). Got 5"):
        _ = asyncio.run(helper.arun("Hi!", limits=5)) if mode == "arun" else getattr(helper, mode)("Hi!", limits=5)
