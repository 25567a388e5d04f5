"""Tests for fallback models over real sockets, in each way to request a response."""

import asyncio
import json
import socket
import threading
from contextlib import aclosing, closing
from contextvars import copy_context

import pytest

from agentkit.errors import BadResponse, RateLimited, Rejected, Unauthorized, Unreachable
from agentkit.events import ResponseReceived, TextDelta
from agentkit.llm.client import LLM
from agentkit.llm.fallback import CircuitBreaker, FallbackMember, FallbackProvider
from agentkit.llm.pipeline import CANCELLATION, RequestCancellation
from agentkit.messages import AssistantMessage, Request, ToolCall, ToolMessage, UserMessage
from agentkit.testing import FakeServer, ScriptedLLM, cut, drop, fail, filtered, raw, say, slow
from agentkit.testing.scripted_llm import ScriptedProvider
from agentkit.usage import Tariff, Usage

AWAY = {"X-Should-Retry": "false"}
REQUEST = Request([UserMessage("Hi")])


def at(server, model="first", **options):
    """Return an LLM for the server that does not retry by default."""
    return LLM(base_url=server.base_url, model=model, **{"max_retries": 0, **options})


@pytest.fixture
def unused_url():
    """Return the URL of a port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}/v1"


@pytest.mark.for_each(
    ("line", "kind"),
    [
        (fail(500, "boom"), "Unreachable"),
        (fail(503, "down for an hour", headers={"Retry-After": "3600"}), "Unreachable"),
        (fail(429, "slow down", headers={"Retry-After": "3600"}), "RateLimited"),
        (fail(429, "nothing left", code="insufficient_quota"), "RateLimited"),
        (fail(401, "bad key"), "Unauthorized"),
        (fail(402, "no money"), "Rejected"),
        (fail(404, "no such model", code="model_not_found"), "Rejected"),
        (fail(200, "overloaded", code="server_error"), "Unreachable"),
        (raw("<html>Back soon</html>"), "BadResponse"),
        (drop(), "Unreachable"),
        (cut(say("Hel"), after=0), "BadResponse"),
    ],
    ids=["500", "503", "429", "quota", "401", "402", "404", "inside-200", "html", "hang-up", "nothing"],
)
def test_failing_service_is_reported(ask, line, kind):
    """The second service answers if the first fails, and the response reports the failure."""
    with FakeServer(line) as one, FakeServer("Hello.") as two:
        response = ask(at(one, fallback=at(two, "second")))
    assert (response.text, response.model) == ("Hello.", "second")
    assert [(each.model, each.kind, each.was_tried) for each in response.missed] == [("openai:first", kind, True)]


@pytest.mark.for_each(
    ("line", "code"),
    [
        (fail(400, "temperature is wrong"), None),
        (
            fail(400, "This model's maximum context length is 9 tokens", code="context_length_exceeded"),
            "context_length_",
        ),
        (fail(400, "not this", code="content_filter"), "content_filter"),
        (filtered(), "content_filter"),
    ],
    ids=["parameter", "length", "refused", "filtered"],
)
def test_rejected_request_is_not_sent_to_the_fallback(ask, line, code):
    """A request that a provider rejects is not sent to the fallback, and its error is raised unchanged."""
    second = ScriptedLLM()
    with FakeServer(line) as one, pytest.raises(Rejected) as refused:
        ask(at(one, fallback=second))
    assert (second.requests, refused.value.missed) == ([], ())
    assert (refused.value.code or "").startswith(code or "")


def test_unreachable_server_uses_the_fallback(ask, unused_url):
    """The fallback answers if a server cannot be reached."""
    assert ask(LLM(base_url=unused_url, model="m", max_retries=0, fallback=ScriptedLLM("Hello."))).text == "Hello."


def test_failure_of_all_models_raises_one_error(ask):
    """If all models fail, the error has the class of the last one and names each model with its reason."""
    first, second = ScriptedLLM(Unreachable("gone")), ScriptedLLM(Unauthorized("bad key"), model="two")
    third = ScriptedLLM(RateLimited("wait", retry_after_seconds=5), model="three")
    with pytest.raises(RateLimited) as failed:
        ask(ScriptedLLM(Unreachable("broken"), model="zero", fallback=[first, second, third]))
    error = failed.value
    assert str(error) == (
        "None of the 4 models answered. [scripted:zero] broken [scripted:scripted] gone [scripted:two] bad key "
        "[scripted:three] wait"
    )
    assert (error.retry_after_seconds, len(error.missed)) == (5, 4)
    causes = [error.__cause__]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    assert list(map(str, causes)) == ["wait", "bad key", "gone", "broken"]


def test_single_failure_is_raised_unchanged():
    """A chain with one model raises that model's own error."""
    error = Unreachable("gone")
    llm = ScriptedLLM(error)
    provider = FallbackProvider(llm.members())
    with pytest.raises(Unreachable) as failed:
        provider.complete(REQUEST)
    assert failed.value is error


