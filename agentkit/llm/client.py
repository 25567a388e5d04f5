"""LLM: one model behind one provider; blocking, awaiting, streaming."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Never, get_args
from typing import Protocol as TypingProtocol

from agentkit import config
from agentkit.config import Secret
from agentkit.errors import BadResponse, ConfigError, NoProvider
from agentkit.events import Event
from agentkit.llm import providers
from agentkit.llm.configured import Configured, chosen, parted, stripped
from agentkit.llm.detect import detect, wishes_beside
from agentkit.llm.endpoint import Endpoint, Protocol, TokenProvider, Wishes, read_headers
from agentkit.llm.providers.absent import AbsentModel, absent_endpoint
from agentkit.llm.quirks import merged
from agentkit.llm.text_protocol.retelling import Retelling, ToolCalling
from agentkit.llm.wire.dictionaries import Rereading, typed_messages
from agentkit.messages import Message, OutputSchema, Request, Response, ToolSpec
from agentkit.naming import refuse_made
from agentkit.tape import ataped, ataped_stream, is_replaying, taped, taped_stream
from agentkit.usage import Price, is_number, is_whole

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

_TEXTS = ("provider", "model", "base_url", "azure_endpoint", "azure_api_version")

Prompt = str | Iterable[Message | Mapping[str, Any]]
"""A text, or messages: typed ones or plain dictionaries in the chat format."""


class HasSpec(TypingProtocol):
    """Anything that can say how a model sees it, such as a Tool."""

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        ...


class LLM(Configured):
    """A client for one model at one provider.

    Which provider, in this order: the arguments; `AGENTKIT_PROVIDER`; `AZURE_OPENAI_API_KEY` with
    `AZURE_OPENAI_ENDPOINT`; `OPENAI_API_KEY` or a base URL; `ANTHROPIC_API_KEY`. `describe()` says what was chosen and
    why.

    Args:
        provider: `openai`, `azure`, `anthropic`, `offline`, or a service such as `ollama`, `groq`, `openrouter`.
        model: The model's name, for Azure the deployment's; `ollama:qwen3` names the provider too. Fallbacks may follow
            it: `openai:gpt-5.4-mini | ollama:qwen3`.
        api_key: The provider's key; otherwise its own variable is read.
        azure_endpoint: `https://RESOURCE.openai.azure.com`.
        azure_api_version: A date, or `v1` for the v1 style; default `2024-02-01`.
        base_url: An OpenAI-compatible server, which may need no key.
        azure_token_provider: A function that gives an Entra ID token, instead of a key.
        protocol: `responses`, `chat` or `messages`, when the choice made for the provider is not right.
        tool_calling: `native`: as the server does it; `text`: written as text, for models that cannot call tools;
            `auto`: as text once the server refuses tools.
        timeout_seconds: How long to wait for an answer, or for the next piece of one; connecting takes at most 10.
        max_retries: How often a request is sent again after 408, 409, 429, 5xx, a timeout or a lost connection.
        temperature, max_tokens, reasoning_effort: Sent only when set.
        settings: Further parameters, sent as they are.
        price: What the model costs, when you know better than the list of prices.
        headers: Sent with every request, as gateways want it: `{"X-Team": "blue"}`.
        client: An `OpenAI` or `AsyncOpenAI` of the openai package that sends the requests, with its own place, key and
            headers: for Bedrock, Vertex and other ways of signing in, or an HTTP client of your own.
        fallback: Who is asked when this model gives no answer: an LLM, the name of a model, or several in order.

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
        tool_calling: ToolCalling = "auto",
        timeout_seconds: float = 120,
        max_retries: int = 2,
        temperature: float | None = None,
        max_tokens: int | None = None,
        reasoning_effort: str | None = None,
        settings: Mapping[str, Any] | None = None,
        price: Price | None = None,
        headers: Mapping[str, str] | None = None,
        client: OpenAI | AsyncOpenAI | None = None,
        fallback: LLM | str | Sequence[LLM | str] | None = None,
        **unknown: Never,
    ) -> None:
        refuse_made(LLM, unknown)
        model, behind = parted(stripped(model))
        self._settings = _said(settings or {}, temperature, max_tokens, reasoning_effort)
        self._timeout_seconds, self._max_retries = _checked_limits(timeout_seconds, max_retries)
        self._tool_calling = _checked_tool_calling(tool_calling)
        self._price, self._fallback = price, (*behind, *_checked_fallback(fallback))
        texts = map(stripped, (provider, model, base_url, azure_endpoint, azure_api_version))
        self._wishes = Wishes(
            **dict(zip(_TEXTS, texts, strict=True)),
            api_key=Secret(key) if (key := stripped(api_key)) else None,
            azure_token_provider=azure_token_provider,
            protocol=protocol,
            headers=read_headers(headers),
            client=client,
        )
        self._set_up()

    def _connect(self) -> None:
        """Decide where the model is; nothing is opened before the first request."""
        _check_alone(self._wishes)
        behind, known = _named_behind(config.environment())
        is_unsaid = not self._wishes.given() and not self._fallback
        self._behind = behind if is_unsaid else ()
        try:
            self._endpoint, self._decided_by, ignored = detect(self._wishes, known)
        except NoProvider as error:
            self._connect_to_none(error)
            return
        unused = () if is_unsaid else (f"{name} after a | in AGENTKIT_MODEL (the arguments decide)" for name in behind)
        self._ignored = (*ignored, *unused, *(f"{name} (empty)" for name in config.empty_variables()))
        provider = _provider(self._endpoint, self._timeout_seconds, self._max_retries, self._price)
        self._provider = provider if self.provider == "offline" else Retelling(provider, self._tool_calling)

    def _connect_to_none(self, error: NoProvider) -> None:
        """In a replay a provider is not needed. Raises the error anywhere else."""
        if not is_replaying():
            raise error
        self._endpoint, self._decided_by, self._ignored = absent_endpoint(self._wishes.model), "the replay", ()
        self._provider = AbsentModel(error)

    def _link(self) -> None:
        """Have the fallbacks asked when the model gives no answer."""
        given = self._fallback or self._behind
        if given:
            from agentkit.llm.chain.succession import Chain

            fallbacks = tuple(each if isinstance(each, Configured) else self._named(each) for each in given)
            self._provider = Chain([*self.members(), *(member for each in fallbacks for member in each.members())])
            self._fallbacks = fallbacks

    def _named(self, name: str) -> LLM:
        """The LLM of another model, with the settings of this one; at the same place unless its name says another."""
        other, state = object.__new__(LLM), LLM.__getstate__(self) | {"_price": None, "_fallback": ()}
        other.__setstate__(state | {"_wishes": wishes_beside(name, self._wishes)})
        other._ignored = ()  # what else is set does not count for the first, which says so
        return other

    def _sent(self, request: Request, asked: Prompt | Request, settings: Mapping[str, Any]) -> Request:
        """The request as it is passed on: to several models without the settings of this one, as each has its own."""
        if not self._fallbacks:
            return request
        said = asked.settings if isinstance(asked, Request) else {}
        return replace(request, settings=merged(said, chosen(settings)))

    @cached_property
    def _rereading(self) -> Rereading:
        return Rereading()

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
        request = self.request_of(messages, tools=tools, output_schema=output_schema, **settings)
        return taped(request, partial(self._provider.complete, self._sent(request, messages, settings)))

    async def acomplete(
        self,
        messages: Prompt | Request,
        *,
        tools: Iterable[ToolSpec | HasSpec] = (),
        output_schema: OutputSchema | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Response:
        """Like `complete`, awaiting."""
        request = self.request_of(messages, tools=tools, output_schema=output_schema, **settings)
        return await ataped(request, partial(self._provider.acomplete, self._sent(request, messages, settings)))

    def stream(
        self,
        messages: Prompt | Request,
        *,
        tools: Iterable[ToolSpec | HasSpec] = (),
        output_schema: OutputSchema | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Iterator[Event]:
        """The answer as TextDelta, ReasoningDelta and ToolCallDelta events; the last is ResponseReceived."""
        request = self.request_of(messages, tools=tools, output_schema=output_schema, **settings)
        return taped_stream(request, partial(self._provider.stream, self._sent(request, messages, settings)))

    def astream(
        self,
        messages: Prompt | Request,
        *,
        tools: Iterable[ToolSpec | HasSpec] = (),
        output_schema: OutputSchema | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> AsyncIterator[Event]:
        """Like `stream`, awaiting."""
        request = self.request_of(messages, tools=tools, output_schema=output_schema, **settings)
        return ataped_stream(request, partial(self._provider.astream, self._sent(request, messages, settings)))

    def prepare(self) -> None:
        """Load the client now, and not with the first request. Nothing is sent."""
        providers.prepare(self._provider)

    def close(self) -> None:
        """Close what the blocking methods opened. The LLM stays usable."""
        providers.close(self._provider)

    async def aclose(self) -> None:
        """Close what the awaiting methods opened on the running event loop. The LLM stays usable."""
        await providers.aclose(self._provider)

    def request_of(
        self,
        messages: Prompt | Request,
        *,
        tools: Iterable[ToolSpec | HasSpec] = (),
        output_schema: OutputSchema | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Request:
        """The request that `complete` makes of the same arguments, with the LLM's own settings in it; nothing is sent.

        Raises ValueError or TypeError for what is no message, ConfigError for what is no setting.
        """
        if isinstance(messages, Request) and not (tools or settings or self._settings or output_schema is not None):
            return messages
        said = chosen(settings)
        specs = tuple(map(_spec, tools))
        schema = _output_schema(output_schema) if isinstance(output_schema, Mapping) else output_schema
        asked = messages if isinstance(messages, Request) else Request(typed_messages(messages, self._rereading.read))
        return Request(
            asked.messages,
            asked.instruction,
            specs or asked.tools,
            schema or asked.output_schema,
            merged(self._settings, {**asked.settings, **said}),
        )

    def __repr__(self) -> str:
        return f"LLM(provider={self.provider!r}, model={self.model!r})"


def _spec(tool: ToolSpec | HasSpec) -> ToolSpec:
    """What a model is told of a tool. Raises ConfigError for what is none, such as a plain function."""
    spec: object = tool if isinstance(tool, ToolSpec) else getattr(tool, "spec", None)
    if isinstance(spec, ToolSpec):
        return spec
    hint = f"Write Tool({getattr(tool, '__name__', 'function')})." if callable(tool) else "Give a list of tools."
    raise ConfigError(f"tools= takes tools, as from Tool(function), and no {type(tool).__name__}. {hint}")


def _provider(endpoint: Endpoint, timeout_seconds: float, max_retries: int, price: Price | None) -> providers.Provider:
    """What answers for an endpoint; imported when chosen."""
    if endpoint.provider == "offline":
        from agentkit.llm.providers.offline.model import OfflineModel

        return OfflineModel(timeout_seconds=timeout_seconds)
    from agentkit.llm.remote import RemoteModel

    return RemoteModel(endpoint, timeout_seconds, max_retries, price)


def _whole_text(response: Response) -> str:
    """The text, unless there is none because the answer was cut before it began."""
    if not response.text and response.finish_reason == "length":
        raise BadResponse("The answer was cut at its token limit before any text came; allow more max_tokens.")
    return response.text


def _said(
    settings: Mapping[str, Any], temperature: float | None, max_tokens: int | None, reasoning_effort: str | None
) -> dict[str, Any]:
    """All settings in one: `settings` may say otherwise than an argument of its own does."""
    own = {"temperature": temperature, "max_tokens": max_tokens, "reasoning_effort": reasoning_effort}
    return chosen({**own, **settings})


def _check_alone(wishes: Wishes) -> None:
    """Raises ConfigError where a client was given, which says where and with what key, and something else says so."""
    others = wishes.given().keys() - {"client", "model", "protocol"}
    if wishes.client is not None and others:
        names = " and ".join(f"{name}=" for name in sorted(others))
        raise ConfigError(f"{names} beside client=: the client says where requests go and with what; make it so.")


def _checked_limits(timeout_seconds: float, max_retries: int) -> tuple[float, int]:
    """Timeout and retries as they are. Raises ConfigError when they limit nothing."""
    if not (is_number(timeout_seconds) and timeout_seconds):
        raise ConfigError(f"timeout_seconds= takes a number of seconds above 0. Got {timeout_seconds!r:.200}.")
    if not is_whole(max_retries, 0):
        raise ConfigError(f"max_retries= takes a whole number, 0 or more. Got {max_retries!r:.200}.")
    return timeout_seconds, max_retries


def _checked_tool_calling(tool_calling: ToolCalling) -> ToolCalling:
    """The way to call tools as it is. Raises ConfigError when there is no such way."""
    if tool_calling not in get_args(ToolCalling):
        raise ConfigError(f"tool_calling= takes 'auto', 'native' or 'text'. Got {tool_calling!r:.200}.")
    return tool_calling


def _checked_fallback(given: LLM | str | Sequence[LLM | str] | None) -> tuple[LLM | str, ...]:
    """The fallbacks in order. Raises ConfigError for what names no model."""
    known: list[LLM | str] = []
    several = [given] if isinstance(given, LLM | str) or not isinstance(given, Sequence) else given
    for each in () if given is None else several:
        if isinstance(each, LLM):
            known.append(each)
        elif isinstance(each, str) and each.strip():
            known += parted(f"|{each}")[1]
        else:
            raise ConfigError(f"fallback= takes an LLM, the name of a model, or a list of them. Got {each!r:.200}.")
    return tuple(known)


def _named_behind(env: Mapping[str, str]) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The fallbacks that `AGENTKIT_MODEL` names, and the environment without them."""
    named, behind = parted(env.get("AGENTKIT_MODEL"))
    if not behind:
        return (), env
    others = {name: value for name, value in env.items() if name != "AGENTKIT_MODEL"}
    return behind, others | ({"AGENTKIT_MODEL": named} if named else {})


def _output_schema(schema: Mapping[str, Any]) -> OutputSchema:
    """A JSON schema as an output schema, named after its title in the letters that servers allow in a name."""
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", str(schema.get("title", ""))).strip("_")[:64]
    return OutputSchema(name or "answer", schema)
