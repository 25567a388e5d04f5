"""The ASGI application: routes, authentication and error responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentkit.agents.agent import Agent
from agentkit.errors import AgentKitError, ConfigError, MissingExtra
from agentkit.server.a2a import CARD_PATH, RPC_PATH, A2AEndpoint
from agentkit.server.ag_ui import AGUIEndpoint
from agentkit.server.api import ChatAPI, Dashboard
from agentkit.server.auth import HEADERS, SIGN_IN, Access, Head, RequestAuth
from agentkit.server.chats import Chats
from agentkit.server.conversations import Conversations
from agentkit.server.http_types import (
    BEAT_SECONDS,
    ClientDisconnected,
    ConcurrencyLimit,
    HTTPError,
    HTTPRequest,
    HTTPResponse,
    deliver,
    unless_gone,
)
from agentkit.server.openai_endpoint import Completions, refusal_of
from agentkit.sessions.stores import Place, store_at

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

_FOLDER = Path(__file__).with_name("page")
_FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/run.js": ("run.js", "text/javascript; charset=utf-8"),
    "/files.js": ("files.js", "text/javascript; charset=utf-8"),
    "/cards.js": ("cards.js", "text/javascript; charset=utf-8"),
    "/dashboard": ("dashboard.html", "text/html; charset=utf-8"),
    "/dashboard.js": ("dashboard.js", "text/javascript; charset=utf-8"),
    "/vendor/markdown-it.js": ("vendor/markdown-it.js", "text/javascript; charset=utf-8"),
    "/vendor/markdown-it.LICENSE": ("vendor/markdown-it.LICENSE", "text/plain; charset=utf-8"),
    "/markdown.js": ("markdown.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""The static files of the page, by exact path: no file path is ever built from client input."""

_MOST_LISTENING = 64

Handler = Callable[[HTTPRequest], Awaitable[HTTPResponse]]


def application(agent: Agent[Any], access: Access, sessions: Place, session: str, most_runs: int) -> Starlette:
    """Build the application of `app`; `access` is its token, hosts and origins.

    Raises ConfigError, MissingExtra and NoProvider.
    """
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ModuleNotFoundError as error:
        raise MissingExtra("serve", "Serving an agent over HTTP") from error
    if not isinstance(agent, Agent):
        raise ConfigError(f"app() takes an Agent. Got {agent!r:.200}.")
    _ = agent.llm  # fail at startup if no model is configured
    gate, room = RequestAuth(open_paths=[*_FILES, CARD_PATH], **access), ConcurrencyLimit(most_runs)
    store = store_at(sessions)
    chats = Chats(agent, store, room)
    desk = ChatAPI(agent, gate, chats, ConcurrencyLimit(_MOST_LISTENING), session)
    page = AGUIEndpoint(Conversations(agent, store, "ag-ui"), room)
    tasks = A2AEndpoint(agent, Conversations(agent, store, "a2a"), room)
    handlers = _handlers(Completions(agent, room), desk, page, tasks, Dashboard(store, chats))
    routes = [Route(path, _endpoint(handle), methods=[method]) for (method, path), handle in handlers.items()]

    failing: Mapping[Any, Any] = {404: _not_found, 405: _not_found, 500: _broken}

    async def close() -> None:
        await chats.close()
        await tasks.close()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await close()
        await agent.llm.aclose()  # closes the connections opened on this event loop

    served = Starlette(routes=routes, middleware=_middleware(gate), exception_handlers=failing, lifespan=lifespan)
    served.router.redirect_slashes = False  # it would redirect to any host that the client names
    served.state.token = gate.token
    served.state.close = close
    return served


def _middleware(gate: RequestAuth) -> list[Any]:
    """Authentication, within the answers to browsers that ask whether a page of another origin may send a request."""
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware

    guarded = Middleware(_Guarded, gate=gate)
    if not gate.origins:
        return [guarded]
    cors: dict[str, Any] = {"allow_origins": gate.origins, "allow_methods": ("GET", "POST"), "allow_headers": ["*"]}
    return [Middleware(CORSMiddleware, **cors), guarded]


