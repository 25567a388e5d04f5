"""ACP: an agent for editors, over standard input and output."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentkit._version import __version__
from agentkit.agents.agent import Agent
from agentkit.agents.options import workspace_from
from agentkit.agents.result import Resumption, RunFinished, RunResult
from agentkit.content import Image, read_part
from agentkit.decisions import Verdict
from agentkit.errors import AgentKitError, BadArguments, MissingExtra, UnknownTool
from agentkit.event_rendering import arguments_text, content_text, escape_invisible, one_line
from agentkit.events import (
    Event,
    ReasoningDelta,
    TextDelta,
    ToolCallFinished,
    ToolCallPostponed,
    ToolCallStarted,
)
from agentkit.messages import (
    AssistantMessage,
    Content,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    arguments_of,
    well_formed,
)
from agentkit.safety.approval import WORDS, Approval, ApprovalRequest, ApproverReply, is_offered
from agentkit.server.conversations import ClientConversation, front_end_events
from agentkit.server.event_stream import truncate
from agentkit.server.http_types import cancel_tasks
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionStore

if TYPE_CHECKING:
    from acp import Client

_TOOL_KINDS = {
    **dict.fromkeys(("read_file", "read_more", "parse_json"), "read"),
    **dict.fromkeys(("list_directory", "search_files", "web_search", "wikipedia"), "search"),
    **dict.fromkeys(("write_file", "edit_file"), "edit"),
    **dict.fromkeys(("run_shell", "run_python", "run_program"), "execute"),
    "fetch_url": "fetch",
}
"""Tools by the kind of icon that an editor shows for their calls."""

_APPROVAL_OPTIONS: tuple[tuple[Approval, str, Any], ...] = (
    (Approval.ONCE, "Allow", "allow_once"),
    (Approval.RUN, "Allow such calls for this prompt", "allow_always"),
    (Approval.WORKSPACE, "Allow all changes in this folder", "allow_always"),
    (Approval.ALWAYS, "Always allow such calls", "allow_always"),
    (Approval.NO, "Reject", "reject_once"),
)
_STOP_REASONS: Mapping[str | None, Any] = {"iterations": "max_turn_requests", "tool_calls": "max_turn_requests"}
_MAX_TITLE_CHARS = 100
_HUNK, _LINE = re.compile(r"^@@ .*\n", re.MULTILINE), re.compile(r"^([ +-])([^\n]*\n?)", re.MULTILINE)


async def serve_editor(agent: Agent[Any], store: SessionStore) -> None:
    """Serve the agent to the editor that started this process, until it closes the input. Raises MissingExtra."""
    try:
        from acp import run_agent
    except ModuleNotFoundError as error:
        raise MissingExtra("acp", "ACP") from error
    served: Any = EditorAgent(agent, store)
    try:
        await run_agent(served)
    finally:
        await served.close()


class EditorThread(ClientConversation):
    """One conversation with an editor, and the prompt at work.

    `shown` has the diffs of the calls that the editor knows, by the ids of the calls.
    """

    def __init__(self, agent: Agent[Any]) -> None:
        super().__init__(agent)
        self.task: asyncio.Task[Any] | None = None
        self.shown: dict[str, list[Any]] = {}


class EditorAgent:
    """An agent as ACP describes one: the methods that an editor calls.

    The sessions of an editor are stored as `acp/ID`. Calls that need approval are shown to the person at the editor,
    whatever the agent's own approver.
    """

    def __init__(self, agent: Agent[Any], store: SessionStore) -> None:
        self._agent, self._store = agent, store
        self._threads: dict[str, EditorThread] = {}
        self._editor: Any = None

    def on_connect(self, editor: Client) -> None:
        """Remember the connection to the editor."""
        self._editor = editor

    async def initialize(self, protocol_version: int, **_: Any) -> Any:
        """Negotiate the protocol version, and return the capabilities of the agent."""
        from acp import PROTOCOL_VERSION
        from acp.schema import AgentCapabilities, Implementation, InitializeResponse, PromptCapabilities

        prompts = PromptCapabilities(image=True, embedded_context=True)
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_capabilities=AgentCapabilities(load_session=True, prompt_capabilities=prompts),
            agent_info=Implementation(name="agentkit", title=self._agent.name, version=__version__),
        )

    async def new_session(self, cwd: str, **_: Any) -> Any:
        """Start a conversation in a folder."""
        from acp.schema import NewSessionResponse

        session_id = secrets.token_hex(16)
        self._open(session_id, cwd)
        return NewSessionResponse(session_id=session_id)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> Any:
        """Continue a stored conversation: send its messages to the editor. Raises RequestError if it is unknown."""
        from acp import RequestError
        from acp.schema import LoadSessionResponse

        thread = self._open(session_id, cwd)
        messages = thread.messages
        if not messages:
            del self._threads[session_id]
            raise RequestError.resource_not_found(session_id)
        for update in _history(messages, thread.agent, thread.shown):
            await self._send(session_id, update)
        return LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> Any:
        """Answer a prompt, or resume with it the run that waits for an answer. Raises RequestError if the run fails."""
        from acp import RequestError
        from acp.schema import PromptResponse
        from acp.schema import Usage as EditorUsage

        thread = self._threads.get(session_id)
        if thread is None or thread.task is not None:
            details = {"session": session_id, "reason": "unknown" if thread is None else "A prompt is being answered."}
            raise RequestError.invalid_params(details)
        try:
            thread.task = asyncio.create_task(self._run(session_id, thread, _content(prompt)))
            await asyncio.wait({thread.task})
            if thread.task.cancelled():
                return PromptResponse(stop_reason="cancelled")
            result: RunResult[Any] = thread.task.result()
        except (AgentKitError, ValueError, OSError) as error:
            raise RequestError(-32603, str(error)) from error
        finally:
            thread.task = None
        if result.status == "failed":
            raise RequestError(-32603, str(result.error))
        reason: Any = _STOP_REASONS.get(result.limit, "max_tokens") if result.status == "limit" else "end_turn"
        used = result.usage
        named: Any = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}
        return PromptResponse(stop_reason=reason, usage=EditorUsage(**named, total_tokens=used.total_tokens))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the prompt at work; its progress is stored."""
        thread = self._threads.get(session_id)
        if thread is not None and thread.task is not None:
            thread.task.cancel()

    async def close(self) -> None:
        """Stop all runs."""
        await cancel_tasks(*(thread.task for thread in self._threads.values() if thread.task is not None))

    def _open(self, session_id: str, folder: str) -> EditorThread:
        agent = self._agent.within(Session.open(self._store, f"acp/{session_id}"))
        agent.workspace = workspace_from(Path(folder))
        thread = self._threads[session_id] = EditorThread(agent)

        async def ask(request: ApprovalRequest) -> ApproverReply:
            return await self._ask(session_id, thread, request)

        agent.approve = ask
        return thread

    async def _send(self, session_id: str, update: Any) -> None:
        await self._editor.session_update(session_id=session_id, update=update)

    async def _run(self, session_id: str, thread: EditorThread, prompt: Content) -> RunResult[Any]:
        """Run, and send what happens to the editor."""
        run, waiting = thread.waiting()
        work: Any = prompt
        if waiting and all(pending.needs_answer for pending in waiting):
            work = Resumption(run, dict.fromkeys((pending.id for pending in waiting), content_text(prompt, "\n")))
        with thread.exclusive():
            async with aclosing(front_end_events(thread.agent, work)) as events:
                async for event in events:
                    for update in _updates(event, thread.agent, thread.shown):
                        await self._send(session_id, update)
                    if isinstance(event, RunFinished):
                        result = event.result
        return result

    async def _ask(self, session_id: str, thread: EditorThread, request: ApprovalRequest) -> ApproverReply:
        """The answer of the person at the editor; a question that needs a text waits for the next prompt."""
        from acp.schema import AllowedOutcome, PermissionOption, ToolCallUpdate

        if request.decision.rule == WORDS:
            return Approval.LATER
        arguments = json.dumps(dict(request.arguments), ensure_ascii=False, default=str)
        call = ToolCall(request.call_id, request.tool, arguments)
        agent = thread.agent
        for update in _start_call(call, agent, thread.shown):
            await self._send(session_id, update)
        thread.shown[call.id] = _diffs(request.preview.diff, call, agent)
        content = [*thread.shown[call.id], _text(request.question)]
        options = [
            PermissionOption(option_id=str(approval), name=name, kind=kind)
            for approval, name, kind in _APPROVAL_OPTIONS
            if is_offered(approval, request)
        ]
        described = ToolCallUpdate(tool_call_id=call.id, title=_title(call), status="pending", content=content)
        answer = await self._editor.request_permission(session_id=session_id, tool_call=described, options=options)
        chosen = answer.outcome.option_id if isinstance(answer.outcome, AllowedOutcome) else ""
        return Approval(chosen) if any(option.option_id == chosen for option in options) else False


