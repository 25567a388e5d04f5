"""Tests for A2A: agents of other toolkits call an agent here, and an agent here calls theirs."""

import asyncio
import contextlib
import json
import re
import socket
import threading

import httpx
import pytest
from a2a.client import A2ACardResolver, A2AClientError, ClientConfig, ClientFactory
from a2a.helpers import get_artifact_text, get_data_parts, get_message_text, new_data_part, new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
)
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from agentkit import Agent, ConfigError, RunError, Session, TextDelta, tool
from agentkit.errors import Rejected
from agentkit.server.a2a import A2AAgent, BoundedTasks
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.human import ask_user_tool

CARD = "/.well-known/agent-card.json"
REFUSED = "401|Network communication error"
"""A rejected client is answered before its body is read, and may find the connection closed."""


@tool(level="system")
def send_mail(to: str) -> str:
    """Send a mail.

    Args:
        to: The address.
    """
    return f"sent to {to}"


class Talk:
    """The official client, in one conversation."""

    def __init__(self, served, *, streaming=True, version="1.0", token=None):
        self.served, self.streaming, self.version = served, streaming, version
        self.token = served.token if token is None else token
        self.ids = {}

    def say(self, *parts):
        """Send a message and return the states, the chunks of text and the last task."""
        return asyncio.run(self._say(parts))

    def do(self, action):
        """Call a coroutine function with the client."""

        async def acted():
            async with self.connected() as client:
                return await action(client)

        return asyncio.run(acted())

    @contextlib.asynccontextmanager
    async def connected(self):
        """Return the client for the interface of this version."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx.AsyncClient(timeout=30, headers=headers) as connection:
            card = await A2ACardResolver(connection, self.served.origin).get_agent_card()
            for interface in [each for each in card.supported_interfaces if each.protocol_version != self.version]:
                card.supported_interfaces.remove(interface)
            config = ClientConfig(httpx_client=connection, streaming=self.streaming)
            yield ClientFactory(config).create(card)

    async def _say(self, parts):
        parts = [Part(text=part) if isinstance(part, str) else part for part in parts]
        message = Message(role=Role.ROLE_USER, message_id="m", parts=parts, **self.ids)
        states, chunks, task = [], [], None
        async with self.connected() as client:
            async for response in client.send_message(SendMessageRequest(message=message)):
                if response.HasField("artifact_update") and response.artifact_update.artifact.parts:
                    update = response.artifact_update
                    chunks.append((update.append, get_artifact_text(update.artifact)))
                    found = update.task_id
                elif response.HasField("status_update"):
                    states.append(TaskState.Name(response.status_update.status.state).removeprefix("TASK_STATE_"))
                    found = response.status_update.task_id
                else:
                    found = response.task.id
            task = await client.get_task(GetTaskRequest(id=found))
        self.ids = {"context_id": task.context_id}
        if task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
            self.ids["task_id"] = task.id
        return states, chunks, task


def state(task):
    """Return the state of a task."""
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_")


def answer(task):
    """Return the text of a task's artifacts."""
    return "\n".join(map(get_artifact_text, task.artifacts))


def test_card_is_public_and_lists_no_tools(serve):
    """The agent card is public and lists no tools, and using the agent requires the token."""
    served = serve("unused", description="Knows mail.", tools=[send_mail])
    card = served.ask("GET", CARD, token=False)
    assert (card.status, card.body["name"], card.body["description"]) == (200, "helper", "Knows mail.")
    assert card.body["supportedInterfaces"][0]["url"] == f"{served.origin}/a2a"
    assert "send_mail" not in json.dumps(card.body)
    assert served.ask("POST", "/a2a", {}, token=False).status == 401
    assert served.ask("GET", CARD, token=False, headers={"Host": "evil.example"}).status == 403
    with pytest.raises(A2AClientError, match=REFUSED):
        Talk(served, token="wrong" * 5).say("Hi")


def test_task_is_streamed(serve):
    """The answer is streamed in chunks, and the completed task contains the whole answer."""
    served = serve("The capital is Hanoi.")
    states, chunks, task = Talk(served).say("What is the capital?")
    assert states == ["WORKING", "COMPLETED"]
    assert [text for _, text in chunks[:-1]] == ["The ", "capital ", "is ", "Hanoi."]
    assert chunks[-1] == (False, "The capital is Hanoi.")
    assert (state(task), answer(task)) == ("COMPLETED", "The capital is Hanoi.")