@pytest.mark.parametrize(
    "line", [drop("One two three four five six", after=3), cut("One two three four five", after=3)]
)
def test_stream_that_fails_after_its_first_piece(ask_streamed, line):
    """A stream that fails after its first piece is not sent to the fallback."""
    second = ScriptedLLM()
    with FakeServer(line) as one, pytest.raises((BadResponse, Unreachable)):
        ask_streamed(at(one, fallback=second))
    assert second.requests == []


def test_stream_emits_only_one_answer():
    """A stream emits only the answering model's deltas, and its last event reports failed models."""
    with FakeServer(cut("One two", after=0)) as one:
        events = list(at(one, fallback=ScriptedLLM("Hello there.")).stream("Hi"))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hello there."
    assert isinstance(events[-1], ResponseReceived)
    assert [each.kind for each in events[-1].response.missed] == ["BadResponse"]


def test_failed_stream_is_remembered(ask_streamed):
    """A model whose stream failed is skipped by the next request."""
    with FakeServer(drop("One two three four", after=2)) as one:
        llm = at(one, fallback=ScriptedLLM("Hello."))
        with pytest.raises(Unreachable):
            ask_streamed(llm)
        response = ask_streamed(llm)
    assert (response.text, response.missed[0].was_tried) == ("Hello.", False)


def test_failed_model_is_skipped(ask):
    """Later requests skip a model that failed, and `describe` reports it."""
    with FakeServer(fail(500, "boom", headers=AWAY)) as one:
        llm = at(one, max_retries=2, fallback=ScriptedLLM("One.", "Two.", "Three."))
        assert [ask(llm).text for _ in range(3)] == ["One.", "Two.", "Three."]
        assert len(one.requests) == 1
    assert llm.describe().skipped == ("openai:first: The provider answered 500: boom. Try again later.",)
    assert "skipped      openai:first: The provider answered 500" in str(llm.describe())


def test_failure_is_not_shared_between_llms(ask):
    """A failure is remembered by one LLM and not by others."""
    with FakeServer(fail(500, "boom"), "Hello.") as one:
        assert ask(at(one, fallback=ScriptedLLM("Fallback."))).text == "Fallback."
        assert ask(at(one, fallback=ScriptedLLM())).text == "Hello."


def member(name, *lines, now):
    """Return a scripted model of a chain."""
    return FallbackMember(name, "here", ScriptedProvider(*lines), Tariff("test", name), {}, CircuitBreaker(now))


def test_failed_model_is_tried_again_later():
    """A failed model is tried again after its delay, and used again when it answers."""
    seconds = [0.0]

    def now():
        return seconds[0]

    first = member("first", Unreachable("gone"), "Back.", "Still here.", now=now)
    chain = FallbackProvider([first, member("second", "One.", "Two.", now=now)], now)
    received = []
    for wait in (0, 29, 1, 0):
        seconds[0] += wait
        received.append(chain.complete(REQUEST).text)
    assert received == ["One.", "Two.", "Back.", "Still here."]


def test_skipped_model_is_called_last():
    """A skipped model is called last if no other model answers."""
    first, second = ScriptedLLM(Unreachable("gone"), "Back."), ScriptedLLM("One.", Unreachable("down"), model="two")
    chain = FallbackProvider([*first.members(), *second.members()])
    assert chain.complete(REQUEST).text == "One."
    response = chain.complete(REQUEST)
    assert response.text == "Back."
    assert [(each.model, each.was_tried) for each in response.missed] == [("scripted:two", True)]
    assert chain.skipped == ("scripted:two: down",)


def test_all_models_are_called_again_if_all_failed():
    """If all models failed recently, each is called again and the error contains their latest messages."""
    first = ScriptedLLM(Unreachable("one"), Unreachable("one again"))
    second = ScriptedLLM(Unreachable("two"), Unreachable("two again"), model="two")
    chain = FallbackProvider([*first.members(), *second.members()])
    for text in ("one [scripted:two] two", "one again [scripted:two] two again"):
        with pytest.raises(Unreachable, match=r"None of the 2 models answered") as failed:
            chain.complete(REQUEST)
        assert str(failed.value).endswith(f"[scripted:scripted] {text}")


