"""The ASGI application: routes, authentication and error responses."""

from __future__ import annotations

import asyncio
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
    cancel_on_disconnect,
    deliver,
    server_stopped,
)
from agentkit.server.openai_endpoint import Completions, http_error
from agentkit.sessions.stores import StoreLocation, store_at

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

_MAX_LISTENING = 64

Handler = Callable[[HTTPRequest], Awaitable[HTTPResponse]]


def application(agent: Agent[Any], access: Access, sessions: StoreLocation, session: str, max_runs: int) -> Starlette:
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
    auth, limit = RequestAuth(open_paths=[*_FILES, CARD_PATH], **access), ConcurrencyLimit(max_runs)
    store = store_at(sessions)
    chats = Chats(agent, store, limit)
    chat_api = ChatAPI(agent, auth, chats, ConcurrencyLimit(_MAX_LISTENING), session)
    page = AGUIEndpoint(Conversations(agent, store, "ag-ui"), limit)
    tasks = A2AEndpoint(agent, Conversations(agent, store, "a2a"), limit)
    handlers = _handlers(Completions(agent, limit), chat_api, page, tasks, Dashboard(store, chats))
    routes = [Route(path, _endpoint(handle), methods=[method]) for (method, path), handle in handlers.items()]

    error_handlers: Mapping[Any, Any] = {404: _not_found, 405: _not_found, 500: _internal_error}

    async def close() -> None:
        await chats.close()
        await tasks.close()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await close()
        await agent.llm.aclose()  # closes the connections opened on this event loop

    starlette = Starlette(
        routes=routes, middleware=_middleware(auth), exception_handlers=error_handlers, lifespan=lifespan
    )
    starlette.router.redirect_slashes = False  # it would redirect to any host that the client names
    starlette.state.token = auth.token
    starlette.state.close = close
    return starlette


def _middleware(auth: RequestAuth) -> list[Any]:
    """Authentication, within the answers to browsers that ask whether a page of another origin may send a request."""
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware

    authentication = Middleware(_AuthMiddleware, auth=auth)
    if not auth.origins:
        return [authentication]
    cors: dict[str, Any] = {"allow_origins": auth.origins, "allow_methods": ("GET", "POST"), "allow_headers": ["*"]}
    return [Middleware(CORSMiddleware, **cors), authentication]


def _handlers(
    completions: Completions, chat_api: ChatAPI, page: AGUIEndpoint, tasks: A2AEndpoint, dashboard: Dashboard
) -> Mapping[tuple[str, str], Handler]:
    files = {("GET", path): _file(*named) for path, named in _FILES.items()}
    return {
        **files,
        ("POST", SIGN_IN): chat_api.sign_in,
        ("GET", "/page/about"): chat_api.about,
        ("GET", "/page/sessions"): chat_api.sessions,
        ("GET", "/page/session"): chat_api.session_document,
        ("POST", "/page/run"): chat_api.run,
        ("GET", "/page/events"): chat_api.events,
        ("POST", "/page/answer"): chat_api.answer,
        ("POST", "/page/stop"): chat_api.stop,
        ("POST", "/page/undo"): chat_api.undo,
        ("GET", "/page/state"): chat_api.state,
        ("GET", "/page/models"): chat_api.models,
        ("POST", "/page/rename"): chat_api.rename,
        ("POST", "/page/delete"): chat_api.delete,
        ("POST", "/page/retry"): chat_api.retry,
        ("GET", "/page/runs"): dashboard.runs,
        ("GET", "/page/recording"): dashboard.recording,
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


def _endpoint(handle: Handler) -> Callable[[Request], Awaitable[_ASGIResponse]]:
    """Wrap a handler as a Starlette endpoint; errors become responses."""
    from starlette.requests import ClientDisconnect

    async def endpoint(request: Request) -> _ASGIResponse:
        try:
            return _ASGIResponse(await handle(_to_request(request)))
        except HTTPError as refusal:
            return _ASGIResponse(refusal.reply)
        except AgentKitError as error:
            return _ASGIResponse(http_error(error).reply)
        except (ClientDisconnected, ClientDisconnect):
            return _ASGIResponse(HTTPResponse(status=499))
        except asyncio.CancelledError:
            return _ASGIResponse(server_stopped().reply)

    return endpoint


def _to_request(request: Request) -> HTTPRequest:
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


class _ASGIResponse:
    """A response as an ASGI application."""

    def __init__(self, reply: HTTPResponse) -> None:
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = self._reply
        if reply.asgi_response is not None:
            reply.asgi_response.headers.update(HEADERS)
            await reply.asgi_response(scope, receive, send)
            return
        headers = [*HEADERS.items(), ("content-type", reply.content_type), *reply.headers.items()]
        if reply.chunks is None:
            headers.append(("content-length", str(len(reply.body))))
        raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
        start = {"type": "http.response.start", "status": reply.status, "headers": raw}
        try:
            if reply.chunks is None:
                await send(start)
                await send({"type": "http.response.body", "body": reply.body})
            else:
                sending = deliver(reply.chunks, start, send, beat=reply.beat, beat_seconds=BEAT_SECONDS)
                await cancel_on_disconnect(receive, sending)
        except ClientDisconnected:
            return
        except asyncio.CancelledError:  # the server stops
            await send({"type": "http.response.body", "body": reply.last, "more_body": False})
        finally:
            reply.on_close()


class _AuthMiddleware:
    """Middleware that rejects requests which fail authentication."""

    def __init__(self, app: ASGIApp, auth: RequestAuth) -> None:
        self._app, self._auth = app, auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._auth.check(_head(scope))
            except HTTPError as refusal:
                headers = {**refusal.reply.headers, "connection": "close"}  # the body is not read
                await _ASGIResponse(HTTPResponse(refusal.reply.body, refusal.status, headers=headers))(
                    scope, receive, send
                )
                return
        await self._app(scope, receive, send)


def _head(scope: Scope) -> Head:
    headers: dict[str, tuple[str, ...]] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        headers[key] = (*headers.get(key, ()), value.decode("latin-1"))
    return Head(scope["method"], scope["path"], headers)


async def _not_found(_request: Request, error: Exception) -> _ASGIResponse:
    text = "Not found. Available: /v1/chat/completions, /v1/models, /ag-ui, /a2a, the page at /, and /dashboard."
    return _ASGIResponse(HTTPError(getattr(error, "status_code", 404), text, code="not_found").reply)


async def _internal_error(_request: Request, _error: Exception) -> _ASGIResponse:
    return _ASGIResponse(
        HTTPError(500, "Internal server error; the server's log has details.", code="server_error").reply
    )