@pytest.mark.parametrize(("streaming", "version"), [(False, "1.0"), (True, "0.3"), (False, "0.3")])
def test_other_clients_are_served(serve, streaming, version):
    """Clients that do not stream or that use protocol version 0.3 get the same answer."""
    served = serve("Hanoi.")
    _, _, task = Talk(served, streaming=streaming, version=version).say("What is the capital?")
    assert (state(task), answer(task)) == ("COMPLETED", "Hanoi.")


def test_context_is_a_conversation(serve, tmp_path):
    """Tasks of one context continue one conversation and do not affect other contexts."""
    llm = ScriptedLLM("Good day.", "Ana.", "Who?")
    talk = Talk(serve(agent=Agent("helper", llm=llm, workspace=tmp_path)))
    talk.say("I am Ana.")
    picture = Part(url="https://x.org/a.png", media_type="image/png")
    letter = Part(url="https://x.org/a.pdf", media_type="application/pdf")
    assert answer(talk.say("Who am I?", new_data_part({"page": "profile"}), picture, letter)[2]) == "Ana."
    Talk(talk.served).say("Who am I?")
    assert [len(request.messages) for request in llm.requests] == [1, 3, 1]
    text, data, image, file = llm.requests[1].messages[-1].content
    assert (text, data) == ("Who am I?", '{"page": "profile"}')
    assert (image.url, file.url) == ("https://x.org/a.png", "https://x.org/a.pdf")


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        ("yes", "sent to bo@x.org"),
        ("Too late today", "Too late today"),
        ("no", "refused"),
        ({"answers": {"call_1_1": {"approved": True}}}, "sent to bo@x.org"),
        ({"answers": {"call_1_1": {"approved": True, "editedArgs": {"to": "ana@x.org"}}}}, "sent to ana@x.org"),
        ({"answers": {"call_1_1": {"approved": False, "reason": "Never"}}}, "Never"),
    ],
)
def test_approvals_need_input(serve, tmp_path, reply, result):
    """A call that needs approval waits for the other agent's answer; only yes approves it."""
    llm = ScriptedLLM(call("send_mail", to="bo@x.org"), "Done.")
    talk = Talk(serve(agent=Agent("helper", [send_mail], llm=llm, workspace=tmp_path)))
    states, _, task = talk.say("Mail Bo.")
    assert states[-1] == "INPUT_REQUIRED"
    assert "bo@x.org" in get_message_text(task.status.message)
    (pending,) = get_data_parts(task.status.message.parts)[0]["pending"]
    assert (pending["id"], pending["tool"], pending["needsAnswer"]) == ("call_1_1", "send_mail", False)
    _, _, done = talk.say(reply if isinstance(reply, str) else new_data_part(reply))
    assert (done.id, state(done), answer(done)) == (task.id, "COMPLETED", "Done.")
    assert result in llm.requests[1].messages[-1].content


def test_invalid_answers_approve_nothing(serve, tmp_path):
    """An unclear or invalid answer leaves the task in INPUT_REQUIRED and approves nothing."""
    llm = ScriptedLLM([call("send_mail", to="a@x.org"), call("ask_user", question="When?")], "Done.")
    talk = Talk(serve(agent=Agent("helper", [send_mail, ask_user_tool()], llm=llm, workspace=tmp_path)))
    talk.say("Mail.")
    assert talk.say("yes")[0][-1] == "INPUT_REQUIRED"
    _, _, task = talk.say(new_data_part({"answers": {"call_1_2": {"answer": "now"}}}))
    assert [each["id"] for each in get_data_parts(task.status.message.parts)[0]["pending"]] == ["call_1_1"]
    assert talk.say("later")[0][-1] == "INPUT_REQUIRED"
    assert len(llm.requests) == 1
    for wrong, note in (({"call_1_1": {"approved": "maybe"}}, "true or false"), ({"other": {}}, "do not wait")):
        _, _, task = talk.say(new_data_part({"answers": wrong}))
        assert state(task) == "INPUT_REQUIRED"
        assert note in get_message_text(task.status.message)
    assert len(llm.requests) == 1


def test_answer_counts_once(serve, tmp_path):
    """An answer to a task that was already answered elsewhere fails the task."""
    place, llm = tmp_path / "sessions.db", ScriptedLLM(call("send_mail", to="bo@x.org"), "Done.")
    agent = Agent("helper", [send_mail], llm=llm, workspace=tmp_path)
    talk = Talk(serve(agent=agent, app_options={"sessions": place}))
    talk.say("Mail Bo.")
    agent.resume(answers=False, session=Session.open(place, f"a2a/{talk.ids['context_id']}"))
    _, _, task = talk.say("yes")
    assert "no longer" in get_message_text(task.status.message)