def _updates(event: Event, agent: Agent[Any], shown: dict[str, list[Any]]) -> Iterator[Any]:
    """Yield the updates that an editor shows for an event; `shown` has the diffs of the calls that it knows."""
    from acp import update_agent_message_text, update_agent_thought_text, update_tool_call

    match event:
        case TextDelta(text):
            yield update_agent_message_text(well_formed(text))
        case ReasoningDelta(text):
            yield update_agent_thought_text(well_formed(text))
        case ToolCallStarted(call, decision):
            yield from _start_call(call, agent, shown)
            if decision.verdict is Verdict.ALLOW:
                shown[call.id] = shown[call.id] or _diffs(_preview(call, agent), call, agent)
                yield update_tool_call(call.id, status="in_progress", content=shown[call.id] or None)
        case ToolCallPostponed(call, question):
            yield from _start_call(call, agent, shown)
            yield update_agent_message_text(escape_invisible(well_formed(question)))
        case ToolCallFinished(call, result):
            yield from _start_call(call, agent, shown)
            content = [*(shown[call.id] if result.ok else ()), _text(result.error or result.content)]
            yield update_tool_call(call.id, status="completed" if result.ok else "failed", content=content)


def _start_call(call: ToolCall, agent: Agent[Any], shown: dict[str, list[Any]]) -> Iterator[Any]:
    """Yield the start of a call that the editor does not know."""
    from acp import start_tool_call
    from acp.schema import ToolCallLocation

    if call.id in shown:
        return
    shown[call.id] = []
    path, given = _path(call, agent), arguments_of(call)
    places = None if path is None else [ToolCallLocation(path=path)]
    kind: Any = _TOOL_KINDS.get(call.name, "other")
    yield start_tool_call(call.id, _title(call), kind=kind, status="pending", locations=places, raw_input=given or None)


