"""The dashboard of `agentkit serve`: runs with their costs, decisions and waiting approvals, filtered."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.event_rendering import content_text, cut, one_line, visible
from agentkit.llm.pricing import cost_of
from agentkit.server.chats import Chats
from agentkit.server.http_types import HTTPError, HTTPRequest, HTTPResponse, reply_of
from agentkit.sessions.store import SessionStore, SessionSummary
from agentkit.sessions.transcript import RunStory, outer, show_text, stories_of, without_secrets
from agentkit.usage import Usage, shown_cost

_MAX_SESSIONS, _MAX_ROWS = 500, 500
_MAX_PROMPT_CHARS, _MAX_QUESTION_CHARS = 200, 2_000
_DAY_SECONDS = 86_400
_FILTERS = ("status", "verdict", "tool", "run", "text")
"""The filters of the query, except `days`."""


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
    def of(cls, session: str, story: RunStory) -> RunRow:
        """The row of one run."""
        decisions = [call.judgment for call in story.tool_calls if call.judgment is not None]
        return cls(
            session,
            story.id,
            story.agent,
            "" if story.prompt is None else one_line(content_text(story.prompt), _MAX_PROMPT_CHARS),
            story.began,
            max(0.0, story.ended - story.began),
            story.status,
            "" if story.end is None else one_line(story.end.error, _MAX_PROMPT_CHARS),
            story.usage,
            Counter((str(each.verdict), each.rule) for each in decisions),
            tuple(dict.fromkeys(call.call.name for call in story.tool_calls)),
            tuple(
                cut(visible(call.question), _MAX_QUESTION_CHARS)
                for call in story.tool_calls
                if call.question and call.result is None and story.status in ("paused", "unfinished")
            ),
        )

    def fits(self, wanted: Mapping[str, str], since: float) -> bool:
        """Whether the row passes the filters; an empty filter passes all."""
        values: Mapping[str, Iterable[str]] = {
            "status": (self.status, *(["waiting"] if self.waiting else [])),
            "verdict": [verdict for verdict, _ in self.decisions],
            "tool": self.tools,
            "run": [self.run],
        }
        text = f"{self.prompt} {self.session} {self.agent} {self.error}".casefold()
        is_found = all(word in text for word in wanted.get("text", "").casefold().split())
        return (
            self.began >= since
            and is_found
            and all(not wanted.get(name) or wanted[name] in known for name, known in values.items())
        )

    def to_data(self) -> dict[str, Any]:
        """Encode the row for the page."""
        return {
            "session": self.session,
            "run": self.run,
            "agent": visible(self.agent),
            "prompt": visible(self.prompt),
            "began": self.began,
            "seconds": round(self.seconds, 3),
            "status": self.status,
            "error": visible(self.error),
            "tokens": self.usage.total_tokens,
            "cost": shown_cost(cost_of(self.usage)),
            "decisions": _counts(self.decisions),
            "tools": [visible(name) for name in self.tools],
            "waiting": list(self.waiting),
        }


class Dashboard:
    """Handlers of the dashboard's requests, which read the stored sessions. Rows of unchanged sessions are cached."""

    def __init__(self, store: SessionStore, chats: Chats) -> None:
        self._store, self._chats = store, chats
        self._known: dict[str, tuple[SessionSummary, list[RunRow]]] = {}

    async def runs(self, asked: HTTPRequest) -> HTTPResponse:
        """The runs that pass the filters of the query, the newest first, with totals. Raises HTTPError."""
        try:
            days = float(asked.query.get("days") or "inf")
        except ValueError:
            raise HTTPError(400, "days is a number.", code="invalid_value", parameter="days") from None
        wanted = {name: asked.query.get(name, "") for name in _FILTERS}
        rows = await asyncio.to_thread(self._rows)
        chosen = [row for row in rows if row.fits(wanted, time.time() - days * _DAY_SECONDS)]
        now = [
            {"session": name, "question": cut(visible(str(request)), _MAX_QUESTION_CHARS)}
            for name, request in self._chats.waiting()
        ]
        return reply_of(
            {
                "runs": [row.to_data() for row in chosen[:_MAX_ROWS]],
                "totals": _totals(chosen),
                "waiting": now,
                "tools": sorted({visible(name) for row in rows for name in row.tools}),
                "statuses": sorted({row.status for row in rows}),
            }
        )

    async def recording(self, asked: HTTPRequest) -> HTTPResponse:
        """The recorded run as text, without secrets: prompts, answers, calls, decisions, changes. Raises HTTPError."""
        session, run = asked.query.get("session", ""), asked.query.get("run", "")
        text = await asyncio.to_thread(self._text, session, run)
        if not text:
            raise HTTPError(404, f"The session {session[:100]!r} has no run {run[:64]!r}.", code="not_found")
        return reply_of({"text": visible(text)})

    def _text(self, session: str, run: str) -> str:
        if session not in {each.name for each in self._store.summaries()}:
            return ""
        found = [each for each in stories_of(without_secrets(self._store.read(session)[0])) if each.id == run]
        return show_text(session, found, lambda usage: shown_cost(cost_of(usage))) if found else ""

    def _rows(self) -> list[RunRow]:
        """The rows of the newest sessions, the newest run first. Runs in a thread, because sessions can be long."""
        summaries = self._store.summaries()[:_MAX_SESSIONS]
        known = {each.name: self._known.get(each.name) for each in summaries}
        for each in summaries:
            before = known[each.name]
            if before is None or before[0] != each:
                runs = outer(stories_of(without_secrets(self._store.read(each.name)[0])))
                known[each.name] = (each, [RunRow.of(each.name, run) for run in runs if run.agent])
        self._known = {name: found for name, found in known.items() if found is not None}
        return sorted((row for _, rows in self._known.values() for row in rows), key=lambda row: -row.began)


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
        "cost": shown_cost(cost_of(usage)),
        "waiting": sum(len(row.waiting) for row in rows),
        "decisions": _counts(decisions),
    }


def _counts(decisions: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    rows = sorted(decisions.items(), key=lambda each: (-each[1], each[0]))
    return [{"verdict": verdict, "rule": visible(rule), "times": times} for (verdict, rule), times in rows]
