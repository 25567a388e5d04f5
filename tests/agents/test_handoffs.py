"""Tests for handoffs: descriptions of agents for other models, and the values of typed workers."""

from dataclasses import dataclass

from agentkit import Agent
from agentkit.testing import ScriptedLLM, call


@dataclass
class Invoice:
    """An answer."""

    total: int


def test_instruction_is_not_sent_to_other_models():
    """The description of an agent is sent to other models, but not its instruction."""
    expert = Agent("expert", instruction="The secret margin is 40 %.", description="Knows\n  prices.")
    plain = Agent("plain", instruction="The secret margin is 40 %.")
    llm = ScriptedLLM("Hi.")
    Agent("lead", [expert, plain.as_tool("helper", "Helps.")], llm=llm, handoffs=[expert, plain]).run("Hi!")
    described = {spec.name: spec.description for spec in llm.requests[0].tools}
    assert described == {
        "expert": "Let expert work on a request, and get the answer. expert: Knows prices.",
        "helper": "Helps.",
        "hand_off_to_expert": "Hand the conversation off to expert, which answers from then on. expert: Knows prices.",
        "hand_off_to_plain": "Hand the conversation off to plain, which answers from then on.",
    }


def test_values_of_a_typed_worker():
    """The value of a typed worker has its type; the model receives JSON."""
    reader = Agent("reader", llm=ScriptedLLM('{"total": 5}'), output_type=Invoice)
    lead = Agent("lead", [reader], llm=ScriptedLLM(call("reader", request="Read."), "It is 5."))
    result = lead.run("Go.")
    assert result.values("reader") == [Invoice(5)]
    assert result.tool_calls[0].result.content == '{"total": 5}'