def test_skipped_model_is_named_in_an_error():
    """A refusal by the fallback also names the model that was skipped."""
    first = ScriptedLLM(Unreachable("gone"))
    chain = FallbackProvider([*first.members(), *ScriptedLLM("Yes.", Rejected("no")).members()])
    chain.complete(REQUEST)
    with pytest.raises(Rejected, match=r"refused\..*skipped after a recent failure\] gone .*\] no"):
        chain.complete(REQUEST)


def test_rejection_shows_that_a_model_is_available():
    """A model that rejects a request is available."""
    chain = FallbackProvider([*ScriptedLLM(Rejected("no"), "Yes.").members(), *ScriptedLLM().members()])
    with pytest.raises(Rejected):
        chain.complete(REQUEST)
    assert (chain.complete(REQUEST).text, chain.skipped) == ("Yes.", ())


@pytest.mark.parametrize("is_streamed", [False, True])
def test_model_with_a_fallback_is_not_retried(is_streamed):
    """A model with a fallback is not retried after a long Retry-After or a timeout."""
    request = fail(429, "slow down", headers={"Retry-After": "30"})
    with FakeServer(request) as one, FakeServer(slow("Late.", before_seconds=60)) as two:
        third = ScriptedLLM("Hello.")
        llm = at(one, max_retries=2, fallback=[at(two, "second", timeout_seconds=0.2, max_retries=2), third])
        response = list(llm.stream("Hi"))[-1].response if is_streamed else llm.complete("Hi")
        assert (len(one.requests), len(two.requests)) == (1, 1)
    assert [each.kind for each in response.missed] == ["RateLimited", "Unreachable"]
    assert "asked" not in response.missed[1].error


def test_last_model_is_retried_after_a_timeout():
    """The last model of a chain is retried also after a timeout."""
    late = slow("Late.", before_seconds=60)
    with FakeServer(fail(500, "one", headers=AWAY)) as one, FakeServer(late, "Hello.") as two:
        fallback = at(two, "second", timeout_seconds=0.2, max_retries=1)
        assert at(one, fallback=fallback).complete("Hi").text == "Hello."


def test_lost_request_is_counted_under_its_model(ask):
    """A lost request is counted under its own model, and the answer under the answering model."""
    with FakeServer(drop("One two", after=0)) as one, FakeServer("Hello.") as two:
        response = ask(at(one, fallback=at(two, "second")))
    lost, answered = sorted(response.usage.by_tariff, key=lambda part: part.input_tokens)
    assert (lost.tariff.model, lost.requests, lost.unreported) == ("first", 1, 1)
    assert (answered.tariff.model, answered.requests, answered.unreported) == ("second", 1, 0)
    assert response.usage == Usage(input_tokens=10, output_tokens=5, requests=2, unreported=1)


def test_conversation_is_converted_for_the_fallback(ask):
    """A conversation of one provider is converted for the next, without provider-specific data."""
    call = ToolCall("call_1", "add", '{"a": 1}', {"signature": "secret of the first"})
    assistant_message = AssistantMessage(
        "", (call,), "thinking", {"reasoning_items": [1]}, "responses:https://api.openai.com/v1"
    )
    history = [UserMessage("1 + 2?"), assistant_message, ToolMessage("call_1", "add", "3")]
    with FakeServer(fail(500, "boom")) as one, FakeServer("It is 3.") as two:
        response = ask(at(one, protocol="responses", fallback=at(two, "second")), Request(history))
        sent = two.requests[0]
    assert response.text == "It is 3."
    assert (one.requests[0].path, sent.path) == ("/v1/responses", "/v1/chat/completions")
    assert [message["role"] for message in sent.json["messages"]] == ["user", "assistant", "tool"]
    assert sent.json["messages"][1]["tool_calls"][0]["id"] == sent.json["messages"][2]["tool_call_id"]
    assert not any(word in json.dumps(sent.json) for word in ("secret", "reasoning_items"))


def test_each_model_is_sent_its_own_settings(ask):
    """Each model is sent its own settings and the settings of the request."""
    with FakeServer(fail(500, "boom")) as one, FakeServer("Hello.") as two:
        other = at(two, "second", temperature=0.7, max_tokens=50)
        ask(at(one, temperature=0.1, reasoning_effort="high", fallback=other), top_p=0.5)
        bodies = [server.requests[0].json for server in (one, two)]
    names = ("temperature", "reasoning_effort", "max_tokens", "top_p")
    assert [[body.get(name) for name in names] for body in bodies] == [[0.1, "high", None, 0.5], [0.7, None, 50, 0.5]]


