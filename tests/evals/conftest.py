"""Fixtures for evaluations: agents, suites and reports."""

import pytest

from agentkit import Agent, Tool, core_tools
from agentkit.errors import Rejected, Unreachable
from agentkit.evals import Case, Suite, numeric, tool_calls
from agentkit.testing import ScriptedLLM, call


@pytest.fixture
def always():
    """Return a function that creates an agent with a constant answer."""

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
    """Return a suite that expects a call, and an agent that makes it."""
    case = Case("What is 2+2?", 4, tool_calls=[("calculator", {"expression": "2+2"})], id="two")
    suite = Suite("calculating", [case], [numeric(), tool_calls()])

    def line(request):
        is_new = len(request.messages) == 1
        return call("calculator", expression="2+2") if is_new else "It is 4."

    return suite, Agent("helper", core_tools, llm=ScriptedLLM(line, repeat=True))


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>]]>\x00\x1b[31m\u202e\ufffe"


@pytest.fixture
def hostile():
    """Return text that tries to be parsed as markup."""
    return HOSTILE


@pytest.fixture
def mixed():
    """Return a report of two agents with all outcomes and hostile text in every field."""

    def line(request):
        prompt = request.messages[0].content
        if "denied" in prompt and len(request.messages) == 1:
            return call("calculator", expression="1+1")
        endings = {"fails": f"It is 3. {HOSTILE}", "refused": Rejected(f"I will not. {HOSTILE}", code="refusal")}
        endings |= {"breaks": Unreachable(f"down {HOSTILE}"), "loops": call("calculator", expression="2")}
        return next((end for word, end in endings.items() if word in prompt), "It is 2.")

    words = ("works", "fails", "refused", "breaks", "loops", "denied")
    cases = [Case(f"{word} {HOSTILE}", 2, tags=["a", HOSTILE] if word < "g" else [], id=word) for word in words]
    cases[-1] = Case("denied", 2, tool_calls=["calculator"], id="denied")
    suite = Suite(f"mixed {HOSTILE}", cases, [numeric(), tool_calls()])

    def agent(name):
        return Agent(name, core_tools, llm=ScriptedLLM(line, repeat=True), max_iterations=3)

    return suite.run({"one": agent("one"), f"two {HOSTILE}": agent("two")}, repeats=2)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def name(text: str = "") -> str:
    """Name."""
    return text


@pytest.fixture
def answering():
    """Return a function from a model's answers to the result of a run."""

    def run(*lines, prompt="question", **options):
        return Agent("x", [Tool(add), Tool(name)], llm=ScriptedLLM(*lines), **options).run(prompt)

    return run


@pytest.fixture
def scoring(answering):
    """Return a function that scores an answer against the expectation of a case."""

    def score(scorer, answer, expected=None, prompt="question", **more):
        lines = answer if isinstance(answer, tuple) else (answer,)
        return scorer(Case(prompt, expected, **more), answering(*lines, prompt=prompt))

    return score
