"""Does an agent answer many prompts as it answers one, in order and within bounds?"""

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

WAYS = ["map", "amap", "threads", "athreads"]
NUMBERS = [str(number) for number in range(6)]


def mapped(agent, way, prompts, *args, **options):
    """The results of a map in one of the ways to run it."""

    async def amap(**more):
        return await agent.amap(prompts, *args, **options, **more)

    if way == "map":
        return agent.map(prompts, *args, **options)
    if way == "amap":
        return asyncio.run(amap())
    with ThreadPoolExecutor(4) as pool:
        if way == "athreads":
            return asyncio.run(amap(executor=pool))
        return agent.map(prompts, *args, executor=pool, **options)


def echo(request):
    """Says the last message again."""
    return f"It is {request.messages[-1].content}."


def using(function, level="SAFE", **options):
    """An agent that uses its one tool in each run, once, and says what the tool said."""

    def line(request):
        if len(request.messages) > 1:
            return request.messages[-1].content
        return call(function.__name__, **arguments)

    arguments = dict.fromkeys(inspect.signature(function).parameters, "a")
    return Agent("user", [Tool(function, level=level)], llm=ScriptedLLM(line, repeat=True), **options)


def echoing(*tools, **options):
    """An agent that says each prompt again."""
    return Agent("echo", tools, llm=ScriptedLLM(echo, repeat=True), **options)


@pytest.mark.parametrize("way", WAYS)
def test_results_are_in_the_order_of_the_prompts(way):
    """Each prompt has its result, in the order of the prompts, whichever run ends first."""
    release = threading.Event()

    def slow_at_first(request):
        if request.messages[-1].content == "0":
            assert release.wait(30)
        elif request.messages[-1].content == "1":
            release.set()
        return echo(request)

    way = "map" if way == "amap" else way  # a scripted line that blocks would block an event loop
    agent = Agent("slow", llm=ScriptedLLM(slow_at_first, repeat=True))
    results = mapped(agent, way, NUMBERS, 2)
    assert [result.output for result in results] == [f"It is {number}." for number in NUMBERS]


@pytest.mark.parametrize("way", WAYS)
def test_runs_know_nothing_of_each_other(way):
    """Each run begins with an empty conversation, and the agent's own stays as it is; all spending is counted."""
    agent = echoing()
    agent("before")
    results = mapped(agent, way, NUMBERS)
    assert [len(result.messages) for result in results] == [2] * 6
    assert {len(request.messages) for request in agent.llm.requests} == {1}
    assert (len(agent.messages), agent.usage.requests) == (2, 7)


@pytest.mark.parametrize("way", WAYS)
def test_failure_is_a_result(way):
    """A run that fails is a result with the status `failed`; the others go on."""

    def sometimes(request):
        return Unreachable("Gone.") if request.messages[-1].content == "2" else echo(request)

    results = mapped(Agent("shaky", llm=ScriptedLLM(sometimes, repeat=True)), way, NUMBERS, 3)
    assert [result.status for result in results] == ["done", "done", "failed", "done", "done", "done"]
    assert isinstance(results[2].error, Unreachable)


@pytest.mark.parametrize("way", WAYS)
def test_exception_is_a_result(way):
    """What a listener raises, and what is no prompt, is the error of that result, with what was done until then."""
    agent = echoing()

    def refuse(event):
        if event.response.text == "It is 1.":
            raise ValueError("not one")

    agent.on(ResponseReceived, refuse)
    results = mapped(agent, way, ["0", "1", 2, "3"])
    assert [result.status for result in results] == ["done", "failed", "failed", "done"]
    assert "ValueError: not one" in str(results[1].error)
    assert isinstance(results[1].error.__cause__, ValueError)
    assert results[1].error.result.status == "failed"
    assert isinstance(results[2].error, ConfigError)


def test_exit_ends_the_whole_map():
    """SystemExit is no failure of one run: it ends the map, and no thread is left behind."""
    before = threading.active_count()
    agent = Agent("leaving", llm=ScriptedLLM(SystemExit(3), repeat=True))
    with pytest.raises(SystemExit):
        agent.map(NUMBERS, 2)
    assert threading.active_count() <= before
    assert len(agent.llm.requests) <= 3


