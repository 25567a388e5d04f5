"""Tests for the running of trials: limits, progress, files and recordings."""

import asyncio
import json
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

from agentkit import LLM, Agent, Limits
from agentkit.errors import SessionError, Unreachable
from agentkit.evals import Case, Suite, contains, numeric, semantic
from agentkit.testing import FakeServer, ScriptedLLM, call, record, replay, say
from agentkit.usage import Price, Usage

PROGRAM = """
import sys, time
from pathlib import Path
from agentkit import Agent
from agentkit.evals import Case, Suite, contains
from agentkit.testing import ScriptedLLM

folder = Path(sys.argv[1])

def answer(request):
    with open(folder / "asked", "a") as file:
        file.write(request.messages[0].content)
    if request.messages[0].content == "3" and not (folder / "reached").exists():
        (folder / "reached").touch()
        time.sleep(60)
    return "yes"

cases = [Case(str(number), "yes", id=str(number)) for number in range(6)]
agent = Agent("helper", llm=ScriptedLLM(answer, repeat=True))
report = Suite("x", cases, contains()).run(agent, concurrency=1, resume=folder / "trials.jsonl")
print(report.success_rate, len(report.trials))
"""


def suite_of(count, scorers=None, **more):
    """Return a suite of this number of cases that expect yes."""
    return Suite(
        "x", [Case(f"Say {number}.", "yes", id=str(number), **more) for number in range(count)], scorers or contains()
    )


def outcomes(report):
    """Return the outcomes of the trials."""
    return [trial.outcome for trial in report.trials]


def test_one_trial_does_not_end_the_others():
    """A failing trial is reported, and the others continue."""

    def line(request):
        return Unreachable("The server is down.") if "1" in request.messages[0].content else "yes"

    report = suite_of(3).run(Agent("helper", llm=ScriptedLLM(line, repeat=True)))
    assert outcomes(report) == ["passed", "error", "passed"]
    assert report.trials[1].error == "The server is down."


def test_limits_are_shared_by_all_trials(always):
    """The limits of a suite are not exceeded; unfinished trials are reported and cost nothing."""
    report = suite_of(6).run(always("yes"), limits=Limits(total_tokens=70, seconds=None), concurrency=1)
    assert "passed" in outcomes(report)
    assert outcomes(report)[-1] == "undone"
    assert sum(trial.usage.total_tokens for trial in report.trials) <= 70
    assert not report.is_complete
    assert "not run because of the limits" in str(report)


def test_concurrent_trials_wait_for_each_other(always):
    """Concurrent trials that reserve the whole remaining limit wait for each other and all finish."""
    report = suite_of(6).run(always("yes"), limits=Limits(total_tokens=20_000, seconds=None), concurrency=6)
    assert outcomes(report) == ["passed"] * 6


def test_scoring_counts_towards_the_limits():
    """Usage of a judge counts towards the limits of the suite."""
    judge = ScriptedLLM(say(json.dumps({"reason": "so", "grade": 5}), usage=Usage(500, 500, requests=1)), repeat=True)
    suite = Suite("x", [Case("1"), Case("2")], semantic("fine?", llm=judge))
    agent = Agent("helper", llm=ScriptedLLM("yes", repeat=True))
    report = suite.run(agent, limits=Limits(total_tokens=1_100, seconds=None), concurrency=1)
    assert outcomes(report) == ["passed", "undone"]
    assert "failed (LimitExceeded)" in report.trials[1].error
    assert not report.is_complete
    assert report.figures[0].judging.total_tokens == 1_000
    assert "judging took 1,000 tokens" in str(report)


def test_judges_wait_for_each_other():
    """Judges that reserve the whole remaining limit wait for each other without repeating a request."""

    def slowly(_request):
        time.sleep(0.05)
        return json.dumps({"reason": "so", "grade": 5})

    suite = Suite(
        "x", [Case(str(number)) for number in range(6)], semantic("fine?", llm=ScriptedLLM(slowly, repeat=True))
    )
    with FakeServer("yes", repeat=True) as server:
        agent = Agent("helper", llm=LLM(base_url=server.base_url, model="any", max_tokens=5))
        report = suite.run(agent, limits=Limits(total_tokens=20_000, seconds=None), concurrency=6)
        assert outcomes(report) == ["passed"] * 6
        assert len(server.requests) == 6


