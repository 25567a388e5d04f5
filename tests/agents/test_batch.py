"""Tests for `map` and `amap`: order, concurrency, shared limits, stored sessions and interruptions."""

import asyncio
import contextvars
import inspect
import signal
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from agentkit import LLM, Agent, ConfigError, Limits, NoProvider, Session, Tool, Toolset
from agentkit.agents.batch import BatchRun
from agentkit.agents.result import RunFinished
from agentkit.decisions import Label
from agentkit.errors import RunError, SessionError, Unreachable
from agentkit.events import ResponseReceived
from agentkit.safety.approval import Approval
from agentkit.testing import FakeServer, ScriptedLLM, call, record, replay, say

MODES = ["map", "amap", "threads", "athreads"]
NUMBERS = [str(number) for number in range(6)]


def mapped(agent, mode, prompts, *args, **options):
    """Return the results of a map in one of the ways to run it."""

    async def amap(**more):
        return await agent.amap(prompts, *args, **options, **more)

    if mode == "map":
        return agent.map(prompts, *args, **options)
    if mode == "amap":
        return asyncio.run(amap())
    with ThreadPoolExecutor(4) as pool:
        if mode == "athreads":
            return asyncio.run(amap(executor=pool))
        return agent.map(prompts, *args, executor=pool, **options)


def echo(request):
    """Repeat the last message."""
    return f"It is {request.messages[-1].content}."


def using(function, level="SAFE", **options):
    """Return an agent that calls its tool once per run and answers with the result."""

    def line(request):
        if len(request.messages) > 1:
            return request.messages[-1].content
        return call(function.__name__, **arguments)

    arguments = dict.fromkeys(inspect.signature(function).parameters, "a")
    return Agent("user", [Tool(function, level=level)], llm=ScriptedLLM(line, repeat=True), **options)


def echoing(*tools, **options):
    """Return an agent that repeats each prompt."""
    return Agent("echo", tools, llm=ScriptedLLM(echo, repeat=True), **options)


@pytest.mark.parametrize("mode", MODES)
def test_results_are_in_the_order_of_the_prompts(mode):
    """Results are in the order of the prompts, whichever run finishes first."""
    release = threading.Event()

    def slow_at_first(request):
        if request.messages[-1].content == "0":
            assert release.wait(30)
        elif request.messages[-1].content == "1":
            release.set()
        return echo(request)

    mode = "map" if mode == "amap" else mode  # a blocking line of the script would block the event loop
    agent = Agent("slow", llm=ScriptedLLM(slow_at_first, repeat=True))
    results = mapped(agent, mode, NUMBERS, 2)
    assert [result.output for result in results] == [f"It is {number}." for number in NUMBERS]


@pytest.mark.parametrize("mode", MODES)
def test_runs_of_a_map_are_independent(mode):
    """Each run of a map has an empty conversation, and the agent's usage includes all of them."""
    agent = echoing()
    agent("before")
    results = mapped(agent, mode, NUMBERS)
    assert [len(result.messages) for result in results] == [2] * 6
    assert {len(request.messages) for request in agent.llm.requests} == {1}
    assert (len(agent.messages), agent.usage.requests) == (2, 7)


@pytest.mark.parametrize("mode", MODES)
def test_failure_is_a_result(mode):
    """A failed run is a result with the status `failed`, and the other runs continue."""

    def sometimes(request):
        return Unreachable("Gone.") if request.messages[-1].content == "2" else echo(request)

    results = mapped(Agent("shaky", llm=ScriptedLLM(sometimes, repeat=True)), mode, NUMBERS, 3)
    assert [result.status for result in results] == ["done", "done", "failed", "done", "done", "done"]
    assert isinstance(results[2].error, Unreachable)


