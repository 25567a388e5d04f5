"""The endpoint of a model: URL, credentials, protocol and options, and the settings that determine them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.llm.protocols import check_protocol
from agentkit.settings import Secret


class Sources:
    """Values by name: arguments with a trailing `=`, as in `model=`; variables unchanged, as in `OPENAI_MODEL`.

    `first` looks up values in order of precedence. Values that were read and values that were overridden are recorded,
    so that every ignored setting can be reported.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.read: set[str] = set()
        self.passed_over: dict[str, str] = {}
        """Names of values that were overridden, mapped to the name that took precedence."""

    def first(self, *names: str) -> tuple[str, Any]:
        """Name and value of the first of `names` that is set; an empty name and None if all are unset."""
        found = [name for name in names if name in self._values]
        if not found:
            return "", None
        self.read.add(found[0])
        self.passed_over |= dict.fromkeys(found[1:], found[0])
        return found[0], self._values[found[0]]

    def value(self, *names: str) -> Any:
        """The value of the first of `names` that is set, or None."""
        return self.first(*names)[1]

    def secret(self, *names: str) -> Secret | None:
        """The first of `names` that is set, as a secret, or None."""
        value = self.value(*names)
        return Secret(value) if isinstance(value, str) else value


ProtocolName = Literal["responses", "chat", "messages", "gemini"]
"""The names of `PROTOCOLS`, for type checkers."""

TokenProvider = Callable[[], str]

_PASTED_PATHS = ("/chat/completions", "/responses", "/messages", "/embeddings")

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[ \t]*[!-~][ \t!-~]*")
_OWN_HEADERS = frozenset(
    ("host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding")
)
_QUOTES = "\"'`\u2018\u2019\u201c\u201d"
_DIGEST_CHARS = 8
_MIN_KEY_CHARS = 8
"""Shorter words of a header are not treated as keys: scrubbing them would change unrelated words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMArguments:
    """The provider, credential and address arguments of `LLM`; None if not given."""

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
        """The arguments that were given, by name."""
        return {name: getattr(self, name) for name in self.__slots__ if getattr(self, name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One model at one provider.

    The credential is `token_provider` or `api_key`. It is sent in the header `key_header`, or as a bearer token if that
    is None; without a credential, nothing is sent. User and password in the base URL take precedence over a bearer
    token. `query` and `headers` are sent with every request; `headers` replace default headers of the same name. A
    `client` sends requests with its own credential and headers, which are copied here so that errors are scrubbed of
    them. `strict` means that the server enforces schemas, `is_openai` that it is OpenAI's own API, which also receives
    the account's organization and project. `is_direct` means that requests bypass the proxies of the environment.

    Raises ConfigError for an unknown protocol, or for a key that an HTTP header cannot carry.
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
    is_direct: bool = False

    def __post_init__(self) -> None:
        check_protocol(self.protocol)
        if self.api_key:
            _check_key(self.api_key.reveal(), self.provider)

    @property
    def shown_url(self) -> str:
        """The base URL without its secret parts; `this machine` if it is empty."""
        return display_url(self.base_url) or "this machine"

    @property
    def origin(self) -> str:
        """Identifies model and account in messages, so that their opaque data is sent back to these only.

        Other models, and other accounts of the same provider, reject reasoning that they did not write. The account is
        a short digest of its key. The server of a local model has another address and key in each process.
        """
        if self.provider == "local":
            return f"local#{self.model}"
        origin = f"{self.protocol}:{self.shown_url if self.base_url else self.provider}#{self.model}"
        return f"{origin}@{_digest(self.api_key.reveal())}" if self.api_key else origin

    def scrub(self, text: str) -> str:
        """`text` without key, password and query values. Public words, such as the key `ollama`, are not removed."""
        public = f"{self.provider} {self.model} {self.shown_url} {self.api_version}"
        for secret in self._secrets():
            text = text if secret in public else Secret(secret).scrub(text)
        return text

    @property
    def authorization(self) -> str:
        """User and password of the base URL as an Authorization header; empty if the URL has neither."""
        user, _, password = urlsplit(self.base_url).netloc.rpartition("@")[0].partition(":")
        return f"Basic {b64encode(unquote(f'{user}:{password}').encode()).decode()}" if user or password else ""

    def _secrets(self) -> Iterator[str]:
        if self.api_key:
            yield self.api_key.reveal()
        yield from self.query.values()
        last_words = (value.split()[-1] for value in self.headers.values())
        yield from (word for word in last_words if len(word) >= _MIN_KEY_CHARS)
        yield self.authorization.removeprefix("Basic ")
        user, _, password = urlsplit(self.base_url).netloc.rpartition("@")[0].partition(":")
        yield from (password or user, unquote(password or user))


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The configuration of an LLM, safe to print. Made by `LLM.describe()`.

    `decided_by` names the argument or variable that chose the provider, `ignored` lists other settings and why they had
    no effect, `adjustments` lists changes to requests because the server rejected the original form. `fallbacks`
    describes the fallback models, and `away` lists the models that are currently skipped, with the reason.
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
    skipped: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One fact per line."""
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
        return "\n".join([*lines, *(f"skipped      {reason}" for reason in self.skipped)])

    @property
    def line(self) -> str:
        """A one-line summary, including the fallbacks."""
        own = f"{self.provider}:{self.model} at {self.endpoint} (decided by {self.decided_by})"
        return ", then ".join([own, *(each.line for each in self.fallbacks)])


