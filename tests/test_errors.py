"""What do exceptions carry, and do they survive the way to another process?"""

import copy
from multiprocessing import Pipe

import pytest

from agentkit import errors
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
    """The value as another process gets it."""
    here, there = Pipe()
    with here, there:
        here.send(value)
        return there.recv()


@pytest.mark.for_each("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.for_each("duplicate", [copy.copy, send])
def test_errors_travel(error, duplicate):
    """Every error can be copied and sent to another process with its text and all it carries."""
    other = duplicate(error)
    assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("error", "kind"),
    [(NoProvider(""), ValueError), (MissingExtra("offline", "It"), ImportError), (LimitExceeded(""), RuntimeError)],
)
def test_errors_are_also_builtin_ones(error, kind):
    """Code that catches the builtin exception for such a case catches ours."""
    assert isinstance(error, kind)


def test_errors_of_knowledge_are_also_those_of_sessions():
    """Code that catches SessionError for faults of knowledge, too, goes on catching them."""
    assert issubclass(errors.KnowledgeError, errors.SessionError)


def test_missing_extra_names_the_command():
    """A missing package is told with what needs it and the command that installs it."""
    error = MissingExtra("offline", "The offline model")
    assert "The offline model needs" in str(error)
    assert install_command("offline") in str(error)
    assert error.extra == "offline"


def test_model_error_keeps_the_providers_words():
    """What the provider said of status, code and parameter can be read from the error."""
    error = RateLimited("Slow down.", status=429, code="rate", parameter="model", retry_after_seconds=2)
    assert isinstance(error, ModelError)
    assert (error.status, error.code, error.parameter, error.retry_after_seconds) == (429, "rate", "model", 2)


def test_a_conversation_that_is_too_long_is_told_apart():
    """The error of a conversation that is too long says so, and how many tokens the model takes when that is known."""
    error = Rejected("Too long.", code="context_length_exceeded", limit_tokens=8_192)
    assert error.is_too_long
    assert error.limit_tokens == 8_192
    assert not Rejected("Bad question.", code="invalid").is_too_long
