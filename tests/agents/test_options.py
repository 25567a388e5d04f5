"""Tests for the options of Agent and `run`: suggestions for wrong arguments, and accepted types."""

import pytest

from agentkit import LLM, Agent, ConfigError, NoProvider, Policy, core_tools


@pytest.mark.parametrize(
    ("given", "intended"),
    [
        ({"tool": core_tools}, "Did you mean tools=?"),
        ({"max_iteration": 3}, "Did you mean max_iterations=?"),
        ({"instructions": "Be brief."}, "Did you mean instruction=?"),
        ({"saftey": "SYSTEM"}, "Did you mean safety=?"),
        ({"temprature": 0.2}, "It is an argument of LLM: llm=LLM(temperature=...)."),
        ({"api_key": "k"}, "It is an argument of LLM: llm=LLM(api_key=...)."),
        ({"xyz": 1}, "It takes: name, tools, instruction, max_iterations, llm, model,"),
    ],
)
def test_unknown_argument_suggests_a_similar_one(given, intended):
    """An unknown argument raises TypeError, which suggests a similar argument."""
    with pytest.raises(TypeError) as raised:
        Agent("helper", **given)
    assert f"Agent() takes no argument {next(iter(given))}=. {intended}" in str(raised.value)


@pytest.mark.for_each(
    ("given", "wanted"),
    [
        ({"name": ""}, "name= takes a string that is not blank. Got ''."),
        ({"tools": "web"}, "pass the tool itself, not its name"),
        ({"model": 5}, "model= takes a model's name; an LLM goes into llm=. Got 5."),
        ({"safety": "hgih"}, "'hgih' is not a safety level; use SAFE, NETWORK or SYSTEM."),
        ({"workspace": 5}, "workspace= takes the path of a folder, or a Workspace. Got 5."),
        ({"dry_run": "no"}, "dry_run= takes True or False. Got 'no'."),
        ({"safety": "SYSTEM", "policy": Policy()}, "Give the level once: policy=Policy(level=SafetyLevel.SYSTEM, ...)"),
        ({"llm": LLM(base_url="http://127.0.0.1:9/v1", model="m"), "model": "m"}, "Give llm= or model=, not both"),
        ({"listeners": [5]}, "A listener is a plain function of an event, not async. Got 5."),
        ({"handoffs": [Agent("expert"), Agent("expert")]}, "Two handoff agents are named 'expert'"),
        ({"limits": {"cost": 1}}, "limits= takes Limits(...). Got {'cost': 1}."),
    ],
)
def test_invalid_value_names_the_accepted_type(given, wanted):
    """An invalid value raises ConfigError, which names the accepted type."""
    with pytest.raises(ConfigError) as raised:
        Agent(**{"name": "helper", **given})
    assert wanted in str(raised.value)


def test_model_name_as_the_provider_is_reported():
    """A model name passed as the provider raises NoProvider, which mentions `model=`."""
    with pytest.raises(NoProvider, match="The name of a model goes into model="):
        LLM("qwen3-coder")


@pytest.mark.parametrize("name", ["provider", "model", "api_key", "azure_endpoint", "base_url"])
def test_value_that_is_not_a_string_is_rejected(name):
    """A value that is not a string raises ConfigError, which does not contain the value."""
    with pytest.raises(ConfigError, match=r"must be strings, as in LLM\(model=.*Got int") as raised:
        LLM(**{name: 123456789})
    assert "123456789" not in str(raised.value)


@pytest.mark.parametrize("prompt", ["", " \n"])
def test_empty_prompt(prompt):
    """An empty prompt is rejected before the run, also in a map."""
    helper = Agent("helper", llm=LLM(base_url="http://127.0.0.1:9/v1", model="m"))
    for run in (helper.run, helper, helper.stream_text, helper.stream):
        with pytest.raises(ConfigError, match="The prompt is empty"):
            list(run(prompt))
    (result,) = helper.map([prompt])
    assert "The prompt is empty" in str(result.error)
