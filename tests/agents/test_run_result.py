"""What does the result of a run say?"""

import copy
import json
import pickle
import threading
from multiprocessing import Pipe

import pytest

from agentkit import Agent, LimitExceeded, ModelError, RunError, RunResult, Usage, write_file_tool
from agentkit.errors import ConfigError, SessionError, Unauthorized
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


def test_values_that_a_tool_returned():
    """The values of a tool's calls are there by its name, in order, without those that failed."""
    result = run([call("add", a=1, b=2), call("add", a="x", b=2), call("add", a=3, b=4)], "Done.")
    assert result.values("add") == [3, 7]
    assert result.values("subtract") == []
    with pytest.raises(ConfigError, match=r"No tool of this run is named 'addd'\. Did you mean 'add'\?"):
        result.values("addd")


def test_output_is_of_its_type_or_raises():
    """A typed run without an answer raises what it ended with when its output is read; `value` is None."""
    stopped = run(call("add", a=1, b=2), "Nothing.", max_iterations=1, output_type=int)
    assert (stopped.status, stopped.value) == ("limit", None)
    with pytest.raises(LimitExceeded, match="Max tool iterations"):
        _ = stopped.output
    left = RunResult(None, "interrupted", (), (), 0, Usage())
    with pytest.raises(RunError, match="has no answer: its status is interrupted"):
        _ = left.output
    assert run("null", output_type=type(None)).output is None


def test_result_with_values_that_cannot_be_copied():
    """A result travels without the values of tool calls that cannot."""

    def lend() -> object:
        """Lend something."""
        return threading.Lock()

    result = Agent("helper", [lend], llm=ScriptedLLM(call("lend"), "Done.")).run("go")
    travelled = pickle.loads(pickle.dumps(result))
    assert (travelled.output, travelled.values("lend")) == ("Done.", [None])
    assert copy.deepcopy(result).messages == result.messages


def changed(text, *path, to):
    """A saved run in which the value at a path is another."""
    data = json.loads(text)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return json.dumps(data)


def test_saved_run_that_was_changed_is_refused(tmp_path):
    """A saved run whose calls and results do not match, or that names the record of another run, is refused."""
    options = {"workspace": tmp_path, "approve": lambda _: True}
    writing = ScriptedLLM(call("write_file", path="a", content="1"), "Ok.")
    theirs = Agent("other", write_file_tool, llm=writing, **options).run("go").record.id
    helper = Agent("helper", [add], llm=ScriptedLLM(call("add", a=1, b=2), "So far 3."), max_iterations=1)
    text = helper.run("go").to_json()
    calls = [{"id": "a", "name": "add", "arguments": "{}"}] * 2
    orphan = {"role": "tool", "call_id": "x", "name": "add", "content": "3"}
    for edited, told in (
        (changed(text, "milestones", 0, "record", to=theirs), "record of changes belongs to another run"),
        (changed(text, "run", to="0" * 32), "record of changes belongs to another run"),
        (changed(text, "run", to=""), "names no run"),
        (changed(text, "milestones", 1, "response", "message", "tool_calls", to=calls), "the id 'a' of another call"),
        (changed(text, "history", to=[orphan]), "a result of the call 'x', which does not exist"),
    ):
        with pytest.raises(SessionError, match=f"This saved run was changed: .*{told}"):
            Agent("helper", [add], llm=ScriptedLLM("Done.")).resume(edited)
    assert Agent("helper", [add], llm=ScriptedLLM("Done.")).resume(text).output == "Done."
    assert (tmp_path / "a").read_text() == "1"
