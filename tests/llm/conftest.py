"""What do the tests of models share? An environment that names no provider, and the ways of asking."""

import asyncio
import os

import pytest


@pytest.fixture(autouse=True)
def _no_provider(monkeypatch):
    """No variable of the machine that runs the tests decides anything."""
    for name in os.environ:
        if name.startswith(("AGENTKIT_", "OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_")) or name.endswith(
            ("_API_KEY", "_BASE_URL")
        ):
            monkeypatch.delenv(name)


def complete(llm, prompt="Hi", **options):
    """The response, blocking, in one piece."""
    return llm.complete(prompt, **options)


def stream(llm, prompt="Hi", **options):
    """The response, blocking, streamed."""
    *_, last = llm.stream(prompt, **options)
    return last.response


def acomplete(llm, prompt="Hi", **options):
    """The response, awaited, in one piece."""
    return asyncio.run(llm.acomplete(prompt, **options))


def astream(llm, prompt="Hi", **options):
    """The response, awaited, streamed."""

    async def last():
        return [event async for event in llm.astream(prompt, **options)][-1].response

    return asyncio.run(last())


@pytest.fixture(params=[complete, acomplete, stream, astream], ids=lambda way: way.__name__)
def ask(request):
    """Every way of asking a model: a function from an LLM and a prompt to the response."""
    return request.param


@pytest.fixture(params=[complete, acomplete], ids=lambda way: way.__name__)
def ask_whole(request):
    """The ways of asking for an answer in one piece."""
    return request.param


@pytest.fixture(params=[stream, astream], ids=lambda way: way.__name__)
def ask_streamed(request):
    """The ways of asking for an answer in pieces."""
    return request.param
