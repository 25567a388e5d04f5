"""Tests for streamed replies to slow, silent and disconnected clients."""

import asyncio

import pytest

from agentkit.server import http_types as streaming
from agentkit.server.http_types import ClientDisconnected, cancel_on_disconnect, deliver

START = {"type": "http.response.start", "status": 200, "headers": []}


class Connection:
    """A client connection that records messages and can be closed."""

    def __init__(self):
        self.sent = []
        self.closed, self.beaten = asyncio.Event(), asyncio.Event()

    async def receive(self):
        """Wait until the client disconnects."""
        await self.closed.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        """Record a message."""
        self.sent.append(message)
        if message.get("body") == b"beat":
            self.beaten.set()

    @property
    def bodies(self):
        """Return the chunks that were sent."""
        return [message["body"] for message in self.sent if "body" in message]


async def sent(pieces, connection, beat_seconds=30.0):
    """Send chunks to a connection."""
    await deliver(pieces, START, connection.send, beat=b"beat", beat_seconds=beat_seconds)


def test_chunks_are_sent_separately():
    """Each chunk is sent as a separate message, and the last message has `more_body` False."""

    async def main():
        async def pieces():
            yield b"one"
            yield b"two"

        connection = Connection()
        await sent(pieces(), connection)
        assert connection.sent[0] == START
        assert connection.bodies == [b"one", b"two", b""]
        assert connection.sent[-1]["more_body"] is False

    asyncio.run(main())


def test_any_iterator_can_be_delivered():
    """Any iterator of chunks can be streamed, even if it yields more than may be queued."""

    class Pieces:
        left = 200

        def __aiter__(self):
            return self

        async def __anext__(self):
            self.left -= 1
            if self.left < 0:
                raise StopAsyncIteration
            return b"x"

    async def main():
        connection = Connection()
        await sent(Pieces(), connection)
        assert b"".join(connection.bodies) == b"x" * 200

    asyncio.run(main())


def test_client_that_reads_late_receives_all_chunks():
    """A client that reads late receives all chunks and the end."""

    async def main():
        async def pieces():
            for _ in range(64):
                yield b"x"

        class Late(Connection):
            async def send(self, message):
                for _ in range(300):
                    await asyncio.sleep(0)
                await super().send(message)

        connection = Late()
        await sent(pieces(), connection)
        assert b"".join(connection.bodies) == b"x" * 64

    asyncio.run(main())


def test_heartbeat_is_sent_while_idle():
    """A heartbeat is sent while there are no chunks."""

    async def main():
        connection = Connection()

        async def pieces():
            await connection.beaten.wait()
            yield b"at last"

        await sent(pieces(), connection, beat_seconds=0.001)
        assert connection.bodies[-2:] == [b"at last", b""]

    asyncio.run(main())


def test_exception_in_a_stream_is_raised():
    """An exception among the chunks ends the reply and is raised."""

    async def main():
        async def pieces():
            yield b"one"
            raise ZeroDivisionError

        connection = Connection()
        with pytest.raises(ZeroDivisionError):
            await sent(pieces(), connection)
        assert connection.bodies == [b"one"]

    asyncio.run(main())


def test_disconnect_cancels_the_work():
    """A disconnect cancels the work, closes its resources and raises ClientDisconnected."""

    async def main():
        connection, closed = Connection(), []

        async def pieces():
            try:
                yield b"one"
                connection.closed.set()
                await asyncio.Event().wait()
            finally:
                closed.append(True)

        with pytest.raises(ClientDisconnected):
            await cancel_on_disconnect(connection.receive, sent(pieces(), connection))
        assert closed == [True]

    asyncio.run(main())


def test_completed_work_returns_its_value():
    """The value of completed work is returned, with or without a connection to watch."""

    async def main():
        async def work():
            return 42

        assert await cancel_on_disconnect(Connection().receive, work()) == 42
        assert await cancel_on_disconnect(None, work()) == 42

    asyncio.run(main())


def test_other_client_messages_are_ignored():
    """Client messages other than a disconnect are ignored."""

    async def main():
        messages = iter(["http.request", "http.disconnect"])

        async def receive():
            return {"type": next(messages)}

        with pytest.raises(ClientDisconnected):
            await cancel_on_disconnect(receive, asyncio.Event().wait())

    asyncio.run(main())


def test_closed_socket_is_a_disconnect():
    """A socket that is closed during a send counts as a disconnect."""

    async def main():
        async def pieces():
            yield b"one"

        async def send(_message):
            raise ConnectionResetError

        with pytest.raises(ClientDisconnected):
            await deliver(pieces(), START, send, beat=b"", beat_seconds=streaming.BEAT_SECONDS)

    asyncio.run(main())