def test_questions_need_input(serve, tmp_path):
    """A question of the agent is answered by the text of the other agent."""
    llm = ScriptedLLM(call("ask_user", question="Which one?"), "The red one.")
    talk = Talk(serve(agent=Agent("helper", [ask_user_tool()], llm=llm, workspace=tmp_path)))
    assert get_message_text(talk.say("Choose.")[2].status.message) == "Which one?"
    assert answer(talk.say("red")[2]) == "The red one."
    assert llm.requests[1].messages[-1].content == "red"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([Part(url="file:///etc/passwd", media_type="image/png")], "neither text"),
        ([Part(raw=b"\x00\x01\x02")], "cannot be read"),
        ([Part(url="ftp://x/y.pdf")], "neither text"),
    ],
)
def test_parts_that_cannot_be_read_fail_the_task(serve, parts, reason):
    """A message with unsupported parts fails its task before the model is called."""
    _, _, task = Talk(serve("unused")).say(*parts)
    assert state(task) == "FAILED"
    assert reason in get_message_text(task.status.message)


def test_failure_fails_the_task(serve):
    """A failed run fails its task with the reason."""
    _, _, task = Talk(serve(Rejected("The model is out of order."))).say("Hi")
    assert state(task) == "FAILED"
    assert "out of order" in get_message_text(task.status.message)


def test_task_can_be_cancelled(serve, tmp_path):
    """Cancelling a task stops its run."""
    started, stopped = threading.Event(), threading.Event()

    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return "over"

    served = serve(agent=Agent("helper", [wait], llm=ScriptedLLM(call("wait")), workspace=tmp_path))

    async def cancelled(client):
        message = Message(role=Role.ROLE_USER, message_id="m", parts=[Part(text="Wait!")])
        async for response in client.send_message(SendMessageRequest(message=message)):
            if response.HasField("task"):
                await asyncio.to_thread(started.wait, 20)
                return await client.cancel_task(CancelTaskRequest(id=response.task.id))
        return None

    assert state(Talk(served).do(cancelled)) == "CANCELED"
    assert stopped.wait(20)


def test_ended_tasks_are_forgotten_beyond_a_maximum():
    """The oldest ended tasks are dropped beyond a maximum, and working or waiting tasks remain."""

    async def filled():
        from a2a.server.context import ServerCallContext

        tasks, context = BoundedTasks(InMemoryTaskStore(), 2), ServerCallContext()
        for number in range(6):
            ended = TaskState.TASK_STATE_WORKING if number == 0 else TaskState.TASK_STATE_COMPLETED
            await tasks.save(Task(id=str(number), context_id="c", status=TaskStatus(state=ended)), context)
        return [number for number in range(6) if await tasks.get(str(number), context) is not None]

    assert asyncio.run(filled()) == [0, 4, 5]


# An agent of the official SDK alone.


class Clerk(AgentExecutor):
    """An agent that answers in chunks, asks a question for 'choose', and fails for 'fail'."""

    async def execute(self, context, event_queue):
        """Work on a message."""
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        text = context.get_user_input()
        if context.current_task is None and text != "greet":
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            await updater.start_work()
        if text == "greet":
            await event_queue.enqueue_event(updater.new_agent_message([Part(text="Good day.")]))
            return
        if text == "choose":
            await updater.requires_input(updater.new_agent_message([Part(text="Which one?")]))
        elif text == "fail":
            await updater.failed(updater.new_agent_message([Part(text="Out of paper.")]))
        else:
            for number, chunk in enumerate(("You said ", text, ".")):
                await updater.add_artifact([Part(text=chunk)], artifact_id="a", append=number > 0)
            await updater.complete()

    async def cancel(self, context, event_queue):
        """Stop."""
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


@pytest.fixture
def serve_app():
    """Return a function that serves routes created from the origin on a free port."""
    import uvicorn

    with contextlib.ExitStack() as stack:

        def start(routes):
            listener = socket.create_server(("127.0.0.1", 0))
            origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
            made = routes(origin) if callable(routes) else routes
            server = uvicorn.Server(uvicorn.Config(Starlette(routes=made), log_level="critical"))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()

            def stop():
                server.should_exit = True
                thread.join(20)

            stack.callback(stop)
            return origin

        yield start


