"""What is a server asked for beside its tools? What it offers to read, its prompts and a login, by the same link."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from agentkit.errors import ConfigError, LoginNeeded, ToolError
from agentkit.mcp.link import Link
from agentkit.mcp.logins.terms import Login, Logout, command
from agentkit.mcp.sdk.contents import Answer, Prompt, Resource, written
from agentkit.mcp.target import Target


class Library:
    """The resources and prompts of a server, and a login at it.

    Each is asked for anew; every call raises ToolError and ToolTimeout.
    """

    _link: Link
    _target: Target
    _timeout_seconds: float | None

    def resources(self) -> tuple[Resource, ...]:
        """What the server offers to read now, templates last."""
        return self._link.ask(lambda server: server.resources(), self._timeout_seconds)

    async def aresources(self) -> tuple[Resource, ...]:
        """Like `resources`, awaiting."""
        return await self._link.aask(lambda server: server.resources(), self._timeout_seconds)

    def read(self, uri: str) -> Answer:
        """What a resource says: a text, or texts, Images and Files."""
        return self._link.ask(lambda server: server.read(uri), self._timeout_seconds)

    async def aread(self, uri: str) -> Answer:
        """Like `read`, awaiting; when it is cancelled, so is the server's work."""
        return await self._link.aask(lambda server: server.read(uri), self._timeout_seconds)

    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts that the server offers now."""
        return self._link.ask(lambda server: server.prompts(), self._timeout_seconds)

    async def aprompts(self) -> tuple[Prompt, ...]:
        """Like `prompts`, awaiting."""
        return await self._link.aask(lambda server: server.prompts(), self._timeout_seconds)

    def prompt(self, name: str, /, **arguments: Any) -> Answer:
        """A prompt as the server writes it, for `agent.run`: a text, or texts, Images and Files.

        Values that are no texts are told as JSON. In a run it counts as what the person said: look at it first.
        """
        texts = written(arguments)
        return self._link.ask(lambda server: server.prompt(name, texts), self._timeout_seconds)

    async def aprompt(self, name: str, /, **arguments: Any) -> Answer:
        """Like `prompt`, awaiting."""
        texts = written(arguments)
        return await self._link.aask(lambda server: server.prompt(name, texts), self._timeout_seconds)

    def login(self) -> None:
        """Have a person log in now, by the function in `login=`, and keep what comes of it. Raises ConfigError."""
        terms = self._target.login
        if not isinstance(terms, Login) or terms.ask is None:
            raise ConfigError(
                f"There is nobody to ask. Give MCPServer a function, login=ask, or log in with: {command(self._target)}"
            )
        try:
            self._link.log_in(terms, terms.ask)
        except ToolError as error:
            raise ConfigError(f"Nobody was logged in at {urlsplit(self._target.url).netloc}. {error}") from None

    def _list(self) -> None:
        """Have the tools listed, after a login if that takes one and there is somebody to ask."""
        try:
            self._link.definitions()
        except LoginNeeded:
            if getattr(self._target.login, "ask", None) is None:
                raise
            self.login()
            self._link.definitions()

    def logout(self) -> Logout:
        """Forget the login that is kept, let go of the server, and have the login taken back where it was given.

        It takes at most half a minute, and longer only while another process renews the login. Raises ConfigError.
        """
        terms = self._target.login
        done = self._link.log_out(terms) if isinstance(terms, Login) else Logout(was_kept=False)
        self._link.close()
        return done
