"""Agents to measure, and suites to measure them with."""

import pytest

from agentkit import Agent, core_tools
from agentkit.evals import Case, Suite, numeric, tool_calls
from agentkit.testing import ScriptedLLM, call


@pytest.fixture
def always():
    """A function that makes an agent which always says the same."""

    def make(*lines, name="helper", tools=(), **options):
        return Agent(name, tools, llm=ScriptedLLM(*lines, repeat=True), **options)

    return make


@pytest.fixture
def sums():
    """A suite of four sums, two of which are tagged."""
    cases = [Case(f"What is {n} plus {n}?", 2 * n, tags=["even"] if n % 2 == 0 else []) for n in (1, 2, 3, 4)]
    return Suite("sums", cases, [numeric()])


@pytest.fixture
def calculating():
    """A suite that expects a call, and an agent that makes it."""
    case = Case("What is 2+2?", 4, tool_calls=[("calculator", {"expression": "2+2"})], id="two")
    suite = Suite("calculating", [case], [numeric(), tool_calls()])

    def line(request):
        is_new = len(request.messages) == 1
        return call("calculator", expression="2+2") if is_new else "It is 4."

    return suite, Agent("helper", core_tools, llm=ScriptedLLM(line, repeat=True))
