"""A connection to a server, on an event loop in its own thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from agentkit.errors import ToolError, ToolTimeout
from agentkit.mcp.connection_target import Target
from agentkit.mcp.definitions import Definition
from agentkit.mcp.login_store import Login, Logout, StoredLogin

if TYPE_CHECKING:
    from agentkit.mcp.sdk.session import MCPConnection, ToolListing

T = TypeVar("T")
Question = Callable[["MCPConnection"], Awaitable[T]]

_CLOSING_SECONDS = 10.0
"""Maximum time for closing: a server has a few seconds to exit on its own."""


class ServerConnection:
    """A connection to one server, opened on first use and reopened when lost.

    `when_seen` is called with the server's tools after each listing. A call is sent once: if the connection is lost
    during a call, the call fails and is not retried, because the server could have executed it.
    """

    def __init__(self, target: Target, connect_seconds: float, when_seen: Callable[[ToolListing], None]) -> None:
        self._target, self._connect_seconds, self._when_seen = target, connect_seconds, when_seen
        self._starting = threading.Lock()
        self._known: dict[str, Definition] = {}
        self._watched: dict[str, Callable[[str], object]] = {}
        self._work: _EventLoopThread | None = None

    def definitions(self) -> None:
        """Connect if necessary, and list the tools. Raises ConfigError, MissingExtra and ToolError."""
        work = self._working()
        self._wait(work, work.ready())

    def ask(self, question: Question[T], seconds: float | None, tool: str | None = None) -> T:
        """Send a request and wait for the answer; fails if the definition of `tool` has changed. Raises ToolError."""
        work = self._working()
        return self._wait(work, work.ask(question, seconds, self._unchanged(tool)))

    async def aask(self, question: Question[T], seconds: float | None, tool: str | None = None) -> T:
        """Like `ask`, asynchronously; cancelling it cancels the request."""
        work = self._working()
        return await asyncio.wrap_future(work.submit(work.ask(question, seconds, self._unchanged(tool))))

    def subscribe(self, uri: str, when_changed: Callable[[str], object] | None, seconds: float | None) -> None:
        """Call back when a resource has changed, also after a reconnection; None ends that. Raises ToolError."""
        self._watched.pop(uri, None)
        if when_changed is not None:
            self._watched[uri] = when_changed
        self.ask(lambda server: server.subscribe(uri, when_changed), seconds)

    def log_in(self, login: Any, ask: Any) -> None:
        """Log a person in; the next use reconnects. Raises ConfigError, MissingExtra and ToolError."""
        work = self._working()
        self._wait(work, work.log_in(login, ask))

    def log_out(self, login: Login) -> Logout:
        """Delete the login; the next use reconnects. Raises ConfigError and MissingExtra."""
        work = self._working()
        return self._wait(work, work.log_out(login))

    def _unchanged(self, name: str | None) -> Callable[[], None]:
        """Return a check that raises ToolError if the tool's definition changes after the call was judged."""
        judged = None if name is None else self._known.get(name)

        def check() -> None:
            if judged is not None and self._known.get(judged.name) != judged:
                raise ToolError(
                    f"The MCP server {self._target.name!r} changed the definition of {name} after the call was judged, "
                    "so it was not called. Call it again."
                )

        return check

    def close(self) -> None:
        """Close the connection and everything started for it. It can be reopened."""
        with self._starting:
            work, self._work = self._work, None
        if work is not None and work.process == os.getpid():
            work.close()

    def _working(self) -> _EventLoopThread:
        """Return the thread, starting a new one in a forked child."""
        with self._starting:
            if self._work is None or self._work.process != os.getpid():
                self._work = _EventLoopThread(self._target, self._connect_seconds, self._note, self._watched)
            return self._work

    def _note(self, listing: ToolListing) -> None:
        self._known = {each.name: each for each in listing.definitions}
        self._when_seen(listing)

    def _wait(self, work: _EventLoopThread, question: Coroutine[Any, Any, T]) -> T:
        future = work.submit(question)
        try:
            return future.result()
        finally:
            future.cancel()  # an interruption is reported to the server as cancellation