@pytest.mark.parametrize("way", ["map", "threads"])
def test_concurrency_is_bounded_and_real(way):
    """So many runs as were asked for are at work at the same time, and never one more."""
    together, lock, at_work, most = threading.Barrier(3), threading.Lock(), [], []

    def meet(request):
        with lock:
            at_work.append(1)
            most.append(len(at_work))
        together.wait(30)
        with lock:
            at_work.pop()
        return echo(request)

    mapped(Agent("meeting", llm=ScriptedLLM(meet, repeat=True)), way, NUMBERS, 3)
    assert max(most) == 3


def test_awaiting_concurrency_is_bounded_and_real():
    """So many tasks as were asked for are at work at the same time, and never one more."""
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


@pytest.mark.parametrize("way", WAYS)
def test_prompts_are_asked_for_when_there_is_room(way):
    """A lazy iterable is read no further than the runs have come."""
    agent, ahead = echoing(), []

    def prompts():
        for number in range(20):
            ahead.append(number - agent.usage.requests)
            yield str(number)

    assert len(mapped(agent, way, prompts(), 2)) == 20
    assert max(ahead) <= 2


@pytest.mark.for_each("way", WAYS)
@pytest.mark.for_each(("prompts", "total"), [(NUMBERS, 6), (iter(NUMBERS[:3]), None), ([], 0)])
def test_progress_is_told(way, prompts, total):
    """After each run `progress` hears how many are done, how many there are if anybody knows, and the result."""
    told = []
    prompts = list(prompts) if total is not None else iter(["0", "1", "2"])
    results = mapped(echoing(), way, prompts, progress=lambda *given: told.append(given))
    assert [(done, count) for done, count, _ in told] == [(number + 1, total) for number in range(len(results))]
    assert sorted(result.output for _, _, result in told) == [result.output for result in results]


@pytest.mark.parametrize("way", WAYS)
def test_limits_are_shared(way):
    """`limits` are for all runs together; when they are used up, the rest cost nothing and name the limit."""
    agent = echoing()
    results = mapped(agent, way, NUMBERS, 3, limits=Limits(total_tokens=60))
    statuses = [result.status for result in results]
    assert sorted(statuses) == ["done"] * 3 + ["limit"] * 3
    rest = [result for result in results if result.status == "limit"]
    assert {(result.limit, result.usage.requests, result.output) for result in rest} == {("total_tokens", 0, "")}
    assert agent.usage.total_tokens == 45
    assert rest[0].resume().output.startswith("It is")


@pytest.mark.parametrize("way", WAYS)
def test_tool_calls_are_shared(way):
    """A limit of tool calls counts those of all runs."""
    agent = using(len_of)
    results = mapped(agent, way, NUMBERS, 1, limits=Limits(tool_calls=2))
    assert [result.status for result in results] == ["done", "done", *["limit"] * 4]
    assert {result.limit for result in results[2:]} == {"tool_calls"}


def len_of(text: str) -> int:
    """The length of a text."""
    return len(text)


@pytest.mark.parametrize("way", WAYS)
def test_run_that_was_held_up_goes_on(way):
    """A run that others leave too little for waits until they have ended, and does nothing twice."""
    used = []

    def use(text: str) -> str:
        """Use a text."""
        used.append(text)
        return "used"

    def answer(request):
        prompt = request.messages[0].content
        return f"It is {prompt}." if len(request.messages) > 1 else call("use", text=prompt)

    agent = Agent("busy", [use], llm=ScriptedLLM(answer, repeat=True))
    results = mapped(agent, way, NUMBERS, 4, limits=Limits(total_tokens=400, tool_calls=None))
    assert [result.output for result in results] == [f"It is {number}." for number in NUMBERS]
    assert sorted(used) == NUMBERS


@pytest.mark.parametrize("way", WAYS)
def test_each_run_keeps_the_agents_own_limits(way):
    """The limits of the agent hold for each run, beside those of all together."""
    agent = echoing(limits=Limits(total_tokens=60))
    results = mapped(agent, way, ["a", "b" * 800], limits=Limits(total_tokens=10_000))
    assert [result.status for result in results] == ["done", "limit"]


