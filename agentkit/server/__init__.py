"""The HTTP server: an OpenAI-compatible endpoint, a chat page, and the protocols AG-UI and A2A.

    from agentkit.server import app

    application = app(agent)            # an ASGI application; its token is application.state.token
    # uvicorn module:application

Everything except the page's static files and the A2A card requires the token. `agentkit serve` creates agent, token
and server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from agentkit.agents.agent import Agent
    from agentkit.server.auth import Access
    from agentkit.sessions.stores import StoreLocation

__all__ = ["app"]


def app(
    agent: Agent[Any],
    *,
    sessions: StoreLocation = ":memory:",
    session: str = "",
    max_runs: int = 8,
    **access: Unpack[Access],
) -> Starlette:
    """Build an ASGI application for the agent: `/v1/chat/completions`, `/v1/models`, a page, `/ag-ui` and `/a2a`.

    `token` is the token of clients, at least 16 characters; by default a random one, in `state.token`. `hosts` are
    the host names of the server, in addition to `localhost` and numeric addresses. Pages of `origins`, such as
    `http://localhost:5173`, can call it from a browser with the token; by default no other page can. `sessions` is the
    store of all conversations, `session` the one that the page opens first. At most `max_runs` runs execute at the
    same time. Raises ConfigError, MissingExtra without Starlette, and NoProvider if no model is configured.
    """
    from agentkit.server.application import application

    return application(agent, access, sessions, session, max_runs)
