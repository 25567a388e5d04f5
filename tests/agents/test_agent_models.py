"""Tests for the model of a run: passed to it, set on the agent, or inherited."""

import pytest

from agentkit import LLM, Agent, NoProvider
from agentkit.events import HandedOff
from agentkit.testing import FakeServer, ScriptedLLM, call


def test_workers_and_handoffs_inherit_the_model():
    """Workers and handoff targets without a model use the model of the run; others use their own."""
    own = ScriptedLLM("Own.")
    worker, keeper, expert = Agent("worker"), Agent("keeper", llm=own), Agent("expert")
    lines = [call("worker", request="Work."), "Worked.", call("keeper", request="Keep."), call("hand_off_to_expert")]
    llm = ScriptedLLM(*lines, "From the expert.")
    lead = Agent("lead", [worker, keeper], llm=llm, handoffs=[expert])
    result = lead.run("Go.")
    assert (result.output, result.agent) == ("From the expert.", "expert")
    assert result.values("worker") == ["Worked."]
    assert result.values("keeper") == ["Own."]
    assert [message.agent for message in result.messages if message.role == "assistant"][-1] == "expert"


def test_models_of_one_run():
    """`llm=` and `model=` apply to one run, and to the agents that inherit it."""
    first, second = ScriptedLLM("First."), ScriptedLLM(call("worker", request="Work."), "Worked.", "Second.")
    lead = Agent("lead", [Agent("worker")], llm=first)
    assert lead.run("Go.", llm=second).output == "Second."
    assert lead.run("Go.").output == "First."


def test_model_of_one_run_by_name(monkeypatch):
    """`model=` names the model of one run."""
    with FakeServer("Hello.", "Hello.") as server:
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        agent = Agent("helper", model="openai:gpt-a")
        agent.run("Hi!", model="openai:gpt-b")
        agent.run("Hi!")
        assert [request.model for request in server.requests] == ["gpt-b", "gpt-a"]


@pytest.mark.parametrize("role", ["handoffs", "tools"])
def test_missing_key_is_reported_before_the_run(role):
    """A run of a team with an agent whose model has no key is rejected before the first request."""
    llm = ScriptedLLM("Never.")
    with pytest.raises(NoProvider):
        Agent("lead", llm=llm, **{role: [Agent("expert", model="groq:llama")]}).run("Go.")
    assert llm.requests == []


def test_teams_that_contain_each_other():
    """Agents that hand over to each other are checked once each."""
    one, two = Agent("one", llm=ScriptedLLM(call("hand_off_to_two"), call("hand_off_to_one"), "Back.")), Agent("two")
    one.handoffs, two.handoffs = [two], [one]
    result = one.run("Go.")
    assert result.output == "Back."
    assert [each.agent for each in result.events if isinstance(each, HandedOff)] == ["two", "one"]


def hand_over() -> Agent:
    """Hand over to an agent whose model has no key."""
    return Agent("late", model="groq:llama")


def test_missing_key_of_a_returned_agent_fails_the_run():
    """An agent without a key that a tool returns fails the run; the result contains the finished work."""
    result = Agent("lead", [hand_over], llm=ScriptedLLM(call("hand_over"))).run("Go.")
    assert result.status == "failed"
    assert isinstance(result.error, NoProvider)
    assert [used.call.name for used in result.tool_calls] == ["hand_over"]
    with pytest.raises(NoProvider):
        _ = result.output


def test_instruction_functions_that_fail():
    """An instruction function that raises an error fails the run, also when the run is resumed."""

    def instruction():
        raise OSError("no file")

    agent = Agent("helper", instruction=instruction, llm=ScriptedLLM("Hi."))
    result = agent.run("Hi!")
    assert (result.status, str(result.error)) == ("failed", "The run was ended by an exception (OSError: no file).")
    assert isinstance(result.error.__cause__, OSError)
    result = result.resume()
    assert result.status == "failed"
    agent.instruction = "Be brief."
    assert result.resume().output == "Hi."


def test_output_of_a_failed_run():
    """Reading the output of a failed run raises its error, for text and typed outputs."""
    with FakeServer() as server:
        base_url = server.base_url
    llm = LLM(base_url=base_url, model="m", max_retries=0)
    for output_type in (None, int):
        result = Agent("helper", llm=llm, output_type=output_type).run("Hi!")
        assert (result.status, result.text) == ("failed", "")
        with pytest.raises(type(result.error)):
            _ = result.output