def test_map_inside_a_run_keeps_its_limits():
    """A tool that maps prompts spends what its run may spend."""
    inner = echoing()

    def ask_many() -> list[str]:
        """Ask many."""
        return [result.status for result in inner.map(NUMBERS, 1)]

    outer = Agent("outer", [ask_many], llm=ScriptedLLM(call("ask_many"), "Done."), limits=Limits(total_tokens=80))
    result = outer.run("go")
    assert result.tool_calls[0].result.value.count("limit") > 0
    assert result.usage.requests == 1 + result.tool_calls[0].result.value.count("done") + (result.status == "done")


@pytest.mark.parametrize("way", WAYS)
def test_context_reaches_the_runs(way):
    """Tools see the context variables of the caller; what they set there stays with their run."""
    place = contextvars.ContextVar("place", default="nowhere")

    def see(text: str) -> str:
        """Tell what the context says, and change it."""
        seen = place.get()
        place.set(text)
        return seen

    place.set("here")
    agent = using(see)
    assert [result.output for result in mapped(agent, way, NUMBERS, 2)] == ["here"] * 6
    assert place.get() == "here"


def test_map_can_be_recorded(tmp_path):
    """What models say in many runs is recorded and replayed like that of one."""
    cassette = tmp_path / "many.cassette"
    with FakeServer(lambda request: f"It is {request.json['messages'][-1]['content']}.", repeat=True) as server:
        agent = Agent("echo", llm=LLM(base_url=server.base_url, model="any", protocol="chat"))
        with record(cassette):
            told = [result.output for result in agent.map(NUMBERS, limits=Limits(seconds=600))]
    with replay(cassette):
        assert [result.output for result in agent.map(NUMBERS, limits=Limits(seconds=600))] == told


def test_stored_session_has_a_session_for_each_run(tmp_path):
    """With a stored session the runs are sessions beside it, and a prompt that has its answer costs nothing again."""
    file = tmp_path / "trips.db"
    agent = echoing(session=Session.open(file, "trip"))
    first = agent.map(NUMBERS)
    assert sorted(each.name for each in Session.summaries(file)) == [f"trip/000{number}" for number in range(6)]
    heard = []
    agent.on(RunFinished, heard.append)
    again = agent.map(NUMBERS)
    assert [result.output for result in again] == [result.output for result in first]
    assert [result.run_id for result in again] == [result.run_id for result in first]
    assert (len(agent.llm.requests), heard, agent.messages) == (6, [], ())


def test_answers_are_typed_again(tmp_path):
    """A typed answer that was kept is read anew; one that does not fit the type any more fails its result."""
    session = Session.open(tmp_path / "numbers.db", "numbers")
    lines = ScriptedLLM('{"result": 4}', '{"result": 5}')
    agent = Agent("counter", llm=lines, output_type=int, session=session)
    assert [result.output for result in agent.map(["2+2", "2+3"], 1)] == [4, 5]
    assert [result.output for result in agent.map(["2+2", "2+3"], 1)] == [4, 5]
    other = Agent("lister", llm=lines, output_type=list[str], session=session)
    result = other.map(["2+2"])[0]
    assert (result.status, result.value, type(result.error)) == ("failed", None, SessionError)


def test_answer_of_another_agent_is_typed_again(tmp_path):
    """When the conversation was handed to another agent, its kept answer is read as that agent's."""
    lines = ScriptedLLM(call("hand_off_to_counter"), '{"result": 4}')
    counter = Agent("counter", llm=lines, output_type=int)
    session = Session.open(tmp_path / "s.db", "numbers")
    desk = Agent("desk", llm=lines, handoffs=[counter], session=session)
    assert [desk.map(["2+2"])[0].output for _ in range(2)] == [4, 4]


def test_session_of_another_prompt_is_not_mistaken(tmp_path):
    """A stored session that belongs to another prompt fails that result and is left as it is."""
    agent = echoing(session=Session.open(tmp_path / "trips.db", "trip"))
    agent.map(["Hà Nội"])
    result = agent.map(["Huế"])[0]
    assert (result.status, type(result.error)) == ("failed", SessionError)
    assert "delete" in str(result.error)
    assert agent.map(["Hà Nội"])[0].output == "It is Hà Nội."


