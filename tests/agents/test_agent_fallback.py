"""Tests for runs with fallback models: answers, costs, limits, replays and traces."""

import asyncio
import threading

import pytest

from agentkit import LLM, Agent, Limits
from agentkit.errors import BadResponse, Rejected, Unreachable
from agentkit.events import RequestFailed, ResponseReceived
from agentkit.llm.pipeline import is_cancelled
from agentkit.testing import FakeServer, ScriptedLLM, call, drop, fail, record, replay, say
from agentkit.tracing.jsonl import JSONLines
from agentkit.usage import Price, Usage

MODES = ["run", "arun", "stream", "astream"]
CHEAP, DEAR = Price(1.0, 2.0), Price(10.0, 20.0)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def served(server, model="first", **options):
    """Return a client of a fake server that does not retry."""
    return LLM(base_url=server.base_url, model=model, max_retries=0, **options)


def result_of(agent, mode, prompt="go"):
    """Return the result of a run in one of the four ways to run an agent."""
    if mode == "run":
        return agent.run(prompt)
    if mode == "arun":
        return asyncio.run(agent.arun(prompt))
    if mode == "stream":
        return list(agent.stream(prompt))[-1].result

    async def last():
        return [event async for event in agent.astream(prompt)][-1].result

    return asyncio.run(last())


@pytest.mark.parametrize("mode", MODES)
def test_fallback_model_continues_the_run(mode):
    """If the first model fails after a tool call, the second receives the call and its result and answers."""
    with FakeServer(call("add", a=1, b=2), fail(500, "boom")) as one, FakeServer("It is 3.", "Again.") as two:
        events = []
        agent = Agent("clerk", [add], llm=served(one, fallback=served(two, "second")), listeners=[events.append])
        result = result_of(agent, mode)
        assert result.output == "It is 3."
        assert [message["role"] for message in two.requests[0].json["messages"]][-2:] == ["assistant", "tool"]
        assert result_of(agent, mode).output == "Again."
    failed = [event for event in events if isinstance(event, RequestFailed)]
    assert [(event.kind, event.usage) for event in failed] == [("Unreachable", Usage())] * 2
    assert failed[0].error == "[openai:first] The provider answered 500: boom. Try again later."
    assert failed[1].error.startswith("[openai:first, skipped after a recent failure] ")
    responses = [event.response for event in events if isinstance(event, ResponseReceived)]
    assert [response.model for response in responses] == ["first", "second", "second"]
    assert {part.tariff.model for part in result.usage.by_tariff} == {"first", "second"}


@pytest.mark.parametrize("mode", MODES)
def test_failure_of_all_models(mode):
    """If all models fail, the run fails with one error that names each model, after one event."""
    llm = ScriptedLLM(Unreachable("gone"), fallback=ScriptedLLM(BadResponse("no JSON"), model="two"))
    text = "None of the 2 models answered. [scripted:scripted] gone [scripted:two] no JSON"
    with pytest.raises(BadResponse) as failed:
        result_of(Agent("clerk", llm=llm), mode).raise_for_status()
    assert str(failed.value) == text
    assert failed.value.missed[0].kind == "Unreachable"


def spent(limits, lines, prices=(CHEAP, CHEAP)):
    """Return the result of a run with two scripted models and the given costs."""
    first, second = ([] if line is None else [line] for line in lines)
    with FakeServer(*first) as one, FakeServer(*second) as two:
        llm = served(one, price=prices[0], fallback=served(two, "second", price=prices[1]))
        return Agent("clerk", llm=llm, limits=limits).run("go")


def test_cost_uses_the_price_of_the_answering_model():
    """The cost uses the price of the model that answered; the model that refused costs nothing."""
    line = say("Hello.", usage=Usage(1_000, 500, requests=1))
    result = spent(Limits(cost=1.0), [fail(500, "boom"), line], [DEAR, CHEAP])
    assert result.cost.dollars == pytest.approx(0.002)


def test_cost_limit_uses_the_highest_price():
    """A request is not sent if the price of any fallback could exceed the cost limit."""
    result = spent(Limits(cost=0.001), [None, None], [CHEAP, Price(1_000, 1_000)])
    assert (result.status, result.limit) == ("limit", "cost")


@pytest.mark.parametrize("unknown", ["refuse", "free", Price(1_000_000, 1_000_000)])
@pytest.mark.parametrize("prices", [(CHEAP, None), (None, CHEAP)])
def test_unknown_price_of_one_model(prices, unknown):
    """`unknown_price` applies only to the model without a price; the limit still holds for the other."""
    limits, questions = Limits(cost=0.01, unknown_price=unknown), []

    def hello(request):
        questions.append(request.json["max_tokens"])
        return "Hello."

    is_free = unknown == "free"
    result = spent(limits, [hello if is_free else None, None], prices)
    assert (result.status, len(questions)) == (("done", 1) if is_free else ("limit", 0))
    assert all(tokens < 5_000 for tokens in questions)


