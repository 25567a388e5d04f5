"""Tests for runs in other processes: results, limits, pickling, and killed workers."""

import copy
import multiprocessing
import pickle
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ProcessPoolExecutor

import pytest

from agentkit import LLM, Agent, ConfigError, Limits, Policy, SafetyLevel, Session, core_tools, default_tools
from agentkit.agents.batch import MAX_LOSSES, pickle_agent, run_elsewhere
from agentkit.agents.prompt_run import Job
from agentkit.agents.result import RunFinished
from agentkit.agents.run_config import LINEAGE, NONE
from agentkit.content import Image
from agentkit.decisions import Label
from agentkit.errors import Rejected
from agentkit.events import ResponseReceived
from agentkit.installation import install_command
from agentkit.messages import UserMessage
from agentkit.testing import FakeServer, ScriptedLLM, call, fail
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.usage import Price

pytestmark = pytest.mark.slow

NUMBERS = [str(number) for number in range(4)]


def pool(workers=2):
    """A process pool whose workers are fresh interpreters."""
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))


def client_of(server):
    """Return a client of the fake server."""
    return LLM(base_url=server.base_url, model="any", protocol="chat", max_retries=0)


def echo(request):
    """Repeat the last message."""
    return f"It is {request.json['messages'][-1]['content']}."


def allow(request):
    """Approve every call."""
    return True


def pass_on(output):
    """Pass every value."""


def test_runs_in_other_processes():
    """A process pool returns results in order; usage, listeners and limits apply as usual."""
    with FakeServer(echo, repeat=True) as server, pool() as executor:
        agent, received = Agent("echo", default_tools, llm=client_of(server), session=None), []
        agent.on(ResponseReceived, lambda event: received.append(event.response.text))
        agent.on(RunFinished, lambda event: received.append(event.result.status))
        results = agent.map(NUMBERS, 2, executor=executor)
        assert [result.output for result in results] == [f"It is {number}." for number in NUMBERS]
        assert sorted(received) == sorted([result.output for result in results] + ["done"] * 4)
        assert agent.usage.requests == 4
        agent.tools = Toolset()
        limits = Limits(total_tokens=60, cost=1, unknown_price="free")
        limited = agent.map([*NUMBERS, *NUMBERS], 1, executor=executor, limits=limits)
        assert [result.status for result in limited] == ["done"] * 3 + ["limit"] * 5
        assert limited[-1].limit == "total_tokens"
        assert len(server.requests) == 7


def test_failures_in_other_processes_are_results(deadly):
    """Errors in other processes are returned, and a listener that raises fails its result."""

    def sometimes(request):
        text = request.json["messages"][-1]["content"]
        return fail(400, "Bad question.") if text == "1" else echo(request)

    with FakeServer(sometimes, repeat=True) as server, pool() as executor:
        agent = Agent("shaky", [deadly.note], llm=client_of(server))
        agent.on(ResponseReceived, lambda event: 1 / (event.response.text != "It is 2."))
        results = agent.map([*NUMBERS, 5], 2, executor=executor)
        assert [result.status for result in results] == ["done", "failed", "failed", "done", "failed"]
        assert (type(results[1].error), "Bad question." in str(results[1].error)) == (Rejected, True)
        assert "ZeroDivisionError" in str(results[2].error)
        assert isinstance(results[4].error, ConfigError)


def test_killed_worker_is_resumed_by_mapping_again(tmp_path, deadly, noted, answer):
    """After a worker process was killed, mapping again completes all prompts without repeated calls."""
    prompts = ["a", "b", "c", "die_once", "d", "e"]
    with FakeServer(answer, repeat=True) as server:
        session = Session.open(tmp_path / "s.db", "trip")
        agent = Agent("worker", [deadly.note, deadly.die_once], llm=client_of(server), session=session)
        with pool() as executor:
            first = agent.map(prompts, 2, executor=executor)
        assert {result.status for result in first} == {"done", "failed"}
        assert any(
            "Call map() again with a new one: finished prompts are stored" in str(result.error) for result in first
        )
        with pool() as executor:
            second = agent.map(prompts, 2, executor=executor)
        assert [result.output for result in second] == [f"It is {prompt}." for prompt in prompts]
        unknown = [prompt for prompt, result in zip(prompts, second, strict=True) if was_interrupted(result)]
        assert len(noted()) == len(set(noted()))
        assert {*noted(), *unknown} == set(prompts)
        assert "interrupted" in second[3].tool_calls[1].result.status
        question = len(server.requests)
        assert [result.run_id for result in agent.map(prompts)] == [result.run_id for result in second]
        assert len(server.requests) == question


