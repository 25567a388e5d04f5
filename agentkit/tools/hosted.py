"""Tools that the provider executes, such as its web search."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from agentkit.decisions import Label, Level, SafetyLevel
from agentkit.errors import ConfigError
from agentkit.messages import ToolSpec
from agentkit.tooling.tool import Tool

_LEVELS: Mapping[str, tuple[SafetyLevel, tuple[Label, ...]]] = {
    "code_execution": (SafetyLevel.SAFE, ()),
    "code_interpreter": (SafetyLevel.SAFE, ()),
    "image_generation": (SafetyLevel.SAFE, ()),
    "file_search": (SafetyLevel.SAFE, (Label.PRIVATE,)),
    "mcp": (SafetyLevel.SYSTEM, (Label.UNTRUSTED,)),
}
"""Level and labels of hosted tools that reach only the provider, or that can change things."""

_DEFAULT = (SafetyLevel.NETWORK, (Label.UNTRUSTED,))


class HostedTool(Tool[..., NoReturn]):
    """A tool that the provider executes while it answers; `settings` are sent unchanged.

    `web_search` and `code_execution` are translated to each provider's declaration; `allowed_domains` and
    `user_location` of a search have the same meaning everywhere. Any other `kind` is sent as the `type`, with `name`
    for providers that name the tool differently; a tool server is named by its `server_label`.

    Individual calls cannot be judged: the tool is judged before each request that would offer it, and left out if it is
    not permitted. `level` and `labels` default to NETWORK and untrusted for unknown kinds. Raises ConfigError for a
    declaration that cannot be sent.
    """

    hosted: Mapping[str, Any]

    def __init__(
        self,
        kind: str,
        *,
        name: str | None = None,
        level: Level | None = None,
        labels: Iterable[Label | str] | None = None,
        **settings: Any,
    ) -> None:
        default_level, default_labels = _LEVELS.get(_check_kind(kind), _DEFAULT)
        _check_search(settings)
        declaration = {"type": kind, **settings} | ({} if name is None else {"name": name})
        super().__init__(
            _run_by_provider,
            name=name or settings.get("server_label") or kind,
            level=default_level if level is None else level,
            labels=default_labels if labels is None else labels,
        )
        try:  # a copy, independent of the caller's objects
            hosted = dict(json.loads(json.dumps(declaration, allow_nan=False)))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"The declaration of a hosted tool must be JSON data: {error}") from None
        self.__dict__.update(hosted=hosted)

    @functools.cached_property
    def spec(self) -> ToolSpec:
        """The tool definition with the provider's declaration."""
        return ToolSpec(self.name, self.description, self._parameters.json_schema, hosted=self.hosted)

    def to_openai_tool(self) -> dict[str, Any]:
        """Return the declaration as given."""
        return dict(self.hosted)

    def __repr__(self) -> str:
        return f"HostedTool({self.hosted['type']!r}, level={self.level.name})"


def _run_by_provider() -> NoReturn:
    """A tool that the provider runs."""
    raise ConfigError("This tool is run by the provider only, while it answers. Pass it to an Agent.")


def _check_kind(kind: object) -> str:
    if not isinstance(kind, str) or not kind.strip():
        raise ConfigError(f"HostedTool(...) takes the type of the tool, such as 'web_search'. Got {kind!r:.200}.")
    known = {name.replace("_", ""): name for name in ("web_search", *_LEVELS)}.get(re.sub(r"[\W_]", "", kind.lower()))
    if known not in (None, kind):
        raise ConfigError(f"No provider has a tool of the type {kind!r}. Did you mean HostedTool({known!r})?")
    return kind


def _check_search(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for common settings in a form that providers do not accept."""
    domains, place = settings.get("allowed_domains", []), settings.get("user_location", {})
    if not isinstance(domains, list | tuple | set | frozenset) or any(
        not isinstance(domain, str) or "://" in domain for domain in domains
    ):
        raise ConfigError(
            "allowed_domains= takes a list of host names without a scheme, e.g. ['who.int'], to which the search is "
            f"restricted. Got {domains!r:.200}."
        )
    if not isinstance(place, Mapping):
        raise ConfigError(
            f"user_location= takes a dictionary, e.g. {{'type': 'approximate', 'city': 'Hue'}}. Got {place!r:.200}."
        )


__all__ = ["HostedTool"]
