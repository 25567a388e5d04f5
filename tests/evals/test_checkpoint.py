"""Tests for the file of finished trials."""

import json
import stat
import threading

import pytest

from agentkit import Agent, Limits
from agentkit.errors import ConfigError, SessionError, Unreachable
from agentkit.evals import Case, Score, Suite, contains
from agentkit.messages import AssistantMessage, Response, ToolCall
from agentkit.testing import ScriptedLLM
from agentkit.usage import Usage

SECRET = "sk-proj-" + "aB3" * 16


def suite(*texts):
    """A suite of prompts."""
    return Suite("x", [Case(text, "yes") for text in texts or ("one", "two")], contains())


@pytest.fixture
def place(tmp_path):
    """The path of a file for trials."""
    return tmp_path / "folder" / "trials.jsonl"


def test_each_trial_is_a_line(place, always):
    """Each finished trial is stored as a line of a private file with secrets redacted."""
    suite(f"Say {SECRET}.").run(always(f"yes {SECRET}"), resume=place)
    head, line = map(json.loads, place.read_text().splitlines())
    assert (head["agentkit_trials"], head["name"]) == (1, "x")
    assert (line["agent"], line["is_finished"]) == ("helper", True)
    assert SECRET not in place.read_text()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


@pytest.mark.parametrize("cut", [1, 5, 200])
def test_incomplete_last_line_is_removed(place, always, cut):
    """An incomplete last line is removed and its trial is run again."""
    agent = always("yes")
    suite().run(agent, resume=place)
    content = place.read_bytes()
    place.write_bytes(content[:-cut])
    for _ in range(2):
        assert suite().run(agent, resume=place).success_rate == 1.0
    assert len(agent.llm.requests) == 3
    assert place.read_bytes().count(b"\n") == 3


def test_file_with_an_incomplete_first_line(place, always):
    """A file whose first line is incomplete is started again."""
    place.parent.mkdir()
    place.write_bytes(b'{"agentkit_tri')
    for _ in range(2):
        assert suite().run(always("yes"), resume=place).success_rate == 1.0
    assert len(place.read_bytes().splitlines()) == 3


def test_trials_of_another_suite_are_rejected(place, always):
    """Trials of another suite, changed agent or other version, and other content raise an error."""
    suite().run(always("yes"), resume=place)
    with pytest.raises(ConfigError, match="another suite"):
        suite("three").run(always("yes"), resume=place)
    with pytest.raises(ConfigError, match="agents that have changed"):
        suite().run(always("yes", instruction="Be brief."), resume=place)
    place.write_text('{"agentkit_trials": 99}\n')
    with pytest.raises(ConfigError, match="no trials of this version"):
        suite().run(always("yes"), resume=place)
    place.write_text("hello\n")
    with pytest.raises(SessionError, match="line 1"):
        suite().run(always("yes"), resume=place)


@pytest.mark.parametrize("line", ["{}", "[]", '{"case": "nix"}'])
def test_damaged_line(place, always, line):
    """The error for a damaged line contains its number."""
    suite().run(always("yes"), resume=place)
    with place.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(SessionError, match="line 4"):
        suite().run(always("yes"), resume=place)


def test_concurrent_runs_cannot_share_a_file(place, always):
    """Two concurrent runs cannot write to the same file."""
    started, may_end = threading.Event(), threading.Event()

    def line(_):
        started.set()
        assert may_end.wait(20)
        return "yes"

    one = threading.Thread(
        target=lambda: suite().run(Agent("helper", llm=ScriptedLLM(line, repeat=True)), resume=place)
    )
    one.start()
    try:
        assert started.wait(20)
        with pytest.raises(SessionError, match="Another run writes to"):
            suite().run(always("yes"), resume=place)
    finally:
        may_end.set()
        one.join()


def test_unwritable_path_is_rejected(tmp_path, always):
    """A path that cannot be written raises an error before anything runs."""
    (tmp_path / "file").write_text("x")
    agent = always("yes")
    with pytest.raises(SessionError, match="cannot be written"):
        suite().run(agent, resume=tmp_path / "file" / "trials.jsonl")
    assert agent.llm.requests == []


@pytest.mark.parametrize("content", ["my notes", "{}", '{"cases": [1, 2]}', "one\ntwo"])
def test_foreign_file_is_left_unchanged(place, always, content):
    """A file with other content raises an error and is left unchanged."""
    place.parent.mkdir()
    place.write_text(content)
    with pytest.raises((ConfigError, SessionError)):
        suite().run(always("yes"), resume=place)
    assert place.read_text() == content


def test_usage_of_a_failed_trial_counts(place):
    """Usage of a failed trial counts when the suite is resumed."""
    question = AssistantMessage("", (ToolCall("1", "note", '{"text": "x"}'),))
    answers = (Response(question, usage=Usage(60_000, 0, requests=1)), Unreachable("down"))

    def note(text: str) -> str:
        """Take a note."""
        return text

    for _ in range(2):
        agent = Agent("helper", [note], llm=ScriptedLLM(*answers))
        report = suite("one").run(agent, resume=place, limits=Limits(total_tokens=60_000))
    assert report.trials[0].outcome == "undone"
    assert agent.llm.requests == []
    (line,) = map(json.loads, place.read_text().splitlines()[1:])
    assert line["spent"] == {"usage": {"input_tokens": 60_000, "requests": 1}, "tool_calls": 1}
    assert suite("one").run(agent, resume=place, seed=3).trials[0].outcome == "error"


@pytest.mark.parametrize("spent", [{}, {"usage": {}}, {"usage": {}, "tool_calls": -1}, 3])
def test_damaged_cost(place, always, spent):
    """A line with an invalid cost raises an error."""
    suite("one").run(always("yes"), resume=place)
    with place.open("a") as file:
        file.write(json.dumps({"case": "one", "agent": "a", "repeat": 1, "seed": None, "spent": spent}) + "\n")
    with pytest.raises(SessionError, match="line 3: This is not the cost of a trial"):
        suite("one").run(always("yes"), resume=place)


def test_rescored_run_is_counted_once(place, always):
    """A run that was scored twice is counted once, and each scoring counts."""
    failing = [True]

    def judged(_case, _result):
        if failing.pop():
            raise ValueError("no")
        return Score("judged", 1.0, usage=Usage(1_000, 0, requests=1))

    def costly(_case, _result):
        return Score("costly", 1.0, usage=Usage(10_000, 0, requests=1))

    response = Response(AssistantMessage("yes"), usage=Usage(50_000, 0, requests=1))
    agent = Agent("helper", llm=ScriptedLLM(response, repeat=True))
    both = Suite("x", [Case("one", "yes")], [costly, judged])
    assert both.run(agent, resume=place).trials[0].outcome == "error"
    failing.append(False)
    assert both.run(agent, resume=place, limits=Limits(total_tokens=100_000)).success_rate == 1.0
    assert len(agent.llm.requests) == 1
    for most, outcome in ((71_000, "undone"), (200_000, "passed")):
        failing.append(False)
        again = both.run(agent, resume=place, repeats=2, limits=Limits(total_tokens=most))
        assert [trial.outcome for trial in again.trials] == ["passed", outcome]


def test_negative_usage_is_rejected(place, always):
    """A line with negative usage raises an error."""
    suite("one").run(always("yes"), resume=place)
    head, line = place.read_text().splitlines()
    data = json.loads(line)
    data["scores"][0]["usage"] = {"input_tokens": -1000}
    place.write_text(f"{head}\n{json.dumps(data)}\n")
    with pytest.raises(SessionError, match=r"line 2: .*'input_tokens': -1000.* has a negative count"):
        suite("one").run(always("yes"), resume=place)
