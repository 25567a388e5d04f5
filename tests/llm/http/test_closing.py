"""Tests for the closing and cancelling of requests."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from contextvars import copy_context

import pytest

from agentkit import Agent, Limits
from agentkit.errors import Unreachable
from agentkit.llm.client import LLM
from agentkit.llm.pipeline import ABANDONED, CANCELLATION, RequestCancellation
from agentkit.testing import FakeServer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWER = b'{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
PIECE = b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n'
CHUNK = b"%x\r\n%b\r\n" % (len(PIECE), PIECE)


class SilentServer:
    """A server that sends the given answers to its first requests and then nothing until the client disconnects."""

    def __init__(self, *answers):
        self._answers = answers
        self.has_received, self.is_disconnected = threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with self._listener, self._listener.accept()[0] as connection:
            self._answer(connection)
        self.is_disconnected.set()

    def _answer(self, connection):
        for answer in (*self._answers, b""):
            request = b""
            while b"messages" not in request:
                piece = connection.recv(65536)
                if not piece:
                    return
                request += piece
            self.has_received.set()
            connection.sendall(answer)
            if b"Content-Length" not in answer:
                break
        while connection.recv(65536):
            pass


@pytest.mark.for_each("mode", ["run", "stream"])
@pytest.mark.for_each("answers", [(), (HEAD,), (HEAD + CHUNK,), (WHOLE,)], ids=["silent", "head", "piece", "reused"])
def test_time_limit_closes_the_connection(mode, answers):
    """A run that reaches its time limit closes its connection, also in the middle of a response."""
    server = SilentServer(*answers)
    llm = LLM(base_url=server.base_url, model="m")
    llm.prepare()
    if answers == (WHOLE,):
        assert llm.chat("Hi") == "Hello"
    agent = Agent("clerk", llm=llm, limits=Limits(seconds=0.4))
    result = agent.run("Hi") if mode == "run" else [*agent.stream("Hi")][-1].result
    assert result.status == "limit"
    assert server.is_disconnected.wait(5)


@pytest.mark.parametrize("limits", ["None", "Limits(seconds=60)"])
def test_interrupt_closes_the_connection(limits):
    """An interrupt closes the connection while the program continues."""
    server = SilentServer()
    program = f"""
import sys
from agentkit import LLM, Agent, Limits
agent = Agent("clerk", llm=LLM(base_url={server.base_url!r}, model="m"), limits={limits})
print("ready", flush=True)
try:
    agent.run("Hi")
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        assert server.has_received.wait(30)
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert server.is_disconnected.wait(5)
        process.stdin.close()


def test_cancelled_request_is_not_sent_again():
    """A request that was cancelled from another thread ends and is not retried."""
    server = SilentServer()
    cancellation = RequestCancellation()
    threading.Timer(0.3, cancellation.cancel).start()
    token = CANCELLATION.set(cancellation)
    try:
        with pytest.raises(Unreachable):
            LLM(base_url=server.base_url, model="m").chat("Hi")
    finally:
        CANCELLATION.reset(token)
    assert server.is_disconnected.wait(5)


@pytest.mark.parametrize("answers", [[], [HEAD + CHUNK]], ids=["silent", "in the middle"])
def test_request_at_its_deadline_is_abandoned(answers):
    """A read that ends at the deadline reports the deadline, not the client's timeout, and is not retried."""
    server = SilentServer(*answers)

    def ask():
        CANCELLATION.set(RequestCancellation(0.2))
        return list(LLM(base_url=server.base_url, model="m").stream("Hi"))

    with pytest.raises(Unreachable, match="The run reached its time limit") as caught:
        copy_context().run(ask)
    assert (caught.value.code, caught.value.unanswered) == (ABANDONED, 1)
    assert server.is_disconnected.wait(5)


def test_closing_an_llm_in_use_ends_no_request():
    """Closing an LLM during a request does not end the request, and later requests are answered."""
    with FakeServer(lambda _: llm.close() or "Hi", "Hello") as server:
        llm = LLM(base_url=server.base_url, model="m", max_retries=0)
        assert (llm.chat("Hi"), llm.chat("Hi")) == ("Hi", "Hello")
        llm.close()


def test_cancellation_is_raised_unchanged():
    """An error from outside the connection, such as a cancellation, is raised unchanged."""

    async def cancelled():
        async with asyncio.timeout(0):
            await LLM(base_url="http://127.0.0.1:9/v1", model="m").achat("Hi")

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())
