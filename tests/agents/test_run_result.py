"""What does the result of a run say?"""

import copy
from multiprocessing import Pipe

import pytest

from agentkit import Agent, LimitExceeded, ModelError
from agentkit.errors import Unauthorized
from agentkit.testing import ScriptedLLM, call, say


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def run(*lines, **options):
    """The result of one run with these lines of a model."""
    return Agent("helper", [add], llm=ScriptedLLM(*lines), **options).run("go")


def send(value):
    """The value as another process gets it."""
    here, there = Pipe()
    with here, there:
        here.send(value)
        return there.recv()


def test_result_of_an_answer():
    """A run that got to its answer is done, without an error."""
    result = run(call("add", a=1, b=2), "Three.")
    assert (result.output, result.status, result.iterations, result.error) == ("Three.", "done", 2, None)
    assert result.raise_for_status() is result


def test_tool_calls_are_in_the_order_asked():
    """The calls of a result stand in the order asked, each with its result and its decision."""
    result = run([call("nope"), call("add", a=1, b=2), call("add", "{")], "Done.")
    assert [used.call.id for used in result.tool_calls] == ["call_1_1", "call_1_2", "call_1_3"]
    assert [used.result.status for used in result.tool_calls] == ["failed", "ok", "failed"]
    assert [decision.rule for decision in result.decisions][::2] == ["unknown-tool", "bad-arguments"]


def test_error_is_raised_on_demand():
    """The error of a run that failed is raised by `raise_for_status`, as often as asked."""
    result = run(Unauthorized("Wrong key."))
    for _ in range(2):
        with pytest.raises(ModelError, match="Wrong key"):
            result.raise_for_status()


def test_representation_is_short():
    """The representation of a result shows its answer and not the messages."""
    result = run(say("Hello.", call("add", a=1, b=2)), "Bye.")
    assert "Bye." in repr(result)
    assert "Hello." not in repr(result)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, send])
def test_result_of_a_limit_travels(duplicate):
    """A result whose error refers back to it can be copied and sent to another process."""
    result = duplicate(run(call("add", a=1, b=2), "Three so far.", max_iterations=1))
    assert isinstance(result.error, LimitExceeded)
    assert result.error.result is result
    assert result.tool_calls[0].result.value == 3
