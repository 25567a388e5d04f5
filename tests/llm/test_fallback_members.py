"""What is each model of a chain called, and what is it sent?"""

from agentkit.llm.fallback import FallbackMember, with_distinct_names
from agentkit.messages import Request, UserMessage
from agentkit.testing.scripted_llm import ScriptedProvider
from agentkit.usage import Tariff


def member(name="openai:gpt", address="https://a.example", **settings):
    """A model that says nothing."""
    return FallbackMember(name, address, ScriptedProvider(), Tariff("openai", "gpt"), settings)


def test_own_settings_stand_behind_what_was_said():
    """A model is sent its own settings, except where the request says something else of them."""
    request = Request([UserMessage("Hi")], settings={"temperature": 0, "max_tokens": 9})
    sent = member(temperature=1, max_completion_tokens=400, top_p=0.5).sent(request)
    assert sent.settings == {"temperature": 0, "max_tokens": 9, "top_p": 0.5}
    assert member().sent(request) is request


def test_models_of_one_name_are_told_apart():
    """Two places that serve the same model are called by their addresses; others by their names."""
    chain = [member(), member(address="https://b.example"), member("groq:llama")]
    names = [each.name for each in with_distinct_names(chain)]
    assert names == ["openai:gpt at https://a.example", "openai:gpt at https://b.example", "groq:llama"]