@pytest.fixture
def clerk(serve_app):
    """Return a function that serves the clerk, optionally with another address in its card."""

    def start(url=None, *, streaming=True):
        def routes(origin):
            interface = AgentInterface(url=url or f"{origin}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
            card = AgentCard(
                name="clerk",
                description="A clerk.",
                version="1",
                supported_interfaces=[interface],
                capabilities=AgentCapabilities(streaming=streaming),
                default_input_modes=["text/plain"],
                default_output_modes=["text/plain"],
                skills=[AgentSkill(id="s", name="s", description="s", tags=["s"])],
            )
            handler = DefaultRequestHandler(Clerk(), InMemoryTaskStore(), card)
            return [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")]

        return serve_app(routes)

    return start


@pytest.mark.parametrize("streaming", [True, False])
def test_remote_agent_is_called_like_an_agent(clerk, streaming):
    """A server of the official SDK answers like an agent, with its text as it arrives."""
    remote = A2AAgent(clerk(streaming=streaming), name="clerk")
    assert remote("hello") == "You said hello."
    result = remote.run("again")
    assert (result.status, result.text, result.agent) == ("done", "You said again.", "clerk")
    texts = [event.text for event in remote.events("now") if isinstance(event, TextDelta)]
    assert texts == (["You said ", "now", "."] if streaming else ["".join(texts)])


def test_remote_agent_remembers_the_conversation(serve, tmp_path):
    """Calls to a remote agent continue one conversation until `reset`."""
    llm = ScriptedLLM("One.", "Two.", "Three.")
    served = serve(agent=Agent("helper", llm=llm, workspace=tmp_path))
    remote = A2AAgent(served.origin, headers={"Authorization": f"Bearer {served.token}"})
    assert (remote("1"), asyncio.run(remote.arun("2")).text) == ("One.", "Two.")
    remote.reset()
    assert remote("3") == "Three."
    assert [len(request.messages) for request in llm.requests] == [1, 3, 1]


def test_remote_agent_can_answer_without_a_task(clerk):
    """A remote agent may return a message instead of a task."""
    assert A2AAgent(clerk())("greet") == "Good day."


def test_unfinished_task_is_polled(serve_app):
    """A task that is returned before it is done is polled until it is."""
    texts = iter(["working", "working", "completed"])

    async def card(request):
        interface = {"url": f"{request.base_url!s}rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return JSONResponse({"name": "slow", "supportedInterfaces": [interface]})

    async def rpc(request):
        document = await request.json()
        state = next(texts)
        artifact = {"artifactId": "a", "parts": [{"text": "Done."}]}
        task = {"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state.upper()}"}}
        task |= {"artifacts": [artifact]} if state == "completed" else {}
        result = {"task": task} if document["method"] == "SendMessage" else task
        return JSONResponse({"jsonrpc": "2.0", "id": document["id"], "result": result})

    origin = serve_app([Route(CARD, card), Route("/rpc", rpc, methods=["POST"])])
    assert A2AAgent(origin)("Work.") == "Done."


def test_paused_remote_task_is_resumed_call_by_call(serve, tmp_path):
    """A paused remote task can be resumed one call at a time, and an invalid answer is a ConfigError."""
    llm = ScriptedLLM([call("send_mail", to="a@x.org"), call("ask_user", question="When?")], "Done.")
    served = serve(agent=Agent("helper", [send_mail, ask_user_tool()], llm=llm, workspace=tmp_path))
    result = A2AAgent(served.origin, token=served.token).run("Mail.")
    assert [pending.needs_answer for pending in result.pending] == [False, True]
    mail, when = (pending.id for pending in result.pending)
    failed = result.resume({when: 5})
    assert isinstance(failed.error, ConfigError)
    result = result.resume({when: "now"})
    assert [pending.id for pending in result.pending] == [mail]
    assert result.resume({mail: {"to": "b@x.org"}}).text == "Done."
    assert [message.content for message in llm.requests[1].messages[-2:]][1] == "now"
    assert "b@x.org" in llm.requests[1].messages[-2].content


@pytest.mark.parametrize(("text", "words"), [("red", "red"), (True, "yes"), (False, "no")])
def test_approver_answers_the_questions_of_a_remote_agent(clerk, tmp_path, text, words):
    """A question of a remote agent is passed to the approver of the local run."""
    llm = ScriptedLLM(call("clerk", request="choose"), "Done.")
    remote = A2AAgent(clerk(), name="clerk")
    Agent("boss", [remote], llm=llm, workspace=tmp_path, approve=lambda _: text)("Choose.")
    assert llm.requests[1].messages[-1].content == f"You said {words}."


def test_results_of_others_are_not_resumed(clerk):
    """A remote agent only resumes its own results and only accepts text."""
    other = Agent("other", llm=ScriptedLLM("Hi.")).run("Hi")
    remote = A2AAgent(clerk())
    for work in (other.resumption(True), 5):
        with pytest.raises(ConfigError):
            remote.run(work)


def test_runs_end_with_the_server(serve, tmp_path):
    """The runs of tasks are stopped when the server stops."""
    started, stopped = threading.Event(), threading.Event()

    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return "over"

    agent = Agent("helper", [wait], llm=ScriptedLLM(call("wait")), workspace=tmp_path)
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Wait!"}]}
    sending = {"message": message, "configuration": {"returnImmediately": True}}
    document = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": sending}
    served = serve(agent=agent)
    served.ask("POST", "/a2a", document, {"A2A-Version": "1.0"})
    assert started.wait(20)
    served.server.should_exit = True
    assert stopped.wait(20)


def test_remote_task_that_needs_input_pauses_the_run(clerk):
    """A question from a remote task is answered through the result, even after the result was saved as JSON."""
    remote = A2AAgent(clerk())
    result = remote.run("choose")
    (pending,) = result.pending
    assert (result.status, pending.question, pending.needs_answer) == ("paused", "Which one?", True)
    assert result.resume("red").text == "You said red."
    saved = type(result).from_json(remote.run("choose").to_json())
    assert remote.run(saved.resumption("blue")).text == "You said blue."


def test_remote_agent_can_be_used_as_a_tool(clerk, tmp_path):
    """A remote agent can be used as a tool: its results are untrusted and its questions pause the run."""
    lines = call("clerk", request="hello"), "Said.", call("clerk", request="choose"), "Red, then."
    llm = ScriptedLLM(*lines)
    agent = Agent("helper", [A2AAgent(clerk(), name="clerk")], llm=llm, workspace=tmp_path, approve="later")
    assert agent("Say hello.") == "Said."
    result = llm.requests[1].messages[-1]
    assert (result.content, result.labels) == ("You said hello.", {"untrusted"})
    paused = agent.run("Choose.")
    assert paused.pending[0].question == "Which one?"
    assert paused.resume({paused.pending[0].id: "red"}).text == "Red, then."
    assert llm.requests[3].messages[-1].content == "You said red."


def test_approvals_pass_through_two_agents(serve, tmp_path):
    """A remote agent's call that needs approval is approved by the person of the local run."""
    served = serve(call("send_mail", to="bo@x.org"), "Sent.", tools=[send_mail])
    questions = []

    def approve(request):
        questions.append((request.agent, request.tool, dict(request.arguments)))
        return True

    remote = A2AAgent(served.origin, name="mailer", token=served.token)
    llm = ScriptedLLM(call("mailer", request="Mail Bo."), "Done.")
    agent = Agent("boss", [remote], llm=llm, workspace=tmp_path, approve=approve)
    assert agent("Mail Bo.") == "Done."
    assert questions == [("mailer", "send_mail", {"to": "bo@x.org"})]
    assert llm.requests[1].messages[-1].content == "Sent."


def test_nothing_is_approved_without_an_approver(serve, tmp_path):
    """Without an approver, a remote call that needs approval is denied."""
    remote_llm = ScriptedLLM(call("send_mail", to="bo@x.org"), "Not sent.")
    served = serve(agent=Agent("helper", [send_mail], llm=remote_llm, workspace=tmp_path))
    remote = A2AAgent(served.origin, name="mailer", token=served.token)
    agent = Agent("boss", [remote], llm=ScriptedLLM(call("mailer", request="Mail Bo."), "Done."), workspace=tmp_path)
    assert agent("Mail Bo.") == "Done."
    assert "There is no approver." in remote_llm.requests[1].messages[-1].content


def test_failures_of_a_remote_agent_are_results(clerk, serve, serve_app):
    """A failed task, wrong token, closed port or card without a usable interface produces a failed run."""
    elsewhere, works, guarded = clerk("http://127.0.0.1:9/rpc"), clerk(), serve("unused").origin

    async def card(request):
        interface = {"url": str(request.base_url), "protocolBinding": "GRPC", "protocolVersion": "1.0"}
        return JSONResponse({"name": "other", "supportedInterfaces": [interface]})

    other = serve_app([Route(CARD, card)])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = f"http://127.0.0.1:{listener.getsockname()[1]}"
    reasons = {
        A2AAgent(works): "Out of paper",
        A2AAgent(guarded, token="wrong" * 5): REFUSED,
        A2AAgent(closed): "failed",
        A2AAgent(elsewhere): "no interface on that server",
        A2AAgent(other): "no interface for JSON-RPC",
    }
    for remote, reason in reasons.items():
        result = remote.run("fail")
        assert result.status == "failed"
        assert re.search(reason, str(result.error))
        with pytest.raises(RunError, match=reason):
            remote("fail")
    for wrong in ("ftp://x", "", None):
        with pytest.raises(ConfigError, match="address of an A2A server"):
            A2AAgent(wrong)
