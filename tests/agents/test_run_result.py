"""Tests for RunResult: status, output, tool calls, copies, and saved runs."""

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
    """Return the result of one run with a scripted model."""
    return Agent("helper", [add], llm=ScriptedLLM(*lines), **options).run("go")


def send(value):
    """Return the pickled and unpickled value."""
    here, there = Pipe()
    with here, there:
        here.send(value)
        return there.recv()


def test_result_with_an_answer():
    """A run with an answer has the status `done` and no error."""
    result = run(call("add", a=1, b=2), "Three.")
    assert (result.output, result.status, result.iterations, result.error) == ("Three.", "done", 2, None)
    assert result.raise_for_status() is result


def test_tool_calls_are_in_the_requested_order():
    """The tool calls of a result are in the requested order, with their results and decisions."""
    result = run([call("nope"), call("add", a=1, b=2), call("add", "{")], "Done.")
    assert [used.call.id for used in result.tool_calls] == ["call_1_1", "call_1_2", "call_1_3"]
    assert [used.result.status for used in result.tool_calls] == ["failed", "ok", "failed"]
    assert [decision.rule for decision in result.decisions][::2] == ["unknown-tool", "bad-arguments"]


def test_raise_for_status():
    """`raise_for_status` raises the error of a failed run each time."""
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
def test_result_of_a_limit_can_be_copied(duplicate):
    """A result whose error refers back to it can be copied and pickled."""
    result = duplicate(run(call("add", a=1, b=2), "Three so far.", max_iterations=1))
    assert isinstance(result.error, LimitExceeded)
    assert result.error.result is result
    assert result.tool_calls[0].result.value == 3


def test_values_of_a_tool():
    """`values` returns the values of a tool's successful calls in order."""
    result = run([call("add", a=1, b=2), call("add", a="x", b=2), call("add", a=3, b=4)], "Done.")
    assert result.values("add") == [3, 7]
    assert result.values("subtract") == []
    with pytest.raises(ConfigError, match=r"No tool of this run is named 'addd'\. Did you mean 'add'\?"):
        result.values("addd")


def test_output_has_its_type_or_raises():
    """Reading the output of a typed run without an answer raises its error, and `value` is None."""
    stopped = run(call("add", a=1, b=2), "Nothing.", max_iterations=1, output_type=int)
    assert (stopped.status, stopped.value) == ("limit", None)
    with pytest.raises(LimitExceeded, match="Max tool iterations"):
        _ = stopped.output
    left = RunResult(None, "interrupted", (), (), 0, Usage())
    with pytest.raises(RunError, match="has no answer: its status is interrupted"):
        _ = left.output
    assert run("null", output_type=type(None)).output is None


def test_values_that_cannot_be_copied_are_omitted():
    """Copying a result omits tool values that cannot be copied."""

    def lend() -> object:
        """Lend something."""
        return threading.Lock()

    result = Agent("helper", [lend], llm=ScriptedLLM(call("lend"), "Done.")).run("go")
    travelled = pickle.loads(pickle.dumps(result))
    assert (travelled.output, travelled.values("lend")) == ("Done.", [None])
    assert copy.deepcopy(result).messages == result.messages


def changed(text, *path, to):
    """Return a saved run with another value at a path."""
    data = json.loads(text)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return json.dumps(data)


def test_inconsistent_saved_run_is_rejected(tmp_path):
    """A saved run with inconsistent calls, or with the record of another run, is rejected."""
    options = {"workspace": tmp_path, "approve": lambda _: True}
    writing = ScriptedLLM(call("write_file", path="a", content="1"), "Ok.")
    reference = Agent("other", write_file_tool, llm=writing, **options).run("go").record.id
    helper = Agent("helper", [add], llm=ScriptedLLM(call("add", a=1, b=2), "So far 3."), max_iterations=1)
    text = helper.run("go").to_json()
    calls = [{"id": "a", "name": "add", "arguments": "{}"}] * 2
    orphan = {"role": "tool", "call_id": "x", "name": "add", "content": "3"}
    for edited, message in (
        (changed(text, "events", 0, "record", to=reference), "record of changes belongs to another run"),
        (changed(text, "run", to="0" * 32), "record of changes belongs to another run"),
        (changed(text, "run", to=""), "has no run id"),
        (changed(text, "events", 1, "response", "message", "tool_calls", to=calls), "the id 'a' of another call"),
        (changed(text, "history", to=[orphan]), "a result of the call 'x', which does not exist"),
    ):
        with pytest.raises(SessionError, match=f"This saved run was changed: .*{message}"):
            Agent("helper", [add], llm=ScriptedLLM("Done.")).resume(edited)
    assert Agent("helper", [add], llm=ScriptedLLM("Done.")).resume(text).output == "Done."
    assert (tmp_path / "a").read_text() == "1"
