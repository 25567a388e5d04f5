"""The JSON API of the chat page."""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from agentkit._dataclass import dataclass
from agentkit._version import __version__
from agentkit.agents.agent import Agent
from agentkit.agents.result import Resumption
from agentkit.content import File, Image, part_of
from agentkit.errors import AgentKitError
from agentkit.messages import Content
from agentkit.server.auth import RequestAuth
from agentkit.server.chats import Chats, said_of
from agentkit.server.http_types import HTTPError, HTTPRequest, HTTPResponse, reply_of
from agentkit.server.streaming import ConcurrencyLimit
from agentkit.sessions.export import new_name

_RUN = re.compile("[0-9a-f]{1,64}")
_MOST_BYTES = 1_000_000
_MOST_RUN_BYTES = 30_000_000
"""A prompt with attached files, which base64 makes a third longer."""
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

    async def sessions(self, asked: HTTPRequest) -> HTTPResponse:
        """List the sessions, or those that contain the words of a query, the newest change first."""
        query = asked.query.get("query", "")
        return reply_of({"sessions": await asyncio.to_thread(self.chats.listed, query)})

    async def state(self, asked: HTTPRequest) -> HTTPResponse:
        """Return the serial number of the newest run of a session, and whether it is in progress."""
        return reply_of(self.chats.find(asked.query.get("name")).state)

    async def models(self, _asked: HTTPRequest) -> HTTPResponse:
        """List the models of the provider; only the one in use if it does not list them."""
        llm = self.agent.llm
        try:
            names = await asyncio.to_thread(llm.list_models)
        except AgentKitError:
            names = []
        return reply_of({"models": names or [llm.model]})

    async def rename(self, asked: HTTPRequest) -> HTTPResponse:
        """Rename a session."""
        document = await asked.document(_MOST_BYTES)
        return reply_of({"name": self.chats.rename(document.get("session"), document.get("name"))})

    async def delete(self, asked: HTTPRequest) -> HTTPResponse:
        """Delete a session."""
        document = await asked.document(_MOST_BYTES)
        self.chats.delete(document.get("session"))
        return reply_of({})

    async def retry(self, asked: HTTPRequest) -> HTTPResponse:
        """Ask the last prompt of a session again, without its answer."""
        document = await asked.document(_MOST_BYTES)
        chat = self.chats.find(document.get("session"))
        return reply_of({"session": chat.name, "serial": chat.retry()}, 202)

    async def session_of(self, asked: HTTPRequest) -> HTTPResponse:
        """Return a session with its entries so far."""
        return reply_of(await self.chats.find(asked.query.get("name")).document())

    async def run(self, asked: HTTPRequest) -> HTTPResponse:
        """Start a run with a prompt, or resume a run by its id, with answers by tool call id."""
        document = await asked.document(_MOST_RUN_BYTES)
        work, model = _work(document), document.get("model", "")
        if not isinstance(model, str):
            raise HTTPError(400, "model is the name of a model.", code="invalid_value", parameter="model")
        name, prompt = document.get("session", ""), document.get("prompt")
        chat = self.chats.find(new_name(prompt) if name == "" and isinstance(prompt, str) else name)
        return reply_of({"session": chat.name, "serial": chat.start(work, model)}, 202)

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


def _work(document: Mapping[str, Any]) -> Content | Resumption:
    """Parse the prompt with its files, or the resumption. Raises HTTPError."""
    prompt, answers, run = (document.get(name) for name in ("prompt", "answers", "run"))
    if isinstance(prompt, str) and prompt.strip() and answers is None:
        files = document.get("files") or []
        return (prompt, *map(_file, files)) if isinstance(files, list) and files else prompt
    # The run is identified by its id, not by a saved run: an outdated page must not answer what waits now.
    is_named = prompt is None and isinstance(run, str) and _RUN.fullmatch(run)
    if is_named and isinstance(answers, dict) and all(isinstance(each, dict) for each in answers.values()):
        return Resumption(run, {call_id: said_of(each) for call_id, each in answers.items()})
    raise HTTPError(
        400, "Send a prompt, or a run with answers by the ids of its calls that wait.", code="invalid_value"
    )


def _file(given: object) -> str | Image | File:
    """Parse an attached file: its name, and its content in base64. Raises HTTPError if no model can read it."""
    name, data = (given.get(key) if isinstance(given, dict) else None for key in ("name", "data"))
    if not isinstance(name, str) or not isinstance(data, str):
        raise HTTPError(400, "files are objects with name and data, the content in base64.", code="invalid_value")
    try:
        part = part_of(b64decode(data, validate=True))
    except (ValueError, OSError) as error:
        raise HTTPError(400, f"The file {name!r:.100} cannot be attached: {error}", code="invalid_value") from None
    return f"{name}:\n{part}" if isinstance(part, str) else part


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise HTTPError(400, f"{name} is a whole number.", code="invalid_value", parameter=name)
    return int(text)
