"""Tests for the exceptions: attributes, pickling, and short tracebacks."""

import asyncio
import copy
import os
import subprocess
import sys
import traceback
from multiprocessing import Pipe

import pytest

from agentkit import LLM, Agent, agent, errors, tool
from agentkit.errors import LimitExceeded, MissingExtra, ModelError, NoProvider, RateLimited, Rejected
from agentkit.installation import install_command

EXAMPLES = [
    NoProvider("No API key found."),
    MissingExtra("offline", "The offline model"),
    Rejected("Bad question.", status=400, code="invalid", parameter="tools"),
    Rejected("Too long.", status=400, code="context_length_exceeded", limit_tokens=8_192),
    RateLimited("Slow down.", status=429, retry_after_seconds=1.5),
    LimitExceeded("Enough.", {"output": "so far"}),
    *(
        kind("It happened.")
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.AgentKitError) and kind is not MissingExtra
    ),
]


def send(value):
    """Return the value as received by another process."""
    here, there = Pipe()
    with here, there:
        here.send(value)
        return there.recv()


@pytest.mark.for_each("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.for_each("duplicate", [copy.copy, send])
def test_errors_can_be_copied_and_pickled(error, duplicate):
    """Every error can be copied and pickled with its text and attributes."""
    other = duplicate(error)
    assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("error", "kind"),
    [(NoProvider(""), ValueError), (MissingExtra("offline", "It"), ImportError), (LimitExceeded(""), RuntimeError)],
)
def test_errors_are_also_builtin_ones(error, kind):
    """Some errors are subclasses of builtin exceptions."""
    assert isinstance(error, kind)


def test_knowledge_errors_are_session_errors():
    """KnowledgeError is a subclass of SessionError."""
    assert issubclass(errors.KnowledgeError, errors.SessionError)


def test_missing_extra_names_the_command():
    """MissingExtra names the feature and the install command."""
    error = MissingExtra("offline", "The offline model")
    assert "The offline model needs" in str(error)
    assert install_command("offline") in str(error)
    assert error.extra == "offline"


def test_model_error_has_the_details_of_the_provider():
    """A ModelError has the status, code and parameter of the provider."""
    error = RateLimited("Slow down.", status=429, code="rate", parameter="model", retry_after_seconds=2)
    assert isinstance(error, ModelError)
    assert (error.status, error.code, error.parameter, error.retry_after_seconds) == (429, "rate", "model", 2)


def test_conversation_that_is_too_long_is_identified():
    """A too long conversation is identified by `is_too_long` and has the token limit."""
    error = Rejected("Too long.", code="context_length_exceeded", limit_tokens=8_192)
    assert error.is_too_long
    assert error.limit_tokens == 8_192
    assert not Rejected("Bad question.", code="invalid").is_too_long


def written(function):
    """Return the traceback of a call as printed by Python, one line per item."""
    with pytest.raises(errors.AgentKitError) as caught:
        function()
    return "".join(traceback.format_exception(caught.value)).splitlines()


def pass_on(request, proceed):
    """Call the next handler."""
    return proceed(request)


def asked_with_middleware():
    """Send a request to a missing server through a middleware of the program."""
    llm = LLM(base_url="http://127.0.0.1:9/v1", model="m", max_retries=0)
    Agent("a", llm=llm, middleware=[pass_on])("hi")


def test_tracebacks_end_at_the_function_that_was_called(subtests, monkeypatch):
    """The traceback of a usage error has at most the called function of the package."""
    for name in os.environ:
        if name.startswith(("AGENTKIT_", "OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_", "GEMINI_")):
            monkeypatch.delenv(name)
    calls = (
        lambda: agent("hi"),
        lambda: agent(3),
        lambda: agent.stream("hi"),
        lambda: list(agent.stream_text("hi")),
        lambda: Agent()("hi"),
        lambda: Agent().run("hi"),
        lambda: asyncio.run(Agent().arun("hi")),
        lambda: list(Agent().stream("hi")),
        lambda: list(Agent().stream_text("hi")),
        lambda: Agent().astream("hi"),
        lambda: Agent().map(["hi"]),
        lambda: asyncio.run(Agent().amap(["hi"])),
        lambda: Agent(tools=[lambda x: x]),
        lambda: LLM("opnai"),
        lambda: LLM(base_url="http://127.0.0.1:9/v1", model="m", max_retries=0).complete("hi"),
        lambda: Agent(llm=LLM(base_url="http://127.0.0.1:9/v1", model="m", max_retries=0)).run("hi").output,
        lambda: tool(level="high")(print),
    )
    for call in calls:
        with subtests.test(call=call.__code__.co_firstlineno):
            shown = written(call)
            assert sum("/agentkit/" in line for line in shown if line.startswith("  File")) <= 2
            assert shown[-1].startswith("agentkit.errors.")


def test_tracebacks_keep_the_frames_of_a_program():
    """A frame of the program between frames of the package remains in the traceback."""
    shown = "\n".join(written(asked_with_middleware))
    assert "in pass_on" in shown
    assert "in asked_with_middleware" in shown


def test_tracebacks_are_whole_in_development_mode():
    """`python -X dev` shows the frames of the package."""
    command = "import agentkit; agentkit.LLM('opnai')"
    short, full_text = (
        subprocess.run(
            [sys.executable, *options, "-c", command], stderr=subprocess.PIPE, check=False, timeout=60
        ).stderr
        for options in ((), ("-X", "dev"))
    )
    assert b"in detect" not in short
    assert b"in detect" in full_text
