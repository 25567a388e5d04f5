"""Tests that random teams with limits, failures and approvals do not diverge from their recordings."""

import asyncio
import threading
from random import Random

import pytest

from agentkit import Agent, Approval, Limits, SafetyLevel, Tool
from agentkit.errors import BadResponse, RateLimited, Unreachable
from agentkit.testing import ScriptedLLM, call, record, replay, say
from agentkit.usage import Price, Usage

SCENARIOS = 60
MODES = ["run", "stream", "arun", "astream"]
ANSWERS = [True, False, "Not now.", Approval.RUN, Approval.ALWAYS, Approval.LATER, {"euros": 7}]
ERRORS = [
    RateLimited("Slow down.", status=429),
    Unreachable("The connection broke."),
    BadResponse("Cut short."),
    Unreachable("The server is failing.", status=500),
]


class World:
    """The random choices of a recorded scenario; requesting one in a replay is an error."""

    def __init__(self, seed):
        self._chance, self._lock = Random(seed), threading.Lock()
        self.is_over = False

    def draw(self, choices, weights=None):
        """Return one of the choices."""
        assert not self.is_over, "The replay requested a random choice."
        with self._lock:
            return self._chance.choices(choices, weights)[0]

    def llm(self, tools):
        """Return a model that calls tools at random, answers, and sometimes fails."""

        def think(_request):
            usage = self.draw([Usage(120, 30, requests=1), Usage(9, 900, requests=1), None], [5, 2, 1])
            kind = self.draw(["answer", "call", "calls", "error"], [4, 6, 3, 1])
            if kind == "answer":
                return say(self.draw(["Done.", "It is empty.", ""], [4, 4, 1]), usage=usage)
            if kind == "error":
                return self.draw(ERRORS)
            requested_calls = [self.draw(tools) for _ in range(1 if kind == "call" else 3)]
            return say("", *(call(name, arguments) for name, arguments in requested_calls), usage=usage)

        return ScriptedLLM(think, repeat=True)


def limits_of(chance):
    """Return limits that some runs reach."""
    return Limits(
        tool_calls=chance.choice([None, 2, 4, 8]),
        total_tokens=chance.choice([None, None, 1_500, 6_000, 20_000]),
        output_tokens=chance.choice([None, None, 2_000]),
        cost=chance.choice([None, None, 0.002, 0.02]),
        seconds=chance.choice([None, 300, 3_000]),
        repeated_calls=chance.choice([None, 2, 5]),
        unknown_price=chance.choice([Price(1.0, 2.0), Price(0.3, 7.7)]),
    )


def team(seed, world):
    """Return a supervisor with nested workers, a handoff target, tools and an approver."""
    chance = Random(seed)

    def look(place: str) -> str:
        """Look at a place."""
        return world.draw([f"{place} is empty", f"{place} is full", "x" * 400])

    async def wait(place: str) -> str:
        """Wait at a place."""
        await asyncio.sleep(0)
        if world.draw([False, True], [4, 1]):
            raise ValueError("Nobody came.")
        return f"waited at {place}"

    def pay(euros: int) -> str:
        """Pay."""
        return f"paid {euros}"

    async def aapprove(_request):
        return world.draw(ANSWERS)

    approve = chance.choice([None, lambda _: world.draw(ANSWERS), aapprove])
    tools = [look, wait, Tool(pay, level=SafetyLevel.SYSTEM)]
    places = [("look", {"place": "shed"}), ("look", {"place": "barn"}), ("wait", {"place": "gate"})]
    requested_calls = [*places, ("pay", {"euros": 5}), ("nope", {}), ("look", "{not json")]
    staff = []
    for depth in range(chance.choice([1, 2, 3])):
        own = [*tools, *(worker.as_tool() for worker in staff[-1:])]
        more = [(worker.as_tool().name, {"request": f"Look, {depth}."}) for worker in staff[-1:]] * 3
        llm = world.llm([*requested_calls, *more])
        staff.append(Agent(f"worker {depth}", own, llm=llm, limits=limits_of(chance), max_iterations=4))
    inner = staff[-1].as_tool()

    def survey(count: int) -> str:
        """Run a worker on several requests."""
        results = staff[0].map(["Look."] * count, concurrency=2)
        return ", ".join(f"{result.status}: {result.text}" for result in results)

    expert = Agent("expert", [*tools, inner], llm=world.llm([*requested_calls, (inner.name, {"request": "Look."})]))
    more = [(inner.name, {"request": "Go."})] * 3 + [("hand_off_to_expert", {}), ("survey", {"count": 2})]
    return Agent(
        "supervisor",
        [*tools, inner, survey],
        llm=world.llm([*requested_calls, *more]),
        handoffs=[expert],
        approve=approve,
        limits=limits_of(chance),
        max_iterations=8,
    )


async def astreamed(agent):
    """Return the result of an asynchronous stream."""
    return [event async for event in agent.astream("go")][-1].result


def result_of(agent, mode):
    """Return the result of a run in the given way."""
    if mode == "run":
        return agent.run("go")
    if mode == "stream":
        return list(agent.stream("go"))[-1].result
    return asyncio.run(agent.arun("go") if mode == "arun" else astreamed(agent))


def compared(result):
    """Return the values of a result that are compared."""
    ended = result.status, result.limit, result.text, result.iterations, str(result.error or "")
    used = [(each.call, each.result.status, each.result.content, each.result.usage) for each in result.tool_calls]
    return *ended, result.messages, result.usage, result.decisions, used


@pytest.mark.parametrize("seed", range(SCENARIOS))
def test_random_run_is_replayed(tmp_path, seed):
    """A replay of a random run gives the same result in every way to run."""
    chance, world = Random(-seed), World(seed)
    with record(tmp_path / "c"):
        recorded = result_of(team(seed, world), chance.choice(MODES))
    world.is_over = True
    with replay(tmp_path / "c"):
        replayed = result_of(team(seed, world), chance.choice(MODES))
    assert compared(replayed) == compared(recorded)
