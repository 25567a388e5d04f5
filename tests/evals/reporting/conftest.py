"""Reports to show."""

import pytest

from agentkit import Agent, core_tools
from agentkit.errors import Rejected, Unreachable
from agentkit.evals import Case, Suite, numeric, tool_calls
from agentkit.testing import ScriptedLLM, call

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>]]>\x00\x1b[31m\u202e\ufffe"


@pytest.fixture
def hostile():
    """Text that tries to be anything but text."""
    return HOSTILE


@pytest.fixture
def mixed():
    """A report of two agents of which trials end in every way, with hostile texts everywhere."""

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
