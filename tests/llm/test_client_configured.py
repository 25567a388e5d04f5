"""Tests for LLMs with fallbacks: creation, inherited settings, copies, and equality."""

import copy
import pickle

import pytest

from agentkit.errors import ConfigError, NoProvider, Unreachable
from agentkit.llm.client import LLM, split_model
from agentkit.messages import Request, UserMessage
from agentkit.testing import FakeServer, ScriptedLLM, fail
from agentkit.usage import Price

KEY = "sk-test-0123456789"
LOCAL = "http://127.0.0.1:1/v1"


def places(llm):
    """Return provider, model and endpoint of an LLM and of all its fallbacks."""
    about = llm.describe()
    return [(about.provider, about.model, about.endpoint), *(place for each in llm.fallbacks for place in places(each))]


def names(llm):
    """Return the names of an LLM and its fallbacks."""
    return [f"{provider}:{model}" for provider, model, _ in places(llm)]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (None, (None, ())),
        ("gpt", ("gpt", ())),
        ("qwen3:8b|groq:llama", ("qwen3:8b", ("groq:llama",))),
        ("a | b:c |  offline ", ("a", ("b:c", "offline"))),
        ("| offline", (None, ("offline",))),
    ],
)
def test_names_separated_by_a_bar(model, expected):
    """A bar separates a model from its fallbacks, and a leading bar uses the environment's model first."""
    assert split_model(model) == expected


@pytest.mark.parametrize("model", ["a |", "a || b", "|"])
def test_missing_name_raises_config_error(model):
    """A bar without a name after it raises ConfigError."""
    with pytest.raises(ConfigError, match="A name is missing"):
        LLM("openai", model, KEY)


@pytest.mark.parametrize(
    "fallback",
    [
        "ollama:qwen3",
        ["ollama:qwen3"],
        ("ollama:qwen3",),
        LLM("ollama", "qwen3"),
        [LLM(model="ollama:qwen3")],
    ],
    ids=["text", "list", "tuple", "llm", "llms"],
)
def test_forms_of_fallbacks(fallback):
    """A fallback is an LLM, a string, or a list of them."""
    llm = LLM("openai", "gpt", KEY, fallback=fallback)
    assert names(llm) == ["openai:gpt", "ollama:qwen3"]


@pytest.mark.parametrize("fallback", [3, [None], "", [" "], {"a": 1, 2: 3}])
def test_invalid_fallback_raises_config_error(fallback):
    """An invalid fallback raises ConfigError when the LLM is created."""
    with pytest.raises(ConfigError, match="fallback= takes an LLM, the name of a model"):
        LLM("openai", "gpt", KEY, fallback=fallback)


def test_fallback_without_a_key_raises_an_error():
    """A fallback without a key raises an error when the LLM is created."""
    with pytest.raises(NoProvider, match="GROQ_API_KEY"):
        LLM("openai", "gpt", KEY, fallback="groq:llama")


@pytest.mark.parametrize("name", ["gorq:llama", "cohere:command", "bedrock:x"])
def test_unknown_provider_of_a_fallback(name):
    """A fallback name with an unknown provider raises NoProvider, and can be passed as an LLM instead."""
    with pytest.raises(NoProvider, match="Unknown provider"):
        LLM("openai", "gpt", KEY, fallback=name)
    with pytest.raises(NoProvider, match="pass it as fallback=LLM"):
        LLM("openai", f"gpt | {name}", KEY)
    assert names(LLM("openai", "gpt", KEY, fallback=LLM("openai", name, KEY)))[1] == f"openai:{name}"


def test_url_and_key_of_a_named_fallback():
    """A fallback name without a provider uses the same URL and key, and one with a provider does not."""
    llm = LLM(base_url=LOCAL, model="big", api_key=KEY, fallback=["small", "offline", "ollama:x | lmstudio:y"])
    assert names(llm)[:2] == ["openai:big", "openai:small"]
    assert [place[0] for place in places(llm)[2:]] == ["offline", "ollama", "lmstudio"]
    first, *others = [each.arguments.api_key for each in llm.fallbacks]
    assert first.reveal() == KEY
    assert others == [None] * 3


