"""Where is a model, and how is it reached? The outcome of detection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from agentkit.config import Secret

Protocol = Literal["responses", "chat"]
TokenProvider = Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the arguments of `LLM` ask for; None where they say nothing."""

    provider: str | None = None
    model: str | None = None
    api_key: Secret | None = None
    azure_endpoint: str | None = None
    azure_api_version: str | None = None
    azure_token_provider: TokenProvider | None = field(default=None, repr=False)
    base_url: str | None = None
    protocol: Protocol | None = None

    def given(self) -> dict[str, Any]:
        """The wishes that were made, by name."""
        return {name: getattr(self, name) for name in self.__slots__ if getattr(self, name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One model at one provider.

    The credential is `token_provider`, or `api_key`: sent in the header `key_header`, as a bearer token when that
    is None. With neither, no credential is sent. `strict` says that the server enforces schemas.
    """

    provider: str
    model: str
    base_url: str = ""
    protocol: Protocol = "chat"
    api_key: Secret | None = None
    key_header: str | None = None
    token_provider: TokenProvider | None = field(default=None, repr=False)
    query: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False

    @property
    def origin(self) -> str:
        """What marks a message as coming from here, so that only here gets back what it keeps for itself."""
        return f"{self.protocol}:{urlsplit(self.base_url).hostname or self.provider}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Which model an LLM talks to and why, safe to print. Made by `LLM.describe()`.

    `decided_by` names the argument or variable that chose the provider, `ignored` what else was set and why it
    did not count.
    """

    provider: str
    model: str
    endpoint: str
    protocol: str
    api_version: str | None
    decided_by: str
    ignored: tuple[str, ...] = ()

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
        return "\n".join([*lines, *(f"ignored      {reason}" for reason in self.ignored)])


def shown_url(url: str) -> str:
    """A URL without what may be secret in it: user, password and query."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return urlunsplit((parts.scheme, f"{host}:{parts.port}" if parts.port else host, parts.path, "", ""))