@pytest.mark.parametrize("mode", MODES)
def test_exception_is_stored_in_the_result(mode):
    """An error raised by a listener and an invalid prompt are stored in the result."""
    agent = echoing()

    def refuse(event):
        if event.response.text == "It is 1.":
            raise ValueError("not one")

    agent.on(ResponseReceived, refuse)
    results = mapped(agent, mode, ["0", "1", 2, "3"])
    assert [result.status for result in results] == ["done", "failed", "failed", "done"]
    assert "ValueError: not one" in str(results[1].error)
    assert isinstance(results[1].error.__cause__, ValueError)
    assert results[1].error.result.status == "failed"
    assert isinstance(results[2].error, ConfigError)


def test_exit_ends_the_map():
    """SystemExit ends the map without leaving threads."""
    before = threading.active_count()
    agent = Agent("leaving", llm=ScriptedLLM(SystemExit(3), repeat=True))
    with pytest.raises(SystemExit):
        agent.map(NUMBERS, 2)
    assert threading.active_count() <= before
    assert len(agent.llm.requests) <= 3


@pytest.mark.parametrize("mode", ["map", "threads"])
def test_concurrency_of_map(mode):
    """Exactly the requested number of runs is active concurrently."""
    together, lock, at_work, most = threading.Barrier(3), threading.Lock(), [], []

    def meet(request):
        with lock:
            at_work.append(1)
            most.append(len(at_work))
        together.wait(30)
        with lock:
            at_work.pop()
        return echo(request)

    mapped(Agent("meeting", llm=ScriptedLLM(meet, repeat=True)), mode, NUMBERS, 3)
    assert max(most) == 3


