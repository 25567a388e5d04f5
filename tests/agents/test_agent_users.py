"""Tests for one agent with several users: sessions and contexts of runs, and agents without memory."""

import asyncio
import gc
import tracemalloc
from dataclasses import dataclass

import pytest

from agentkit import LLM, Agent, ConfigError, RunContext, RunFinished, Session
from agentkit.agents.result import Resumption
from agentkit.testing import FakeServer, ScriptedLLM, call


@dataclass
class User:
    """The user of a run."""

    name: str


def balance(run: RunContext[User]) -> str:
    """Return the balance of the user."""
    return f"{run.value.name}: 5 EUR"


def texts(request):
    """Return the texts of the messages of a request."""
    return [message.text for message in request.messages]


def desk(*lines, **options):
    """Return an agent for several users."""
    return Agent("desk", [balance], llm=ScriptedLLM(*lines), **options)


def run_each_way(agent, mode, prompt, **options):
    """Run an agent in one of four ways, and return its result."""
    match mode:
        case "run":
            return agent.run(prompt, **options)
        case "arun":
            return asyncio.run(agent.arun(prompt, **options))
        case "stream":
            return next(event.result for event in agent.stream(prompt, **options) if isinstance(event, RunFinished))

    async def streamed():
        return [event async for event in agent.astream(prompt, **options)][-1].result

    return asyncio.run(streamed())


@pytest.mark.parametrize("mode", ["run", "arun", "stream", "astream"])
def test_each_session_has_a_separate_conversation(mode):
    """Runs with separate sessions share no messages, and each continues its own conversation."""
    agent = desk("Hi, Ann.", "Hi, Bob.", "You are Ann.")
    ann, bob = Session(), Session()
    run_each_way(agent, mode, "I am Ann.", session=ann, context=User("Ann"))
    run_each_way(agent, mode, "I am Bob.", session=bob, context=User("Bob"))
    run_each_way(agent, mode, "Who am I?", session=ann, context=User("Ann"))
    _, second, third = agent.llm.requests
    assert texts(second) == ["I am Bob."]
    assert texts(third) == ["I am Ann.", "Hi, Ann.", "Who am I?"]
    assert agent.history == []
    assert len(bob.messages) == 2


def test_sessions_by_name(tmp_path, monkeypatch):
    """A run accepts a session by its name."""
    monkeypatch.setenv("AGENTKIT_STATE", str(tmp_path))
    agent = desk("Hi.", "You are Ann.")
    agent.run("I am Ann.", session="ann", context=User("Ann"))
    agent.run("Who am I?", session="ann", context=User("Ann"))
    assert texts(agent.llm.requests[1]) == ["I am Ann.", "Hi.", "Who am I?"]


def test_text_streams_and_calls_accept_sessions():
    """`stream_text`, its async version and calls accept a session."""
    agent, session = desk("One.", "Two.", "Three.", context=User("Ann")), Session()

    async def streamed():
        return [piece async for piece in agent.astream_text("2?", session=session)]

    assert "".join(agent.stream_text("1?", session=session)) == "One."
    assert "".join(asyncio.run(streamed())) == "Two."
    assert agent("3?", session=session) == "Three."
    assert (len(session.messages), agent.history) == (6, [])


def test_map_accepts_a_session(tmp_path):
    """The runs of a map are stored in sessions below the given session."""
    agent = desk("A", "B")
    session = Session.open(tmp_path / "runs.db", "batch")
    results = agent.map(["a", "b"], 1, session=session, context=User("Ann"))
    assert [result.output for result in results] == ["A", "B"]
    assert {each.name for each in Session.summaries(tmp_path / "runs.db")} >= {"batch/0000", "batch/0001"}
    assert agent.map(["a", "b"], session=session)[1].output == "B"


