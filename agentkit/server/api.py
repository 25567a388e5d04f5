"""The JSON API of the chat page, and of the dashboard: runs with their costs, decisions and waiting approvals."""

from __future__ import annotations

import asyncio
import re
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentkit._dataclass import dataclass
from agentkit._version import __version__
from agentkit.agents.agent import Agent
from agentkit.agents.result import Resumption
from agentkit.content import File, Image, read_part
from agentkit.errors import AgentKitError
from agentkit.event_rendering import content_text, escape_invisible, one_line, truncate
from agentkit.llm.pricing import cost_of
from agentkit.messages import Content
from agentkit.server.auth import RequestAuth
from agentkit.server.chats import Chats, parse_answer
from agentkit.server.http_types import (
    ConcurrencyLimit,
    HTTPError,
    HTTPRequest,
    HTTPResponse,
    invalid_value,
    json_response,
    stream_response,
)
from agentkit.sessions.store import SessionStore, SessionSummary
from agentkit.sessions.transcript import RunTranscript, outer, show_text, transcripts_of, without_secrets
from agentkit.sessions.transfer import new_name
from agentkit.usage import Usage, format_cost

_RUN = re.compile("[0-9a-f]{1,64}")
_MAX_BYTES = 1_000_000
_MAX_RUN_BYTES = 30_000_000
"""A prompt with attached files, which base64 makes a third longer."""
_MAX_SIGN_IN_BYTES = 2_000


@dataclass(slots=True)
class ChatAPI:
    """Handlers of the page's requests. `listening` limits its open streams; `session` is the session it opens first."""

    agent: Agent[Any]
    auth: RequestAuth
    chats: Chats
    listening: ConcurrencyLimit
    session: str = ""

    async def sign_in(self, request: HTTPRequest) -> HTTPResponse:
        """Exchange the token for the cookie and the key that authenticate the page."""
        document = await request.document(_MAX_SIGN_IN_BYTES)
        cookie, key = self.auth.sign_in(document.get("token"), is_secure=request.is_secure)
        return json_response({"key": key}, headers={"set-cookie": cookie})

    async def about(self, _asked: HTTPRequest) -> HTTPResponse:
        """Describe the agent: name, model, tools and safety level."""
        agent = self.agent
        tools = [
            {"name": tool.name, "level": tool.level.name.lower(), "description": tool.description}
            for tool in agent.tools
        ]
        return json_response(
            {
                "agent": agent.name,
                "model": agent.llm.model,
                "tools": tools,
                "session": self.session,
                "safety": agent.policy.level.name.lower(),
                "folder": agent.workspace.folder,
                "version": __version__,
            }
        )

    async def sessions(self, request: HTTPRequest) -> HTTPResponse:
        """List the sessions, or those that contain the words of a query, the newest change first."""
        query = request.query.get("query", "")
        return json_response({"sessions": await asyncio.to_thread(self.chats.list_sessions, query)})

    async def state(self, request: HTTPRequest) -> HTTPResponse:
        """Return the serial number of the newest run of a session, and whether it is in progress."""
        return json_response(self.chats.find(request.query.get("name")).state)

    async def models(self, _asked: HTTPRequest) -> HTTPResponse:
        """List the models of the provider; only the one in use if it does not list them."""
        llm = self.agent.llm
        try:
            names = await asyncio.to_thread(llm.list_models)
        except AgentKitError:
            names = []
        return json_response({"models": names or [llm.model]})

    async def rename(self, request: HTTPRequest) -> HTTPResponse:
        """Rename a session."""
        document = await request.document(_MAX_BYTES)
        return json_response({"name": self.chats.rename(document.get("session"), document.get("name"))})

    async def delete(self, request: HTTPRequest) -> HTTPResponse:
        """Delete a session."""
        document = await request.document(_MAX_BYTES)
        self.chats.delete(document.get("session"))
        return json_response({})

    async def retry(self, request: HTTPRequest) -> HTTPResponse:
        """Ask the last prompt of a session again, without its answer."""
        document = await request.document(_MAX_BYTES)
        chat = self.chats.find(document.get("session"))
        return json_response({"session": chat.name, "serial": chat.retry()}, 202)

    async def session_document(self, request: HTTPRequest) -> HTTPResponse:
        """Return a session with its entries so far."""
        return json_response(await self.chats.find(request.query.get("name")).document())

    async def run(self, request: HTTPRequest) -> HTTPResponse:
        """Start a run with a prompt, or resume a run by its id, with answers by tool call id."""
        document = await request.document(_MAX_RUN_BYTES)
        work, model = _work(document), document.get("model", "")
        if not isinstance(model, str):
            raise invalid_value("model is the name of a model.", "model")
        name, prompt = document.get("session", ""), document.get("prompt")
        chat = self.chats.find(new_name(prompt) if name == "" and isinstance(prompt, str) else name)
        return json_response({"session": chat.name, "serial": chat.start(work, model)}, 202)

    async def events(self, request: HTTPRequest) -> HTTPResponse:
        """Stream the events of a run as JSON lines until it ends."""
        serial, after = _number(request.query, "serial"), _number(request.query, "after")
        chat = self.chats.find(request.query.get("session"))
        return stream_response(chat.lines(serial, after), "application/x-ndjson", self.listening)

    async def answer(self, request: HTTPRequest) -> HTTPResponse:
        """Answer an approval request of the current run."""
        document = await request.document(_MAX_BYTES)
        self.chats.find(document.get("session")).answer(document.get("question"), parse_answer(document))
        return json_response({})

    async def stop(self, request: HTTPRequest) -> HTTPResponse:
        """Stop the current run."""
        document = await request.document(_MAX_BYTES)
        await self.chats.find(document.get("session")).stop()
        return json_response({})

    async def undo(self, request: HTTPRequest) -> HTTPResponse:
        """Undo the changes of a run of the session."""
        document = await request.document(_MAX_BYTES)
        done = await self.chats.find(document.get("session")).undo(str(document.get("record") or ""))
        return json_response({"done": done})


