"""Which of several settings counts?"""

from agentkit.llm.endpoint import Sources
from agentkit.settings import Secret


def test_the_first_that_is_set_counts():
    """Of several names the first that is set gives the value, and the others are remembered as passed over."""
    sources = Sources({"model=": "a", "OPENAI_MODEL": "b", "OTHER": "c"})
    assert sources.first("missing=", "model=", "OPENAI_MODEL") == ("model=", "a")
    assert sources.read == {"model="}
    assert sources.passed_over == {"OPENAI_MODEL": "model="}


def test_unset_names_return_no_value():
    """Unset names return no value, and are not recorded as read."""
    sources = Sources({})
    assert sources.first("model=") == ("", None)
    assert sources.value("model=") is None
    assert sources.secret("api_key=") is None
    assert not sources.read | sources.passed_over.keys()


def test_a_secret_is_wrapped_once():
    """A key from a variable becomes a secret, one from an argument is one already."""
    sources = Sources({"api_key=": Secret("a"), "KEY": "b"})
    assert sources.secret("api_key=") == Secret("a")
    assert sources.secret("KEY") == Secret("b")
