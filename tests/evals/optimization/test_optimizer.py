"""Tests for complete searches for better texts, with an agent whose best instruction is known."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentkit import LLM, Agent, Limits, core_tools
from agentkit.errors import ConfigError, RateLimited, SessionError
from agentkit.evals import Case, Suite, aoptimize, optimize
from agentkit.evals.optimization.history import HELD_OUT, TRAIN
from agentkit.evals.optimization.optimizer import halves_of
from agentkit.messages import Request, UserMessage
from agentkit.testing import FakeServer, ScriptedLLM, say
from agentkit.usage import Price, Usage
from benchmarks.optimising import clerk

ROOT = Path(__file__).parents[3]
PRICE = Price(1_000, 1_000)
"""A cent and a half for each line of a script."""


def rules(found):
    """The rules of the best instruction."""
    return clerk.rules_in(found.best.texts["instruction"])


def agent(*lines, **options):
    """Return the agent under test, or one with scripted answers."""
    return Agent("clerk", instruction=clerk.START, llm=ScriptedLLM(*(lines or [clerk.clerk]), repeat=True), **options)


def sums(count=8):
    """A suite of sums that no candidate solves."""
    return Suite("sums", [Case(f"{n}+{n}", expected=str(2 * n)) for n in range(count)], [lambda *_: 0.0])


def test_best_instruction_is_found():
    """A search that reads only failures finds all rules that the cases need, and improves the held-out cases."""
    found = clerk.improved(seed=1)
    assert rules(found) == clerk.RULES
    assert (found.gain.before, found.gain.after) == (0, 1)
    assert found.gain.low > 0.5
    assert found.gain.p_value < 0.01
    assert found.ended == "every training case passes"
    assert found.agent("Order 1: gift, late.") == "Noted. [wrap] [sorry]"
    assert found.diff().count("\n+When an order is ") == 6


def test_random_proposals_find_fewer_rules():
    """With the same budget, random proposals find fewer rules and gain less."""
    reading, guessing = clerk.improved(seed=1), clerk.improved(seed=1, reads=False)
    assert guessing.gain.after < 0.7 < reading.gain.after
    assert guessing.ended == "the limit of 6,000 total tokens is used up"


def test_search_is_repeatable():
    """The same seed produces the same candidates in the same order, whatever the concurrency."""
    first, second = clerk.improved(seed=3), clerk.improved(seed=3, concurrency=1)
    assert [each.candidate for each in first.tried] == [each.candidate for each in second.tried]
    other = clerk.improved(seed=4)
    assert [each.candidate.id for each in other.tried] != [each.candidate.id for each in first.tried]


def test_held_out_cases_do_not_affect_the_search():
    """Held-out prompts never reach the proposer, and held-out answers do not affect the candidate."""
    held = {case.text for case in halves_of(clerk.suite(), 0.5)[HELD_OUT].cases}

    def good_at_first(request):
        """Answer held-out cases correctly only if the instruction has no rules."""
        prompt = request.messages[-1].content
        if prompt not in held:
            return clerk.clerk(request)
        everything = clerk.START + "".join(clerk.rule(*each) for each in clerk.RULES.items())
        wrong = bool(clerk.rules_in(request.instruction))
        return "Noted. [nonsense]" if wrong else clerk.clerk(Request([UserMessage(prompt)], everything))

    proposer = ScriptedLLM(clerk.reader, repeat=True)
    found = optimize(agent(good_at_first), clerk.suite(), proposer=proposer, seed=1)
    assert [each.candidate for each in found.tried] == [each.candidate for each in clerk.improved(seed=1).tried]
    assert rules(found) == clerk.RULES
    assert proposer.requests
    assert not [
        request for request in proposer.requests if any(prompt in request.messages[0].content for prompt in held)
    ]
    assert not found.is_better
    assert found.agent.instruction == clerk.START
    assert found.diff() == ""
    assert str(found).startswith(
        "No gain on the held-out cases, so the original stays in use: 1.00 -> 0.00 on 20 cases"
    )


def test_original_is_returned_if_nothing_is_better():
    """A search without a better candidate reports no gain and returns the original agent."""
    own = agent("I do not know.")
    found = optimize(own, sums(), proposer=lambda _, text, failures: f"{text} Try harder, {len(failures)}.", rounds=3)
    assert found.agent is own
    assert found.best is found.original
    assert (found.gain.difference, found.gain.p_value) == (0, 1)
    spent = found.usage
    assert str(found).splitlines() == [
        "No gain: no candidate was better than the original, so the original stays in use.",
        "Training cases: 0.00 -> 0.00; 1 of 4 candidates were accepted. The search ended: all 3 rounds were made",
        f"Spent: {spent.requests} requests, {spent.input_tokens} tokens in, {spent.output_tokens} out, cost unknown",
    ]


def test_tool_descriptions_can_be_improved():
    """Tool descriptions can be improved if the right one makes the model call the tool."""

    def picky(request):
        question = request.messages[-1]
        if not isinstance(question, UserMessage):
            return "done"
        described = next(tool.description for tool in request.tools if tool.name == "calculator")
        return say("", *([clerk_call(question.content)] if "sums" in described else []))

    cases = [Case(f"{n}+{n}?", tool_calls=["calculator"]) for n in range(6)]

    def called(case, result):
        return [used.call.name for used in result.tool_calls] == [call.tool for call in case.expected_calls]

    suite = Suite("calls", cases, [called])
    questions = []

    def propose(part, text, failures):
        questions.append((part, failures[0].expected_tools))
        return f"{text} For all sums."

    own = Agent("router", core_tools, llm=ScriptedLLM(picky, repeat=True))
    found = optimize(own, suite, improve="tools", proposer=propose)
    assert questions == [("tool:calculator", ("calculator",))]
    assert found.is_better
    assert found.agent.tools.find("calculator").description.endswith("For all sums.")
    assert found.agent.tools.find("parse_json") is own.tools.find("parse_json")


def clerk_call(prompt):
    """Return a calculator call for the question."""
    from agentkit.testing import call

    return call("calculator", expression=prompt.rstrip("?"))


def test_agents_own_model_proposes_by_default():
    """Without a proposer the agent's model proposes texts."""

    def both(request):
        return clerk.reader(request) if "<new_text>" in request.instruction else clerk.clerk(request)

    assert rules(optimize(agent(both), clerk.suite())) == clerk.RULES


def test_budget_is_never_overspent():
    """The agent, scoring and proposer together stay within the limits, and the search returns what it found."""
    spent = 0

    def counted(answer):
        def line(request):
            nonlocal spent
            spent += 1
            return say(answer(request), usage=Usage(10, 5, requests=1))

        return line

    proposer = ScriptedLLM(counted(clerk.reader), repeat=True)
    limits = Limits(cost=3.0, unknown_price=PRICE, tool_calls=None, seconds=None)
    found = optimize(agent(counted(clerk.clerk)), clerk.suite(), proposer=proposer, limits=limits, concurrency=2)
    assert found.cost.dollars == pytest.approx(0.015 * spent)
    assert 1 < found.cost.dollars <= 3
    assert found.ended == "the limit of $3 is used up"
    assert 0 < len(rules(found)) < 6
    assert found.gain is not None  # because enough was reserved for it
    assert found.is_better


def test_budget_that_is_too_small_measures_nothing():
    """A budget too small to measure the original on the held-out cases keeps the original and states the reason."""
    found = optimize(agent(), clerk.suite(), proposer=clerk.Random(0), limits=Limits(total_tokens=200))
    assert found.gain is None
    assert (found.trained_before, found.is_better, found.best) == (None, False, found.original)
    assert str(found).startswith("No training case was measured, so the original stays in use.\n")
    assert "Training cases: not measured" in str(found)
    assert found.ended == "the limit of 200 total tokens is used up"


def test_unknown_price_is_rejected():
    """A cost limit requires known prices of all models unless `unknown_price` is set."""
    with pytest.raises(ConfigError, match="The price of scripted:scripted is unknown"):
        optimize(agent(), clerk.suite(), limits=Limits(cost=1))
    with pytest.raises(ConfigError, match="The price of scripted:scripted is unknown"):
        optimize(agent(limits=Limits(cost=1)), clerk.suite())
    limits = Limits(cost=1_000, unknown_price=PRICE, tool_calls=None, seconds=None)
    found = optimize(agent(), clerk.suite(), proposer=ScriptedLLM(clerk.reader, repeat=True), limits=limits)
    assert rules(found) == clerk.RULES
    assert found.cost.dollars == pytest.approx(0.015 * found.usage.requests)


def test_provider_error_ends_the_search():
    """A provider error ends the search, which returns its best candidate without a held-out measurement."""
    left = iter(range(90))

    def tired(request):
        return clerk.clerk(request) if next(left, None) is not None else RateLimited("Come back tomorrow.")

    found = optimize(agent(tired), clerk.suite(), proposer=ScriptedLLM(clerk.reader, repeat=True))
    assert "Come back tomorrow." in found.ended
    assert found.gain is None
    assert found.is_better
    assert rules(found)
    assert str(found).startswith("Better on the training cases, but not measured on the held-out cases")


def test_stored_search_makes_no_requests(tmp_path):
    """A finished search with a file is repeated from stored answers without requests."""
    path, received = tmp_path / "search.jsonl", []
    first = clerk.improved(seed=1, path=path, progress=received.append)
    lines = path.read_text("utf-8")
    again = optimize(
        agent("I was asked!"),
        clerk.suite(),
        proposer=lambda *_: pytest.fail("the proposer was called"),
        seed=1,
        path=path,
    )
    assert again.tried == first.tried == tuple(received)
    assert (again.gain, again.usage) == (first.gain, first.usage)
    assert path.read_text("utf-8") == lines
    with pytest.raises(SessionError, match="belongs to another search"):
        optimize(agent(), clerk.suite(), proposer=clerk.Random(0), seed=2, path=path)
    with pytest.raises(SessionError, match="belongs to another search"):
        optimize(agent(tools=core_tools), clerk.suite(), proposer=clerk.Random(0), seed=1, path=path)


def test_earlier_usage_counts_towards_the_limits(tmp_path):
    """The limits cover the whole search, including the part before it was interrupted."""
    path = tmp_path / "search.jsonl"
    options = {"proposer": ScriptedLLM(clerk.reader, repeat=True), "path": path}
    small = Limits(total_tokens=3_000, tool_calls=None, seconds=None)
    first = optimize(agent(), clerk.suite(), limits=small, **options)
    assert 0 < len(rules(first)) < 6
    again = optimize(agent("I was asked!"), clerk.suite(), limits=small, **options)
    assert (again.usage, again.tried, again.gain) == (first.usage, first.tried, first.gain)
    more = Limits(total_tokens=6_000, tool_calls=None, seconds=None)
    complete = optimize(agent(), clerk.suite(), limits=more, **options)
    assert rules(complete) == clerk.RULES
    assert complete.usage.total_tokens <= 6_000


PROGRAM = """
import sys
from agentkit import LLM, Agent
from agentkit.evals import optimize
from benchmarks.optimising import clerk

llm = LLM(base_url=sys.argv[1], model="any")
agent = Agent("clerk", instruction=clerk.START, llm=llm)
found = optimize(agent, clerk.suite(), path=sys.argv[2], concurrency=1, seed=1)
print(found.best.texts["instruction"])
"""


@pytest.mark.slow
def test_killed_search_can_be_resumed(tmp_path):
    """A killed search continues where it stopped; only requests in flight are repeated."""
    killed_at, reached, gone_on = 100, threading.Event(), threading.Event()
    questions = []

    def line(request):
        instruction, prompt = (each["content"] for each in request.json["messages"])
        questions.append((instruction, prompt))
        if len(questions) == killed_at:
            reached.set()
            gone_on.wait(60)
        answer = clerk.reader if "<new_text>" in instruction else clerk.clerk
        return answer(Request([UserMessage(prompt)], instruction))

    path = tmp_path / "search.jsonl"
    with FakeServer(line, repeat=True) as server:
        words = [sys.executable, "-c", PROGRAM, server.base_url, str(path)]
        process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert reached.wait(60)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        gone_on.set()
        ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr
    assert clerk.rules_in(ended.stdout) == clerk.RULES
    assert questions[killed_at] == questions[killed_at - 1]
    del questions[killed_at]
    assert len(set(questions)) == len(questions)


def test_halves_are_decided_by_ids_and_tags():
    """The held-out cases are chosen by their ids, independent of order and balanced by tag."""
    cases = [Case(f"{tag} {number}", tags=[tag]) for tag in ("easy", "hard") for number in range(10)]
    first = halves_of(Suite("s", cases, [lambda *_: True]), 0.3)
    again = halves_of(Suite("s", cases[::-1], [lambda *_: True]), 0.3)
    assert {*first[HELD_OUT].ids} == {*again[HELD_OUT].ids}
    assert {*first[TRAIN].ids} | {*first[HELD_OUT].ids} == {case.id for case in cases}
    assert [sum(tag in case.tags for case in first[HELD_OUT].cases) for tag in ("easy", "hard")] == [3, 3]


def test_cases_with_the_same_prompt_stay_together():
    """Cases with the same prompt are always in the same half."""
    cases = [Case(f"prompt {number // 2}", expected=number) for number in range(20)]
    halves = halves_of(Suite("s", cases, [lambda *_: True]), 0.5)
    train, held = ({case.text for case in half.cases} for half in halves.values())
    assert (len(train), len(held), train & held) == (5, 5, set())


def test_another_suite_can_be_held_out():
    """A separate suite can be held out unless it shares a prompt with the training cases."""
    train, held = sums(), Suite("others", [Case("9+9", expected="18")], [lambda *_: 0.5])
    found = optimize(agent("?"), train, held_out=held, proposer=lambda *_: "", rounds=1)
    assert (found.gain.before, found.gain.cases) == (0.5, 1)
    with pytest.raises(ConfigError, match="its prompt is also among the training cases"):
        optimize(agent("?"), train, held_out=Suite("same", [Case("1+1", id="other")], [lambda *_: True]))


@pytest.mark.for_each(
    ("options", "complaint"),
    [
        ({"held_out": 0}, "held_out= takes a share"),
        ({"held_out": "half"}, "held_out= takes a share"),
        ({"held_out": 0.01}, "too few cases"),
        ({"rounds": 0}, "rounds= takes a whole number"),
        ({"batch": 2.5}, "batch= takes a whole number"),
        ({"proposer": 3}, "proposer= takes an LLM"),
        ({"improve": "tool:add"}, "names no text 'add'"),
        ({"improve": "instructions"}, "Did you mean 'instruction'"),
    ],
)
def test_arguments_are_checked_before_anything_runs(options, complaint):
    """An invalid argument raises an error before any model is called."""
    own = agent("I was asked!")
    with pytest.raises(ConfigError, match=complaint):
        optimize(own, sums(), **options)
    assert own.llm.requests == []


def test_function_cannot_be_optimized():
    """Optimizing a function raises a ConfigError."""
    with pytest.raises(ConfigError, match="takes an Agent, whose texts it changes"):
        optimize(lambda prompt: prompt, sums(), proposer=lambda *_: "")


def test_unknown_option_is_rejected():
    """A misspelled option raises an error."""
    with pytest.raises(TypeError, match="round"):
        optimize(agent(), sums(), round=3)


def test_failures_of_held_out_cases_are_not_stored(tmp_path):
    """The file of a search stores scores of held-out cases but no failures."""
    path = tmp_path / "search.jsonl"
    clerk.improved(seed=1, path=path)
    messages = [json.loads(line).get("measured") for line in path.read_text("utf-8").splitlines()]
    held = [each for each in messages if each and each["half"] == HELD_OUT]
    assert len(held) == 40
    assert {each["failure"] for each in held} == {None}
    assert any(each["failure"] for each in messages if each and each["half"] == TRAIN)


def test_search_over_a_real_connection():
    """Over a real connection, the search also improves the agent, with tokens counted by the server."""

    def line(request):
        instruction, prompt = (each["content"] for each in request.json["messages"])
        return clerk.clerk(Request([UserMessage(prompt)], instruction))

    with FakeServer(line, repeat=True) as server:
        own = Agent("clerk", instruction=clerk.START, llm=LLM(base_url=server.base_url, model="any"))
        found = optimize(own, clerk.suite(), proposer=ScriptedLLM(clerk.reader, repeat=True))
    assert rules(found) == clerk.RULES
    assert found.usage.requests == len(server.requests) + len(found.tried) - 1


def test_async_search():
    """An async search gives the same result and does not block the event loop."""
    found = asyncio.run(aoptimize(agent(), clerk.suite(), proposer=clerk_writer, rounds=6, seed=1))
    assert found.best.texts == optimize(agent(), clerk.suite(), proposer=clerk_writer, rounds=6, seed=1).best.texts


def clerk_writer(_part, text, failures):
    """Append the expected answer of a failed case."""
    return f"{text}\nOf some orders note: {failures[0].expected}."


def test_cancelled_async_search(tmp_path):
    """A cancelled search makes no more requests and can be resumed from its file."""
    is_asked, may_answer = threading.Event(), threading.Event()

    def slowly(request):
        is_asked.set()
        may_answer.wait(30)
        return clerk.clerk(request)

    slow = agent(slowly)

    def search(of):
        return aoptimize(of, clerk.suite(), proposer=clerk_writer, rounds=2, concurrency=2, path=tmp_path / "search")

    async def cut_off():
        task = asyncio.create_task(search(slow))
        await asyncio.to_thread(is_asked.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        may_answer.set()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cut_off())
    assert len(slow.llm.requests) <= 2
    assert asyncio.run(search(agent())).gain is not None
