"""How is a server asked for what it offers to read, and its prompts? By the link and the limits of its tools."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

from agentkit.mcp.link import Link, Question
from agentkit.mcp.sdk.contents import Answer, Prompt, Resource, written

if TYPE_CHECKING:
    from agentkit.mcp.sdk.asking import Connection


class Library:
    """The resources and prompts of a server. Each is asked for anew; every call raises ToolError and ToolTimeout."""

    _link: Link
    _timeout_seconds: float | None

    def resources(self) -> tuple[Resource, ...]:
        """What the server offers to read now, templates last."""
        return self._link.ask(_resources, self._timeout_seconds)

    async def aresources(self) -> tuple[Resource, ...]:
        """Like `resources`, awaiting."""
        return await self._link.aask(_resources, self._timeout_seconds)

    def read(self, uri: str) -> Answer:
        """What a resource says: a text, or texts, Images and Files."""
        return self._link.ask(_reading(uri), self._timeout_seconds)

    async def aread(self, uri: str) -> Answer:
        """Like `read`, awaiting; when it is cancelled, so is the server's work."""
        return await self._link.aask(_reading(uri), self._timeout_seconds)

    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts that the server offers now."""
        return self._link.ask(_prompts, self._timeout_seconds)

    async def aprompts(self) -> tuple[Prompt, ...]:
        """Like `prompts`, awaiting."""
        return await self._link.aask(_prompts, self._timeout_seconds)

    def prompt(self, name: str, /, **arguments: Any) -> Answer:
        """A prompt as the server writes it, for `agent.run`: a text, or texts, Images and Files.

        Values that are no texts are told as JSON. In a run it counts as what the person said: look at it first.
        """
        return self._link.ask(_prompting(name, arguments), self._timeout_seconds)

    async def aprompt(self, name: str, /, **arguments: Any) -> Answer:
        """Like `prompt`, awaiting."""
        return await self._link.aask(_prompting(name, arguments), self._timeout_seconds)


def _resources(server: Connection) -> Awaitable[tuple[Resource, ...]]:
    return server.resources()


def _prompts(server: Connection) -> Awaitable[tuple[Prompt, ...]]:
    return server.prompts()


def _reading(uri: str) -> Question[Answer]:
    return lambda server: server.read(uri)


def _prompting(name: str, arguments: Mapping[str, Any]) -> Question[Answer]:
    texts = written(arguments)
    return lambda server: server.prompt(name, texts)