def _check_key(key: str, provider: str) -> None:
    """Raise ConfigError for a key that was pasted wrongly; the message omits it."""
    if key[0] in _QUOTES or key[-1] in _QUOTES:
        raise ConfigError(f"The API key for {provider} is in quotes. Remove them: they are not part of the key.")
    if not is_header_text(key):
        raise ConfigError(f"The API key for {provider} contains invalid characters. Was it copied completely?")


def _digest(secret: str) -> str:
    from hashlib import sha256

    return sha256(b"agentkit account " + secret.encode()).hexdigest()[:_DIGEST_CHARS]


def is_header_text(text: str) -> bool:
    """Whether an HTTP header can carry `text`."""
    return bool(re.fullmatch(r"[!-~]+", text))


def read_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Validate custom headers. Raises ConfigError if HTTP cannot carry one or if agentkit sets that header itself.

    The message names the header but omits its value, which could be secret.
    """
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise ConfigError(f"headers= takes names and texts, as in {{'X-Team': 'blue'}}. Got {type(headers).__name__}.")
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ConfigError(f"headers= has the invalid name {name!r:.40}; names are like 'X-Team'.")
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            raise ConfigError(f"headers= takes a single line of ASCII text for {name!r}.")
        if name.lower() in _OWN_HEADERS:
            raise ConfigError(f"headers= cannot set {name!r}: it depends on the content of the request.")
    return {name: value.strip() for name, value in headers.items()}


def read_url(url: str) -> tuple[str, dict[str, str]]:
    """Split a base URL from its query. A pasted URL of a whole endpoint is cut back to its base.

    Raises ConfigError if the text is not an HTTP URL; the message omits the password.
    """
    url = url.strip()
    parts = _split(url)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname or re.search(r"[\s\\]", url):
        raise ConfigError(
            f"{display_url(url)!r} is not a base URL; it looks like https://host/v1 or http://127.0.0.1:11434/v1."
        )
    path = parts.path.rstrip("/")
    for pasted in _PASTED_PATHS:
        path = path.removesuffix(pasted)
    return f"{parts.scheme}://{parts.netloc}{path}", dict(parse_qsl(parts.query, keep_blank_values=True))


@lru_cache(64)
def display_url(url: str) -> str:
    """A URL without its secret parts: user, password and query."""
    parts = _split(url)
    if parts is None or not parts.netloc:
        return re.split(r"[?#]", re.sub(r"^(\w+://)?.*@", r"\1", url, flags=re.DOTALL))[0]
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _split(url: str) -> SplitResult | None:
    """The parts of a URL; None if its host or port is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts
