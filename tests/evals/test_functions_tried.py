"""Tests for functions as variants: their results, and the usage of agents inside them."""

import asyncio
import threading
from dataclasses import dataclass
from types import FunctionType

import pytest

from agentkit import Agent, Approval, Limits, Session, core_tools, tool
from agentkit.errors import ConfigError, LimitExceeded, RunError, Unreachable
from agentkit.evals import Case, Report, Suite, contains, json_equal, numeric, semantic, tool_calls
from agentkit.events import Summarised, ToolCallStarted
from agentkit.sessions.context_window import Window
from agentkit.testing import ScriptedLLM, call, say
from agentkit.usage import Price, Usage

SUM = Case("What is 2+2?", 4, tool_calls=["calculator", "calculator"])


def calculating(request):
    """Return a model that calls the calculator once, and answers."""
    return call("calculator", expression="2+2") if len(request.messages) == 1 else "It is 4."


@pytest.fixture
def model():
    """A model that calls the calculator."""
    return ScriptedLLM(calculating, repeat=True)


@pytest.fixture
def pipeline(model):
    """A function with two agents in sequence and a direct model request."""

    def answer(question):
        found = Agent("finder", core_tools, llm=model)(question)
        answer = Agent("writer", core_tools, llm=model)(found)
        model.complete("Is that so?")
        return answer

    return answer


def trial_of(function, case=SUM, scorers=None, **options):
    """Return the only trial of a function."""
    (trial,) = Suite("x", [case], scorers or [numeric()]).run(function, **options).trials
    return trial


def yes(function, **options):
    """Return the trial of a case that expects yes."""
    return trial_of(function, Case("Say yes.", "yes"), contains(), **options)


def test_function_of_several_agents(pipeline):
    """The return value of a function is scored; tokens and tool calls inside it are counted."""
    trial = trial_of(pipeline, scorers=[numeric(), tool_calls()])
    assert (trial.outcome, trial.answer, trial.agent, trial.model) == ("passed", "It is 4.", "answer", "")
    assert (trial.usage.requests, trial.usage.total_tokens) == (5, 75)
    assert len({used.call.id for used in trial.result.tool_calls}) == 2
    assert [str(decision.verdict) for decision in trial.result.decisions] == ["allow", "allow"]


def test_function_without_a_model():
    """A function without model requests costs nothing and receives its arguments by name."""

    def add(a, b=1):
        return {"sum": a + b}

    cases = [Case(arguments={"a": 1}, expected={"sum": 2}), Case(arguments={"a": 1, "b": 4})]
    suite = Suite("sums", cases, [json_equal(), lambda _case, result: result.output["sum"] > 1])
    report = suite.run(add, repeats=2)
    assert [trial.outcome for trial in report.trials] == ["passed"] * 4
    assert [report.figures[0].usage, report.figures[0].cost.dollars] == [Usage(), 0.0]


def test_async_function_is_awaited(model):
    """An `async` function is awaited in blocking and async programs."""

    async def answer(question):
        await asyncio.sleep(0)
        return await Agent("finder", core_tools, llm=model).arun(question)

    assert trial_of(answer).outcome == "passed"

    async def main():
        return await Suite("x", [SUM], [numeric()]).arun([answer, Answering()])

    assert [trial.outcome for trial in asyncio.run(main()).trials] == ["passed", "passed"]


class Answering:
    """A callable object."""

    async def __call__(self, _question):
        """Return the sum."""
        return 4


def test_functions_run_at_the_same_time():
    """The concurrency limit applies to functions, also in async programs."""
    together = threading.Barrier(9, timeout=20)

    def wait(_question):
        together.wait()
        return "yes"

    suite = Suite("x", [Case(f"{number}", "yes") for number in range(9)], contains())
    assert suite.run(wait, concurrency=9).success_rate == 1.0
    assert asyncio.run(suite.arun(wait, concurrency=9)).success_rate == 1.0


@pytest.mark.parametrize(
    ("raised", "outcome", "error"),
    [
        (KeyError("city"), "error", "fail raised KeyError: 'city'"),
        (SystemExit(3), "error", "fail raised SystemExit: 3"),
        (RecursionError("too deep"), "error", "fail raised RecursionError: too deep"),
        (LimitExceeded("That is all."), "limit", "That is all."),
        (Unreachable("down"), "error", "down"),
    ],
)
def test_exception_is_the_outcome_of_a_trial(raised, outcome, error):
    """An exception in a function is the outcome of its trial, and the other trials continue."""

    def fail(question):
        if question == "fail":
            raise raised
        return "yes"

    report = Suite("x", [Case("fail", "yes"), Case("go", "yes")], contains()).run(fail)
    assert [trial.outcome for trial in report.trials] == [outcome, "passed"]
    assert report.trials[0].error == error