class _EventLoopThread:
    """The thread and its event loop. Everything except `submit` and `close` runs on the loop."""

    def __init__(
        self,
        target: Target,
        connect_seconds: float,
        when_seen: Callable[[ToolListing], None],
        watched: Mapping[str, Callable[[str], object]],
    ) -> None:
        self.process = os.getpid()
        self._target, self._connect_seconds, self._when_seen = target, connect_seconds, when_seen
        self._watched = watched
        self._loop = asyncio.new_event_loop()
        self._connecting = asyncio.Lock()
        self._connection: MCPConnection | None = None
        self._holding: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._serve, name=f"agentkit-mcp-{target.name}", daemon=True)
        self._thread.start()

    def submit(self, question: Coroutine[Any, Any, T]) -> Future[T]:
        """Schedule a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(question, self._loop)

    def close(self) -> None:
        """Disconnect and stop the thread; called on the thread itself, it only schedules this."""
        if threading.current_thread() is self._thread:
            self._loop.create_task(self._let_go()).add_done_callback(lambda _: self._loop.stop())
            return
        future = self.submit(self._let_go())
        with contextlib.suppress(Exception):  # errors while closing are ignored
            future.result(_CLOSING_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING_SECONDS)

    async def ask(self, question: Question[T], seconds: float | None, check: Callable[[], None]) -> T:
        """Send a request to the server with a timeout. Raises ToolError and ToolTimeout."""
        try:
            started = self._loop.time()
            async with asyncio.timeout(seconds):
                connection = await self.ready()
            check()
            async with connection.limited(None if seconds is None else seconds + started - self._loop.time()):
                return await question(connection)
        except TimeoutError:
            raise ToolTimeout(
                f"The MCP server {self._target.name!r} did not answer within {seconds:g} seconds; "
                "the call was cancelled."
            ) from None

    async def log_in(self, login: Any, ask: Any) -> None:
        """Log a person in, with no connection open meanwhile. Raises like `ask`."""
        from agentkit.mcp.sdk import check_package

        check_package()
        from agentkit.mcp.sdk.oauth import log_in

        async with self._connecting:
            await self._let_go()
            await log_in(self._target, login, ask)

    async def log_out(self, login: Login) -> Logout:
        """Delete the login, with no connection open meanwhile."""
        async with self._connecting:
            await self._let_go()
            return await log_out(self._target, login)

    async def ready(self) -> MCPConnection:
        """Return the connection, reconnecting if it was lost. Raises ConfigError, MissingExtra and ToolError."""
        async with self._connecting:
            is_over = self._holding is None or self._holding.done()
            if self._connection is None or self._connection.lost or is_over:
                await self._let_go()
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> MCPConnection:
        ready: asyncio.Future[MCPConnection] = self._loop.create_future()
        self._holding = asyncio.create_task(self._hold(ready))
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await asyncio.shield(ready)
        except TimeoutError:
            seconds = f"{self._connect_seconds:g} seconds"
            raise ToolError(f"The MCP server {self._target.name!r} was not ready within {seconds}.") from None
        finally:
            if not ready.done() or ready.cancelled() or ready.exception() is not None:
                await self._let_go()

    async def _hold(self, ready: asyncio.Future[MCPConnection]) -> None:
        """Hold the connection open until cancelled: it must be closed by the task that opened it."""
        from agentkit.mcp.sdk.session import connected

        try:
            async with connected(self._target) as connection:
                try:
                    await self._look(connection)
                except Exception as error:  # outside the connection, to avoid an exception group
                    ready.set_exception(error)
                    return
                for uri, when_changed in self._watched.items():
                    with contextlib.suppress(ToolError):  # the resource is gone
                        await connection.subscribe(uri, when_changed)
                ready.set_result(connection)
                await connection.watch(lambda: self._look(connection))
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error) if isinstance(error, Exception) else ready.cancel()
            if isinstance(error, asyncio.CancelledError):
                raise

    async def _look(self, connection: MCPConnection) -> None:
        self._when_seen(await connection.definitions())

    async def _let_go(self) -> None:
        holding, self._holding, self._connection = self._holding, None, None
        if holding is not None:
            holding.cancel()
            await asyncio.wait({holding}, timeout=_CLOSING_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()


async def log_out(target: Target, login: Login) -> Logout:
    """Delete the stored login under the renewal lock, and revoke it at the authorization server.

    It is deleted regardless of the server's answer. Raises ConfigError, and MissingExtra after the deletion.
    """
    kept = StoredLogin(target.url, login.folder)
    if kept.edition is None:
        return Logout(was_kept=False)
    async with kept.alone():
        try:
            from agentkit.mcp.sdk import check_package

            check_package()
            from agentkit.mcp.sdk.oauth import revoked

            return Logout(was_kept=True, trouble=await revoked(target, login))
        finally:
            kept.forget()
