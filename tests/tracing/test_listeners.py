"""Tests for listeners: the origin of events, and contexts around requests and calls."""

import asyncio
from contextlib import closing, contextmanager
from contextvars import ContextVar

import pytest

from agentkit.events import ResponseReceived, TextDelta
from agentkit.messages import AssistantMessage, Response
from agentkit.tracing.listeners import (
    OUTSIDE_RUNS,
    Origin,
    ToolUse,
    achunks_within,
    chunks_within,
    contexts_around,
    dispatch,
    is_context_listener,
    origin,
)

WHERE = ContextVar("WHERE", default="outside")
WHOLE = ResponseReceived(Response(AssistantMessage("ab")))


@contextmanager
def inside(received):
    """Set a context variable and record how the context is exited."""
    token = WHERE.set("inside")
    try:
        yield
        received.append("done")
    except BaseException as error:
        received.append(type(error).__name__)
        raise
    finally:
        WHERE.reset(token)


def pieces(*events):
    """Yield events, each of which records where it is produced."""
    for event in events:
        yield TextDelta(WHERE.get()) if isinstance(event, TextDelta) else event


async def apieces(*events):
    """Yield the events asynchronously, with a pause before each."""
    for event in events:
        await asyncio.sleep(0)
        yield TextDelta(WHERE.get()) if isinstance(event, TextDelta) else event


def test_origin_inside_a_listener():
    """origin() returns the current run inside a listener, and OUTSIDE_RUNS outside."""
    source, received = Origin("r1", "helper", iteration=2), []
    dispatch([lambda _: received.append(origin())], TextDelta("a"), source)
    assert received == [source]
    assert origin() is OUTSIDE_RUNS


def test_origin_is_reset_when_a_listener_raises():
    """An exception of a listener is propagated, and the origin is reset."""

    def refuse(event):
        raise LookupError(event.text)

    with pytest.raises(LookupError, match="a"):
        dispatch([refuse], TextDelta("a"), Origin("r1", "helper"))
    assert origin() is OUTSIDE_RUNS


def test_contexts_are_exited_in_reverse_order():
    """Contexts of listeners are entered in order and exited in reverse order."""
    order = []

    class Listener:
        def __init__(self, name):
            self.name = name

        def __call__(self, _event):
            raise AssertionError

        @contextmanager
        def around(self, work):
            order.append(f"{self.name} before {work.call}")
            yield
            order.append(f"{self.name} after")

    listeners = [Listener("a"), Listener("b")]
    assert all(map(is_context_listener, listeners))
    assert not is_context_listener(print)
    with contexts_around(listeners, ToolUse(OUTSIDE_RUNS, "look", None)) as work:
        assert work.call == "look"
    assert order == ["a before look", "b before look", "b after", "a after"]


def test_events_are_produced_inside_the_context():
    """Stream events are produced inside the context and consumed outside."""
    received = []
    seen = [(event, WHERE.get()) for event in chunks_within(inside(received), pieces(TextDelta(""), TextDelta("")))]
    assert seen == [(TextDelta("inside"), "outside")] * 2
    assert received == ["done"]


def test_complete_response_exits_the_context():
    """The context of a stream is exited before the complete response is yielded; later events are dropped."""
    received = []
    events = chunks_within(inside(received), pieces(TextDelta(""), WHOLE, TextDelta("late")))
    assert next(events) == TextDelta("inside")
    assert received == []
    assert next(events) is WHOLE
    assert received == ["done"]
    assert list(events) == []


def test_closing_a_stream_exits_its_context():
    """Closing a stream exits its context."""
    received = []
    with closing(chunks_within(inside(received), pieces(TextDelta(""), WHOLE))) as events:
        next(events)
    assert received == ["GeneratorExit"]


def test_async_events_are_produced_inside_the_context():
    """Async stream events are produced inside the context and consumed outside, in any task."""
    received = []

    async def read():
        events = achunks_within(inside(received), apieces(TextDelta(""), TextDelta("")))
        first = await asyncio.create_task(anext(events))
        return [first, WHERE.get(), await anext(events), WHERE.get(), await anext(events, None)]

    assert asyncio.run(read()) == [TextDelta("inside"), "outside", TextDelta("inside"), "outside", None]
    assert received == ["done"]


def test_cancellation_reaches_the_producer():
    """Cancelling a task raises CancelledError inside the context, in the producer."""
    received, made = [], []

    async def stuck():
        yield TextDelta("a")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            made.append(WHERE.get())
            raise

    async def read():
        async with asyncio.timeout(0.01):
            async for _ in achunks_within(inside(received), stuck()):
                pass

    with pytest.raises(TimeoutError):
        asyncio.run(read())
    assert (received, made) == (["CancelledError"], ["inside"])


def test_closing_an_async_stream_exits_its_context():
    """Closing an async stream exits its context."""
    received = []

    async def read():
        events = achunks_within(inside(received), apieces(TextDelta(""), TextDelta("")))
        await anext(events)
        await events.aclose()

    asyncio.run(read())
    assert received == ["GeneratorExit"]