def was_interrupted(result):
    """Return whether the worker of this run was killed by the pool while a tool was running."""
    return any(used.result.status == "interrupted" for used in result.tool_calls)


def test_killed_worker_without_a_session(deadly, answer):
    """Without a stored session, the error of a killed run recommends one."""
    with FakeServer(answer, repeat=True) as server, pool(1) as executor:
        agent = Agent("worker", [deadly.note, deadly.die_once], llm=client_of(server))
        result = agent.map(["die_once"], executor=executor)[0]
        assert (result.status, "with a stored session=" in str(result.error)) == ("failed", True)


@pytest.fixture(scope="module")
def cluster():
    """A Dask cluster of two worker processes, which gives up a task when its worker dies."""
    distributed = pytest.importorskip("distributed", reason="Dask comes with agentkit-tools[dask].")
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0, "distributed.nanny.environ": {}}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


def test_dask_cluster_runs_prompts(tmp_path, cluster):
    """A Dask cluster runs prompts, including tools that are not defined in a module."""
    secret = "xyzzy"

    def whisper() -> str:
        """Return the secret."""
        return secret

    def answer(request):
        last = request.json["messages"][-1]
        return f"It is {last['content']}." if last["role"] == "tool" else call("whisper")

    with FakeServer(answer, repeat=True) as server:
        agent = Agent("whisperer", [whisper], llm=client_of(server))
        results = agent.map(NUMBERS, executor=cluster.get_executor())
        assert [result.output for result in results] == ["It is xyzzy."] * 4


def test_dask_worker_that_dies(tmp_path, cluster, deadly, noted, answer):
    """A run is retried when its Dask worker dies, and fails after too many losses."""
    cluster.run(lambda folder=str(tmp_path): __import__("sys").path.insert(0, folder))
    with FakeServer(answer, repeat=True) as server:
        tools = [deadly.note, deadly.die_once, deadly.die_always]
        session = Session.open(tmp_path / "s.db", "trip")
        agent = Agent("worker", tools, llm=client_of(server), session=session)
        prompts = ["a", "die_once", "b", "c"]
        results = agent.map(prompts, 1, executor=cluster.get_executor())
        assert [str(result.error) for result in results if result.error] == []
        assert [result.output for result in results] == [f"It is {prompt}." for prompt in prompts]
        assert noted() == sorted(prompts)
        lost = agent.map([*prompts, "die_always"], 1, executor=cluster.get_executor())[-1]
        assert (lost.status, f"{MAX_LOSSES} times (KilledWorker" in str(lost.error)) == ("failed", True)
        assert noted() == sorted([*prompts, "die_always"])


def test_pickled_agent_keeps_its_settings():
    """A pickled agent keeps its settings, but not its listeners, approvals or usage."""
    llm = LLM(base_url="http://127.0.0.1:9", model="any")
    friend = Agent("friend", llm=llm)
    agent = Agent(
        "helper",
        default_tools,
        "Be brief.",
        7,
        llm=llm,
        output_type=list[int],
        guardrails=[pass_on],
        approve=allow,
        limits=Limits(cost=1.0),
        handoffs=[friend],
        policy=Policy(SafetyLevel.SYSTEM, [{"tool": "run_*", "verdict": "deny"}]),
    )
    agent.listeners.append(print)
    for other in (pickle.loads(pickle.dumps(agent)), copy.deepcopy(agent), copy.copy(agent)):
        assert (other.name, other.instruction, other.max_iterations) == ("helper", "Be brief.", 7)
        assert (other.limits, other.policy, other.approve, other.listeners) == (agent.limits, agent.policy, allow, [])
        assert [tool.spec for tool in other.tools] == [tool.spec for tool in agent.tools]
        assert (list(other.handoff_targets), other.llm.equals(llm), other.usage.requests) == (["friend"], True, 0)
        assert other._answers.schema == agent._answers.schema


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: agent_with(tools=[holding("locked")]), "The tool 'locked'"),
        (lambda: Agent("x", core_tools, llm=ScriptedLLM("Hello.")), "llm="),
        (lambda: agent_with(guardrails=[holding("judge")]), "The guardrail 'judge'"),
        (lambda: agent_with(approve=holding("decide")), "approve="),
        (lambda: agent_with(handoffs=[Agent("y", llm=ScriptedLLM("Hi."))]), "The agent 'y'"),
    ],
)
def test_object_that_cannot_be_pickled_is_named(make, words):
    """An object that cannot be pickled raises ConfigError, which names it, before anything is run."""
    with pool(1) as executor, pytest.raises(ConfigError, match=words):
        make().map(NUMBERS, executor=executor)


def agent_with(**options):
    """Return an agent with an LLM that can be pickled."""
    return Agent("x", llm=LLM(base_url="http://127.0.0.1:9", model="any"), **options)


def holding(name):
    """Return a function that holds an object that cannot be pickled."""
    lock = threading.Lock()

    def locked(text: str) -> None:
        """Look at a lock."""
        lock.locked()

    def judge(output):
        return lock.locked() or None

    def decide(request):
        return lock.locked()

    return {"locked": locked, "judge": judge, "decide": decide}[name]


def test_conversation_is_not_sent_to_other_processes():
    """The agent's conversation is not sent to other processes."""
    agent = Agent("x", llm=LLM(base_url="http://127.0.0.1:9", model="any"))
    before = len(pickle_agent(agent))
    agent.session.append([UserMessage("A long story. " * 1_000)])
    assert abs(len(pickle_agent(agent)) - before) < 100


def test_policy_of_the_caller_applies_in_other_processes(deadly):
    """The caller's policy also applies in other processes."""

    def answer(request):
        if request.json["messages"][-1]["role"] == "tool":
            return request.json["messages"][-1]["content"]
        return call("shout", text="quiet")

    with FakeServer(answer, repeat=True) as server, pool(1) as executor:
        inner = Agent("inner", [deadly.shout], llm=client_of(server))

        def ask() -> str:
            """Ask the inner agent."""
            return inner.map(["go"], executor=executor)[0].output

        careful, free = (
            Agent("outer", [ask], safety=level, llm=ScriptedLLM(call("ask"), "Done.")).run("go").tool_calls[0].result
            for level in ("SAFE", "NETWORK")
        )
    assert "so it needs approval" in careful.value
    assert free.value == "QUIET"


def test_run_leaves_nothing_behind_in_a_worker_process():
    """A run leaves no restrictions behind in its worker process."""
    with FakeServer(echo, repeat=True) as server:
        report = run_elsewhere(pickle_agent(Agent("echo", llm=client_of(server))), Job(0, "3"), Limits(seconds=60))
    assert "It is 3." in report.saved
    assert LINEAGE.get() is NONE


def test_labels_from_other_processes_are_added(deadly):
    """Labels of data that was read in another process are added to the result."""

    def answer(request):
        return "Done." if request.json["messages"][-1]["role"] == "tool" else call("shout", text="quiet")

    with FakeServer(answer, repeat=True) as server, pool(1) as executor:
        inner = Agent("inner", [deadly.shout], llm=client_of(server))

        def ask() -> str:
            """Ask the inner agent."""
            return inner.map(["go"], executor=executor)[0].output

        outer = Agent("outer", [Tool(ask, level="SAFE")], llm=ScriptedLLM(call("ask"), "Done."))
        assert outer.run("go").tool_calls[0].result.labels == {Label.UNTRUSTED}


PROGRAM = """
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from agentkit import LLM, Agent, tool

{setup}

@tool
def double(number: int) -> int:
    "Twice a number."
    return 2 * number

agent = Agent("doubler", [double], llm=LLM(base_url=sys.argv[1], model="any", protocol="chat"))
if __name__ == "__main__":
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        print([result.output for result in agent.map(["4", "5"], executor=pool)])
"""
HIDE_CLOUDPICKLE = """
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "cloudpickle":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
"""


@pytest.mark.parametrize("setup", ["", HIDE_CLOUDPICKLE])
def test_tools_of_the_main_module_can_be_sent(tmp_path, setup):
    """Tools of the main module work in a process pool, with and without cloudpickle."""

    def answer(request):
        last = request.json["messages"][-1]
        return f"It is {last['content']}." if last["role"] == "tool" else call("double", number=int(last["content"]))

    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM).format(setup=setup), "utf-8")
    with FakeServer(answer, repeat=True) as server:
        done = subprocess.run(
            [sys.executable, str(script), server.base_url], capture_output=True, text=True, timeout=120, check=False
        )
    assert (done.stdout, done.returncode) == ("['It is 8.', 'It is 10.']\n", 0), done.stderr


LOCAL = """
import sys
{hidden}
from concurrent.futures import ProcessPoolExecutor

from agentkit import LLM, Agent, ConfigError

def make():
    def local() -> int:
        return 1
    return local

agent = Agent("local", [make()], llm=LLM(base_url="http://127.0.0.1:9", model="any"))
try:
    agent.map(["go"], executor=ProcessPoolExecutor(1))
except ConfigError as error:
    print(error)
"""


def test_nested_functions_require_cloudpickle(tmp_path):
    """Without cloudpickle, a nested function raises an error that names the remedy."""
    script = tmp_path / "local.py"
    script.write_text(LOCAL.format(hidden=HIDE_CLOUDPICKLE), "utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert install_command("dask") in done.stdout, done.stderr


def test_images_can_be_sent():
    """A prompt with an image can be run in another process."""
    picture = Image("https://example.org/cat.png")
    with FakeServer("A picture.", repeat=True) as server, pool(1) as executor:
        agent = Agent("viewer", llm=client_of(server))
        result = agent.map([["What is this?", picture]], executor=executor)[0]
        assert (result.error, result.output) == (None, "A picture.")


def many_words(request):
    """Call a tool as often as the prompt says, and then answer."""
    messages = request.json["messages"]
    wanted = int(next(message["content"] for message in messages if message["role"] == "user"))
    used = sum(message["role"] == "tool" for message in messages)
    return call("string_length", text="x" * used) if used < wanted and request.json.get("tools") else "Done."


def test_runs_in_other_processes_share_limits():
    """Concurrent runs in other processes do not exceed the shared limits."""
    with FakeServer(many_words, repeat=True) as server, pool() as executor:
        agent = Agent("a", core_tools, llm=client_of(server), max_iterations=50)
        limits = Limits(tool_calls=10)
        results = agent.map(["6"] * 4, 4, executor=executor, limits=limits)
        assert sum(used.result.ok for result in results for used in result.tool_calls) == 10
        assert {result.limit for result in results} == {"tool_calls"}
        few = agent.map(["2"] * 4, 4, executor=executor, limits=limits)
        assert [result.status for result in few] == ["done"] * 4


@pytest.mark.parametrize("limits", [Limits(total_tokens=150), Limits(cost=0.00015, unknown_price=Price(1, 1))])
def test_limits_are_shared_with_other_processes(limits):
    """Runs in other processes share the limits, and unused parts are returned."""
    with FakeServer(many_words, repeat=True) as server, pool() as executor:
        agent = Agent("a", core_tools.only("string_length"), llm=client_of(server), max_iterations=50)
        results = agent.map(["1"] * 8, 3, executor=executor, limits=limits)
        spent = sum(result.usage.total_tokens for result in results)
        assert 0 < spent <= 150
        assert {"done", "limit"} == {result.status for result in results}
        assert len(server.requests) == sum(result.usage.requests for result in results)