def _title(call: ToolCall) -> str:
    return one_line(f"{call.name}({arguments_text(call.arguments)})", _MAX_TITLE_CHARS)


def _path(call: ToolCall, agent: Agent[Any]) -> str | None:
    """The absolute path of the file in a call's arguments, if any."""
    given = arguments_of(call)
    path = given.get("path") if isinstance(given, dict) else None
    return str(Path(agent.workspace.folder) / well_formed(path)) if isinstance(path, str) and path else None


def _text(text: str) -> Any:
    from acp import text_block, tool_content

    return tool_content(text_block(truncate(escape_invisible(well_formed(text)))))


def _preview(call: ToolCall, agent: Agent[Any]) -> str:
    """The diff of the change that a call is about to make; empty if its tool does not predict one."""
    try:
        tool = agent.tools.within(agent.workspace).find(call.name)
        return tool.preview(tool.check(call.arguments)).diff
    except (UnknownTool, BadArguments):
        return ""


def _diffs(diff: str, call: ToolCall, agent: Agent[Any]) -> list[Any]:
    """The hunks of a call's unified diff as an editor shows them: the present text, and the text that replaces it."""
    from acp import tool_diff_content

    path = _path(call, agent)
    if path is None:
        return []
    heads, (_, *hunks) = _HUNK.findall(diff), _HUNK.split(diff)
    texts = []
    for head, hunk in zip(heads, hunks, strict=True):
        lines = _LINE.findall(hunk)
        old, new = ("".join(text for mark, text in lines if mark in marks) for marks in (" -", " +"))
        texts.append(tool_diff_content(path, new, None if head.startswith("@@ -0,0 ") else old))
    return texts


def _history(messages: Sequence[Message], agent: Agent[Any], shown: dict[str, list[Any]]) -> Iterator[Any]:
    """Yield the messages of a stored conversation."""
    from acp import update_agent_message_text, update_tool_call, update_user_message_text

    for message in messages:
        match message:
            case UserMessage(content):
                yield update_user_message_text(well_formed(content_text(content, "\n")))
            case AssistantMessage(text, calls):
                if text:
                    yield update_agent_message_text(well_formed(text))
                for call in calls:
                    yield from _start_call(call, agent, shown)
            case ToolMessage(call_id, _, content):
                yield update_tool_call(call_id, status="completed", content=[_text(content)])


def _content(blocks: Sequence[Any]) -> Content:
    """The prompt in an editor's content blocks. Raises ValueError for a block that no model reads."""
    content = tuple(_part(block) for block in blocks)
    return content[0] if len(content) == 1 and isinstance(content[0], str) else content


def _part(block: Any) -> Any:
    match block.type:
        case "text":
            return block.text
        case "image":
            return Image(f"data:{block.mime_type};base64,{block.data}")
        case "resource_link":
            return f"{block.name}: {block.uri}"
        case "resource":
            resource = block.resource
            text = getattr(resource, "text", None)
            return read_part(b64decode(resource.blob)) if text is None else f"{resource.uri}:\n{text}"
    raise ValueError(f"A prompt can have text, images and resources; this one has a block of type {block.type!r}.")