def _work(document: Mapping[str, Any]) -> Content | Resumption:
    """Parse the prompt with its files, or the resumption. Raises HTTPError."""
    prompt, answers, run = (document.get(name) for name in ("prompt", "answers", "run"))
    if isinstance(prompt, str) and prompt.strip() and answers is None:
        files = document.get("files") or []
        return (prompt, *map(_file, files)) if isinstance(files, list) and files else prompt
    # The run is identified by its id, not by a saved run: an outdated page must not answer what waits now.
    is_named = prompt is None and isinstance(run, str) and _RUN.fullmatch(run)
    if is_named and isinstance(answers, dict) and all(isinstance(each, dict) for each in answers.values()):
        return Resumption(run, {call_id: parse_answer(each) for call_id, each in answers.items()})
    raise invalid_value("Send a prompt, or a run with answers by the ids of its calls that wait.")


def _file(given: object) -> str | Image | File:
    """Parse an attached file: its name, and its content in base64. Raises HTTPError if no model can read it."""
    name, data = (given.get(key) if isinstance(given, dict) else None for key in ("name", "data"))
    if not isinstance(name, str) or not isinstance(data, str):
        raise invalid_value("files are objects with name and data, the content in base64.")
    try:
        part = read_part(b64decode(data, validate=True))
    except (ValueError, OSError) as error:
        raise invalid_value(f"The file {name!r:.100} cannot be attached: {error}") from None
    return f"{name}:\n{part}" if isinstance(part, str) else part


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise invalid_value(f"{name} is a whole number.", name)
    return int(text)


_MAX_SESSIONS, _MAX_ROWS = 500, 500
_MAX_PROMPT_CHARS, _MAX_QUESTION_CHARS = 200, 2_000
_DAY_SECONDS = 86_400
_FILTERS = ("status", "verdict", "tool", "run", "text")
"""The filters of the query, in addition to `days`."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as a row of the dashboard; `waiting` holds the questions that nobody has answered."""

    session: str
    run: str
    agent: str
    prompt: str
    began: float
    seconds: float
    status: str
    error: str
    usage: Usage
    decisions: Mapping[tuple[str, str], int]
    tools: tuple[str, ...]
    waiting: tuple[str, ...]

    @classmethod
    def of(cls, session: str, run: RunTranscript) -> RunRow:
        """The row of one run."""
        decisions = [call.judgment for call in run.tool_calls if call.judgment is not None]
        return cls(
            session,
            run.id,
            run.agent,
            "" if run.prompt is None else one_line(content_text(run.prompt), _MAX_PROMPT_CHARS),
            run.began,
            max(0.0, run.ended - run.began),
            run.status,
            "" if run.end is None else one_line(run.end.error, _MAX_PROMPT_CHARS),
            run.usage,
            Counter((str(each.verdict), each.rule) for each in decisions),
            tuple(dict.fromkeys(call.call.name for call in run.tool_calls)),
            tuple(
                truncate(escape_invisible(call.question), _MAX_QUESTION_CHARS)
                for call in run.tool_calls
                if call.question and call.result is None and run.status in ("paused", "unfinished")
            ),
        )

    def matches(self, filters: Mapping[str, str], since: float) -> bool:
        """Whether the row passes the filters; an empty filter passes all."""
        values: Mapping[str, Iterable[str]] = {
            "status": (self.status, *(["waiting"] if self.waiting else [])),
            "verdict": [verdict for verdict, _ in self.decisions],
            "tool": self.tools,
            "run": [self.run],
        }
        text = f"{self.prompt} {self.session} {self.agent} {self.error}".casefold()
        is_found = all(word in text for word in filters.get("text", "").casefold().split())
        return (
            self.began >= since
            and is_found
            and all(not filters.get(name) or filters[name] in possible for name, possible in values.items())
        )

    def to_data(self) -> dict[str, Any]:
        """Encode the row for the page."""
        return {
            "session": self.session,
            "run": self.run,
            "agent": escape_invisible(self.agent),
            "prompt": escape_invisible(self.prompt),
            "began": self.began,
            "seconds": round(self.seconds, 3),
            "status": self.status,
            "error": escape_invisible(self.error),
            "tokens": self.usage.total_tokens,
            "cost": format_cost(cost_of(self.usage)),
            "decisions": _counts(self.decisions),
            "tools": [escape_invisible(name) for name in self.tools],
            "waiting": list(self.waiting),
        }