@pytest.mark.parametrize("way", WAYS)
def test_unfinished_work_goes_on(tmp_path, way):
    """Mapped again, a run that failed or met a limit goes on where it was, and its tools are not used again."""
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
    assert [result.status for result in mapped(agent, way, NUMBERS)] == ["done"] * 3 + ["failed"] * 3
    is_down[0] = False
    assert [result.output for result in mapped(agent, way, NUMBERS)] == [f"It is {number}." for number in NUMBERS]
    assert sorted(used) == NUMBERS


def test_work_that_was_done_stays_in_the_result(tmp_path):
    """When nothing is left for a run that was cut off, its result still holds what it had done."""
    lines = [call("len_of", text="abc"), Unreachable("Down."), "Three."]
    agent = Agent("worker", [len_of], llm=ScriptedLLM(*lines), session=Session.open(tmp_path / "s.db", "trip"))
    assert agent.map(["a"])[0].status == "failed"
    result = agent.map(["a"], limits=Limits(output_tokens=10))[0]
    assert (result.status, result.limit, len(result.tool_calls), result.iterations) == ("limit", "output_tokens", 1, 1)
    assert result.resume().output == "Three."
    assert agent.map(["a"])[0].output == "Three."


def test_run_held_by_another_process_is_told(tmp_path):
    """A run of the session that somebody is at is not gone on with: its result says so."""
    agent = echoing(session=Session.open(tmp_path / "s.db", "trip"))
    beside = Session("trip/0000", Session.open(tmp_path / "s.db", "x").store)
    stream = Agent("echo", llm=agent.llm, session=beside).stream("0")
    next(stream)
    result = agent.map(["0"])[0]
    stream.close()
    assert (result.status, type(result.error)) == ("failed", SessionError)
    assert agent.map(["0"])[0].output == "It is 0."


@pytest.mark.parametrize("way", WAYS)
def test_paused_run_goes_on_in_its_own_session(way):
    """A run that waits for a person is a result with the status `paused`, and goes on in its own session."""
    agent = using(len_of, "SYSTEM", safety="SAFE", approve=lambda _: Approval.LATER)
    result = mapped(agent, way, ["go"])[0]
    assert result.status == "paused"
    gone_on = result.resume(answers=True)
    assert (gone_on.output, agent.messages) == ("1", ())
    assert asyncio.run(result_of_aresume(mapped(agent, way, ["go"])[0])).output == "1"


async def result_of_aresume(result):
    """The result of going on, awaiting."""
    return await result.aresume(answers=True)


def test_interrupt_keeps_what_is_done(tmp_path):
    """Ctrl-C begins no more runs, ends the others, leaves no thread, and keeps what is done in the sessions."""
    before = threading.active_count()
    agent = echoing(session=Session.open(tmp_path / "s.db", "trip"))
    done = []

    def interrupt(count, _total, result):
        done.append(result)
        if count == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        agent.map((str(number) for number in range(1000)), 2, progress=interrupt)
    asked = len(agent.llm.requests)
    assert threading.active_count() <= before
    assert asked <= 6
    assert len([each for each in agent.map([str(number) for number in range(asked)]) if each.status == "done"]) == asked


def test_stopped_run_ends_at_its_next_event():
    """A run that is at work when the map ends stops at its next event, and uses no more tools."""
    used, answered, told = [], threading.Event(), threading.Event()

    def answer(request):
        if request.messages[-1].content == "slow":
            answered.set()
            assert told.wait(30)
            return call("use")
        assert answered.wait(30)
        return "Quick."

    def use() -> str:
        """Be used."""
        used.append(1)
        return "used"

    def stop(_done, _total, _result):
        threading.Timer(0.05, told.set).start()
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
def test_wrong_arguments_are_said_at_once(prompts, options, words):
    """An argument that cannot be right is a ConfigError before anything runs."""
    with pytest.raises(ConfigError, match=words):
        echoing().map(prompts, **options)


