"""A2A: an agent as a server for other agents, and agents of other servers as `A2AAgent`."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from contextvars import copy_context
from importlib.util import find_spec
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from agentkit._dataclass import dataclass
from agentkit._version import __version__
from agentkit.agents.agent import PARAGRAPH, Agent, AgentTool
from agentkit.agents.result import Pending, Resumption, RunFinished, RunResult, final_result, pending_calls
from agentkit.agents.run_config import LINEAGE, PausingTool, name_for_tool
from agentkit.content import File, Image, read_part
from agentkit.decisions import Decision, Label, SafetyLevel, Verdict
from agentkit.errors import AgentKitError, ConfigError, MissingExtra, RunError
from agentkit.events import Event, ResponseReceived, RunEnded, RunStarted, StoredEvent, TextDelta, ToolCallPostponed
from agentkit.messages import AssistantMessage, Content, Response, ToolCall, arguments_of, well_formed
from agentkit.safety.approval import WORDS, Approval, ApprovalRequest, ApproverAnswer, is_mistaken
from agentkit.server.conversations import Conversations, front_end_events, parse_client_answer
from agentkit.server.http_types import (
    ConcurrencyLimit,
    HTTPError,
    HTTPRequest,
    HTTPResponse,
    cancel_tasks,
    invalid_value,
    json_response,
)
from agentkit.sessions.state import RunState
from agentkit.tooling.tool import Tool

if TYPE_CHECKING:
    from a2a.client import Client
    from a2a.server.agent_execution import RequestContext
    from a2a.server.events import EventQueue
    from a2a.server.tasks import TaskUpdater
    from a2a.types import AgentCard, Message, Part, StreamResponse

CARD_PATH = "/.well-known/agent-card.json"
RPC_PATH = "/a2a"
_MAX_TASKS = 1_000
_IDLE_SECONDS = 600.0
_PENDING = ("id", "tool", "arguments", "question")
"""The fields of each waiting call in a status message, in addition to `needsAnswer`."""

_BOTH = "Answer yes or no, or send the answers by the ids of the calls."


def _check_extra() -> None:
    if find_spec("a2a") is None:
        raise MissingExtra("a2a", "A2A")


@dataclass(slots=True)
class A2AEndpoint:
    """The card and the JSON-RPC endpoint of one agent; its context ids are the names of conversations."""

    agent: Agent[Any]
    conversations: Conversations
    limit: ConcurrencyLimit
    _dispatcher: Any = None
    _executor: A2AExecutor | None = None

    async def card(self, http_request: HTTPRequest) -> HTTPResponse:
        """Describe the agent to other agents: its name and description, not its tools. Raises MissingExtra."""
        _check_extra()
        from a2a.server.request_handlers.response_helpers import agent_card_to_dict

        return json_response(agent_card_to_dict(self._card(http_request.origin)))

    async def rpc(self, http_request: HTTPRequest) -> HTTPResponse:
        """Let the SDK answer a JSON-RPC request. Raises HTTPError and MissingExtra."""
        from starlette.requests import Request

        body = json.dumps(await http_request.document()).encode()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        return HTTPResponse(
            asgi_response=await self._get_dispatcher().handle_requests(Request(dict(http_request.scope), receive))
        )

    async def close(self) -> None:
        """Stop all runs."""
        if self._executor is not None:
            await self._executor.close()

    def _get_dispatcher(self) -> Any:
        """The dispatcher of the official SDK, created for the first request. Raises MissingExtra."""
        if self._dispatcher is None:
            _check_extra()
            from a2a.server.request_handlers import DefaultRequestHandler
            from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
            from a2a.server.tasks import InMemoryTaskStore

            self._executor = A2AExecutor(self.conversations, self.limit)
            tasks: Any = BoundedTasks(InMemoryTaskStore())
            executor: Any = self._executor
            handler = DefaultRequestHandler(executor, tasks, self._card(""), interrupted_task_timeout=_IDLE_SECONDS)
            self._dispatcher = JsonRpcDispatcher(handler, enable_v0_3_compat=True)
        return self._dispatcher

    def _card(self, origin: str) -> AgentCard:
        from a2a import types

        agent, modes = self.agent, ["text/plain"]
        description = agent.description or f"The agent {agent.name}."
        named: dict[str, Any] = {"name": agent.name, "description": description}
        bearer = types.SecurityScheme(http_auth_security_scheme=types.HTTPAuthSecurityScheme(scheme="Bearer"))
        return types.AgentCard(
            **named,
            version=__version__,
            supported_interfaces=[
                types.AgentInterface(url=f"{origin}{RPC_PATH}", protocol_binding="JSONRPC", protocol_version=version)
                for version in ("1.0", "0.3")
            ],
            capabilities=types.AgentCapabilities(streaming=True),
            security_schemes={"bearer": bearer},
            security_requirements=[types.SecurityRequirement(schemes={"bearer": types.StringList()})],
            default_input_modes=[*modes, "image/*", "application/pdf", "application/json"],
            default_output_modes=modes,
            skills=[types.AgentSkill(id="answer", **named, tags=["agent"])],
        )


class BoundedTasks:
    """A task store that forgets the oldest ended tasks beyond a maximum; others are never forgotten."""

    def __init__(self, store: Any, maximum: int = _MAX_TASKS) -> None:
        self._store, self._maximum = store, maximum
        self._ended: dict[str, None] = {}
        self.get, self.list, self.delete = store.get, store.list, store.delete

    async def save(self, task: Any, context: Any) -> None:
        """Store a task."""
        from a2a.server.agent_execution.active_task import TERMINAL_TASK_STATES

        await self._store.save(task, context)
        if task.status.state in TERMINAL_TASK_STATES:
            self._ended[task.id] = None
        while len(self._ended) > self._maximum:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            await self._store.delete(oldest, context)


class A2AExecutor:
    """Runs the agent for the tasks of other agents, as the AgentExecutor of the SDK."""

    def __init__(self, conversations: Conversations, limit: ConcurrencyLimit) -> None:
        self._conversations, self._limit = conversations, limit
        self._paused: dict[str, str] = {}
        self._active: set[asyncio.Task[Any]] = set()

    async def execute(self, context: RequestContext, queue: EventQueue) -> None:
        """Run the agent for a message of a task, up to its end or until the task needs input."""
        from a2a.helpers import new_task_from_user_message
        from a2a.server.tasks import TaskUpdater

        message, task_id, context_id = cast("Message", context.message), str(context.task_id), str(context.context_id)
        if context.current_task is None:
            await queue.enqueue_event(new_task_from_user_message(message))
        updater = TaskUpdater(queue, task_id, context_id)
        active = asyncio.current_task()
        self._active |= {active} if active is not None else set()
        try:
            with self._limit.header():
                await self._run(message, updater)
        except (HTTPError, AgentKitError) as error:
            self._paused.pop(task_id, None)
            await updater.failed(updater.new_agent_message([_text_part(str(error))]))
        finally:
            self._active.discard(cast("asyncio.Task[Any]", active))

    async def cancel(self, context: RequestContext, queue: EventQueue) -> None:
        """End a task whose run was cancelled, or which waits."""
        from a2a.server.tasks import TaskUpdater

        self._paused.pop(str(context.task_id), None)
        await TaskUpdater(queue, str(context.task_id), str(context.context_id)).cancel()

    async def close(self) -> None:
        """Stop all runs."""
        await cancel_tasks(*self._active)

    async def _run(self, message: Message, updater: TaskUpdater) -> None:
        """Run or resume, and report the text and the end. Raises HTTPError and AgentKitError."""
        conversation = self._conversations.find(updater.context_id)
        with conversation.exclusive():
            work: Any = _content(message.parts)
            run = self._paused.get(updater.task_id, "")
            if run:
                _, waiting = conversation.waiting(run)
                if not waiting:
                    raise HTTPError(409, "This task no longer waits for an answer.", code="not_waiting")
                try:
                    answers, note = _answers(message.parts, waiting), _BOTH
                except HTTPError as error:
                    answers, note = None, str(error)
                if answers is None:
                    await updater.requires_input(updater.new_agent_message(_questions(waiting, note)))
                    return
                work = Resumption(run, answers)
            await updater.start_work()
            async with aclosing(front_end_events(conversation.agent, work)) as events:
                result = await _stream_answer(events, updater)
            self._paused.pop(updater.task_id, None)
        if result.status == "paused":
            self._paused[updater.task_id] = result.run_id
            await updater.requires_input(updater.new_agent_message(_questions(result.pending)))
        elif result.status == "done":
            await updater.complete()
        else:
            await updater.failed(updater.new_agent_message([_text_part(str(result.error or result.status))]))


async def _stream_answer(events: AsyncGenerator[Event, None], updater: TaskUpdater) -> RunResult[Any]:
    """Send the answer as an artifact, and return the result of the run.

    Chunks are sent as they arrive, and at the end the whole text in their place: clients that read the finished task
    would see them as separate parts.
    """
    key, texts = secrets.token_hex(8), list[str]()
    async for event in events:
        if isinstance(event, TextDelta):
            await updater.add_artifact([_text_part(event.text)], key, name="answer", append=bool(texts))
            texts.append(event.text)
        if isinstance(event, RunFinished):
            result = event.result
    if len(texts) > 1:
        whole = [_text_part("".join(texts))]
        await updater.add_artifact(whole, key, name="answer", append=False, last_chunk=True)
    return result


def _text_part(text: str) -> Part:
    from a2a.types import Part

    return Part(text=well_formed(text))


def _data(part: Part) -> Any:
    """The JSON value of a data part; protobuf stores all numbers as floating point."""
    from a2a.helpers import get_data_parts

    return get_data_parts([part])[0]


def _content(parts: Sequence[Part]) -> Content:
    """The prompt in a message. Raises HTTPError for a part that no model reads."""
    content = tuple(map(_part, parts))
    return content[0] if len(content) == 1 and isinstance(content[0], str) else content


def _part(part: Part) -> str | Image | File:
    kind = part.WhichOneof("content")
    try:
        if kind == "raw":
            return read_part(part.raw)
        if kind == "url" and part.url.lower().startswith(("https://", "http://")):
            return Image(part.url) if part.media_type.startswith("image/") else File(part.url)
    except (ValueError, OSError) as error:
        raise invalid_value(f"A file of the message cannot be read: {error}") from None
    if kind == "text":
        return part.text
    if kind == "data":
        return json.dumps(_data(part), ensure_ascii=False)
    raise invalid_value("A part of the message is neither text, data, bytes nor a web address.")


def _questions(waiting: Sequence[Pending], note: str = "") -> list[Part]:
    """The questions of a waiting task: as text, and as data for clients that answer each call."""
    from a2a.helpers import new_data_part

    calls = [{**{name: getattr(each, name) for name in _PENDING}, "needsAnswer": each.needs_answer} for each in waiting]
    text = PARAGRAPH.join([*(each.question for each in waiting), *([note] if note else [])])
    return [_text_part(text), new_data_part(json.loads(well_formed(json.dumps({"pending": calls}))))]


def _answers(parts: Sequence[Part], waiting: Sequence[Pending]) -> dict[str, Any] | None:
    """The answers to waiting calls: data with `answers` by call id, or one text; None for a text that is unclear.

    Only a text that says yes approves; any other text is the answer to a question, or the reason of a refusal. Raises
    HTTPError for answers that do not fit.
    """
    given = [data["answers"] for part in parts if part.HasField("data") and "answers" in (data := _data(part))]
    if given and isinstance(given[0], Mapping):
        by_id = {pending.id: pending for pending in waiting}
        if unknown := [name for name in given[0] if name not in by_id]:
            raise HTTPError(409, f"These calls do not wait for an answer: {unknown}.", code="not_waiting")
        return {name: parse_client_answer(payload, by_id[name]) for name, payload in given[0].items()}
    text = "\n".join(part.text for part in parts if part.HasField("text")).strip()
    if not text or (len(waiting) > 1 and any(pending.needs_answer for pending in waiting)):
        return None
    if waiting[0].needs_answer:
        return {waiting[0].id: text}
    if text.strip(" .!").casefold() in (Approval.LATER, Approval.IMPOSSIBLE):
        return None
    answer: Any = True if is_mistaken(text) else False if text.strip(" .!").casefold() == "no" else text
    return {pending.id: answer for pending in waiting}


_POLL_SECONDS = 1.0
_REPLY = "reply"
"""The id of the waiting call of a task of another toolkit, which asks for one text."""


class A2AAgent:
    """An agent of another server, reached over A2A: called like an agent, and a tool of your agents with `as_tool()`.

    `url` is the address below which the server has its card; `token` is sent as a bearer token, and `headers` with
    every request. The agent remembers the conversation until `reset`. Raises ConfigError for an invalid address.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        description: str = "",
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 600.0,
    ) -> None:
        parts = urlsplit(url) if isinstance(url, str) else urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"url= takes the address of an A2A server, such as https://example.com. Got {url!r:.200}."
            )
        self.name, self.description = name or parts.hostname, description
        self._url, self._timeout_seconds = url, timeout_seconds
        self._headers = {**(headers or {}), **({} if token is None else {"Authorization": f"Bearer {token}"})}
        self._context_id = ""

    def __call__(self, prompt: str) -> str:
        """The answer as text. Raises RunError with the result so far if the run has no answer."""
        return self.run(prompt).raise_for_status().text

    def run(self, prompt: str | Resumption) -> RunResult[str]:
        """Let the agent work on a prompt, or on the answers to a task that waits, blocking.

        A failure, also of the connection, is reported in the result. A task that needs input is a paused run:
        `result.pending` has its questions, and `result.resume(answers)` answers them.
        """
        return final_result(list(self.events(prompt)))

    async def arun(self, prompt: str | Resumption) -> RunResult[str]:
        """Async version of `run`."""
        return final_result([event async for event in self.aevents(prompt)])

    def reset(self) -> None:
        """Forget the conversation."""
        self._context_id = ""

    def as_tool(self, name: str | None = None, description: str | None = None) -> Tool[[str], Any]:
        """This agent as a tool. Each call is a separate conversation.

        A person answers the questions of its tasks: the run of your agent asks its approver, or pauses. The tool counts
        as NETWORK, and its results as untrusted.
        """
        worker = AgentTool(cast("Any", self))
        about = description or self.description or f"Let the agent {self.name} work on a request, and get the answer."
        return PausingTool(
            worker,
            name or name_for_tool(self.name),
            about,
            level=SafetyLevel.NETWORK,
            labels=[Label.UNTRUSTED],
            timeout_seconds=None,
            asynchronous=worker.acall,
        )

    def events(self, work: str | Resumption, session: object = None) -> Iterator[Event]:
        """The events of a run, after its end."""

        async def collect() -> list[Event]:
            return [event async for event in self.aevents(work, session)]

        with ThreadPoolExecutor(1) as pool:  # there can be an event loop in this thread
            yield from pool.submit(copy_context().run, asyncio.run, collect()).result()

    async def aevents(self, work: str | Resumption, session: object = None) -> AsyncGenerator[Event, None]:
        """Yield the text as it arrives, then RunFinished.

        With a `session`, this is a tool call: a separate conversation, whose waiting calls the approver of the calling
        run answers.
        """
        result, answers = None, None
        while result is None or answers is not None:
            task = _RemoteTask(self.name, work, self._context_id if session is None else "")
            try:
                async with aclosing(self._exchange(task)) as texts:
                    async for text in texts:
                        yield TextDelta(text)
            except AgentKitError as error:
                task.state, task.error = "failed", error
            result = task.result(self)
            answers = await self._answers(result) if result.pending and session is not None else None
            work = result.resumption(answers)
        if session is None:
            self._context_id = task.context_id
        yield RunFinished(result)

    async def _answers(self, result: RunResult[str]) -> dict[str, Any] | None:
        """The answers of the calling run's approver to the waiting calls; None to pause.

        Without an approver no call is approved, and questions pause the run.
        """
        approve, answers = LINEAGE.get().approve, dict[str, Any]()
        for step in RunState.of(result.events).waiting:
            call, words = step.pending_call, Decision(Verdict.ASK, WORDS, step.question)
            arguments = {} if step.needs_text else arguments_of(call)
            decision = words if step.postponed is None or step.postponed.decision is None else step.postponed.decision
            given = arguments if isinstance(arguments, dict) else {"arguments": arguments}
            request = ApprovalRequest(self.name, call.name, given, decision, call_id=call.id)
            answer: Any = None if approve is None else await asyncio.to_thread(approve, request)
            answer = await answer if isawaitable(answer) else answer
            if ApproverAnswer.of(answer).approval is Approval.LATER or (step.needs_text and approve is None):
                return None
            answers[call.id] = _answer_text(answer) if step.needs_text else ApproverAnswer.of(answer)
        return answers

    async def _exchange(self, task: _RemoteTask) -> AsyncGenerator[str, None]:
        """Send the message, and yield the text of the responses until the task ends or waits. Raises AgentKitError."""
        _check_extra()
        import httpx
        from a2a.client import ClientCallContext
        from a2a.types import GetTaskRequest
        from a2a.utils.errors import A2AError

        context = ClientCallContext(timeout=self._timeout_seconds)
        try:
            async with (
                httpx.AsyncClient(headers=self._headers, timeout=self._timeout_seconds) as connection,
                await self._connect(connection) as client,
            ):
                async for response in client.send_message(task.request(), context=context):
                    if text := task.apply_response(response):
                        yield text
                while task.state in ("submitted", "working"):
                    await asyncio.sleep(_POLL_SECONDS)
                    task.apply_task(await client.get_task(GetTaskRequest(id=task.task_id), context=context))
        except (A2AError, httpx.HTTPError, ValueError) as error:
            raise RunError(f"The A2A agent at {self._url} failed: {error or type(error).__name__}") from error

    async def _connect(self, connection: Any) -> Client:
        """A client for the interfaces that the card names on this server. Raises RunError if it names none here."""
        from a2a.client import A2ACardResolver, ClientConfig, ClientFactory

        card = await A2ACardResolver(connection, self._url).get_agent_card()
        here = [each for each in card.supported_interfaces if _origin(each.url) == _origin(self._url)]
        if not here:
            which = ", ".join(each.url for each in card.supported_interfaces) or "none"
            raise RunError(f"The card at {self._url} lists no interface on that server: {which}.")
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(here)
        config = ClientConfig(httpx_client=connection, supported_protocol_bindings=["JSONRPC", "HTTP+JSON"])
        try:
            return ClientFactory(config).create(card)
        except ValueError as error:
            raise RunError(f"The server {self._url} has no interface for JSON-RPC or HTTP: {error}.") from error


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