def test_function_can_return_a_run(model):
    """A function that returns a run result is scored like the run, even without an answer."""
    agent = Agent("helper", core_tools, llm=model, max_iterations=1)
    trial = trial_of(lambda question: Agent("helper", core_tools, llm=model).run(question))
    assert (trial.outcome, trial.usage.requests) == ("passed", 2)
    trial = trial_of(lambda question: agent.within(Session()).run(question))
    assert (trial.outcome, trial.is_finished) == ("limit", True)


@dataclass
class Place:
    """A value that can be converted to JSON."""

    city: str


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (None, "null"),
        (4, "4"),
        ({"a": [1, 2]}, '{"a": [1, 2]}'),
        (Place("Hà Nội"), '{"city": "Hà Nội"}'),
        (float("nan"), '"NaN"'),
        (iter("ab"), '["a", "b"]'),
        ("text\ud800", "text\ud800"),
    ],
)
def test_any_value_can_be_an_answer(value, answer, tmp_path):
    """Any value can be an answer: strings unchanged, other values as JSON."""
    report = Suite("x", [Case("?", id="one")], [lambda _case, _result: True]).run({"it": lambda _question: value})
    (trial,) = report.trials
    assert trial.result.events[-1].output == answer
    report.save(tmp_path / "report.json")
    assert Report.read(tmp_path / "report.json").trials[0].answer == answer


def test_long_answer():
    """An answer of a million characters is scored as a whole."""
    assert yes(lambda _question: "x" * 1_000_000 + " yes").outcome == "passed"


def test_limits_apply_inside_a_function(model):
    """Agents inside a function use the limits of the suite, and a function stopped by them is undone."""

    def answer(question):
        result = Agent("helper", core_tools, llm=model).run(question)
        return result.output or "nothing"

    trial = trial_of(answer, limits=Limits(total_tokens=20, seconds=None))
    assert (trial.outcome, trial.is_finished) == ("undone", False)
    assert "20 total tokens" in trial.error


def test_concurrent_functions_wait_for_each_other():
    """Concurrent functions that reserve the whole remaining limit wait for each other and all finish."""

    def answer(question):
        return Agent("helper", llm=ScriptedLLM("yes"))(question)

    suite = Suite("x", [Case(f"{number}", "yes") for number in range(6)], contains())
    report = suite.run(answer, limits=Limits(total_tokens=20_000, seconds=None), concurrency=6)
    assert [trial.outcome for trial in report.trials] == ["passed"] * 6


def _ask_an_agent(question):
    """Ask an agent."""
    return Agent("helper", llm=ScriptedLLM("yes"))(question)


def test_direct_model_requests_are_charged():
    """Direct model requests inside a function are charged to the limits."""

    def answer(question):
        return ScriptedLLM(say("yes", usage=Usage(500, 500, requests=1))).complete(question).text

    limits = Limits(cost=1.0, unknown_price=Price(1_000, 1_000), seconds=None)
    suite = Suite("x", [Case(f"{number}", "yes") for number in range(3)], contains())
    later = suite.run({"direct": answer, "agent": _ask_an_agent}, limits=limits, concurrency=1)
    assert [trial.outcome for trial in later.trials][:2] == ["passed", "undone"]


def test_time_limit_stops_a_function():
    """The time limit of a suite stops a waiting function and starts no other."""
    ended = threading.Event()

    def wait(_question):
        ended.wait(30)

    suite = Suite("x", [Case(f"{number}", "yes") for number in range(3)], contains())
    report = suite.run(wait, limits=Limits(seconds=0.2), concurrency=1)
    ended.set()
    assert [trial.outcome for trial in report.trials] == ["undone"] * 3
    assert "time" in report.trials[0].error


def test_modified_arguments_are_restored():
    """Arguments that a function modifies are restored for the next repeat."""

    def take(words):
        words["list"].append("more")
        return len(words["list"])

    suite = Suite("x", [Case(arguments={"words": {"list": ["a"]}}, expected=2)], numeric())
    assert suite.run(take, repeats=3, concurrency=1).success_rate == 1.0


def test_folder_for_each_trial(tmp_path):
    """A function with a `workspace` parameter receives a copy of the suite's folder."""
    (tmp_path / "a.txt").write_text("yes")

    def read(_question, workspace):
        from pathlib import Path

        place = Path(workspace, "a.txt")
        text = place.read_text()
        place.write_text("no")
        return text

    suite = Suite("x", [Case("?", "yes")], contains(), workspace=tmp_path)
    assert suite.run(read, repeats=2, concurrency=1).success_rate == 1.0


def test_versions_of_a_function_are_compared():
    """Two versions of a function are compared as two agents are."""
    suite = Suite("x", [Case(f"{number}", number % 2) for number in range(8)], numeric())
    old = suite.run({"answer": lambda _question: 1})
    new = suite.run({"answer": lambda question: int(question) % 2})
    assert (len(old.compare(new).fixed), len(old.compare(new).broken)) == (4, 0)


def test_function_is_recorded_and_replayed(tmp_path, pipeline, model):
    """Model requests inside a function are replayed from cassettes, and the function itself is called."""
    first = trial_of(pipeline, scorers=[numeric(), tool_calls()], record=tmp_path)
    question = len(model.requests)
    second = trial_of(pipeline, scorers=[numeric(), tool_calls()], replay=tmp_path)
    assert (second.outcome, second.usage, len(model.requests)) == ("passed", first.usage, question)


def test_suite_of_functions_can_be_resumed(tmp_path, pipeline):
    """A finished trial of a function is stored with its usage and not run again."""
    place = tmp_path / "trials.jsonl"
    first = trial_of(pipeline, scorers=[numeric(), tool_calls()], resume=place)
    second = trial_of(pipeline, scorers=[numeric(), tool_calls()], resume=place)
    assert (second.outcome, second.answer, second.usage) == ("passed", first.answer, first.usage)
    assert second.result.run_id == first.result.run_id


def test_trials_of_a_changed_function_are_rejected(tmp_path):
    """A stored file of a function with another source raises an error."""

    def one(question):
        return "yes"

    def other(question):
        return "yes, yes"

    suite = Suite("x", [Case("?", "yes")], contains())
    suite.run({"it": one}, resume=tmp_path / "trials.jsonl")
    with pytest.raises(ConfigError, match="agents that have changed"):
        suite.run({"it": other}, resume=tmp_path / "trials.jsonl")


def test_tool_is_a_function():
    """A tool is called with the arguments that a model would give."""
    from agentkit import calculator_tool

    case = Case(
        arguments={"expression": "sqrt(144) + 2**10"}, expected={"expression": "sqrt(144) + 2**10", "result": 1036}
    )
    assert trial_of({"calculator": calculator_tool}, case, json_equal()).outcome == "passed"


def test_agents_and_functions_side_by_side(model, pipeline):
    """Agents and functions are compared in one report."""
    report = Suite("x", [SUM], [numeric()]).run([Agent("helper", core_tools, llm=model), pipeline])
    assert [(trial.agent, trial.outcome) for trial in report.trials] == [("helper", "passed"), ("answer", "passed")]


def test_unsupported_function_cases_are_rejected(always):
    """Cases and options that a function does not support raise a ConfigError before anything runs."""
    with pytest.raises(ConfigError, match="has arguments="):
        Suite("x", [Case(arguments={}, expected=1)], numeric()).run(always("yes"))
    with pytest.raises(ConfigError, match="parameter `history`"):
        Suite("x", [Case(prompts=["a", "b"], expected=1)], numeric()).run({"it": lambda _question: 1})
    with pytest.raises(ConfigError, match="leave out models="):
        yes(lambda _question: "yes", models=["mini"])


def test_judges_are_not_part_of_the_function():
    """Usage of a judge is separate from usage inside the function."""
    judge = ScriptedLLM('{"reason": "so", "grade": 5}', repeat=True)
    trial = trial_of(lambda _question: "yes", Case("?"), semantic("fine?", llm=judge))
    assert (trial.usage.requests, trial.judging.requests) == (0, 1)


def test_parallel_runs_inside():
    """Concurrent runs inside a function are listed one after the other, each with its calls."""
    agent = Agent("helper", core_tools, llm=ScriptedLLM(calculating, repeat=True))

    def answer(question):
        return [result.output for result in agent.map([question] * 4)][-1]

    trial = trial_of(answer)
    assert (trial.outcome, len(trial.result.tool_calls), trial.usage.requests) == ("passed", 4, 8)
    assert isinstance(trial.result.error, RunError | None)


def test_agent_that_remembers_other_trials():
    """The report warns about an agent that shares history between trials; an agent created in each trial does not."""
    other_agent = Agent("kept", llm=ScriptedLLM("yes", repeat=True))

    def own(question):
        agent = Agent("own", llm=ScriptedLLM("yes", repeat=True))
        return agent(question) + agent(question)

    suite = Suite("x", [Case(f"{number}", "yes") for number in range(3)], contains())
    report = suite.run(
        {"kept": lambda question: other_agent(question) + other_agent(question), "own": own}, concurrency=1
    )
    assert [figures.remembering for figures in report.figures] == [{"kept": 2}, {}]
    assert "in 2 trials kept began with earlier messages" in str(report)


class Unsayable(Exception):
    """An exception without a text."""

    def __str__(self):
        raise ValueError("no text")


def test_exception_without_a_text():
    """An exception whose `__str__` fails is reported, from functions and scorers."""

    def fail(*_given):
        raise Unsayable

    assert "Unsayable" in yes(fail).error
    assert "Unsayable" in trial_of(lambda _question: "yes", Case("?", "yes"), [fail]).error


@pytest.mark.parametrize("is_cut", [False, True])
def test_streams_inside(model, is_cut):
    """A streamed run inside a function counts, also if its end is not consumed."""

    def answer(question):
        for event in Agent("helper", core_tools, llm=model).stream(question):
            if is_cut and isinstance(event, ToolCallStarted):
                break
        return "It is 4."

    trial = trial_of(answer)
    assert (trial.outcome, trial.usage.requests) == ("passed", 1 if is_cut else 2)
    assert [used.result.status for used in trial.result.tool_calls] == ["interrupted" if is_cut else "ok"]


def test_nested_agents_inside_a_function(model, tmp_path):
    """Usage of agents used as tools is part of the outer agent's usage, also in a replay."""

    def answer(question):
        inner = Agent("inner", core_tools, llm=model).as_tool()
        return Agent("outer", [inner], llm=ScriptedLLM(call("inner", request="2+2"), "It is 4."))(question)

    first, second = trial_of(answer, record=tmp_path), trial_of(answer, replay=tmp_path)
    assert (first.usage.requests, [used.call.name for used in first.result.tool_calls]) == (4, ["inner"])
    assert second.usage == first.usage


def test_pause_inside():
    """A run that pauses and resumes inside a function counts as one run."""

    @tool(level="system")
    def wipe() -> str:
        """Wipe."""
        return "wiped"

    def answer(question):
        agent = Agent("p", [wipe], llm=ScriptedLLM(call("wipe"), "It is 4."), approve=lambda _: Approval.LATER)
        return agent.run(question).resume(True)

    trial = trial_of(answer)
    assert (trial.outcome, [used.result.status for used in trial.result.tool_calls]) == ("passed", ["ok"])


def test_direct_requests_are_counted_in_every_mode():
    """Direct model requests count, streamed and awaited."""

    def pieces(question):
        return "".join(getattr(event, "text", "") for event in ScriptedLLM("yes").stream(question))

    def cut(question):
        return "yes" if next(iter(ScriptedLLM("yes").stream(question))) else ""

    async def awaited(question):
        return (await ScriptedLLM("yes").acomplete(question)).text

    assert [yes(function).usage.requests for function in (pieces, awaited)] == [1, 1]
    trial = yes(cut)
    assert (trial.outcome, trial.result.iterations, len(trial.result.messages)) == ("passed", 1, 2)


def test_function_without_source_code(tmp_path):
    """Functions without a signature or source code can be evaluated."""
    assert trial_of(len, Case("four", 4)).outcome == "passed"
    assert trial_of(max, Case(["four"], "four"), contains()).outcome == "passed"
    typed = FunctionType(compile("4", "typed", "eval"), {})
    assert trial_of({"it": typed}, Case(arguments={}, expected=4), resume=tmp_path / "trials").outcome == "passed"


def test_conversation_that_is_summarised_inside():
    """Usage of a summary inside a function is counted once."""
    llm = ScriptedLLM(say("yes", usage=Usage(10, 5, requests=1)), repeat=True)

    def answer(question):
        agent = Agent("helper", llm=llm, window=Window(tokens=2_000, summarise=True))
        text = [("user", "word " * 60), ("assistant", "yes " * 60)] * 20
        agent.history = [{"role": role, "content": content} for role, content in text]
        agent(question)
        answer.spent = agent.usage
        return "yes"

    trial = yes(answer)
    assert any(isinstance(each, Summarised) for each in trial.result.events)
    assert (trial.outcome, trial.usage, trial.usage.requests) == ("passed", answer.spent, len(llm.requests))
