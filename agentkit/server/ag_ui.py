"""The AG-UI endpoint: runs of an agent for pages built with an AG-UI client."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from copy import deepcopy
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit.agents.agent import PARAGRAPH
from agentkit.agents.options import Prompt, conversation_from
from agentkit.agents.result import Pending, Resumption, RunFinished, RunResult
from agentkit.agents.runner import spent_in
from agentkit.decisions import SafetyLevel
from agentkit.errors import AgentKitError, ConfigError, MissingExtra, Postponed
from agentkit.event_rendering import content_text, escape_invisible
from agentkit.events import (
    Event,
    ReasoningDelta,
    RequestStarted,
    ResponseReceived,
    TextDelta,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.llm.protocols.chat_format import typed
from agentkit.messages import Content, ToolCall, parts_of, well_formed
from agentkit.server.conversations import ClientConversation, Conversations, front_end_events, parse_client_answer
from agentkit.server.http_types import (
    SSE_BEAT,
    ConcurrencyLimit,
    HTTPError,
    HTTPRequest,
    HTTPResponse,
    invalid_value,
    server_stopped,
    stream_response,
)
from agentkit.server.openai_endpoint import check_entry, http_error
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent, Interrupt, Message, ResumeEntry, RunAgentInput

_VERSION = "1.0"
_NOT_RUN = "The page did not run this call: the user wrote a message instead."


@dataclass(slots=True)
class SharedState:
    """State that a page and the tools of an agent share: JSON data in `data`.

    An agent with `context=SharedState({…})` shares it: each run starts with the state of the page, or with a copy of
    this one. Its tools change `data`, which they get through a parameter annotated `RunContext[SharedState]`, and the
    page receives each change.
    """

    data: Any = field(default_factory=dict)


@dataclass(slots=True)
class AGUIEndpoint:
    """The endpoint of one agent. Each thread of a page is a conversation that the server stores."""

    conversations: Conversations
    limit: ConcurrencyLimit

    async def run(self, request: HTTPRequest) -> HTTPResponse:
        """Run the agent and stream its events. A disconnect ends the run. Raises HTTPError and MissingExtra."""
        document = await request.document()
        try:
            from ag_ui.core import RunAgentInput
        except ModuleNotFoundError as error:
            raise MissingExtra("ag-ui", "AG-UI") from error
        try:
            run_input = RunAgentInput.model_validate(document)
        except ValueError as error:
            raise invalid_value(f"The body is not a RunAgentInput: {error}") from None
        conversation = self.conversations.find(run_input.thread_id)
        chunks = _AGUIRun(conversation, run_input).chunks()
        response = stream_response(chunks, "text/event-stream", self.limit, beat=SSE_BEAT)
        return replace(response, last=_error_event(server_stopped()))


def _error_event(error: HTTPError) -> bytes:
    from ag_ui.core import RunErrorEvent
    from ag_ui.encoder import EventEncoder

    return EventEncoder().encode(RunErrorEvent(message=well_formed(f"{error}"), code=error.code)).encode()


class _AGUIRun:
    """One run for a page: the request read into the work of the agent, and the events of the run in AG-UI's format."""

    def __init__(self, conversation: ClientConversation, run_input: RunAgentInput) -> None:
        self._conversation, self._input = conversation, run_input
        self._page_tools = {tool.name for tool in run_input.tools or ()}

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the events as server-sent events; a failure is the last one."""
        from ag_ui.encoder import EventEncoder

        encoder = EventEncoder()
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    yield encoder.encode(event).encode()
        except (HTTPError, AgentKitError) as error:
            yield _error_event(error if isinstance(error, HTTPError) else http_error(error))

    async def _events(self) -> AsyncGenerator[BaseEvent, None]:
        """Yield the events. Raises HTTPError for a request that does not fit the thread, and the error of the run."""
        from ag_ui.core import RunStartedEvent, StateSnapshotEvent

        run_input, conversation = self._input, self._conversation
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id, protocol_version=_VERSION)
        with conversation.exclusive():
            run, waiting = conversation.waiting()
            translation = AGUITranslation({pending.id for pending in waiting})
            work, sent = self._work(run, waiting)
            state, sent_state = self._prepare(), None if run_input.state is None else _json(run_input.state)
            events = front_end_events(conversation.agent, work, sent)
            async with aclosing(events):
                async for event in events:
                    for each in translation.events(event):
                        yield each
                    is_settled = isinstance(event, RequestStarted | ToolCallFinished)
                    if state is not None and is_settled and _json(state.data) != sent_state:
                        sent_state = _json(state.data)
                        yield StateSnapshotEvent(snapshot=json.loads(sent_state))
                    if isinstance(event, RunFinished):
                        yield self._final_event(event.result, translation)

    def _prepare(self) -> SharedState | None:
        """Give the agent the tools of the page and, if it shares state, that of the page. Raises HTTPError."""
        agent, run_input, own = self._conversation.agent, self._input, self._conversation.own_tools
        try:
            agent.tools = own + Toolset(map(page_tool, run_input.tools)) if run_input.tools else own
        except ConfigError as error:
            raise invalid_value(f"A tool of the page cannot be used: {error}") from None
        if not isinstance(agent.context, SharedState):
            return None
        agent.context = state = SharedState(
            deepcopy(agent.context.data) if run_input.state is None else run_input.state
        )
        return state

    def _work(self, run: str, waiting: Sequence[Pending]) -> tuple[Prompt | Resumption, list[Content]]:
        """The prompt, or the run to resume, and messages to send into it. Raises HTTPError and AgentKitError."""
        conversation, run_input = self._conversation, self._input
        users = [index for index, message in enumerate(run_input.messages) if message.role == "user"]
        if waiting:
            new = [self._content(index) for index in users[conversation.prompts :]]
            return Resumption(run, self._answers(waiting, is_skipped=bool(new))), new
        if run_input.resume:
            raise HTTPError(409, "No interrupt of this thread waits for an answer.", code="not_waiting")
        if not users:
            raise invalid_value("messages has no message of the user to answer.")
        while (known := conversation.prompts) >= len(users):  # the page asks again, or has changed its last messages
            conversation.forget_last_run()
        earlier = (
            run_input.messages[: users[-1]] if not known else [run_input.messages[index] for index in users[known:-1]]
        )
        entries = [_entry(each) for each in earlier if each.role in ("user", "assistant", "tool")]
        conversation.agent.session.append(conversation_from(entries, conversation.own_tools))
        return self._content(users[-1], with_context=True), []

    def _content(self, index: int, *, with_context: bool = False) -> Content:
        """The content of a user message, with the context that the page sends."""
        content = typed(_entry(self._input.messages[index])).content
        described = [f"- {each.description}: {each.value}" for each in self._input.context or () if with_context]
        return (*parts_of(content), "\n".join(["Context from the page:", *described])) if described else content

    def _answers(self, waiting: Sequence[Pending], *, is_skipped: bool) -> dict[str, Any]:
        """The answers to all waiting calls. Raises HTTPError unless the request has one for each.

        The page answers its own calls with tool messages, and interrupts with `resume`. With `is_skipped` the user has
        written a message instead of waiting for the page.
        """
        results = {each.tool_call_id: each for each in self._input.messages if each.role == "tool"}
        entries = {each.interrupt_id: each for each in self._input.resume or ()}
        answers: dict[str, Any] = {}
        for pending in waiting:
            if pending.needs_answer and pending.tool in self._page_tools:
                if pending.id in results or is_skipped:
                    answers[pending.id] = _page_result(results.get(pending.id))
            elif pending.id in entries:
                answers[pending.id] = _parse_resume(entries.pop(pending.id), pending)
        missing = [pending.id for pending in waiting if pending.id not in answers]
        unknown = [*entries]
        if missing or unknown:
            which = f"These calls wait for an answer: {missing}." if missing else f"These do not wait: {unknown}."
            raise HTTPError(409, f"resume must answer every open interrupt of the thread. {which}", code="not_answered")
        return answers

    def _final_event(self, result: RunResult[Any], translation: AGUITranslation) -> BaseEvent:
        """The last event of the run. Raises the error of a run that failed or reached a limit."""
        from ag_ui.core import RunFinishedEvent, RunFinishedInterruptOutcome, RunFinishedSuccessOutcome, TokenUsage

        if result.status in ("failed", "limit") and result.error is not None:
            raise result.error
        for_page = [each for each in result.pending if each.needs_answer and each.tool in self._page_tools]
        interrupts = [translation.interrupt(each) for each in result.pending if each not in for_page]
        outcome: Any = RunFinishedInterruptOutcome(interrupts=interrupts) if interrupts else None
        if outcome is None:
            outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=[each.id for each in for_page] or None)
        used = translation.usage
        usage = TokenUsage(
            model=self._conversation.agent.llm.model,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            total_tokens=used.total_tokens,
            reasoning_tokens=used.reasoning_tokens,
            cached_input_tokens=used.cached_tokens,
        )
        return RunFinishedEvent(
            thread_id=self._input.thread_id,
            run_id=self._input.run_id,
            outcome=outcome,
            usage=[usage] if used.total_tokens else None,
        )


class AGUITranslation:
    """The events of one run in AG-UI's format. `known` are the calls whose start an earlier run has sent."""

    def __init__(self, known: set[str]) -> None:
        from ag_ui import core

        self._known, self._core = known, core
        self._response = self._open_text = self._open_reasoning = ""
        self._postponed: dict[str, ToolCallPostponed] = {}
        self.usage: Usage = NO_USAGE

    def events(self, event: Event) -> Iterator[BaseEvent]:
        """Yield the AG-UI events for an event of the run."""
        self.usage += spent_in(event) or NO_USAGE
        match event:
            case RequestStarted() | ResponseReceived() | RunFinished():
                yield from self._close_open()
                self._response = _new_id() if isinstance(event, RequestStarted) else self._response
            case TextDelta(text):
                yield from self._text(text)
            case ReasoningDelta(text):
                yield from self._reasoning(text)
            case ToolCallStarted(call):
                yield from self._started(call)
            case ToolCallPostponed(call):
                self._postponed[event.pending_call.id] = event
                yield from self._started(call)
            case ToolCallFinished():
                yield from self._result(event)

    def interrupt(self, pending: Pending) -> Interrupt:
        """The interrupt for a call that waits for a person."""
        postponed = self._postponed.get(pending.id)
        call_id = pending.id if postponed is None else postponed.call.id
        decision = None if postponed is None or postponed.decision is None else postponed.decision.to_dict()
        return self._core.Interrupt(
            id=pending.id,
            reason="input_required" if pending.needs_answer else "tool_call",
            message=escape_invisible(well_formed(pending.question)),
            tool_call_id=call_id,
            response_schema=_ANSWER if pending.needs_answer else _DECISION,
            metadata={"agentkit": {"tool": pending.tool, "within": pending.within, "decision": decision}},
        )

    def _text(self, text: str) -> Iterator[BaseEvent]:
        if not self._open_text:
            yield from self._close_open()
            text = text.removeprefix(PARAGRAPH)  # each response is a message
            self._open_text = self._response = self._response or _new_id()
            yield self._core.TextMessageStartEvent(message_id=self._open_text, role="assistant")
        if text:
            yield self._core.TextMessageContentEvent(message_id=self._open_text, delta=well_formed(text))

    def _reasoning(self, text: str) -> Iterator[BaseEvent]:
        if not self._open_reasoning:
            yield from self._close_open()
            self._open_reasoning = _new_id()
            yield self._core.ReasoningStartEvent(message_id=self._open_reasoning)
            yield self._core.ReasoningMessageStartEvent(message_id=self._open_reasoning)
        yield self._core.ReasoningMessageContentEvent(message_id=self._open_reasoning, delta=well_formed(text))

    def _close_open(self) -> Iterator[BaseEvent]:
        """End the open text and reasoning."""
        if self._open_text:
            yield self._core.TextMessageEndEvent(message_id=self._open_text)
        if self._open_reasoning:
            yield self._core.ReasoningMessageEndEvent(message_id=self._open_reasoning)
            yield self._core.ReasoningEndEvent(message_id=self._open_reasoning)
        self._open_text = self._open_reasoning = ""

    def _started(self, call: ToolCall) -> Iterator[BaseEvent]:
        """Send the start of a call once; its arguments are those that the model wrote."""
        if call.id in self._known:
            return
        self._known.add(call.id)
        yield from self._close_open()
        yield self._core.ToolCallStartEvent(
            tool_call_id=call.id, tool_call_name=well_formed(call.name), parent_message_id=self._response or None
        )
        yield self._core.ToolCallArgsEvent(tool_call_id=call.id, delta=well_formed(call.arguments) or "{}")
        yield self._core.ToolCallEndEvent(tool_call_id=call.id)

    def _result(self, event: ToolCallFinished) -> Iterator[BaseEvent]:
        result = event.result
        yield from self._started(event.call)
        decision = None if result.decision is None else result.decision.to_dict()
        yield self._core.ToolCallResultEvent(
            message_id=_new_id(),
            tool_call_id=event.call.id,
            content=well_formed(result.content),
            metadata={"agentkit": {"status": result.status, "decision": decision}},
        )


_ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
_DECISION = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {
            "type": "object",
            "description": "Other arguments for the call, which replace all of them.",
        },
        "reason": {"type": "string", "description": "The reason for the refusal, for the model."},
    },
    "required": ["approved"],
}


def page_tool(definition: Any) -> Tool[..., Any]:
    """A tool that runs in the page: its call pauses the run, which the page resumes with the result.

    The tool counts as NETWORK, because its effect is unknown here, and its results as untrusted. Raises ConfigError for
    an invalid name or schema.
    """

    def run_in_page(**_arguments: Any) -> None:
        raise Postponed(f"The page runs {definition.name}.")

    schema = definition.parameters or {"type": "object", "properties": {}}
    return Tool.from_schema(
        definition.name, definition.description, schema, run_in_page, level=SafetyLevel.NETWORK, timeout_seconds=None
    )


def _page_result(message: Any) -> str:
    """The result of a call that the page has run. Raises HTTPError for content that no model reads."""
    if message is None:
        return _NOT_RUN
    return (
        f"The page reports an error: {message.error}" if message.error else content_text(typed(_entry(message)).content)
    )


def _parse_resume(entry: ResumeEntry, pending: Pending) -> Any:
    """The answer in an entry of `resume`. Raises HTTPError if it does not fit the interrupt."""
    if entry.status == "cancelled":
        return "The user did not answer." if pending.needs_answer else False
    return parse_client_answer(entry.payload, pending)


def _entry(message: Message) -> dict[str, Any]:
    """A message in the chat format. Raises HTTPError for content that no model reads, or that is read from disk."""
    entry = message.model_dump(include={"role", "content", "tool_calls", "tool_call_id"})
    if isinstance(message.content, list):
        entry["content"] = [_part(part) for part in message.content]
    check_entry(entry)
    return entry


def _part(part: Any) -> dict[str, Any]:
    """A content part in the chat format. Raises HTTPError."""
    if part.type == "text":
        return {"type": "text", "text": part.text}
    source = part.source
    url = source.value if source.type == "url" else f"data:{source.mime_type};base64,{source.value}"
    if source.type in ("url", "data") and part.type == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    if source.type in ("url", "data") and part.type == "document":
        return {"type": "file", "file": {"file_data": url}}
    text = (
        f"A part of type {part.type!r} from a {source.type!r} source cannot be read here: send text, images or files."
    )
    raise invalid_value(text)


def _json(value: object) -> str:
    return well_formed(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))


def _new_id() -> str:
    return secrets.token_hex(12)