def test_dropped_response_of_the_first_model_is_counted():
    """A dropped response of the first model counts as a request with unreported usage."""
    line = say("Hello.", usage=Usage(1_000, 500, requests=1))
    limits = Limits(total_tokens=10_000)
    result = spent(limits, [drop("One", after=0), line])
    assert (result.usage.requests, result.usage.unreported) == (2, 1)
    result = spent(limits, [drop("One", after=0), fail(400, "no")])
    assert (result.status, result.usage) == ("failed", Usage(requests=1, unreported=1))
    assert [part.tariff.model for part in result.usage.by_tariff] == ["first"]


def test_smallest_maximum_length_is_used():
    """Under limits, all models are sent the smallest of their maximum lengths."""
    with FakeServer(fail(500, "boom")) as one, FakeServer("Hello.") as two:
        llm = served(one, max_tokens=700, fallback=served(two, "second", max_tokens=300))
        Agent("clerk", llm=llm, limits=Limits(total_tokens=100_000)).run("go")
        assert [server.requests[0].json["max_tokens"] for server in (one, two)] == [300, 300]


def test_conversation_too_long_for_the_fallback_is_shortened():
    """The conversation is shortened if it is too long for the fallback model."""
    llm = ScriptedLLM(
        Unreachable("gone"),
        fallback=ScriptedLLM(
            "Hello.", Rejected("too long", code="context_length_exceeded", limit_tokens=400), "Shorter."
        ),
    )
    agent = Agent("clerk", llm=llm)
    agent.run("Hi " * 500)
    assert agent.run("And now?").output == "Shorter."


@pytest.mark.parametrize("mode", MODES)
def test_replay_restores_failures_and_usage(mode, tmp_path):
    """A replay returns the recorded answer, usage and failures without calling a model."""

    def notify(first, second):
        events = []
        llm = ScriptedLLM(*first, fallback=ScriptedLLM(*second, model="two"))
        agent = Agent("clerk", [add], llm=llm, listeners=[events.append])
        result = result_of(agent, mode)
        return result.output, result.usage, [event for event in events if isinstance(event, RequestFailed)]

    with record(tmp_path / "c"):
        recorded = notify([call("add", a=1, b=2), BadResponse("no JSON")], ["It is 3."])
    with replay(tmp_path / "c"):
        assert notify([], []) == recorded
    assert recorded[2][0].error == "[scripted:scripted] no JSON"


def test_replay_restores_a_failure_of_all_models(tmp_path):
    """A replay raises the recorded error with the failure and usage of each model."""

    def failure(*lines):
        first, second = lines or ((), ())
        llm = ScriptedLLM(*first, fallback=ScriptedLLM(*second, model="two"))
        with pytest.raises(Unreachable) as failed:
            llm.complete("Hi")
        return str(failed.value), failed.value.missed, failed.value.unanswered

    with record(tmp_path / "c"):
        recorded = failure([BadResponse("no JSON")], [Unreachable("gone")])
    with replay(tmp_path / "c"):
        assert failure() == recorded
    assert recorded[2] == 1


def test_recording_without_a_fallback_can_be_replayed(tmp_path):
    """A recording made without a fallback can be replayed with one."""

    def ask(**options):
        llm = ScriptedLLM(*([] if options else ["Hello."]), **options).with_settings(temperature=0)
        return Agent("clerk", llm=llm).run("go").output

    with record(tmp_path / "c"):
        recorded = ask()
    with replay(tmp_path / "c"):
        assert ask(fallback=ScriptedLLM()) == recorded


def test_trace_lists_the_failed_model_first(tmp_path):
    """A trace lists the failed model before the model that answered."""
    llm = ScriptedLLM(Unreachable("gone"), fallback=ScriptedLLM("Hello.", model="two"))
    Agent("clerk", llm=llm, listeners=[JSONLines(tmp_path / "t.jsonl")]).run("go")
    lines = (tmp_path / "t.jsonl").read_text().splitlines()
    places = [next(index for index, line in enumerate(lines) if word in line) for word in ("gone", '"two"')]
    assert places == sorted(places)


@pytest.mark.parametrize("mode", ["run", "stream"])
def test_run_that_timed_out_does_not_call_the_fallback(mode):
    """After a run has timed out, its thread is cancelled and does not call the fallback."""
    is_over, is_told, seen = threading.Event(), threading.Event(), []

    def fail_late(_request):
        seen.append(not is_cancelled())
        is_over.wait(20)
        seen.append(not is_cancelled())
        is_told.set()
        return Unreachable("gone")

    agent = Agent("clerk", llm=ScriptedLLM(fail_late, fallback=ScriptedLLM()), limits=Limits(seconds=0.3))
    assert result_of(agent, mode).status == "limit"
    is_over.set()
    assert is_told.wait(20)
    assert seen == [True, False]


def test_model_string_names_fallbacks():
    """A model string may name its fallbacks."""
    llm = Agent("clerk", model="ollama:qwen3 | lmstudio:gemma | offline").llm
    assert [each.provider for each in (llm, *llm.fallbacks)] == ["ollama", "lmstudio", "offline"]
