"""Tests for the models of a chain: names and settings."""

from agentkit.llm.fallback import FallbackMember, with_distinct_names
from agentkit.messages import Request, UserMessage
from agentkit.testing.scripted_llm import ScriptedProvider
from agentkit.usage import Tariff


def member(name="openai:gpt", address="https://a.example", **settings):
    """Return a model without lines."""
    return FallbackMember(name, address, ScriptedProvider(), Tariff("openai", "gpt"), settings)


def test_request_settings_override_own_settings():
    """A model's own settings are sent unless the request overrides them."""
    request = Request([UserMessage("Hi")], settings={"temperature": 0, "max_tokens": 9})
    sent = member(temperature=1, max_completion_tokens=400, top_p=0.5).sent(request)
    assert sent.settings == {"temperature": 0, "max_tokens": 9, "top_p": 0.5}
    assert member().sent(request) is request


def test_models_with_the_same_name_are_distinguished():
    """Models with the same name are distinguished by their addresses."""
    chain = [member(), member(address="https://b.example"), member("groq:llama")]
    names = [each.name for each in with_distinct_names(chain)]
    assert names == ["openai:gpt at https://a.example", "openai:gpt at https://b.example", "groq:llama"]