def test_no_provider_is_said_once():
    """Without a provider nothing is run, and NoProvider is raised rather than told in each result."""
    with pytest.raises(NoProvider):
        Agent("nobody").map(NUMBERS)


class Losing(Executor):
    """An executor that loses what it is given."""

    def __init__(self, error=None, *, refuses=False):
        self.error, self.refuses, self.count = error, refuses, 0

    def submit(self, *_args, **_options):
        """Take the work, and lose it."""
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
    """A run from which the executor brings nothing back is a failed result that says why."""
    agent, prompts = Agent("any", llm=LLM(base_url="http://127.0.0.1:9", model="any")), ["0", 5]
    here = None if awaiting else agent.map(prompts, executor=executor)
    results = here or asyncio.run(agent.amap(prompts, executor=executor))
    assert [result.status for result in results] == ["failed", "failed"]
    with pytest.raises(RunError, match=words):
        results[0].raise_for_status()
    assert results[0].messages == ()


def test_lost_run_of_a_session_that_is_another_prompts(tmp_path):
    """When nothing comes back and the session is another prompt's, the result says the latter."""
    session = Session.open(tmp_path / "s.db", "trip")
    echoing(session=session).map(["Hà Nội", "Huế"])
    agent = Agent("any", llm=LLM(base_url="http://127.0.0.1:9", model="any"), session=session)
    results = agent.map(["Đà Lạt", "Huế"], executor=Losing(OSError("no route")))
    assert "another prompt" in str(results[0].error)
    assert results[1].output == "It is Huế."


def test_many_is_done_with_threads_at_once():
    """No thread is started before there is a prompt."""
    before = threading.active_count()
    many = BatchRun(echoing(), [], 8, limits=None, progress=None, executor=None)
    assert (many.run(), threading.active_count()) == ([], before)


def test_checked_prompts_are_trusted_by_their_place(tmp_path):
    """Where checks change the prompts, a session is found by its place alone."""

    def shout(prompt: str) -> str:
        return prompt.upper()

    agent = echoing(guardrails=[shout], session=Session.open(tmp_path / "s.db", "trip"))
    assert [agent.map(["huế"])[0].output for _ in range(2)] == ["It is HUẾ."] * 2
    assert len(agent.llm.requests) == 1


@pytest.mark.parametrize("way", WAYS)
def test_answer_cut_by_its_limit_is_a_result(way):
    """An answer that was cut at its token limit is a result with that limit."""
    agent = Agent("long", llm=ScriptedLLM(say("Half an", finish_reason="length"), repeat=True))
    assert [result.limit for result in mapped(agent, way, ["a", "b"])] == ["output_tokens"] * 2


@pytest.mark.parametrize("way", ["record", "replay"])
def test_other_processes_are_not_recorded(way, tmp_path):
    """A recording cannot hear other processes, so that a map that would use them is refused before anything runs."""
    with record(tmp_path / "c"):
        echoing().map(["1"])
    block = record(tmp_path / "d") if way == "record" else replay(tmp_path / "c", partial=True)
    refused = pytest.raises(ConfigError, match="do not reach other processes")
    with block, ProcessPoolExecutor(1, get_context("spawn")) as pool, refused:
        echoing().map(["1"], executor=pool)


@pytest.mark.parametrize("way", WAYS)
def test_answers_of_earlier_maps_bear_labels(way, tmp_path):
    """What a tool gets from answers that were kept by an earlier map bears the labels of what was read for them."""

    def read() -> str:
        """Read."""
        return "tulip"

    inner = using(read, session=Session.open(tmp_path / "s.db", "trip"))
    inner.tools = Toolset([Tool(read, level="SAFE", labels=["private", "untrusted"])])

    def ask() -> str:
        """Ask the inner agent."""
        return mapped(inner, way, ["go"])[0].output

    for _ in range(2):
        outer = Agent("outer", [Tool(ask, level="SAFE")], llm=ScriptedLLM(call("ask"), "Done."))
        assert outer.run("go").tool_calls[0].result.labels == {Label.PRIVATE, Label.UNTRUSTED}
    assert len(inner.llm.requests) == 2
