"""Is an argument of another toolkit answered with what it is called here?"""

import asyncio

import pytest

from agentkit import Agent, Limits, core_tools
from agentkit.agents.default import QuickAgent
from agentkit.suggestions.other_toolkits import CHATTING, MAKING, MAPPING, RUNNING, TABLES, WORKING
from agentkit.testing import ScriptedLLM


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"functions": []}, "Did you mean tools=?"),
        ({"top_p": 0.9}, "Did you mean llm=LLM(settings={'top_p': ...})?"),
        ({"fallback_models": ["gpt-5"]}, "Did you mean llm=LLM(fallback=...)?"),
        ({"tool_call_limit": 3}, "Did you mean limits=Limits(tool_calls=...)?"),
        ({"deps_type": int}, "What tools need to know is given as context=, to the agent or to a run:"),
        ({"interrupt_on": {}}, "approve=function is asked;"),
        ({"telemetry": False}, "Nothing is printed or sent anywhere unless you say so;"),
        ({"tool_use_behavior": "stop_on_first_tool"}, "Did you mean @tool(ends_run=True)?"),
        ({"history_processors": []}, "window=Window(edit=function)"),
        ({"few_shot": []}, "A conversation is set on the agent: agent.history = [...], a list of messages."),
        ({"prepare_tools": print}, "What is offered is asked before each request:"),
        ({"wrkspace": "."}, "Did you mean workspace=?"),
        ({"planning_interval": 3}, "It takes: name, tools, instruction, max_iterations,"),
    ],
)
def test_arguments_of_an_agent(given, meant):
    """An argument that other toolkits give an agent is answered with the one it has here, or with how it is done."""
    with pytest.raises(TypeError) as raised:
        Agent("helper", **given)
    assert f"Agent() takes no argument {next(iter(given))}=. {meant}" in str(raised.value)


@pytest.mark.parametrize("function", ["__call__", "run", "stream", "astream"])
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"max_turns": 3}, "Did you mean limits=Limits(iterations=...)?"),
        ({"model": "gpt-5"}, "That is the agent's, not a run's."),
        ({"previous_response_id": "resp_1"}, "An agent remembers its conversation by itself:"),
        ({"starting_agent": None}, "An agent runs itself: agent.run(prompt)."),
        ({"images": []}, "Did you mean a list as prompt, [text, Image.read('cat.png')]?"),
        ({"deps": 3}, "What tools need to know is given as context="),
        ({"limit": 3}, "Did you mean limits=?"),
        ({"client": None}, "It takes: prompt, "),
        ({"xyz": 3}, "It takes: prompt, "),
    ],
)
def test_arguments_of_a_run(function, given, meant):
    """What other toolkits say of one run is answered with where it is said here, before anything is asked."""
    helper = Agent("helper", llm=ScriptedLLM())
    with pytest.raises(TypeError) as raised:
        getattr(helper, function)("Hi!", **given)
    assert f"Agent.{function}() takes no argument {next(iter(given))}=. {meant}" in str(raised.value)


def test_arguments_of_an_awaited_run():
    """An awaited run answers them when it is awaited."""
    with pytest.raises(TypeError, match=r"Agent.arun\(\) takes no argument max_steps=. Did you mean limits="):
        asyncio.run(Agent("helper", llm=ScriptedLLM()).arun("Hi!", max_steps=3))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"max_workers": 3}, "Did you mean concurrency=?"),
        ({"on_progress": print}, "Did you mean progress=?"),
        ({"client": None}, "Did you mean executor=?"),
        ({"output_type": int}, "Did you mean Agent(output_type=...), the type of each answer?"),
        ({"max_turns": 3}, "Did you mean Agent(max_iterations=...)?"),
        ({"timeout": 3}, "Did you mean limits=Limits(seconds=...)?"),
        ({"limit": 3}, "Did you mean limits=?"),
        ({"xyz": 3}, "It takes: prompts, concurrency, limits, progress, executor."),
    ],
)
def test_arguments_of_a_map(given, meant):
    """What is said elsewhere of many prompts is answered before any of them is asked."""
    with pytest.raises(TypeError) as raised:
        Agent("helper", llm=ScriptedLLM()).map(["Hi!"], **given)
    assert f"Agent.map() takes no argument {next(iter(given))}=. {meant}" in str(raised.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"tools": core_tools}, "It is for chat and has no tools; make an agent that has: Agent('helper', tools=...)."),
        ({"instructions": "Be brief."}, "Did you mean system_prompt=?"),
        ({"modle": "gpt-5"}, "Did you mean model=?"),
        ({"session": "trip"}, "Did you mean Agent(session='...'), an agent of your own?"),
        ({"xyz": 1}, "It takes: system_prompt, provider, model, api_key,"),
    ],
)
def test_arguments_of_the_one_line_chat(given, meant):
    """The one-line chat takes what an LLM takes, and says so before it looks for a provider."""
    with pytest.raises(TypeError) as raised:
        QuickAgent()("Hi!", **given)
    assert f"agent() takes no argument {next(iter(given))}=. {meant}" in str(raised.value)


def test_what_is_taken_is_no_foreign_word():
    """No argument that is taken stands among those that are not."""
    with pytest.raises(TypeError) as raised:
        Agent("helper", xyz=1)
    taken = str(raised.value).partition("It takes: ")[2].rstrip(".").split(", ")
    assert not set(taken) & set(MAKING)
    assert not {"prompt", "limits"} & set(RUNNING)
    assert not {"system_prompt", "model", "provider", "api_key", "base_url"} & set(CHATTING)


@pytest.mark.parametrize("table", [MAKING, RUNNING, MAPPING, WORKING, *TABLES.values()])
def test_every_row_can_be_told(table):
    """What stands in braces is the word itself, or is written in two of them."""
    for word, hint in table.items():
        assert hint.format(word)


def test_every_limit_that_is_named_exists():
    """What is named as a limit is one."""
    hints = [hint for hint in (*MAKING.values(), *RUNNING.values()) if hint.startswith("limits=Limits(")]
    for hint in hints:
        assert Limits(**{hint.removeprefix("limits=Limits(").partition("=")[0]: 3})
    assert len(hints) > 10
