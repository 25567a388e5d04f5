"""Tests for streams that pass the body of a response through."""

import asyncio

import httpx2

from agentkit.llm.http.connection_pool import PassThroughStream


class Source(httpx2.ByteStream):
    """A body that counts how often it is closed."""

    closed = 0

    def close(self):
        """Count the call."""
        self.closed += 1

    async def aclose(self):
        """Count the call."""
        self.closed += 1


def test_body_passes_through_unchanged():
    """A pass-through stream returns the data of its source and closes it, both sync and async."""
    first, second = Source(b"one"), Source(b"two")
    response, other = (httpx2.Response(200, stream=PassThroughStream(source)) for source in (first, second))
    assert (response.read(), asyncio.run(other.aread())) == (b"one", b"two")
    response.stream.close()
    asyncio.run(other.stream.aclose())
    assert first.closed
    assert second.closed