@pytest.mark.parametrize("other", [lambda llm: llm.fallbacks[0], lambda llm: llm.with_model("b")])
@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"model": "groq:a", "api_key": KEY}, ("groq", "https://api.groq.com/openai/v1")),
        ({"model": "ollama:a"}, ("ollama", "http://127.0.0.1:11434/v1")),
        ({"model": "mistral:7b", "base_url": LOCAL, "api_key": KEY}, ("openai", LOCAL)),
        ({"model": "ollama:a", "base_url": LOCAL, "api_key": KEY}, ("ollama", LOCAL)),
        ({"model": "openai:a", "provider": "ollama"}, ("ollama", "http://127.0.0.1:11434/v1")),
    ],
)
def test_name_without_a_provider_uses_the_first_endpoint(monkeypatch, given, place, other):
    """A model name without a provider uses the URL and key of the first model."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
    description = other(LLM(**given, fallback="b")).describe()
    assert (description.model, description.provider, description.endpoint) == ("b", *place)


@pytest.mark.parametrize(
    ("given", "has_key"),
    [
        ({"model": "groq:a"}, False),
        ({"model": "a"}, True),
        ({"model": "openai:a"}, True),
        ({"azure_endpoint": "https://r.openai.azure.com", "model": "a"}, False),
        ({"base_url": LOCAL, "model": "a"}, True),
        ({"provider": "openai", "model": "a"}, True),
    ],
)
def test_key_is_not_sent_to_another_provider(monkeypatch, given, has_key):
    """A client for a model of another provider does not receive the key."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
    key = LLM(**given, api_key=KEY).with_model("openai:b").arguments.api_key
    assert (key is not None and key.reveal() == KEY) is has_key


def test_named_fallback_inherits_the_settings():
    """A named fallback inherits the settings, an LLM has its own, and neither inherits the price."""
    llm = LLM(
        base_url=LOCAL, model="a", temperature=0, price=Price(1, 2), fallback=["b", LLM(base_url=LOCAL, model="c")]
    )
    assert [each.settings for each in llm.fallbacks] == [{"temperature": 0}, {}]
    assert [each.price for each in llm.fallbacks] == [None, None]


def test_fallbacks_of_the_environment(monkeypatch):
    """`AGENTKIT_MODEL` may name fallbacks, which apply if the program sets neither model nor endpoint."""
    monkeypatch.setenv("AGENTKIT_MODEL", "ollama:qwen3 | lmstudio:gemma")
    assert names(LLM()) == names(LLM(timeout_seconds=9)) == ["ollama:qwen3", "lmstudio:gemma"]
    assert [each.model for each in LLM().with_fallbacks(explicit=True)] == [LLM().model]
    assert LLM().fallbacks[0].describe().ignored == ()
    assert names(LLM("ollama")) == ["ollama:qwen3"]
    assert names(LLM(model="vllm:x")) == ["vllm:x"]
    assert names(LLM(fallback="offline"))[1:] == ["offline:needle3"]
    text = "lmstudio:gemma after a | in AGENTKIT_MODEL (the arguments decide)"
    assert text in LLM("ollama").describe().ignored
    assert text in LLM(fallback="offline").describe().ignored
    monkeypatch.setenv("AGENTKIT_MODEL", "| offline")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert [each.provider for each in (LLM(), *LLM().fallbacks)] == ["openai", "offline"]


def test_description_of_fallbacks():
    """`describe` lists the fallbacks with their URLs and reasons, and without secrets."""
    inner = LLM(base_url=LOCAL, model="b", api_key=KEY, fallback="ollama:c")
    text = str(LLM(base_url=LOCAL, model="a", fallback=inner).describe())
    assert KEY not in text
    assert text.splitlines()[-1] == (
        f"fallback     openai:b at {LOCAL} (decided by base_url=), "
        "then ollama:c at http://127.0.0.1:11434/v1 (decided by model=)"
    )


