"""Fixtures for models: an environment without providers, and the ways to request a response."""

import asyncio
import os

import pytest


@pytest.fixture(autouse=True)
def _no_provider(monkeypatch):
    """Remove all provider variables from the environment."""
    for name in os.environ:
        if name.startswith(("AGENTKIT_", "OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_")) or name.endswith(
            ("_API_KEY", "_BASE_URL")
        ):
            monkeypatch.delenv(name)


def complete(llm, prompt="Hi", **options):
    """Return the response of a blocking request."""
    return llm.complete(prompt, **options)


def stream(llm, prompt="Hi", **options):
    """Return the response of a blocking stream."""
    *_, last = llm.stream(prompt, **options)
    return last.response


def acomplete(llm, prompt="Hi", **options):
    """Return the response of an async request."""
    return asyncio.run(llm.acomplete(prompt, **options))


def astream(llm, prompt="Hi", **options):
    """Return the response of an async stream."""

    async def last():
        return [event async for event in llm.astream(prompt, **options)][-1].response

    return asyncio.run(last())


@pytest.fixture(params=[complete, acomplete, stream, astream], ids=lambda mode: mode.__name__)
def ask(request):
    """Each way to request a response: a function from an LLM and a prompt to the response."""
    return request.param


@pytest.fixture(params=[complete, acomplete], ids=lambda mode: mode.__name__)
def ask_whole(request):
    """The ways to request a response in one piece."""
    return request.param


@pytest.fixture(params=[stream, astream], ids=lambda mode: mode.__name__)
def ask_streamed(request):
    """The ways to request a streamed response."""
    return request.param
