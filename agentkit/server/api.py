"""The JSON API of the chat page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentkit._dataclass import dataclass
from agentkit._version import __version__
from agentkit.agents.agent import Agent
from agentkit.agents.result import Resumption
from agentkit.server.auth import RequestAuth
from agentkit.server.chats import Chats, said_of
from agentkit.server.http_types import HTTPError, HTTPRequest, HTTPResponse, reply_of
from agentkit.server.streaming import ConcurrencyLimit
from agentkit.sessions.export import new_name

_RUN = re.compile("[0-9a-f]{1,64}")
_MOST_BYTES = 1_000_000
_MOST_SIGN_IN_BYTES = 2_000


@dataclass(slots=True)
class ChatAPI:
    """Handlers of the page's requests. `listening` limits its open streams; `session` is the session it opens first."""

    agent: Agent[Any]
    gate: RequestAuth
    chats: Chats
    listening: ConcurrencyLimit
    session: str = ""

    async def sign_in(self, asked: HTTPRequest) -> HTTPResponse:
        """Exchange the token for the cookie and the key that authenticate the page."""
        document = await asked.document(_MOST_SIGN_IN_BYTES)
        cookie, key = self.gate.sign_in(document.get("token"), is_secure=asked.is_secure)
        return reply_of({"key": key}, headers={"set-cookie": cookie})

    async def about(self, _asked: HTTPRequest) -> HTTPResponse:
        """Describe the agent: name, model, tools and safety level."""
        agent = self.agent
        tools = [
            {"name": tool.name, "level": tool.level.name.lower(), "description": tool.description}
            for tool in agent.tools
        ]
        return reply_of(
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

    async def sessions(self, _asked: HTTPRequest) -> HTTPResponse:
        """List the sessions, the newest change first."""
        return reply_of({"sessions": self.chats.names()})

    async def session_of(self, asked: HTTPRequest) -> HTTPResponse:
        """Return a session with its entries so far."""
        return reply_of(await self.chats.find(asked.query.get("name")).document())

    async def run(self, asked: HTTPRequest) -> HTTPResponse:
        """Start a run with a prompt, or resume a run by its id, with answers by tool call id."""
        document = await asked.document(_MOST_BYTES)
        work = _work(document)
        name = document.get("session", "")
        chat = self.chats.find(new_name(work) if name == "" and isinstance(work, str) else name)
        return reply_of({"session": chat.name, "serial": chat.start(work)}, 202)

    async def events(self, asked: HTTPRequest) -> HTTPResponse:
        """Stream the events of a run as JSON lines until it ends."""
        serial, after = _number(asked.query, "serial"), _number(asked.query, "after")
        chat = self.chats.find(asked.query.get("session"))
        self.listening.take()
        return HTTPResponse(
            content_type="application/x-ndjson",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
            pieces=chat.lines(serial, after),
            ended=self.listening.give_back,
        )

    async def answer(self, asked: HTTPRequest) -> HTTPResponse:
        """Answer an approval request of the current run."""
        document = await asked.document(_MOST_BYTES)
        self.chats.find(document.get("session")).answer(document.get("question"), said_of(document))
        return reply_of({})

    async def stop(self, asked: HTTPRequest) -> HTTPResponse:
        """Stop the current run."""
        document = await asked.document(_MOST_BYTES)
        await self.chats.find(document.get("session")).stop()
        return reply_of({})

    async def undo(self, asked: HTTPRequest) -> HTTPResponse:
        """Undo the changes of a run of the session."""
        document = await asked.document(_MOST_BYTES)
        done = await self.chats.find(document.get("session")).undo(str(document.get("record") or ""))
        return reply_of({"done": done})


def _work(document: Mapping[str, Any]) -> str | Resumption:
    """Parse the prompt or resumption. Raises HTTPError."""
    prompt, answers, run = (document.get(name) for name in ("prompt", "answers", "run"))
    if isinstance(prompt, str) and prompt.strip() and answers is None:
        return prompt
    # The run is identified by its id, not by a saved run: an outdated page must not answer what waits now.
    is_named = prompt is None and isinstance(run, str) and _RUN.fullmatch(run)
    if is_named and isinstance(answers, dict) and all(isinstance(each, dict) for each in answers.values()):
        return Resumption(run, {call_id: said_of(each) for call_id, each in answers.items()})
    raise HTTPError(
        400, "Send a prompt, or a run with answers by the ids of its calls that wait.", code="invalid_value"
    )


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise HTTPError(400, f"{name} is a whole number.", code="invalid_value", parameter=name)
    return int(text)
