"""Tests for requests of servers during a call: answers of a person and of a model, and changed resources."""

import asyncio
import threading
import time

import pytest

from agentkit import Agent, Tool
from agentkit.errors import ToolError
from agentkit.mcp import MCPServer, ToolServer, calling_client
from agentkit.safety.approval import Approval
from agentkit.testing import ScriptedLLM, call

PATIENCE_SECONDS = 20
FIELDS = {"name": {"type": "string", "description": "Your name."}, "age": {"type": "integer", "default": 30}}


async def who():
    """Ask the person."""
    return f"{await calling_client().ask('Who is there?', FIELDS, required=['name'])}"


async def think(prompt: str):
    """Ask the model."""
    return await calling_client().sample(prompt, max_tokens=50, system_prompt="Be brief.")


@pytest.fixture
def asking():
    """Return a server with these options, whose tools send requests."""
    made = []

    def make(**options):
        server = MCPServer(ToolServer([who, think]).protocol_server(), "asking", level="safe", **options)
        made.append(server)
        return server

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"name": "Ann"}, "{'name': 'Ann'}"),
        ({"name": "Ann", "age": 7, "other": 1}, "{'name': 'Ann', 'age': 7}"),
        (True, "None"),
        ({"age": 7}, "None"),
        (False, "None"),
        ("Not today.", "None"),
        (Approval.LATER, "None"),
        (ZeroDivisionError("The approver is broken."), "None"),
    ],
)
def test_form_answers(asking, answer, expected):
    """The approver's values fill in a form; an approval without the required fields is not an answer."""
    questions = []

    def approve(request):
        questions.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert asking(approve=approve).call("who") == expected
    (request,) = questions
    assert (request.tool, request.arguments) == ("ask_user", {"name": None, "age": 30})
    assert "Who is there?" in str(request)
    assert "name: Your name." in str(request)


def test_run_approver_answers(asking):
    """The run's approver answers on the run's event loop; without an approver there is no answer."""
    server, places = asking(), []

    async def approve(_request):
        places.append(asyncio.get_running_loop())
        return {"name": "Ann"}

    async def run():
        agent = Agent("tester", tools=[server], approve=approve, llm=ScriptedLLM(call("who"), "Done."))
        done = await agent.arun("Go.")
        return done, asyncio.get_running_loop()

    done, loop = asyncio.run(run())
    assert done.tool_calls[0].result.content == "{'name': 'Ann'}"
    assert places == [loop]

    done = Agent("tester", tools=[server], llm=ScriptedLLM(call("who"), "Done.")).run("Go.")
    assert done.tool_calls[0].result.content == "None"
    assert server.call("who") == "None"


def test_time_of_a_person_is_excluded_from_the_timeout(asking):
    """The time a person takes to answer does not count towards the call's timeout."""

    def approve(_request):
        time.sleep(1.2)
        return {"name": "Ann"}

    server = asking(approve=approve, timeout_seconds=1.0)
    assert server.call("who") == "{'name': 'Ann'}"
    done = Agent("tester", tools=[server], llm=ScriptedLLM(call("who"), "Done.")).run("Go.")
    assert done.tool_calls[0].result.content == "{'name': 'Ann'}"


def test_sampling_needs_an_approval(asking):
    """A model answers only with the consent of an approver: the given one, or that of the run."""
    llm, questions = ScriptedLLM("I am brief.", repeat=True), []

    def approve(request):
        questions.append(request)
        return True

    assert asking(approve=approve, llm=llm).call("think", prompt="Say something.") == "I am brief."
    (request,) = questions
    assert (request.tool, request.arguments["prompt"]) == ("ask_model", "Say something.")
    assert (request.arguments["system_prompt"], request.arguments["max_tokens"]) == ("Be brief.", 50)

    for options in ({"llm": llm}, {"approve": approve}, {"llm": llm, "approve": lambda _: "Too expensive."}):
        with pytest.raises(ToolError, match=r"refused: (There is no approver|Approval was refused: Too expensive)"):
            asking(**options).call("think", prompt="Say something.")

    script = [call("think", prompt="Say something."), "I am the run's.", "Done."]
    done = Agent("tester", tools=[asking()], approve=lambda _: True, llm=ScriptedLLM(*script)).run("Go.")
    assert done.tool_calls[0].result.content == "I am the run's."
    assert done.usage.requests == 3


def test_requests_with_two_approvers_are_rejected(asking):
    """Server requests are refused while callers with different approvers are active."""
    server, waiting = asking(), threading.Event()

    def approve(_request):
        waiting.wait(PATIENCE_SECONDS)
        return {"name": "Ann"}

    def run(approver):
        agent = Agent("tester", tools=[server], approve=approver, llm=ScriptedLLM(call("who"), "Done."))
        return agent.run("Go.").tool_calls[0].result.content

    first = []
    thread = threading.Thread(target=lambda: first.append(run(approve)))
    thread.start()
    time.sleep(0.5)
    assert run(lambda _: {"name": "Bob"}) == "None"
    waiting.set()
    thread.join(PATIENCE_SECONDS)
    assert first == ["{'name': 'Ann'}"]


def test_changed_resource_is_reported():
    """A subscription calls back on every change, also after a reconnection, until it is ended."""
    texts, events = ["one"], []
    own = ToolServer([who], resources={"notes://now": Tool(lambda: texts[-1], "now", "What is now.")})
    with MCPServer(own.protocol_server(), "notes") as server:
        server.subscribe("notes://now", events.append)
        for count in (1, 2):
            texts.append("changed")
            texts.append(f"{count}")
            deadline = time.monotonic() + PATIENCE_SECONDS
            while len(events) < count and time.monotonic() < deadline:
                time.sleep(0.05)
            assert events == ["notes://now"] * count
            server.close()
            assert len(server.resources()) == 1
        server.subscribe("notes://now", None)
        texts.append("over")
        time.sleep(1.5)
        assert len(events) == 2
