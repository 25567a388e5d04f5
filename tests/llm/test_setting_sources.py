"""Tests for the precedence of settings with several names."""

from agentkit.llm.endpoint import Sources
from agentkit.settings import Secret


def test_first_set_name_is_used():
    """The first name that is set provides the value, and the others are recorded as ignored."""
    sources = Sources({"model=": "a", "OPENAI_MODEL": "b", "OTHER": "c"})
    assert sources.first("missing=", "model=", "OPENAI_MODEL") == ("model=", "a")
    assert sources.read == {"model="}
    assert sources.passed_over == {"OPENAI_MODEL": "model="}


def test_unset_names_return_no_value():
    """Unset names return no value and are not recorded."""
    sources = Sources({})
    assert sources.first("model=") == ("", None)
    assert sources.value("model=") is None
    assert sources.secret("api_key=") is None
    assert not sources.read | sources.passed_over.keys()


def test_secret_is_wrapped_once():
    """A key from a variable becomes a secret, and a secret from an argument is not wrapped again."""
    sources = Sources({"api_key=": Secret("a"), "KEY": "b"})
    assert sources.secret("api_key=") == Secret("a")
    assert sources.secret("KEY") == Secret("b")