class _RemoteTask:
    """One exchange with a remote agent: the message to send, and the task as its responses describe it."""

    def __init__(self, agent: str, work: str | Resumption, context_id: str) -> None:
        self._agent, self._work = agent, work
        self.task_id, self.context_id = "", context_id
        self.state, self.error = "", cast("AgentKitError | None", None)
        self._texts: dict[str, str] = {}
        self._status: Message | None = None
        if isinstance(work, Resumption):
            self._run_id, self._progress, _ = work.state or ("", RunState(), ())
            try:
                self.context_id, self.task_id = json.loads(self._run_id)
            except ValueError:
                raise ConfigError("Resume with a result of this agent, or its text.") from None
        elif not isinstance(work, str):
            raise ConfigError(f"The prompt of an A2A agent must be a string. Got {work!r:.200}.")

    def request(self) -> Any:
        """The message of the prompt, or of the answers."""
        from a2a.types import Message, Role, SendMessageRequest

        parts = [_text_part(self._work)] if isinstance(self._work, str) else self._answer_parts(self._work)
        ids: Any = {"context_id": self.context_id, "task_id": self.task_id}
        message = Message(role=Role.ROLE_USER, message_id=secrets.token_hex(16), parts=parts, **ids)
        return SendMessageRequest(message=message)

    def apply_response(self, response: StreamResponse) -> str:
        """Apply a response, and return the new text in it."""
        kind = response.WhichOneof("payload")
        if kind == "task":
            return self.apply_task(response.task)
        if kind == "message":
            self.state, self.context_id = "completed", response.message.context_id or self.context_id
            return self._store_text("message", response.message.parts, append=False)
        update: Any = response.artifact_update if kind == "artifact_update" else response.status_update
        self.task_id, self.context_id = update.task_id, update.context_id
        if kind == "artifact_update":
            return self._store_text(update.artifact.artifact_id, update.artifact.parts, append=update.append)
        self._apply_status(update.status)
        return ""

    def apply_task(self, task: Any) -> str:
        """Apply a whole task, and return the new text in it."""
        self.task_id, self.context_id = task.id, task.context_id
        self._apply_status(task.status)
        return "".join(self._store_text(each.artifact_id, each.parts, append=False) for each in task.artifacts)

    def result(self, agent: A2AAgent) -> RunResult[str]:
        """The task as the result of a run."""
        answer = "" if self._status is None else _text_of(self._status.parts, "\n")
        text = PARAGRAPH.join(filter(None, self._texts.values()))
        status: Any = {"completed": "done", "input_required": "paused"}.get(self.state, "failed")
        if status == "done":
            text = text or answer
        elif status == "failed" and self.error is None:
            self.error = RunError(f"The task of {self._agent} ended as {self.state or 'unknown'}. {answer}".rstrip())
        postponed = list(self._postponed(answer)) if status == "paused" else []
        message = AssistantMessage(text, tuple(each.call for each in postponed), agent=self._agent)
        prompt = self._work if isinstance(self._work, str) else ""
        events: tuple[StoredEvent, ...] = (
            RunStarted(self._agent, prompt),
            ResponseReceived(Response(message, "tool_calls" if postponed else "stop")),
            *postponed,
            RunEnded(status, text, str(self.error or "")),
        )
        progress = RunState.of(events)
        value = text if text or status == "done" else None
        run_id = json.dumps([self.context_id, self.task_id])
        return RunResult[str].of(progress, run_id, (), self.error, value=value, last_agent=agent)

    def _apply_status(self, status: Any) -> None:
        from a2a.types import TaskState

        self.state = TaskState.Name(status.state).removeprefix("TASK_STATE_").lower()
        self._status = status.message if status.HasField("message") else None

    def _store_text(self, key: str, parts: Sequence[Part], *, append: bool) -> str:
        """Store the text of an artifact, and return its new part."""
        known, text = self._texts.get(key, ""), _text_of(parts)
        self._texts[key] = known + text if append else text
        if append:
            return text
        before = PARAGRAPH if text and not known and any(each for each in self._texts if each != key) else ""
        return before + text[len(known) :] if text.startswith(known) else ""

    def _postponed(self, answer: str) -> Iterator[ToolCallPostponed]:
        """The calls for which the task waits; for a server that does not list them, one call that needs a text."""
        parts = () if self._status is None else self._status.parts
        listed = [data["pending"] for part in parts if part.HasField("data") and "pending" in (data := _data(part))]
        calls = [each for each in listed[0] if isinstance(each, Mapping)] if listed and listed[0] else []
        for each in calls or [{"id": _REPLY, "tool": _REPLY, "question": answer, "needsAnswer": True}]:
            call_id, name, arguments, question = (str(each.get(key, "")) for key in _PENDING)
            call = ToolCall(call_id, name, arguments)
            decision = None if each.get("needsAnswer") else Decision(Verdict.ASK, "a2a", f"{self._agent} asks.")
            yield ToolCallPostponed(call, question, decision)

    def _answer_parts(self, work: Resumption) -> list[Part]:
        """The answers in the format of the server. Raises ConfigError for answers of another kind."""
        from a2a.helpers import new_data_part

        given, waiting = work.answers, pending_calls(self._progress)
        if not isinstance(given, Mapping):
            given = {each.id: cast("Any", given) for each in waiting}
        if [each.id for each in waiting] == [_REPLY]:
            return [_text_part(_answer_text(given.get(_REPLY)))]
        answers = {each.id: _payload(given[each.id], each) for each in waiting if each.id in given}
        return [new_data_part({"answers": answers})]


def _text_of(parts: Sequence[Part], delimiter: str = "") -> str:
    texts = [part.text if part.HasField("text") else f"[{part.media_type or 'data'}]" for part in parts]
    return delimiter.join(texts)


def _answer_text(answer: Any) -> str:
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    if isinstance(answer, str):
        return str(answer)
    raise ConfigError(f"This task waits for a string. Got {answer!r:.200}.")


def _payload(answer: Any, pending: Pending) -> dict[str, Any]:
    """An answer in the format that `parse_client_answer` reads."""
    if pending.needs_answer:
        return {"answer": _answer_text(answer)}
    answer = ApproverAnswer.of(answer)
    if answer.approval in (Approval.ONCE, Approval.RUN, Approval.WORKSPACE, Approval.ALWAYS):
        edited = {} if answer.arguments is None else {"editedArgs": dict(answer.arguments)}
        return {"approved": True, **edited}
    return {"approved": False, "reason": answer.text}