def test_concurrency_of_amap():
    """Exactly the requested number of tasks is active concurrently."""
    at_work, most = [], []
    together = [asyncio.Event(), asyncio.Event()]

    async def meet() -> str:
        at_work.append(1)
        most.append(len(at_work))
        meeting = together[(len(most) - 1) // 3]
        if len(most) % 3 == 0:
            meeting.set()
        await meeting.wait()
        at_work.pop()
        return "met"

    results = mapped(using(meet), "amap", NUMBERS, 3)
    assert ({result.output for result in results}, max(most), len(most)) == ({"met"}, 3, 6)


@pytest.mark.parametrize("mode", MODES)
def test_prompts_are_read_lazily(mode):
    """A lazy iterable of prompts is read only as far as needed."""
    agent, ahead = echoing(), []

    def prompts():
        for number in range(20):
            ahead.append(number - agent.usage.requests)
            yield str(number)

    assert len(mapped(agent, mode, prompts(), 2)) == 20
    assert max(ahead) <= 2


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each(("prompts", "total"), [(NUMBERS, 6), (iter(NUMBERS[:3]), None), ([], 0)])
def test_progress_is_reported(mode, prompts, total):
    """`progress` receives the number of finished runs, the total if known, and the result."""
    received = []
    prompts = list(prompts) if total is not None else iter(["0", "1", "2"])
    results = mapped(echoing(), mode, prompts, progress=lambda *given: received.append(given))
    assert [(done, count) for done, count, _ in received] == [(number + 1, total) for number in range(len(results))]
    assert sorted(result.output for _, _, result in received) == [result.output for result in results]


@pytest.mark.parametrize("mode", MODES)
def test_limits_are_shared(mode):
    """`limits` apply to all runs together; once reached, the remaining runs cost nothing."""
    agent = echoing()
    results = mapped(agent, mode, NUMBERS, 3, limits=Limits(total_tokens=60))
    statuses = [result.status for result in results]
    assert sorted(statuses) == ["done"] * 3 + ["limit"] * 3
    rest = [result for result in results if result.status == "limit"]
    assert {(result.limit, result.usage.requests, result.output) for result in rest} == {("total_tokens", 0, "")}
    assert agent.usage.total_tokens == 45
    assert rest[0].resume().output.startswith("It is")


@pytest.mark.parametrize("mode", MODES)
def test_tool_call_limit_is_shared(mode):
    """A limit on tool calls applies to all runs together."""
    agent = using(len_of)
    results = mapped(agent, mode, NUMBERS, 1, limits=Limits(tool_calls=2))
    assert [result.status for result in results] == ["done", "done", *["limit"] * 4]
    assert {result.limit for result in results[2:]} == {"tool_calls"}


def len_of(text: str) -> int:
    """Return the length of a text."""
    return len(text)


@pytest.mark.parametrize("mode", MODES)
def test_run_that_lacks_budget_waits(mode):
    """A run that lacks budget waits for the others and resumes without repeating calls."""
    used = []

    def use(text: str) -> str:
        """Use a text."""
        used.append(text)
        return "used"

    def answer(request):
        prompt = request.messages[0].content
        return f"It is {prompt}." if len(request.messages) > 1 else call("use", text=prompt)

    agent = Agent("busy", [use], llm=ScriptedLLM(answer, repeat=True))
    results = mapped(agent, mode, NUMBERS, 4, limits=Limits(total_tokens=400, tool_calls=None))
    assert [result.output for result in results] == [f"It is {number}." for number in NUMBERS]
    assert sorted(used) == NUMBERS


@pytest.mark.parametrize("mode", MODES)
def test_agent_limits_apply_to_each_run(mode):
    """The agent's limits apply to each run, in addition to the limits of the map."""
    agent = echoing(limits=Limits(total_tokens=60))
    results = mapped(agent, mode, ["a", "b" * 800], limits=Limits(total_tokens=10_000))
    assert [result.status for result in results] == ["done", "limit"]


def test_map_inside_a_run_keeps_its_limits():
    """A tool that maps prompts uses the limits of its run."""
    inner = echoing()

    def ask_many() -> list[str]:
        """Ask many."""
        return [result.status for result in inner.map(NUMBERS, 1)]

    outer = Agent("outer", [ask_many], llm=ScriptedLLM(call("ask_many"), "Done."), limits=Limits(total_tokens=80))
    result = outer.run("go")
    assert result.tool_calls[0].result.value.count("limit") > 0
    assert result.usage.requests == 1 + result.tool_calls[0].result.value.count("done") + (result.status == "done")


@pytest.mark.parametrize("mode", MODES)
def test_context_variables_are_passed_to_the_runs(mode):
    """Tools see the caller's context variables, and their changes stay within the run."""
    place = contextvars.ContextVar("place", default="nowhere")

    def see(text: str) -> str:
        """Return the value of the context variable and change it."""
        seen = place.get()
        place.set(text)
        return seen

    place.set("here")
    agent = using(see)
    assert [result.output for result in mapped(agent, mode, NUMBERS, 2)] == ["here"] * 6
    assert place.get() == "here"


def test_map_can_be_recorded(tmp_path):
    """A map of several runs can be recorded and replayed."""
    cassette = tmp_path / "many.cassette"
    with FakeServer(lambda request: f"It is {request.json['messages'][-1]['content']}.", repeat=True) as server:
        agent = Agent("echo", llm=LLM(base_url=server.base_url, model="any", protocol="chat"))
        with record(cassette):
            outputs = [result.output for result in agent.map(NUMBERS, limits=Limits(seconds=600))]
    with replay(cassette):
        assert [result.output for result in agent.map(NUMBERS, limits=Limits(seconds=600))] == outputs


def test_stored_session_has_one_session_per_run(tmp_path):
    """With a stored session, each run has its own session, and finished prompts are not run again."""
    file = tmp_path / "trips.db"
    agent = echoing(session=Session.open(file, "trip"))
    first = agent.map(NUMBERS)
    assert sorted(each.name for each in Session.summaries(file)) == [f"trip/000{number}" for number in range(6)]
    received = []
    agent.on(RunFinished, received.append)
    again = agent.map(NUMBERS)
    assert [result.output for result in again] == [result.output for result in first]
    assert [result.run_id for result in again] == [result.run_id for result in first]
    assert (len(agent.llm.requests), received, agent.messages) == (6, [], ())


def test_stored_answers_are_parsed_again(tmp_path):
    """A stored typed answer is parsed again, and one that does not match a new type is an error."""
    session = Session.open(tmp_path / "numbers.db", "numbers")
    lines = ScriptedLLM('{"result": 4}', '{"result": 5}')
    agent = Agent("counter", llm=lines, output_type=int, session=session)
    assert [result.output for result in agent.map(["2+2", "2+3"], 1)] == [4, 5]
    assert [result.output for result in agent.map(["2+2", "2+3"], 1)] == [4, 5]
    other = Agent("lister", llm=lines, output_type=list[str], session=session)
    result = other.map(["2+2"])[0]
    assert (result.status, result.value, type(result.error)) == ("failed", None, SessionError)


def test_stored_answer_after_a_handoff_is_parsed_again(tmp_path):
    """The stored answer of a handoff target is parsed with that agent's output type."""
    lines = ScriptedLLM(call("hand_off_to_counter"), '{"result": 4}')
    counter = Agent("counter", llm=lines, output_type=int)
    session = Session.open(tmp_path / "s.db", "numbers")
    desk = Agent("desk", llm=lines, handoffs=[counter], session=session)
    assert [desk.map(["2+2"])[0].output for _ in range(2)] == [4, 4]


def test_session_of_another_prompt_is_rejected(tmp_path):
    """A stored session of another prompt fails the result and is not changed."""
    agent = echoing(session=Session.open(tmp_path / "trips.db", "trip"))
    agent.map(["Hà Nội"])
    result = agent.map(["Huế"])[0]
    assert (result.status, type(result.error)) == ("failed", SessionError)
    assert "delete" in str(result.error)
    assert agent.map(["Hà Nội"])[0].output == "It is Hà Nội."


@pytest.mark.parametrize("mode", MODES)
def test_mapping_again_resumes_unfinished_runs(tmp_path, mode):
    """Mapping again resumes failed runs without repeating tool calls."""
    used, is_down = [], [True]

    def use(text: str) -> str:
        """Use a text."""
        used.append(text)
        return "used"

    def answer(request):
        prompt = request.messages[0].content
        if len(request.messages) == 1:
            return call("use", text=prompt)
        return Unreachable("Down.") if is_down[0] and prompt > "2" else f"It is {prompt}."

    session = Session.open(tmp_path / "s.db", "trip")
    agent = Agent("worker", [use], llm=ScriptedLLM(answer, repeat=True), session=session)
    assert [result.status for result in mapped(agent, mode, NUMBERS)] == ["done"] * 3 + ["failed"] * 3
    is_down[0] = False
    assert [result.output for result in mapped(agent, mode, NUMBERS)] == [f"It is {number}." for number in NUMBERS]
    assert sorted(used) == NUMBERS


def test_earlier_calls_are_in_the_result(tmp_path):
    """The result of a run without remaining budget contains its earlier tool calls."""
    lines = [call("len_of", text="abc"), Unreachable("Down."), "Three."]
    agent = Agent("worker", [len_of], llm=ScriptedLLM(*lines), session=Session.open(tmp_path / "s.db", "trip"))
    assert agent.map(["a"])[0].status == "failed"
    result = agent.map(["a"], limits=Limits(output_tokens=10))[0]
    assert (result.status, result.limit, len(result.tool_calls), result.iterations) == ("limit", "output_tokens", 1, 1)
    assert result.resume().output == "Three."
    assert agent.map(["a"])[0].output == "Three."


def test_active_run_is_not_resumed_by_a_map(tmp_path):
    """A run that is active elsewhere is not resumed, and its result has an error."""
    agent = echoing(session=Session.open(tmp_path / "s.db", "trip"))
    beside = Session("trip/0000", Session.open(tmp_path / "s.db", "x").store)
    stream = Agent("echo", llm=agent.llm, session=beside).stream("0")
    next(stream)
    result = agent.map(["0"])[0]
    stream.close()
    assert (result.status, type(result.error)) == ("failed", SessionError)
    assert agent.map(["0"])[0].output == "It is 0."


@pytest.mark.parametrize("mode", MODES)
def test_paused_run_of_a_map_can_be_resumed(mode):
    """A paused run of a map can be resumed in its own session."""
    agent = using(len_of, "SYSTEM", safety="SAFE", approve=lambda _: Approval.LATER)
    result = mapped(agent, mode, ["go"])[0]
    assert result.status == "paused"
    gone_on = result.resume(answers=True)
    assert (gone_on.output, agent.messages) == ("1", ())
    assert asyncio.run(result_of_aresume(mapped(agent, mode, ["go"])[0])).output == "1"


async def result_of_aresume(result):
    """Return the result of `aresume`."""
    return await result.aresume(answers=True)


def test_interrupt_keeps_finished_runs(tmp_path):
    """Ctrl-C ends the map without leaving threads, and finished runs are stored."""
    before = threading.active_count()
    agent = echoing(session=Session.open(tmp_path / "s.db", "trip"))
    done = []

    def interrupt(count, _total, result):
        done.append(result)
        if count == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        agent.map((str(number) for number in range(1000)), 2, progress=interrupt)
    question = len(agent.llm.requests)
    assert threading.active_count() <= before
    assert question <= 6
    assert (
        len([each for each in agent.map([str(number) for number in range(question)]) if each.status == "done"])
        == question
    )


def test_stopped_run_ends_at_its_next_event():
    """A run that is active when the map ends stops at its next event and runs no more tools."""
    used, answered, sample_event = [], threading.Event(), threading.Event()

    def answer(request):
        if request.messages[-1].content == "slow":
            answered.set()
            assert sample_event.wait(30)
            return call("use")
        assert answered.wait(30)
        return "Quick."

    def use() -> str:
        """Be used."""
        used.append(1)
        return "used"

    def stop(_done, _total, _result):
        threading.Timer(0.05, sample_event.set).start()
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        Agent("slow", [use], llm=ScriptedLLM(answer, repeat=True)).map(["slow", "quick"], 2, progress=stop)
    assert used == []


def test_cancelled_amap_leaves_no_task():
    """Cancelling `amap` cancels its runs, and leaves no task."""
    started, all_started = [], asyncio.Event()

    async def hang() -> str:
        started.append(1)
        if len(started) == 3:
            all_started.set()
        await asyncio.sleep(600)
        return "never"

    async def main():
        task = asyncio.create_task(using(hang).amap(NUMBERS, 3))
        await all_started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(main()) == set()
    assert len(started) == 3


@pytest.mark.for_each(
    ("prompts", "options", "words"),
    [
        ("one text", {}, "a list or another iterable of prompts"),
        (5, {}, "a list or another iterable of prompts"),
        ([], {"concurrency": 0}, "at least 1"),
        ([], {"concurrency": True}, "at least 1"),
        ([], {"limits": 5}, "Limits"),
        ([], {"executor": "dask"}, "Executor"),
        ([], {"progress": True}, "progress= takes a function"),
        ([], {"progress": lambda _done: None}, "progress= takes a function"),
    ],
)
def test_invalid_arguments_of_map_are_rejected(prompts, options, words):
    """An invalid argument raises ConfigError before anything is run."""
    with pytest.raises(ConfigError, match=words):
        echoing().map(prompts, **options)


def test_missing_provider_raises_once_for_the_map():
    """Without a provider, `map` raises NoProvider and runs nothing."""
    with pytest.raises(NoProvider):
        Agent("nobody").map(NUMBERS)


class Losing(Executor):
    """An executor that loses its work."""

    def __init__(self, error=None, *, refuses=False):
        self.error, self.refuses, self.count = error, refuses, 0

    def submit(self, *_args, **_options):
        """Accept the work, and lose it."""
        self.count += 1
        if self.refuses:
            raise self.error
        future = Future()
        if self.error is None:
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_exception(self.error)
        return future


@pytest.mark.for_each("awaiting", [False, True])
@pytest.mark.for_each(
    ("executor", "words"),
    [
        (Losing(), "has cancelled"),
        (Losing(OSError("no route")), "OSError: no route"),
        (Losing(OSError()), r"\(OSError\)"),
        (Losing(RuntimeError("after shutdown"), refuses=True), "after shutdown"),
    ],
)
def test_lost_run_is_a_failed_result(executor, words, awaiting):
    """A run that the executor loses is a failed result with the reason."""
    agent, prompts = Agent("any", llm=LLM(base_url="http://127.0.0.1:9", model="any")), ["0", 5]
    here = None if awaiting else agent.map(prompts, executor=executor)
    results = here or asyncio.run(agent.amap(prompts, executor=executor))
    assert [result.status for result in results] == ["failed", "failed"]
    with pytest.raises(RunError, match=words):
        results[0].raise_for_status()
    assert results[0].messages == ()


def test_lost_run_with_a_session_of_another_prompt(tmp_path):
    """A session of another prompt is reported even if the executor loses the run."""
    session = Session.open(tmp_path / "s.db", "trip")
    echoing(session=session).map(["Hà Nội", "Huế"])
    agent = Agent("any", llm=LLM(base_url="http://127.0.0.1:9", model="any"), session=session)
    results = agent.map(["Đà Lạt", "Huế"], executor=Losing(OSError("no route")))
    assert "another prompt" in str(results[0].error)
    assert results[1].output == "It is Huế."


def test_map_without_prompts_starts_no_threads():
    """A map without prompts starts no threads."""
    before = threading.active_count()
    many = BatchRun(echoing(), [], 8, limits=None, progress=None, executor=None)
    assert (many.run(), threading.active_count()) == ([], before)


def test_changed_prompts_are_matched_by_position(tmp_path):
    """If a guardrail changes the prompts, a stored session is found by its position."""

    def shout(prompt: str) -> str:
        return prompt.upper()

    agent = echoing(guardrails=[shout], session=Session.open(tmp_path / "s.db", "trip"))
    assert [agent.map(["huế"])[0].output for _ in range(2)] == ["It is HUẾ."] * 2
    assert len(agent.llm.requests) == 1


@pytest.mark.parametrize("mode", MODES)
def test_truncated_answer_is_a_result(mode):
    """An answer truncated at its token limit is a result with that limit."""
    agent = Agent("long", llm=ScriptedLLM(say("Half an", finish_reason="length"), repeat=True))
    assert [result.limit for result in mapped(agent, mode, ["a", "b"])] == ["output_tokens"] * 2


@pytest.mark.parametrize("mode", ["record", "replay"])
def test_other_processes_are_not_recorded(mode, tmp_path):
    """A map in other processes raises an error while a recording is active."""
    with record(tmp_path / "c"):
        echoing().map(["1"])
    block = record(tmp_path / "d") if mode == "record" else replay(tmp_path / "c", partial=True)
    refused = pytest.raises(ConfigError, match="do not reach other processes")
    with block, ProcessPoolExecutor(1, get_context("spawn")) as pool, refused:
        echoing().map(["1"], executor=pool)


@pytest.mark.parametrize("mode", MODES)
def test_stored_answers_have_labels(mode, tmp_path):
    """Answers stored by an earlier map have the labels of the data that was read."""

    def read() -> str:
        """Read."""
        return "tulip"

    inner = using(read, session=Session.open(tmp_path / "s.db", "trip"))
    inner.tools = Toolset([Tool(read, level="SAFE", labels=["private", "untrusted"])])

    def ask() -> str:
        """Ask the inner agent."""
        return mapped(inner, mode, ["go"])[0].output

    for _ in range(2):
        outer = Agent("outer", [Tool(ask, level="SAFE")], llm=ScriptedLLM(call("ask"), "Done."))
        assert outer.run("go").tool_calls[0].result.labels == {Label.PRIVATE, Label.UNTRUSTED}
    assert len(inner.llm.requests) == 2
