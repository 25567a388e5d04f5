"""Who hears a run, and where do listeners learn which one it was?"""

import asyncio
from contextlib import closing, contextmanager
from contextvars import ContextVar

import pytest

from agentkit.events import ResponseReceived, TextDelta
from agentkit.messages import AssistantMessage, Response
from agentkit.tracing.listeners import (
    NOWHERE,
    Origin,
    ToolUse,
    apieces_within,
    is_surrounding,
    origin,
    pieces_within,
    surrounded,
    tell,
)

WHERE = ContextVar("WHERE", default="outside")
WHOLE = ResponseReceived(Response(AssistantMessage("ab")))


@contextmanager
def inside(heard):
    """Sets a context variable, as a span does, and notes how it is left."""
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
    """Events, each of which notes where it is made."""
    for event in events:
        yield TextDelta(WHERE.get()) if isinstance(event, TextDelta) else event


async def apieces(*events):
    """The same, made while others may be at work."""
    for event in events:
        await asyncio.sleep(0)
        yield TextDelta(WHERE.get()) if isinstance(event, TextDelta) else event


def test_origin_is_known_while_listeners_are_told():
    """A listener asks `origin()` for the run that tells it; outside of a listener there is none."""
    source, heard = Origin("r1", "helper", iteration=2), []
    tell([lambda _: heard.append(origin())], TextDelta("a"), source)
    assert heard == [source]
    assert origin() is NOWHERE


def test_origin_is_forgotten_when_a_listener_raises():
    """What a listener raises is raised, and nothing of its run stays behind."""

    def refuse(event):
        raise LookupError(event.text)

    with pytest.raises(LookupError, match="a"):
        tell([refuse], TextDelta("a"), Origin("r1", "helper"))
    assert origin() is NOWHERE


def test_what_surrounds_is_entered_in_order_and_left_in_reverse():
    """The first listener stands outermost around the work."""
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
    assert all(map(is_surrounding, listeners))
    assert not is_surrounding(print)
    with surrounded(listeners, ToolUse(NOWHERE, "look", None)) as work:
        assert work.call == "look"
    assert order == ["a before look", "b before look", "b after", "a after"]


def test_pieces_are_made_within_and_read_outside():
    """Each piece of a stream is waited for within what surrounds the request; its reader stays outside."""
    heard = []
    seen = [(event, WHERE.get()) for event in pieces_within(inside(heard), pieces(TextDelta(""), TextDelta("")))]
    assert seen == [(TextDelta("inside"), "outside")] * 2
    assert heard == ["done"]


def test_whole_answer_ends_what_surrounds_it():
    """What surrounds a streamed request is left before its whole answer is read, and nothing behind that is read."""
    heard = []
    events = pieces_within(inside(heard), pieces(TextDelta(""), WHOLE, TextDelta("late")))
    assert next(events) == TextDelta("inside")
    assert heard == []
    assert next(events) is WHOLE
    assert heard == ["done"]
    assert list(events) == []


def test_stream_that_is_left_ends_what_surrounds_it():
    """Whoever closes a stream ends what surrounds it at once, and the pieces' maker, too."""
    heard = []
    with closing(pieces_within(inside(heard), pieces(TextDelta(""), WHOLE))) as events:
        next(events)
    assert heard == ["GeneratorExit"]


def test_awaited_pieces_are_made_within_and_read_outside():
    """So it is for a stream that is awaited, by whatever task reads it."""
    heard = []

    async def read():
        events = apieces_within(inside(heard), apieces(TextDelta(""), TextDelta("")))
        first = await asyncio.create_task(anext(events))
        return [first, WHERE.get(), await anext(events), WHERE.get(), await anext(events, None)]

    assert asyncio.run(read()) == [TextDelta("inside"), "outside", TextDelta("inside"), "outside", None]
    assert heard == ["done"]


def test_cancelling_reaches_the_maker_of_the_pieces():
    """A task that is cancelled while it awaits a piece raises that within, where the piece is made."""
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
            async for _ in apieces_within(inside(heard), stuck()):
                pass

    with pytest.raises(TimeoutError):
        asyncio.run(read())
    assert (heard, made) == (["CancelledError"], ["inside"])


def test_awaited_stream_that_is_left_ends_what_surrounds_it():
    """Whoever closes an awaited stream ends what surrounds it at once."""
    heard = []

    async def read():
        events = apieces_within(inside(heard), apieces(TextDelta(""), TextDelta("")))
        await anext(events)
        await events.aclose()

    asyncio.run(read())
    assert heard == ["GeneratorExit"]
