"""What do the errors of the libraries mean?"""

import asyncio

import pytest

from agentkit.errors import Unreachable
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer

KEY = "sk-test-0123456789"


def test_closing_an_llm_that_is_in_use_is_a_lost_connection():
    """A request whose LLM is closed at that moment ends with an error of the tree, and the next one works."""
    closing = []

    def token():
        if not closing:
            closing.append(llm.close())
        return KEY

    with FakeServer("Hi") as server:
        llm = LLM("azure", "gpt", azure_endpoint=server.origin, azure_token_provider=token, max_retries=0)
        with pytest.raises(Unreachable, match="was closed while it was in use"):
            llm.chat("Hi")
        assert llm.chat("Hi") == "Hi"


def test_an_error_that_is_not_the_connection_s_is_raised_as_it_is():
    """What interrupts a request from outside, such as a cancellation, is not translated."""

    async def cancelled():
        async with asyncio.timeout(0):
            await LLM(base_url="http://127.0.0.1:9/v1", model="m").achat("Hi")

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())