class Dashboard:
    """Handlers of the dashboard's requests, which read the stored sessions. Rows of unchanged sessions are cached."""

    def __init__(self, store: SessionStore, chats: Chats) -> None:
        self._store, self._chats = store, chats
        self._cached: dict[str, tuple[SessionSummary, list[RunRow]]] = {}

    async def runs(self, request: HTTPRequest) -> HTTPResponse:
        """The runs that pass the filters of the query, the newest first, with totals. Raises HTTPError."""
        try:
            days = float(request.query.get("days") or "inf")
        except ValueError:
            raise invalid_value("days is a number.", "days") from None
        filters = {name: request.query.get(name, "") for name in _FILTERS}
        rows = await asyncio.to_thread(self._rows)
        chosen = [row for row in rows if row.matches(filters, time.time() - days * _DAY_SECONDS)]
        now = [
            {"session": name, "question": truncate(escape_invisible(str(request)), _MAX_QUESTION_CHARS)}
            for name, request in self._chats.waiting()
        ]
        return json_response(
            {
                "runs": [row.to_data() for row in chosen[:_MAX_ROWS]],
                "totals": _totals(chosen),
                "waiting": now,
                "tools": sorted({escape_invisible(name) for row in rows for name in row.tools}),
                "statuses": sorted({row.status for row in rows}),
            }
        )

    async def recording(self, request: HTTPRequest) -> HTTPResponse:
        """The recorded run as text, without secrets: prompts, answers, calls, decisions, changes. Raises HTTPError."""
        session, run = request.query.get("session", ""), request.query.get("run", "")
        text = await asyncio.to_thread(self._text, session, run)
        if not text:
            raise HTTPError(404, f"The session {session[:100]!r} has no run {run[:64]!r}.", code="not_found")
        return json_response({"text": escape_invisible(text)})

    def _text(self, session: str, run: str) -> str:
        if session not in {each.name for each in self._store.summaries()}:
            return ""
        found = [each for each in transcripts_of(without_secrets(self._store.read(session)[0])) if each.id == run]
        return show_text(session, found, lambda usage: format_cost(cost_of(usage))) if found else ""

    def _rows(self) -> list[RunRow]:
        """The rows of the newest sessions, the newest run first. Runs in a thread, because sessions can be long."""
        summaries = self._store.summaries()[:_MAX_SESSIONS]
        known = {each.name: self._cached.get(each.name) for each in summaries}
        for each in summaries:
            before = known[each.name]
            if before is None or before[0] != each:
                runs = outer(transcripts_of(without_secrets(self._store.read(each.name)[0])))
                known[each.name] = (each, [RunRow.of(each.name, run) for run in runs if run.agent])
        self._cached = {name: found for name, found in known.items() if found is not None}
        return sorted((row for _, rows in self._cached.values() for row in rows), key=lambda row: -row.began)


def _totals(rows: Sequence[RunRow]) -> dict[str, Any]:
    """Runs, tokens, cost, waiting calls, and decisions by verdict and rule."""
    usage, decisions = Usage(), Counter[tuple[str, str]]()
    for row in rows:
        usage += row.usage
        decisions.update(row.decisions)
    return {
        "runs": len(rows),
        "shown": min(len(rows), _MAX_ROWS),
        "tokens": usage.total_tokens,
        "cost": format_cost(cost_of(usage)),
        "waiting": sum(len(row.waiting) for row in rows),
        "decisions": _counts(decisions),
    }


def _counts(decisions: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    rows = sorted(decisions.items(), key=lambda each: (-each[1], each[0]))
    return [{"verdict": verdict, "rule": escape_invisible(rule), "times": times} for (verdict, rule), times in rows]
