"""LLM: one model behind one provider; blocking, awaiting, streaming."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from typing import Protocol as TypingProtocol

from agentkit import config
from agentkit.config import Secret
from agentkit.errors import BadResponse, ConfigError
from agentkit.events import Event
from agentkit.llm.detect import detect
from agentkit.llm.endpoint import Description, Endpoint, Protocol, TokenProvider, Wishes
from agentkit.llm.providers import Provider
from agentkit.llm.wire.dictionaries import typed_messages
from agentkit.messages import Message, OutputSchema, Request, Response, ToolSpec

Prompt = str | Iterable[Message | Mapping[str, Any]]
"""A text, or messages: typed ones or plain dictionaries in the chat format."""


class HasSpec(TypingProtocol):
    """Anything that can say how a model sees it, such as a Tool."""

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        ...


class LLM:
    """A client for one model at one provider.

    Which provider, in this order: the arguments; `AGENTKIT_PROVIDER`; `AZURE_OPENAI_API_KEY` with
    `AZURE_OPENAI_ENDPOINT`; `OPENAI_API_KEY` or a base URL. `describe()` says what was chosen and why.

    Args:
        provider: `openai`, `azure`, `offline`, or a service such as `ollama`, `groq`, `openrouter`.
        model: The model's name, for Azure the deployment's; `ollama:qwen3` names the provider too.
        api_key: The provider's key; otherwise its own variable is read.
        azure_endpoint: `https://RESOURCE.openai.azure.com`.
        azure_api_version: A date, or `v1` for the v1 style; default `2024-02-01`.
        base_url: An OpenAI-compatible server, which may need no key.
        azure_token_provider: A function that gives an Entra ID token, instead of a key.
        protocol: `responses` or `chat`, when the choice made for the provider is not right.
        timeout_seconds: How long to wait for an answer, or for the next piece of one; connecting takes at most 10.
        max_retries: How often a request is sent again after 408, 409, 429, 5xx, a timeout or a lost connection.
        temperature, max_tokens, reasoning_effort: Sent only when set.
        settings: Further parameters, sent as they are.

    Raises:
        NoProvider: Nothing names a provider, the named one is unknown, or it lacks a key or endpoint.
        ConfigError: An argument or variable cannot be right.
    """

    def __init__(
        self,
        provider: str | None = None,
        model: str | None = None,
        api_key: str | None = None,
        azure_endpoint: str | None = None,
        azure_api_version: str | None = None,
        *,
        base_url: str | None = None,
        azure_token_provider: TokenProvider | None = None,
        protocol: Protocol | None = None,
        timeout_seconds: float = 120,
        max_retries: int = 2,
        temperature: float | None = None,
        max_tokens: int | None = None,
        reasoning_effort: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        key = _stripped(api_key)
        self._wishes = Wishes(
            provider=_stripped(provider),
            model=_stripped(model),
            api_key=Secret(key) if key else None,
            azure_endpoint=_stripped(azure_endpoint),
            azure_api_version=_stripped(azure_api_version),
            azure_token_provider=azure_token_provider,
            base_url=_stripped(base_url),
            protocol=protocol,
        )
        own = {"temperature": temperature, "max_tokens": max_tokens, "reasoning_effort": reasoning_effort}
        self._settings = _chosen({**own, **(settings or {})})
        self._timeout_seconds, self._max_retries = _checked_limits(timeout_seconds, max_retries)
        self._connect()

    def _connect(self) -> None:
        """Decide where the model is; nothing is opened before the first request."""
        self._endpoint, self._decided_by, ignored = detect(self._wishes, config.environment())
        self._ignored = (*ignored, *(f"{name} (empty)" for name in config.empty_variables()))
        self._provider = _provider(self._endpoint, self._timeout_seconds, self._max_retries)

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._endpoint.provider

    @property
    def model(self) -> str:
        """The model's name; for Azure the deployment's."""
        return self._endpoint.model

    def equals(self, other: LLM) -> bool:
        """Whether `other` would send the same requests to the same place."""
        names = ("_endpoint", "_settings", "_timeout_seconds", "_max_retries")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def describe(self) -> Description:
        """What was chosen, what decided, and what was ignored; nothing secret in it."""
        endpoint = self._endpoint
        return Description(
            provider=endpoint.provider,
            model=endpoint.model,
            endpoint=endpoint.shown_url,
            protocol=endpoint.protocol,
            api_version=endpoint.api_version,
            decided_by=self._decided_by,
            ignored=self._ignored,
            adjustments=getattr(self._provider, "adjustments", ()),
        )

    def chat(self, messages: Prompt, **settings: Any) -> str:
        """The text of the model's answer. Raises ModelError."""
        return _whole_text(self.complete(messages, **settings))

    async def achat(self, messages: Prompt, **settings: Any) -> str:
        """Like `chat`, awaiting."""
        return _whole_text(await self.acomplete(messages, **settings))

    def complete(
        self,
        messages: Prompt | Request,
        *,
        tools: Iterable[ToolSpec | HasSpec] = (),
        output_schema: OutputSchema | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Response:
        """The model's answer: text, tool calls, usage, finish reason, raw JSON. Raises ModelError.

        `output_schema` is a JSON schema that the text must fit; `settings` override the LLM's own.
        """
        return self._provider.complete(self._request(messages, tools, output_schema, settings))

    async def acomplete(
        self,
        messages: Prompt | Request,
        *,
        tools: Iterable[ToolSpec | HasSpec] = (),
        output_schema: OutputSchema | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Response:
        """Like `complete`, awaiting."""
        return await self._provider.acomplete(self._request(messages, tools, output_schema, settings))

    def stream(
        self,
        messages: Prompt | Request,
        *,
        tools: Iterable[ToolSpec | HasSpec] = (),
        output_schema: OutputSchema | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Iterator[Event]:
        """The answer as TextDelta, ReasoningDelta and ToolCallDelta events; the last is ResponseReceived."""
        return self._provider.stream(self._request(messages, tools, output_schema, settings))

    def astream(
        self,
        messages: Prompt | Request,
        *,
        tools: Iterable[ToolSpec | HasSpec] = (),
        output_schema: OutputSchema | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> AsyncIterator[Event]:
        """Like `stream`, awaiting."""
        return self._provider.astream(self._request(messages, tools, output_schema, settings))

    def close(self) -> None:
        """Close what the blocking methods opened. The LLM stays usable."""
        if close := getattr(self._provider, "close", None):
            close()

    async def aclose(self) -> None:
        """Close what the awaiting methods opened on the running event loop. The LLM stays usable."""
        if aclose := getattr(self._provider, "aclose", None):
            await aclose()

    def _request(
        self,
        messages: Prompt | Request,
        tools: Iterable[ToolSpec | HasSpec],
        output_schema: OutputSchema | Mapping[str, Any] | None,
        settings: Mapping[str, Any],
    ) -> Request:
        chosen = _chosen(settings)
        specs = tuple(tool if isinstance(tool, ToolSpec) else tool.spec for tool in tools)
        schema = _output_schema(output_schema) if isinstance(output_schema, Mapping) else output_schema
        asked = messages if isinstance(messages, Request) else Request(typed_messages(messages))
        return replace(
            asked,
            tools=specs or asked.tools,
            output_schema=schema or asked.output_schema,
            settings={**self._settings, **asked.settings, **chosen},
        )

    def __repr__(self) -> str:
        return f"LLM(provider={self.provider!r}, model={self.model!r})"

    def __getstate__(self) -> dict[str, Any]:
        """The configuration alone: what the arguments said. The environment is read anew where it is unpickled."""
        names = ("_wishes", "_settings", "_timeout_seconds", "_max_retries")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._connect()


def _provider(endpoint: Endpoint, timeout_seconds: float, max_retries: int) -> Provider:
    """What answers for an endpoint; imported when chosen."""
    if endpoint.provider == "offline":
        from agentkit.llm.providers.offline import OfflineModel

        return OfflineModel(timeout_seconds=timeout_seconds)
    from agentkit.llm.remote import RemoteModel

    return RemoteModel(endpoint, timeout_seconds, max_retries)


def _whole_text(response: Response) -> str:
    """The text, unless there is none because the answer was cut before it began."""
    if not response.text and response.finish_reason == "length":
        raise BadResponse("The answer was cut at its token limit before any text came; allow more max_tokens.")
    return response.text


def _stripped(text: str | None) -> str | None:
    """The text without blanks around it, as they come along when a key is pasted; None when nothing is left."""
    return (text.strip() or None) if text else None


def _chosen(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are made: None leaves one to the server. Raises ConfigError for what is no setting."""
    if settings.get("stream"):
        raise ConfigError("stream=True is no setting; use LLM.stream or LLM.astream.")
    return {name: value for name, value in settings.items() if value is not None and name != "stream"}


def _checked_limits(timeout_seconds: float, max_retries: int) -> tuple[float, int]:
    """Timeout and retries as they are. Raises ConfigError when they limit nothing."""
    if not 0 < timeout_seconds < math.inf:
        raise ConfigError(f"timeout_seconds= is a number of seconds above 0, not {timeout_seconds!r}.")
    if not isinstance(max_retries, int) or max_retries < 0:
        raise ConfigError(f"max_retries= is a whole number, 0 or more, not {max_retries!r}.")
    return timeout_seconds, max_retries


def _output_schema(schema: Mapping[str, Any]) -> OutputSchema:
    """A JSON schema as an output schema, named after its title in the letters that servers allow in a name."""
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", str(schema.get("title", ""))).strip("_")[:64]
    return OutputSchema(name or "answer", schema)