def _handlers(
    completions: Completions, desk: ChatAPI, page: AGUIEndpoint, tasks: A2AEndpoint, board: Dashboard
) -> Mapping[tuple[str, str], Handler]:
    files = {("GET", path): _file(*named) for path, named in _FILES.items()}
    return {
        **files,
        ("POST", SIGN_IN): desk.sign_in,
        ("GET", "/page/about"): desk.about,
        ("GET", "/page/sessions"): desk.sessions,
        ("GET", "/page/session"): desk.session_of,
        ("POST", "/page/run"): desk.run,
        ("GET", "/page/events"): desk.events,
        ("POST", "/page/answer"): desk.answer,
        ("POST", "/page/stop"): desk.stop,
        ("POST", "/page/undo"): desk.undo,
        ("GET", "/page/state"): desk.state,
        ("GET", "/page/models"): desk.models,
        ("POST", "/page/rename"): desk.rename,
        ("POST", "/page/delete"): desk.delete,
        ("POST", "/page/retry"): desk.retry,
        ("GET", "/page/runs"): board.runs,
        ("GET", "/page/recording"): board.recording,
        ("GET", "/v1/models"): completions.models,
        ("GET", "/v1/models/{model:path}"): completions.model,
        ("POST", "/v1/chat/completions"): completions.complete,
        ("POST", "/ag-ui"): page.run,
        ("GET", CARD_PATH): tasks.card,
        ("POST", RPC_PATH): tasks.rpc,
    }


def _file(name: str, content_type: str) -> Handler:
    """A handler for a static file, which is read once."""
    content = (_FOLDER / name).read_bytes()

    async def show(_: HTTPRequest) -> HTTPResponse:
        return HTTPResponse(content, content_type=content_type, headers={"cache-control": "no-cache"})

    return show


def _endpoint(handle: Handler) -> Callable[[Request], Awaitable[_Sending]]:
    """Wrap a handler as a Starlette endpoint; errors become responses."""
    from starlette.requests import ClientDisconnect

    async def endpoint(request: Request) -> _Sending:
        try:
            return _Sending(await handle(_asked(request)))
        except HTTPError as refusal:
            return _Sending(refusal.reply)
        except AgentKitError as error:
            return _Sending(refusal_of(error).reply)
        except (ClientDisconnected, ClientDisconnect):
            return _Sending(HTTPResponse(status=499))

    return endpoint


def _asked(request: Request) -> HTTPRequest:
    return HTTPRequest(
        request.stream(),
        request.headers.get("content-type", ""),
        dict(request.query_params),
        {name: str(value) for name, value in request.path_params.items()},
        request.receive,
        is_secure=request.url.scheme == "https",
        origin=f"{request.url.scheme}://{request.headers.get('host', '')}",
        scope=request.scope,
    )


class _Sending:
    """A response as an ASGI application."""

    def __init__(self, reply: HTTPResponse) -> None:
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = self._reply
        if reply.made is not None:
            reply.made.headers.update(HEADERS)
            await reply.made(scope, receive, send)
            return
        headers = [*HEADERS.items(), ("content-type", reply.content_type), *reply.headers.items()]
        if reply.pieces is None:
            headers.append(("content-length", str(len(reply.body))))
        raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
        start = {"type": "http.response.start", "status": reply.status, "headers": raw}
        try:
            if reply.pieces is None:
                await send(start)
                await send({"type": "http.response.body", "body": reply.body})
            else:
                sending = deliver(reply.pieces, start, send, beat=reply.beat, beat_seconds=BEAT_SECONDS)
                await unless_gone(receive, sending)
        except ClientDisconnected:
            return
        finally:
            reply.ended()


class _Guarded:
    """Middleware that rejects requests which fail authentication."""

    def __init__(self, app: ASGIApp, gate: RequestAuth) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._gate.check(_head(scope))
            except HTTPError as refusal:
                headers = {**refusal.reply.headers, "connection": "close"}  # the body is not read
                await _Sending(HTTPResponse(refusal.reply.body, refusal.status, headers=headers))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _head(scope: Scope) -> Head:
    headers: dict[str, tuple[str, ...]] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        headers[key] = (*headers.get(key, ()), value.decode("latin-1"))
    return Head(scope["method"], scope["path"], headers)


async def _not_found(_request: Request, error: Exception) -> _Sending:
    text = "Not found. Available: /v1/chat/completions, /v1/models, /ag-ui, /a2a, the page at /, and /dashboard."
    return _Sending(HTTPError(getattr(error, "status_code", 404), text, code="not_found").reply)


async def _broken(_request: Request, _error: Exception) -> _Sending:
    return _Sending(HTTPError(500, "Internal server error; the server's log has details.", code="server_error").reply)