def test_with_settings_applies_to_fallbacks():
    """`with_settings` applies to all fallbacks, and preserves which models recently failed."""
    other = ScriptedLLM("One.", "Two.", model="two")
    first = ScriptedLLM(Unreachable("gone"), fallback=other)
    assert first.complete("Hi").text == "One."
    llm = first.with_settings(temperature=0)
    assert [each.settings for each in llm.fallbacks] == [{"temperature": 0}]
    response = llm.complete("Hi")
    assert (response.text, response.missed[0].was_tried) == ("Two.", False)
    assert [request.settings for request in other.requests] == [{}, {"temperature": 0}]


def test_request_settings_are_sent_to_the_fallback():
    """The settings of a request or call are sent to the model that answers."""
    other = ScriptedLLM("One.", "Two.")
    llm = ScriptedLLM(Unreachable("gone"), fallback=other).with_settings(top_p=1)
    llm.complete(Request([UserMessage("Hi")], settings={"max_tokens": 9}), temperature=0)
    llm.complete("Hi", max_completion_tokens=5)
    assert [request.settings for request in other.requests] == [
        {"top_p": 1, "max_tokens": 9, "temperature": 0},
        {"top_p": 1, "max_completion_tokens": 5},
    ]


@pytest.mark.parametrize(
    ("choice", "sent"), [("any", "required"), ("required", "required"), ("auto", "auto"), ("weather", "weather")]
)
def test_tool_choice_accepts_two_words(choice, sent):
    """`tool_choice` accepts two words for a required tool call and sends the same value."""
    llm = ScriptedLLM("One.")
    llm.complete("Hi", tool_choice=choice)
    assert [request.settings for request in llm.requests] == [{"tool_choice": sent}]
    assert LLM("offline", settings={"tool_choice": choice}).settings == {"tool_choice": sent}


def test_with_model_preserves_the_fallbacks():
    """`with_model` keeps the fallbacks, unless its name contains others."""
    llm = LLM(base_url=LOCAL, model="a", fallback="ollama:c")
    assert names(llm.with_model("b")) == ["openai:b", "ollama:c"]
    assert names(llm.with_model("b | d")) == ["openai:b", "openai:d"]


def test_equality_includes_fallbacks():
    """Two LLMs are equal only if their fallbacks are equal."""
    llm = LLM(base_url=LOCAL, model="a", fallback="ollama:c")
    assert llm.equals(LLM(base_url=LOCAL, model="a | ollama:c"))
    for other in (None, "ollama:d", ["ollama:c", "ollama:d"]):
        assert not llm.equals(LLM(base_url=LOCAL, model="a", fallback=other))


def test_copied_llm_has_the_same_fallbacks():
    """A copied or pickled LLM has the same fallbacks and settings, and forgets recent failures."""
    with FakeServer(fail(500), "Hello.") as one:
        made = LLM(base_url=one.base_url, model="a", max_retries=0, fallback=[LLM(base_url=LOCAL, model="b"), "c"])
        llm = made.with_settings(temperature=0)
        for twin in (copy.copy(llm), copy.deepcopy(llm), pickle.loads(pickle.dumps(llm))):
            assert twin.equals(llm)
            assert [each.settings for each in twin.fallbacks] == [{"temperature": 0}] * 2
        with pytest.raises(Unreachable):
            LLM(base_url=one.base_url, model="a", max_retries=0).complete("Hi")
        assert twin.complete("Hi").text == "Hello."


def test_scripted_fallback_is_not_copied():
    """An LLM with a scripted fallback cannot be pickled or deep-copied; a copy shares the script."""
    llm = LLM(base_url=LOCAL, model="a", fallback=ScriptedLLM())
    assert copy.copy(llm).fallbacks == llm.fallbacks
    with pytest.raises(TypeError, match="ScriptedLLM cannot be copied"):
        pickle.dumps(llm)


def test_tariffs_and_maximum_answer_of_fallbacks():
    """`tariffs` has the tariff of each fallback; the maximum answer is the smallest of all."""
    inner = LLM(base_url=LOCAL, model="b", max_tokens=9, fallback=LLM(base_url=LOCAL, model="c"))
    llm = LLM(base_url=LOCAL, model="a", max_tokens=20, fallback=inner)
    assert [tariff.model for tariff in llm.tariffs] == ["a", "b", "c"]
    assert llm.max_tokens == 9
