"""Tests for values and functions of other libraries in tools: Pillow, NumPy, functools, asyncio."""

import asyncio
import functools
import json

import numpy
import pytest
from PIL import Image as Picture

from agentkit.content import Image
from agentkit.tooling.tool import Tool


def returning(value):
    """Return the result of a tool that returns the given value."""
    return Tool(lambda: value, "give", "Give.").invoke()


@pytest.mark.for_each("mode", ["RGB", "RGBA", "L", "P", "1", "CMYK", "F", "YCbCr"])
def test_pillow_image_is_sent_as_png(mode):
    """A Pillow image of any mode is sent to the model as PNG."""
    result = returning(Picture.new(mode, (3, 2)))
    assert result.ok
    assert [type(image) for image in result.images] == [Image]
    assert result.content.startswith("[image 1: image/png")


def test_nested_images():
    """Images in lists and dictionaries are sent with the surrounding text."""
    picture = Picture.new("RGB", (3, 2))
    result = returning({"page": [picture, "text"], "other": picture})
    assert len(result.images) == 2
    assert json.loads(result.content)["page"][1] == "text"


def test_image_that_cannot_be_encoded():
    """An image without pixels is replaced by a description."""
    result = returning(Picture.new("RGB", (0, 0)))
    assert (result.images, result.ok) == ((), True)
    assert "not shown" in result.content


@pytest.mark.for_each(
    ("value", "content"),
    [
        (numpy.int64(7), "7"),
        (numpy.float32(0.5), "0.5"),
        (numpy.float64("nan"), '"NaN"'),
        (numpy.bool_(True), "true"),
        (numpy.str_("a"), "a"),
        (numpy.datetime64("2026-11-27"), '"2026-11-27"'),
        (numpy.array(3), "3"),
        (numpy.array([1, 2]), "[1, 2]"),
        (numpy.array([[1.5, numpy.nan], [2, 3]]), '[[1.5, "NaN"], [2.0, 3.0]]'),
        (numpy.array([True, False]), "[true, false]"),
        (numpy.array([]), "[]"),
        ({"n": numpy.int32(1), "m": [numpy.bool_(False)]}, '{"n": 1, "m": [false]}'),
    ],
)
def test_arrays_and_scalars(value, content):
    """NumPy's arrays and scalars are rendered like lists, numbers and truth values."""
    assert returning(value).content == content


def test_long_array_is_truncated():
    """A long array keeps its head and tail."""
    result = Tool(lambda: numpy.arange(100_000), "give", "Give.", max_chars=500).invoke()
    assert (result.status, json.loads(result.content)["truncated"]) == ("truncated", True)


@functools.singledispatch
def describe(value: int | str, word: str = "is") -> str:
    """Describe a value."""
    return f"something {word} {value}"


@describe.register
def _(value: int, word: str = "is") -> str:
    return f"a number {word} {value}"


class Teller:
    """An object with a method that dispatches by type."""

    @functools.singledispatchmethod
    def tell(self, value: int | str) -> str:
        """Describe a value."""
        return f"something: {value}"

    @tell.register
    def _(self, value: int) -> str:
        return f"a number: {value}"


@pytest.mark.parametrize(
    ("function", "arguments", "content"),
    [
        (describe, {"value": 3, "word": "was"}, "a number was 3"),
        (describe, {"value": "x"}, "something is x"),
        (functools.partial(describe, word="equals"), {"value": 3}, "a number equals 3"),
        (Teller().tell, {"value": 3}, "a number: 3"),
        (Teller().tell, {"value": "x"}, "something: x"),
    ],
)
def test_functions_that_dispatch_by_type(function, arguments, content):
    """A generic function or method gets its first argument by position, which selects the implementation."""
    tool = Tool(function, "say", "Say.")
    assert "self" not in tool.parameters["properties"]
    assert tool.invoke(arguments).content == content


def test_empty_list_of_arguments():
    """An empty list means no arguments for a tool without parameters, and fails for any other tool."""
    assert Tool(lambda: "now", "now", "Now.").invoke("[]").content == "now"
    assert Tool.from_schema("now", "Now.", {}, lambda: "now").invoke("[]").content == "now"
    assert not Tool(describe).invoke("[]").ok


async def stray():
    """Raise a CancelledError that nobody requested."""
    raise asyncio.CancelledError


def stray_in_thread():
    """Raise a CancelledError in synchronous code."""
    raise asyncio.CancelledError


@pytest.mark.parametrize("function", [stray, stray_in_thread])
@pytest.mark.parametrize("seconds", [None, 10.0])
def test_stray_cancellation_is_a_failed_call(function, seconds):
    """A CancelledError from inside a tool fails the call, blocking and awaited, with and without a time limit."""
    tool = Tool(function, timeout_seconds=seconds)
    for result in (tool.invoke(), asyncio.run(tool.ainvoke())):
        assert result.status == "failed"
        assert "cancelled from within" in result.error


@pytest.mark.parametrize("seconds", [None, 10.0])
def test_requested_cancellation_cancels(seconds):
    """If the task itself is cancelled, the call is cancelled, too."""

    async def main():
        started = asyncio.Event()

        async def wait():
            """Wait."""
            started.set()
            await asyncio.sleep(60)

        task = asyncio.create_task(Tool(wait, timeout_seconds=seconds).ainvoke())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
