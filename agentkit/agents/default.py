"""The zero-configuration agent behind `from agentkit import agent`."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from agentkit.agents.agent import Agent
from agentkit.agents.options import Prompt, content_from
from agentkit.agents.result import RunStream
from agentkit.errors import short_traceback
from agentkit.llm.client import LLM
from agentkit.llm.detection import PROVIDERS
from agentkit.messages import Message
from agentkit.usage import Usage


class QuickAgent:
    """One-line chat: `agent("hi")`.

    Created from the environment on first use. Arguments of a call persist until a call names another provider, base URL
    or Azure endpoint, or the environment does: a key is only sent to the host it was given for. The environment is read
    at every call, so that a key set later takes effect without a restart.
    """

    def __init__(self) -> None:
        self._agent = Agent("agent")
        self._options: dict[str, Any] = {}
        self._llm: LLM | None = None
        self._host: tuple[str, str] | None = None
        self._lock = threading.Lock()

    def __call__(
        self,
        message: Prompt,
        *,
        system_prompt: str | None = None,
        model: str | None = None,
        provider: str | None = None,
        api_key: str | None = None,
        **options: Any,
    ) -> str:
        """The answer to `message`; the conversation is remembered until `reset()`.

        `system_prompt` is the instruction; `options` are further arguments of LLM, such as `base_url`. Raises
        NoProvider if no provider is configured, ModelError if the request fails.
        """
        with short_traceback:
            chosen = {"model": model, "provider": provider, "api_key": api_key, **options}
            return self._configure(message, system_prompt, chosen)(message)

    def stream(
        self,
        message: Prompt,
        *,
        system_prompt: str | None = None,
        model: str | None = None,
        provider: str | None = None,
        api_key: str | None = None,
        **options: Any,
    ) -> RunStream[str]:
        """The answer as events while it is written; the last is RunFinished. Takes the arguments of a call."""
        with short_traceback:
            chosen = {"model": model, "provider": provider, "api_key": api_key, **options}
            return self._configure(message, system_prompt, chosen).stream(message)

    def stream_text(
        self, message: Prompt, *, system_prompt: str | None = None, **options: Any
    ) -> Generator[str, None, None]:
        """The answer as text while it is written. Takes the arguments of a call, and raises the same exceptions."""
        with short_traceback:
            return self._configure(message, system_prompt, options).stream_text(message)

    @property
    def history(self) -> list[dict[str, Any]]:
        """The conversation so far as plain dictionaries in the chat format, without the system prompt. A copy.

        Set it to continue a conversation stored elsewhere.
        """
        return self._agent.history

    @history.setter
    def history(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        self._agent.history = messages

    @property
    def usage(self) -> Usage:
        """The usage of all calls."""
        return self._agent.usage

    def stop(self) -> None:
        """Stop the current answer, from any thread: the call raises Cancelled at its next event."""
        self._agent.stop()

    def reset(self) -> None:
        """Forget the conversation."""
        self._agent.reset()

    def _configure(self, message: Prompt, system_prompt: str | None, chosen: dict[str, Any]) -> Agent[str]:
        _refuse_unknown(chosen)
        content_from(message)
        with self._lock:
            given = {name: value for name, value in chosen.items() if value is not None}
            options = _merge_options(self._options, given)
            llm = LLM(**options)
            if _host(llm) != self._host and options.keys() & _CREDENTIALS - given.keys():
                options = {name: value for name, value in options.items() if name in given or name not in _CREDENTIALS}
                llm = LLM(**options)
            self._options, self._host = options, _host(llm)
            if system_prompt is not None:
                self._agent.instruction = system_prompt
            if self._llm is None or not self._llm.equals(llm):
                self._llm = self._agent.llm = llm
            return self._agent

    def __repr__(self) -> str:
        return "<agent: one-line chat; call it with a message>"


_CREDENTIALS = {"api_key", "azure_token_provider"}
_ENDPOINT_OPTIONS = ("provider", "base_url", "azure_endpoint")
_PROVIDER_OPTIONS = {*_ENDPOINT_OPTIONS, "model", "api_key", "azure_api_version", "azure_token_provider", "protocol"}


@cache
def _accepted_arguments() -> tuple[str, ...]:
    """The keyword arguments of a call."""
    from agentkit.suggestions import arguments_of

    return ("system_prompt", *arguments_of(LLM))


def _refuse_unknown(chosen: dict[str, Any]) -> None:
    """Raise TypeError for an unknown argument, with a suggestion."""
    unknown = [name for name in chosen if name not in _accepted_arguments()]
    if unknown:
        from agentkit.suggestions import raise_unknown_argument

        raise_unknown_argument("agent", unknown, _accepted_arguments())


def _host(llm: LLM) -> tuple[str, str]:
    """The recipient of the key: the provider and its host."""
    return llm.provider, urlsplit(llm.describe().endpoint).netloc


def _merge_options(remembered: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Merge the given options with the remembered ones, dropping remembered options of another provider or endpoint."""
    prefix, colon, _ = str(given.get("model", "")).partition(":")
    if colon and prefix.lower() in PROVIDERS and "base_url" not in remembered | given:
        given = {"provider": prefix.lower(), **given}
    endpoint = [given.get(name) for name in _ENDPOINT_OPTIONS]
    if any(endpoint) and endpoint != [remembered.get(name) for name in _ENDPOINT_OPTIONS]:
        remembered = {name: value for name, value in remembered.items() if name not in _PROVIDER_OPTIONS}
    return remembered | given


agent = QuickAgent()
"""The instance exported as `from agentkit import agent`."""
