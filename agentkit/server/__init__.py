"""The HTTP server: an OpenAI-compatible endpoint and a chat page.

    from agentkit.server import app

    application = app(agent)            # an ASGI application; its token is application.state.token
    # uvicorn module:application

Everything but the page's own files needs the token. `agentkit serve` makes the agent, the token and the server.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from agentkit.agents.agent import Agent
    from agentkit.sessions.stores.factory import Place

__all__ = ["app"]


def app(
    agent: Agent[Any],
    *,
    token: str | None = None,
    hosts: Iterable[str] = (),
    sessions: Place = ":memory:",
    session: str = "",
    most_runs: int = 8,
) -> Starlette:
    """The agent as an ASGI application: `/v1/chat/completions`, `/v1/models`, and a page at `/`.

    `token` is what a client must show, at least 16 characters; by default a random one, in `state.token`. `hosts` are
    the names that the server is reached under beside `localhost` and addresses in numbers. `sessions` is where the
    conversations of the page are kept, `session` the one that the page opens first. At most `most_runs` runs go on at
    the same time. Raises ConfigError, MissingExtra without Starlette, and NoProvider when there is no model to ask.
    """
    from agentkit.server.application import application

    return application(agent, token, hosts, sessions, session, most_runs)