def test_another_context_in_an_unnamed_conversation_is_an_error():
    """Running an unnamed conversation with the context of another user raises an error."""
    agent = desk("Hi, Ann.", "Hi again.", "Hi, Bob.", "You are Bob.", "Ann's.")
    agent.run("I am Ann.", context=User("Ann"))
    agent.run("Hi!", context=User("Ann"))
    with pytest.raises(
        ConfigError,
        match=r"'desk' was started with another "
        r"context=.*session=Session\(\).*remember=False",
    ):
        agent.run("I am Bob.", context=User("Bob"))
    agent.reset()
    agent.run("I am Bob.", context=User("Bob"))
    agent.run("Who am I?", session=agent.session, context=User("Ann"))
    assert texts(agent.llm.requests[3]) == ["I am Bob.", "Hi, Bob.", "Who am I?"]


def test_contexts_that_cannot_be_compared():
    """Contexts that cannot be compared are different unless they are the same object."""

    class Odd(User):
        def __eq__(self, other):
            raise RuntimeError("not comparable")

        __hash__ = None

    agent, odd = desk("1", "2"), Odd("Ann")
    agent.run("1", context=odd)
    agent.run("2", context=odd)
    with pytest.raises(ConfigError, match="another context="):
        agent.run("3", context=Odd("Bob"))


def test_agents_without_memory():
    """With `remember=False`, each run is a new conversation unless a session is passed."""
    agent, session = desk("1", "2", "3", "4", remember=False), Session()
    agent.run("a", context=User("Ann"))
    agent.run("b", context=User("Bob"))
    agent.run("c", session=session, context=User("Ann"))
    agent.run("d", session=session, context=User("Ann"))
    assert [len(request.messages) for request in agent.llm.requests] == [1, 1, 1, 3]
    assert agent.history == []


@pytest.mark.parametrize("options", [{"session": Session()}, {}])
def test_paused_run_resumes_in_its_session(options):
    """A result resumes its run in the session of the run, also through the agent."""
    agent = desk(call("balance"), "5 EUR.", call("balance"), "Done.", remember=False, approve="later", unlabelled="ask")
    paused = agent.run("How much?", context=User("Ann"), **options)
    assert paused.status == "paused"
    assert paused.resume(True).output == "5 EUR."
    again = agent.run("And now?", context=User("Ann"), **options)
    assert agent.run(Resumption(again, answers=True)).output == "Done."
    assert agent.history == []
    if options:
        assert len(options["session"].messages) == 8


@pytest.mark.parametrize(("given", "wanted"), [({"session": 5}, "session= takes"), ({"model": 5}, "model= takes")])
def test_invalid_options_of_a_run(given, wanted):
    """An invalid session or model is rejected before the run."""
    with pytest.raises(ConfigError, match=wanted):
        desk().run("Hi!", **given)


def memory_used(filters):
    """Return the memory used by some modules, in bytes."""
    gc.collect()
    return sum(each.size for each in tracemalloc.take_snapshot().filter_traces(filters).statistics("filename"))


@pytest.mark.slow
def test_thousand_requests_of_two_users():
    """Two concurrent users of an agent share no text, and the memory used by requests is bounded."""
    with FakeServer("Hello.", repeat=True) as server:
        llm = LLM(base_url=server.base_url, model="m")
        agent = Agent("desk", [balance], llm=llm, remember=False)

        async def serve(count):
            for number in range(count):
                users = [User("Ann"), User("Bob")]
                await asyncio.gather(
                    *(agent.arun(f"I am {user.name}, {number}.", context=user, session=Session()) for user in users)
                )
            await llm.aclose()

        asyncio.run(serve(25))
        tracemalloc.start()
        messages = [tracemalloc.Filter(True, "*/agentkit/agents/*"), tracemalloc.Filter(True, "*/agentkit/sessions/*")]
        asyncio.run(serve(25))
        before = memory_used(messages)
        asyncio.run(serve(450))
        after = memory_used(messages)
        tracemalloc.stop()
        bodies = [request.body for request in server.requests]
    assert len(bodies) == 1_000
    assert [body for body in bodies if (b"Ann" in body) == (b"Bob" in body)] == []
    assert after - before < 1_000_000  # bounded caches of encoded messages
