"""The endpoint of a model: URL, credentials, protocol and options."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal, get_args
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.settings import Secret

ProtocolName = Literal["responses", "chat", "messages"]
TokenProvider = Callable[[], str]

_PASTED_PATHS = ("/chat/completions", "/responses", "/messages", "/embeddings")

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[ \t]*[!-~][ \t!-~]*")
_OWN_HEADERS = frozenset(
    ("host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding")
)
_LEAST_KEY_CHARS = 8
"""A shorter word of a header is no key, and would be found in other words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMArguments:
    """What the arguments of `LLM` ask for; None where they say nothing."""

    provider: str | None = None
    model: str | None = None
    api_key: Secret | None = None
    azure_endpoint: str | None = field(default=None, repr=False)
    azure_api_version: str | None = None
    azure_token_provider: TokenProvider | None = field(default=None, repr=False)
    base_url: str | None = field(default=None, repr=False)
    protocol: ProtocolName | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    client: Any = field(default=None, repr=False)

    def given(self) -> dict[str, Any]:
        """The wishes that were made, by name."""
        return {name: getattr(self, name) for name in self.__slots__ if getattr(self, name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One model at one provider.

    The credential is `token_provider`, or `api_key`: sent in the header `key_header`, as a bearer token when that
    is None. With neither, no credential is sent. User and password in the base URL come before a bearer token.
    `query` and `headers` are sent with every request, these in the place of what would be sent under their names.
    Where there is a `client`, it sends, with a credential and headers of its own, told here so that no text shows them.
    `strict` says that the server enforces schemas, `is_openai` that it is OpenAI's own, which is told the account's
    organization and project.

    Raises ConfigError for an unknown protocol, or a key that no HTTP header can carry.
    """

    provider: str
    model: str
    base_url: str = field(default="", repr=False)
    protocol: ProtocolName = "chat"
    api_key: Secret | None = None
    key_header: str | None = None
    token_provider: TokenProvider | None = field(default=None, repr=False)
    api_version: str | None = None
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    client: Any = field(default=None, repr=False)
    strict: bool = False
    is_openai: bool = False

    def __post_init__(self) -> None:
        if self.protocol not in get_args(ProtocolName):
            raise ConfigError(f"protocol= is 'responses', 'chat' or 'messages', not {self.protocol!r}.")
        if self.api_key and not is_header_text(self.api_key.reveal()):
            raise ConfigError(f"The API key for {self.provider} has characters that no key has; was it pasted whole?")

    @property
    def shown_url(self) -> str:
        """The base URL without what may be secret in it; `this machine` when there is none."""
        return shown_url(self.base_url) or "this machine"

    @property
    def origin(self) -> str:
        """The mark of messages from this endpoint, so that the opaque data in them is sent back to no other.

        In the Messages protocol it names the model, too, as another model refuses its thinking blocks.
        """
        place = f"{self.protocol}:{self.shown_url if self.base_url else self.provider}"
        return f"{place}#{self.model}" if self.protocol == "messages" else place

    def scrub(self, text: str) -> str:
        """`text` without key, password and query values. A word that is public anyway, as the key `ollama`, stays."""
        public = f"{self.provider} {self.model} {self.shown_url} {self.api_version}"
        for secret in self._secrets():
            text = text if secret in public else Secret(secret).scrub(text)
        return text

    @property
    def authorization(self) -> str:
        """User and password of the base URL as the header has them; empty when there are none."""
        user, _, password = self._user_and_password()
        return f"Basic {b64encode(unquote(f'{user}:{password}').encode()).decode()}" if user or password else ""

    def _user_and_password(self) -> tuple[str, str, str]:
        return urlsplit(self.base_url).netloc.rpartition("@")[0].partition(":")

    def _secrets(self) -> Iterator[str]:
        if self.api_key:
            yield self.api_key.reveal()
        yield from self.query.values()
        last_words = (value.split()[-1] for value in self.headers.values())
        yield from (word for word in last_words if len(word) >= _LEAST_KEY_CHARS)
        yield self.authorization.removeprefix("Basic ")
        user, _, password = self._user_and_password()
        yield from (password or user, unquote(password or user))


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Which model an LLM talks to and why, safe to print. Made by `LLM.describe()`.

    `decided_by` names the argument or variable that chose the provider, `ignored` what else was set and why it
    did not count, `adjustments` what is sent differently because the server refused it otherwise. `fallbacks` describe
    the models that are asked when it gives no answer, and `away` tells which are not asked just now, and why.
    """

    provider: str
    model: str
    endpoint: str
    protocol: str
    api_version: str | None
    decided_by: str
    ignored: tuple[str, ...] = ()
    adjustments: tuple[str, ...] = ()
    fallbacks: tuple[Description, ...] = ()
    away: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line a fact."""
        lines = [
            f"provider     {self.provider} (decided by {self.decided_by})",
            f"model        {self.model}",
            f"endpoint     {self.endpoint}",
            f"protocol     {self.protocol}",
        ]
        if self.api_version:
            lines.append(f"api version  {self.api_version}")
        lines += [f"ignored      {reason}" for reason in self.ignored]
        lines += [f"adjusted     {name}" for name in self.adjustments]
        lines += [f"fallback     {each.line}" for each in self.fallbacks]
        return "\n".join([*lines, *(f"away         {reason}" for reason in self.away)])

    @property
    def line(self) -> str:
        """The same in short, on one line, with the fallbacks that it has of its own."""
        own = f"{self.provider}:{self.model} at {self.endpoint} (decided by {self.decided_by})"
        return ", then ".join([own, *(each.line for each in self.fallbacks)])


def is_header_text(text: str) -> bool:
    """Whether an HTTP header can carry `text`."""
    return bool(re.fullmatch(r"[!-~]+", text))


def read_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Headers of the user's for every request. Raises ConfigError for what HTTP cannot carry or we must say ourselves.

    The text names the header and shows no value, which may be secret.
    """
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise ConfigError(f"headers= takes names and texts, as in {{'X-Team': 'blue'}}. Got {type(headers).__name__}.")
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ConfigError(f"headers= has {name!r:.40}, which is no header's name; names are like 'X-Team'.")
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            raise ConfigError(f"headers= has no text of one line, in ASCII, for {name!r}.")
        if name.lower() in _OWN_HEADERS:
            raise ConfigError(f"headers= cannot set {name!r}: what is sent decides it.")
    return {name: value.strip() for name, value in headers.items()}


def read_url(url: str) -> tuple[str, dict[str, str]]:
    """The base URL and its query, apart. A whole endpoint's address, as people paste it, is cut back to its base.

    Raises ConfigError for what is no HTTP address; the text shows no password.
    """
    url = url.strip()
    parts = _split(url)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname or re.search(r"[\s\\]", url):
        raise ConfigError(
            f"{shown_url(url)!r} is not a base URL; it looks like https://host/v1 or http://127.0.0.1:11434/v1."
        )
    path = parts.path.rstrip("/")
    for pasted in _PASTED_PATHS:
        path = path.removesuffix(pasted)
    return f"{parts.scheme}://{parts.netloc}{path}", dict(parse_qsl(parts.query, keep_blank_values=True))


def shown_url(url: str) -> str:
    """A URL without what may be secret in it: user, password and query."""
    parts = _split(url)
    if parts is None or not parts.netloc:
        return re.split(r"[?#]", re.sub(r"^(\w+://)?.*@", r"\1", url, flags=re.DOTALL))[0]
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _split(url: str) -> SplitResult | None:
    """The parts of a URL; None when it has no valid host and port."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts
