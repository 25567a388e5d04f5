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
def inside(heard):
    """Set a context variable and record how the context is exited."""
    token = WHERE.set("inside")
    try:
        yield
        heard.append("done")
    except BaseException as error:
        heard.append(type(error).__name__)
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
    source, heard = Origin("r1", "helper", iteration=2), []
    dispatch([lambda _: heard.append(origin())], TextDelta("a"), source)
    assert heard == [source]
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
    heard = []
    seen = [(event, WHERE.get()) for event in chunks_within(inside(heard), pieces(TextDelta(""), TextDelta("")))]
    assert seen == [(TextDelta("inside"), "outside")] * 2
    assert heard == ["done"]


def test_complete_response_exits_the_context():
    """The context of a stream is exited before the complete response is yielded; later events are dropped."""
    heard = []
    events = chunks_within(inside(heard), pieces(TextDelta(""), WHOLE, TextDelta("late")))
    assert next(events) == TextDelta("inside")
    assert heard == []
    assert next(events) is WHOLE
    assert heard == ["done"]
    assert list(events) == []


def test_closing_a_stream_exits_its_context():
    """Closing a stream exits its context."""
    heard = []
    with closing(chunks_within(inside(heard), pieces(TextDelta(""), WHOLE))) as events:
        next(events)
    assert heard == ["GeneratorExit"]


def test_async_events_are_produced_inside_the_context():
    """Async stream events are produced inside the context and consumed outside, in any task."""
    heard = []

    async def read():
        events = achunks_within(inside(heard), apieces(TextDelta(""), TextDelta("")))
        first = await asyncio.create_task(anext(events))
        return [first, WHERE.get(), await anext(events), WHERE.get(), await anext(events, None)]

    assert asyncio.run(read()) == [TextDelta("inside"), "outside", TextDelta("inside"), "outside", None]
    assert heard == ["done"]


def test_cancellation_reaches_the_producer():
    """Cancelling a task raises CancelledError inside the context, in the producer."""
    heard, made = [], []

    async def stuck():
        yield TextDelta("a")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            made.append(WHERE.get())
            raise

    async def read():
        async with asyncio.timeout(0.01):
            async for _ in achunks_within(inside(heard), stuck()):
                pass

    with pytest.raises(TimeoutError):
        asyncio.run(read())
    assert (heard, made) == (["CancelledError"], ["inside"])


def test_closing_an_async_stream_exits_its_context():
    """Closing an async stream exits its context."""
    heard = []

    async def read():
        events = achunks_within(inside(heard), apieces(TextDelta(""), TextDelta("")))
        await anext(events)
        await events.aclose()

    asyncio.run(read())
    assert heard == ["GeneratorExit"]
