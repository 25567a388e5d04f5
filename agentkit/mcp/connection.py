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

    `on_listing` is called with the server's tools after each listing. A call is sent once: if the connection is lost
    during a call, the call fails and is not retried, because the server could have executed it.
    """

    def __init__(self, target: Target, connect_seconds: float, on_listing: Callable[[ToolListing], None]) -> None:
        self._target, self._connect_seconds, self._on_listing = target, connect_seconds, on_listing
        self._starting = threading.Lock()
        self._known: dict[str, Definition] = {}
        self._subscriptions: dict[str, Callable[[str], object]] = {}
        self._work: _EventLoopThread | None = None

    def definitions(self) -> None:
        """Connect if necessary, and list the tools. Raises ConfigError, MissingExtra and ToolError."""
        work = self._event_loop_thread()
        self._wait(work, work.ready())

    def ask(self, question: Question[T], seconds: float | None, tool: str | None = None) -> T:
        """Send a request and wait for the answer; fails if the definition of `tool` has changed. Raises ToolError."""
        work = self._event_loop_thread()
        return self._wait(work, work.ask(question, seconds, self._definition_check(tool)))

    async def aask(self, question: Question[T], seconds: float | None, tool: str | None = None) -> T:
        """Like `ask`, asynchronously; cancelling it cancels the request."""
        work = self._event_loop_thread()
        return await asyncio.wrap_future(work.submit(work.ask(question, seconds, self._definition_check(tool))))

    def subscribe(self, uri: str, on_change: Callable[[str], object] | None, seconds: float | None) -> None:
        """Call back when a resource has changed, also after a reconnection; None ends that. Raises ToolError."""
        self._subscriptions.pop(uri, None)
        if on_change is not None:
            self._subscriptions[uri] = on_change
        self.ask(lambda server: server.subscribe(uri, on_change), seconds)

    def log_in(self, login: Any, ask: Any) -> None:
        """Log a person in; the next use reconnects. Raises ConfigError, MissingExtra and ToolError."""
        work = self._event_loop_thread()
        self._wait(work, work.log_in(login, ask))

    def log_out(self, login: Login) -> Logout:
        """Delete the login; the next use reconnects. Raises ConfigError and MissingExtra."""
        work = self._event_loop_thread()
        return self._wait(work, work.log_out(login))

    def _definition_check(self, name: str | None) -> Callable[[], None]:
        """Return a check that raises ToolError if the tool's definition changes after the call was judged."""
        definition = None if name is None else self._known.get(name)

        def check() -> None:
            if definition is not None and self._known.get(definition.name) != definition:
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

    def _event_loop_thread(self) -> _EventLoopThread:
        """Return the thread, starting a new one in a forked child."""
        with self._starting:
            if self._work is None or self._work.process != os.getpid():
                self._work = _EventLoopThread(
                    self._target, self._connect_seconds, self._store_definitions, self._subscriptions
                )
            return self._work

    def _store_definitions(self, listing: ToolListing) -> None:
        self._known = {each.name: each for each in listing.definitions}
        self._on_listing(listing)

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
        on_listing: Callable[[ToolListing], None],
        subscriptions: Mapping[str, Callable[[str], object]],
    ) -> None:
        self.process = os.getpid()
        self._target, self._connect_seconds, self._on_listing = target, connect_seconds, on_listing
        self._subscriptions = subscriptions
        self._loop = asyncio.new_event_loop()
        self._connecting = asyncio.Lock()
        self._connection: MCPConnection | None = None
        self._connection_task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._serve, name=f"agentkit-mcp-{target.name}", daemon=True)
        self._thread.start()

    def submit(self, question: Coroutine[Any, Any, T]) -> Future[T]:
        """Schedule a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(question, self._loop)

    def close(self) -> None:
        """Disconnect and stop the thread; called on the thread itself, it only schedules this."""
        if threading.current_thread() is self._thread:
            self._loop.create_task(self._disconnect()).add_done_callback(lambda _: self._loop.stop())
            return
        future = self.submit(self._disconnect())
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
            await self._disconnect()
            await log_in(self._target, login, ask)

    async def log_out(self, login: Login) -> Logout:
        """Delete the login, with no connection open meanwhile."""
        async with self._connecting:
            await self._disconnect()
            return await log_out(self._target, login)

    async def ready(self) -> MCPConnection:
        """Return the connection, reconnecting if it was lost. Raises ConfigError, MissingExtra and ToolError."""
        async with self._connecting:
            is_over = self._connection_task is None or self._connection_task.done()
            if self._connection is None or self._connection.lost or is_over:
                await self._disconnect()
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> MCPConnection:
        ready: asyncio.Future[MCPConnection] = self._loop.create_future()
        self._connection_task = asyncio.create_task(self._keep_open(ready))
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await asyncio.shield(ready)
        except TimeoutError:
            seconds = f"{self._connect_seconds:g} seconds"
            raise ToolError(f"The MCP server {self._target.name!r} was not ready within {seconds}.") from None
        finally:
            if not ready.done() or ready.cancelled() or ready.exception() is not None:
                await self._disconnect()

    async def _keep_open(self, ready: asyncio.Future[MCPConnection]) -> None:
        """Hold the connection open until cancelled: it must be closed by the task that opened it."""
        from agentkit.mcp.sdk.session import open_connection

        try:
            async with open_connection(self._target) as connection:
                try:
                    await self._list_tools(connection)
                except Exception as error:  # outside the connection, to avoid an exception group
                    ready.set_exception(error)
                    return
                for uri, on_change in self._subscriptions.items():
                    with contextlib.suppress(ToolError):  # the resource is gone
                        await connection.subscribe(uri, on_change)
                ready.set_result(connection)
                await connection.watch(lambda: self._list_tools(connection))
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error) if isinstance(error, Exception) else ready.cancel()
            if isinstance(error, asyncio.CancelledError):
                raise

    async def _list_tools(self, connection: MCPConnection) -> None:
        self._on_listing(await connection.definitions())

    async def _disconnect(self) -> None:
        holding, self._connection_task, self._connection = self._connection_task, None, None
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
    if kept.version is None:
        return Logout(was_stored=False)
    async with kept.locked():
        try:
            from agentkit.mcp.sdk import check_package

            check_package()
            from agentkit.mcp.sdk.oauth import revoke_login

            return Logout(was_stored=True, problem=await revoke_login(target, login))
        finally:
            kept.forget()