def test_refused_schema_is_adapted_for_each_server(ask):
    """A schema that the second server rejects is adapted for that server."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    refusal = fail(400, "response_format is not supported by this model", code="unsupported_parameter")
    with FakeServer(fail(500, "boom")) as one, FakeServer(refusal, '{"n": 3}') as two:
        response = ask(at(one, fallback=at(two, "second", tool_calling="text")), output_schema=schema)
    assert json.loads(response.text) == {"n": 3}


def test_nested_chain(ask):
    """The fallbacks of a fallback are part of the chain and share its record of failures."""
    inner = ScriptedLLM(Unreachable("two"), model="two", fallback=ScriptedLLM("Alone.", "Hello.", model="three"))
    assert inner.complete("Hi").text == "Alone."
    response = ask(ScriptedLLM(Unreachable("one"), fallback=inner))
    assert response.text == "Hello."
    assert [(each.model, each.was_tried) for each in response.missed] == [
        ("scripted:scripted", True),
        ("scripted:two", False),
    ]


def test_threads_share_a_chain():
    """Threads that share an LLM all receive an answer, and each calls a failed model at most once."""
    first, second = ScriptedLLM(Unreachable("gone"), repeat=True), ScriptedLLM("Hello.", repeat=True, model="two")
    llm = ScriptedLLM(Unreachable("gone"), repeat=True, model="zero", fallback=[first, second])
    received, start = [], threading.Barrier(8)

    def work():
        start.wait()
        received.extend(llm.complete("Hi").text for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert received == ["Hello."] * 40
    assert len(first.requests) <= 8


def test_cancelled_task_does_not_use_the_fallback():
    """Cancelling a task does not call the fallback."""
    second = ScriptedLLM()

    async def cancelled(llm):
        task = asyncio.create_task(llm.acomplete("Hi"))
        await asyncio.sleep(0.1)
        task.cancel()
        await task

    with FakeServer(slow("Late.", before_seconds=60)) as one, pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled(at(one, fallback=second)))
    assert second.requests == []


class Heard(ScriptedProvider):
    """A model that records whether its stream was closed early."""

    was_left = False

    def stream(self, request):
        """Yield the deltas."""
        try:
            yield from super().stream(request)
        except GeneratorExit:
            self.was_left = True
            raise

    async def astream(self, request):
        """Yield the deltas asynchronously."""
        with closing(self.stream(request)) as events:
            for event in events:
                yield event


@pytest.mark.parametrize("is_awaited", [False, True])
def test_closed_stream_closes_the_stream_of_the_model(is_awaited):
    """Closing a stream early closes the model's stream, both sync and async."""
    received = Heard("One two three")
    chain = FallbackProvider([FallbackMember("one", "here", received, Tariff("test", "one"), {})])

    async def left():
        async with aclosing(chain.astream(REQUEST)) as events:
            return await anext(events)

    if is_awaited:
        event = asyncio.run(left())
    else:
        with closing(chain.stream(REQUEST)) as events:
            event = next(events)
    assert (event, received.was_left) == (TextDelta("One "), True)


def test_cancelled_request_is_not_sent_to_the_fallback():
    """A cancelled request that fails is not sent to the fallback."""
    second = ScriptedLLM(model="two")
    chain = FallbackProvider([*ScriptedLLM(Unreachable("gone")).members(), *second.members()])

    def ask_in_vain():
        cancellation = RequestCancellation()
        cancellation.cancel()
        CANCELLATION.set(cancellation)
        chain.complete(REQUEST)

    with pytest.raises(Unreachable, match=r"^gone$"):
        copy_context().run(ask_in_vain)
    assert second.requests == []


def test_chain_can_be_prepared_and_closed():
    """A chain can be prepared, closed and used again."""
    with FakeServer(fail(500, "boom")) as one, FakeServer("Hello.", "Again.") as two:
        llm = at(one, fallback=[at(two, "second"), ScriptedLLM()])
        llm.prepare()
        llm.complete("Hi")
        llm.close()
        assert llm.complete("Hi").text == "Again."
        asyncio.run(llm.aclose())
        ScriptedLLM(fallback=llm).prepare()
    assert llm.describe().adjustments == ()