def test_cost_limit_requires_a_price(always):
    """With a cost limit, a model with an unknown price is only called if a price is given."""
    agent = always("yes")
    assert outcomes(suite_of(1).run(agent, limits=Limits(cost=1.0))) == ["undone"]
    assert agent.llm.requests == []
    assert outcomes(suite_of(1).run(agent, limits=Limits(cost=1.0, unknown_price=Price(1, 1)))) == ["passed"]


def test_iterations_are_limited_per_run(always):
    """Iterations are limited per run and not per suite, and an agent's limit ends its trial."""
    (trial,) = suite_of(1).run(always(call("nothing"), max_iterations=2)).trials
    assert (trial.outcome, trial.is_finished) == ("limit", True)


def test_paused_trial_is_reported(always):
    """A paused run is reported as an error of its trial."""
    from agentkit import Approval, tool

    @tool(level="system")
    def wipe() -> str:
        """Wipe."""
        return "wiped"

    (trial,) = suite_of(1).run(always(call("wipe"), tools=[wipe], approve=lambda _: Approval.LATER)).trials
    assert (trial.outcome, trial.error) == ("error", "The run is paused.")


def test_progress_is_reported(always):
    """Progress is reported after each trial with the total."""
    received = []
    suite_of(3).run(always("yes"), progress=lambda done, total, trial: received.append((done, total, trial.outcome)))
    assert received == [(1, 3, "passed"), (2, 3, "passed"), (3, 3, "passed")]


def test_suite_can_be_resumed(tmp_path, always):
    """Finished trials are not run again when a suite is resumed."""
    place = tmp_path / "trials.jsonl"
    flaky = [Unreachable("down"), "yes", "yes"]
    first = suite_of(3).run(Agent("helper", llm=ScriptedLLM(*flaky)), resume=place, concurrency=1)
    assert outcomes(first) == ["error", "passed", "passed"]
    again = Agent("helper", llm=ScriptedLLM("yes", repeat=True))
    received = []
    second = suite_of(3).run(again, resume=place, progress=lambda *so_far: received.append(so_far[:2]))
    assert (outcomes(second), len(again.llm.requests), received) == (["passed"] * 3, 1, [(3, 3)])
    assert second.trials[1].result.run_id == first.trials[1].result.run_id
    third = Agent("helper", llm=ScriptedLLM("unasked"))
    assert outcomes(suite_of(3).run(third, resume=place)) == ["passed"] * 3
    assert third.llm.requests == []


def test_answer_that_could_not_be_scored_is_scored_later(tmp_path):
    """If only the scoring failed, the answer is stored, and a continued suite only scores it."""
    place, is_up = tmp_path / "trials.jsonl", []

    def pass_when_up(case, result):
        if not is_up:
            raise OSError("The database is down.")
        return True

    suite = Suite("x", [Case("1", "yes")], [contains(), pass_when_up])
    agent = Agent("helper", llm=ScriptedLLM("yes"))
    (failed,) = suite.run(agent, resume=place).trials
    assert (failed.outcome, [score.name for score in failed.scores]) == ("error", ["contains"])
    is_up.append(True)
    (passed,) = suite.run(agent, resume=place).trials
    assert (passed.outcome, passed.seconds, len(agent.llm.requests)) == ("passed", failed.seconds, 1)


def test_other_seeds_are_other_trials(tmp_path, always):
    """A trial that was run with another seed is run again."""
    suite, agent, place = suite_of(1), always("yes"), tmp_path / "trials.jsonl"
    for seed in (1, 1, 2):
        suite.run(agent, resume=place, seed=seed)
    assert len(agent.llm.requests) == 2


def test_part_of_a_stored_suite_can_be_run(tmp_path, always):
    """The file of a whole suite can be resumed with some of its cases."""
    suite, agent, place = suite_of(3), always("yes"), tmp_path / "trials.jsonl"
    suite.run(agent, resume=place)
    assert outcomes(suite.run(agent, cases=["1"], resume=place)) == ["passed"]
    assert len(agent.llm.requests) == 3


def test_earlier_tokens_count_when_a_suite_is_resumed(tmp_path, always):
    """The limits include what was spent before the suite was resumed."""
    place, limits = tmp_path / "trials.jsonl", Limits(total_tokens=70, seconds=None)
    suite_of(6).run(always("yes"), resume=place, limits=limits, concurrency=1)
    second = suite_of(6).run(always("yes"), resume=place, limits=limits, concurrency=1)
    assert sum(trial.usage.total_tokens for trial in second.trials) <= 70
    assert "undone" in outcomes(second)


def test_earlier_cost_counts_when_a_suite_is_resumed(tmp_path, always):
    """The cost of earlier trials is charged, also at a given price for an unknown one."""
    place, limits = tmp_path / "trials.jsonl", Limits(cost=0.02, unknown_price=Price(1_000, 1_000))
    suite = suite_of(4)
    suite.run(always("yes"), cases=["0"], resume=place, limits=Limits(cost=1_000, unknown_price=Price(1_000, 1_000)))
    agent = always("yes")
    assert outcomes(suite.run(agent, resume=place, limits=limits)) == ["passed", "undone", "undone", "undone"]
    assert agent.llm.requests == []


def test_killed_suite_can_be_resumed(tmp_path):
    """After the process is killed, a resumed suite only runs the trials that were not finished."""
    command = [sys.executable, "-c", PROGRAM, tmp_path]
    process = subprocess.Popen(command)
    while not (tmp_path / "reached").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with (tmp_path / "trials.jsonl").open("ab") as file:
        file.write(b'{"case": "3", "agent": "hel')
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "1.0 6\n"
    assert (tmp_path / "asked").read_text() == "0123" + "345"


def test_suite_is_recorded_and_replayed(tmp_path, monkeypatch, calculating):
    """A recorded suite is replayed without model, key and network with the same result."""
    suite, agent = calculating
    first = suite.run(agent, record=tmp_path / "tapes", repeats=2)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AGENTKIT_BASE_URL", "AGENTKIT_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    nobody = Agent("helper", agent.tools)
    second = suite.run(nobody, replay=tmp_path / "tapes", repeats=2)
    assert outcomes(second) == outcomes(first) == ["passed"] * 2
    assert [trial.usage for trial in second.trials] == [trial.usage for trial in first.trials]
    assert all(trial.seconds > 0 for trial in second.trials)
    assert [trial.seconds for trial in second.trials] == [
        trial.seconds for trial in suite.run(nobody, replay=tmp_path / "tapes", repeats=2).trials
    ]


def test_recording_can_be_scored_again(tmp_path, calculating):
    """A recording can be scored by other scorers."""
    suite, agent = calculating
    grade = json.dumps({"reason": "so", "grade": 5})
    judged = Suite("x", suite.cases, semantic("fine?", llm=ScriptedLLM(grade, repeat=True)))
    judged.run(agent, record=tmp_path)
    assert outcomes(judged.run(Agent("helper", agent.tools), replay=tmp_path)) == ["passed"]
    assert outcomes(suite.run(Agent("helper", agent.tools), replay=tmp_path)) == ["passed"]


def test_judge_of_the_environment_is_replayed(tmp_path, monkeypatch, always):
    """A judge of the environment is not needed for a replay."""
    suite = Suite("x", [Case("1")], semantic("fine?"))
    with FakeServer(json.dumps({"reason": "so", "grade": 5}), repeat=True) as server:
        monkeypatch.setenv("AGENTKIT_BASE_URL", server.base_url)
        assert outcomes(suite.run(always("yes"), record=tmp_path)) == ["passed"]
    monkeypatch.delenv("AGENTKIT_BASE_URL")
    assert outcomes(Suite("x", [Case("1")], semantic("fine?")).run(always("yes"), replay=tmp_path)) == ["passed"]


def test_unrecorded_case_is_an_error(tmp_path, always):
    """A case that was not recorded is an error and makes no request."""
    suite_of(1).run(always("yes"), record=tmp_path)
    agent = always("yes")
    report = suite_of(2).run(agent, replay=tmp_path)
    assert outcomes(report) == ["passed", "error"]
    assert "contains this trial" in report.trials[1].error
    assert agent.llm.requests == []


def test_changed_agent_does_not_match_its_cassette(tmp_path, always):
    """A changed agent makes requests that were not recorded, and its trial shows the difference."""
    suite_of(1).run(always("yes"), record=tmp_path)
    (trial,) = suite_of(1).run(always("yes", instruction="Be rude."), replay=tmp_path).trials
    assert (trial.outcome, trial.is_finished) == ("error", False)
    assert "Be rude." in trial.error


def test_suite_inside_a_recording(tmp_path, always):
    """A whole suite can be recorded in one cassette and replayed."""
    with record(tmp_path / "x.cassette"):
        first = suite_of(3).run(always("yes"))
    agent = always("other")
    with replay(tmp_path / "x.cassette"):
        second = suite_of(3).run(agent)
    assert outcomes(first) == outcomes(second) == ["passed"] * 3
    assert agent.llm.requests == []


def test_recording_that_cannot_be_written(tmp_path, always):
    """A trial whose cassette cannot be written is an error and makes no request."""
    agent = always("yes")
    (tmp_path / "file").write_text("a file where a folder should be")
    report = suite_of(1).run(agent, record=tmp_path / "file" / "tapes")
    assert outcomes(report) == ["error"]
    assert agent.llm.requests == []


def test_full_disk_ends_the_suite(tmp_path, always):
    """A trial that cannot be written to disk ends the suite without further requests."""
    agent, (soft, hard) = always("yes"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(SessionError, match="cannot be written"):
            suite_of(6).run(agent, resume=tmp_path / "trials.jsonl", concurrency=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(agent.llm.requests) < 6


def test_trials_cannot_be_stored_in_a_device(always):
    """Storing trials in a device raises a SessionError."""
    with pytest.raises(SessionError, match="is not a file"):
        suite_of(1).run(always("yes"), resume="/dev/null")


def test_async_suites(tmp_path, calculating):
    """Async suites store, replay and score trials like blocking ones, and report missing cassettes."""
    suite, agent = calculating
    asyncio.run(suite.arun(agent, record=tmp_path / "tapes"))
    report = asyncio.run(suite.arun(Agent("helper", agent.tools), replay=tmp_path / "tapes", repeats=2))
    assert outcomes(report) == ["passed", "error"]


def test_suite_can_be_cancelled(tmp_path):
    """Cancelling an awaited suite ends its trials, keeps the finished ones and closes the file."""
    place = tmp_path / "trials.jsonl"
    suite, reached = suite_of(2), threading.Event()

    async def cancel(server):
        agent = Agent("helper", llm=LLM(model="m", base_url=server.base_url))
        task = asyncio.ensure_future(suite.arun(agent, resume=place, concurrency=1))
        assert await asyncio.to_thread(reached.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return agent

    def line(request):
        if "Say 1." in json.dumps(request.json) and not reached.is_set():
            reached.set()
            time.sleep(1)
        return "yes"

    with FakeServer(line, repeat=True) as server:
        agent = asyncio.run(cancel(server))
        assert outcomes(suite.run(agent, resume=place)) == ["passed"] * 2
        assert len(server.requests) == 3


def test_typed_agent_is_measured():
    """Agents with typed answers are scored by the text of their answers, also when they come from a file."""
    suite = Suite("x", [Case("1", 408)], numeric())
    assert suite.run(Agent("helper", llm=ScriptedLLM("408"), output_type=int)).success_rate == 1.0
