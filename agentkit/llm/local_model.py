"""The provider that answers requests with a model in a GGUF file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from agentkit.errors import ConfigError, Rejected
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.pipeline import Effect, Stage, Steps
from agentkit.llm.providers.local.endpoint import check_model_file, model_path
from agentkit.llm.providers.local.server_process import ServerAddress, ServerOptions, ServerProcess, shared_server
from agentkit.llm.remote_model import RemoteModel
from agentkit.messages import Request, Response
from agentkit.recording import is_replaying
from agentkit.settings import Secret
from agentkit.usage import Price, is_whole

CONTEXT_TOKENS = 8_192
"""Default size of the context."""

_OPTIONS = {"context_tokens": 1, "threads": 1, "gpu_layers": 0}
"""The settings of the server, with their smallest values."""

_OTHER_NAMES = {
    "n_ctx": "context_tokens",
    "num_ctx": "context_tokens",
    "ctx_size": "context_tokens",
    "n_threads": "threads",
    "num_thread": "threads",
    "n_gpu_layers": "gpu_layers",
    "num_gpu": "gpu_layers",
}
"""Names of these settings in llama.cpp, llama-cpp-python and Ollama."""

_HEADERS = {"Connection": "close"}
"""llama.cpp closes idle connections after a few seconds; a new one to this machine takes no time."""


class _RunningServer(NamedTuple):
    """A server that is in use, its address, and the provider that sends requests to it."""

    server: ServerProcess
    address: ServerAddress
    remote: RemoteModel


class LocalModel(Stage):
    """A model in a GGUF file. Each combination of the settings in `_OPTIONS` has a server, started on first use.

    Raises ConfigError if the file cannot be read or is not a GGUF file.
    """

    def __init__(self, endpoint: Endpoint, timeout_seconds: float, max_retries: int, price: Price | None) -> None:
        self._endpoint, self._path = endpoint, model_path(endpoint.model)
        if not is_replaying():
            check_model_file(self._path)
        self._arguments = timeout_seconds, max_retries, price
        self._running: dict[tuple[int, ServerOptions], _RunningServer] = {}

    @property
    def adjustments(self) -> tuple[str, ...]:
        """The names of the adjustments made to requests because the server rejected the original form."""
        return tuple(dict.fromkeys(name for each in self._running.values() for name in each.remote.adjustments))

    def close(self) -> None:
        """Close the blocking connections and release the servers; a later request starts them again."""
        for each in self._released():
            each.remote.close()

    async def aclose(self) -> None:
        """Async version of `close`."""
        for each in self._released():
            await each.remote.aclose()

    def steps(self, request: Request, *, streaming: bool, is_hasty: bool = False) -> Steps[Response]:
        """The steps that start the server if needed and send it the request."""
        options = self._options(request.settings)
        start = partial(self._started, options)
        running: _RunningServer = yield Effect(start, partial(asyncio.to_thread, start))
        if request.tools and not running.address.supports_tools:
            raise Rejected(
                f"The chat template of {self._path.name} does not support tools. Pass tool_calling='text' or 'auto', "
                "or choose a model that is trained for tools.",
                status=400,
            )
        settings = {name: value for name, value in request.settings.items() if name not in _OPTIONS}
        own = replace(request, settings=settings)
        return (yield from running.remote.steps(own, streaming=streaming, is_hasty=is_hasty))

    def _released(self) -> list[_RunningServer]:
        released = list(self._running.values())
        self._running.clear()
        return released

    def _options(self, settings: Mapping[str, Any]) -> ServerOptions:
        """The options of the server in the settings. Raises ConfigError for wrong values and for names of others."""
        for name, known in _OTHER_NAMES.items():
            if name in settings:
                raise ConfigError(f"The provider local has no setting {name!r}. Write {known}={settings[name]!r:.40}.")
        given = {name: settings[name] for name in _OPTIONS if name in settings}
        for name, value in given.items():
            if not is_whole(value, _OPTIONS[name]):
                raise ConfigError(f"{name}= takes a whole number, {_OPTIONS[name]} or more. Got {value!r:.200}.")
        return ServerOptions(path=str(self._path), **{"context_tokens": CONTEXT_TOKENS, **given})

    def _started(self, options: ServerOptions) -> _RunningServer:
        """The running server with these options. Raises MissingExtra and ConfigError if it cannot be started."""
        key = os.getpid(), options
        known = self._running.get(key)
        server = known.server if known else shared_server(options)
        address = server.address()
        if known is None or known.address != address:
            endpoint = replace(
                self._endpoint,
                base_url=address.url,
                api_key=Secret(address.api_key),
                headers=_HEADERS,
                is_direct=True,
            )
            known = self._running[key] = _RunningServer(server, address, RemoteModel(endpoint, *self._arguments))
        return known
