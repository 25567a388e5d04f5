"""What was an LLM made with, and which others are like it?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

from agentkit.errors import ConfigError
from agentkit.llm.detect import wishes_instead
from agentkit.llm.embedding.embedding import Embedding
from agentkit.llm.endpoint import Description, Endpoint, Wishes
from agentkit.llm.extraction import Extraction
from agentkit.llm.prices import tariff_of
from agentkit.llm.providers import Provider, adjustments_of
from agentkit.llm.quirks import LIMITS, merged
from agentkit.usage import Price, Tariff

if TYPE_CHECKING:
    from agentkit.llm.chain.members import Member
    from agentkit.llm.chain.succession import Chain


class Configured(Embedding, Extraction):
    """The part of an LLM that tells what it was made with, and makes others like it."""

    _wishes: Wishes
    _settings: Mapping[str, Any]
    _price: Price | None
    _endpoint: Endpoint
    _provider: Provider
    _decided_by: str
    _ignored: tuple[str, ...]
    _fallback: tuple[Configured | str, ...] = ()
    _fallbacks: tuple[Configured, ...] = ()

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._endpoint.provider

    @property
    def tariff(self) -> Tariff:
        """What decides on the price of its requests."""
        return tariff_of(self._endpoint, self._price)

    @property
    def tariffs(self) -> tuple[Tariff, ...]:
        """The same of this model and of those that may answer in its place."""
        return tuple(member.tariff for member in self.members())

    @property
    def fallbacks(self) -> tuple[Configured, ...]:
        """The LLMs that are asked in turn when this model gives no answer."""
        return self._fallbacks

    @property
    def max_tokens(self) -> int | None:
        """How long an answer may be, whoever gives it, as far as it was said."""
        limits = (member.settings.get(name) for member in self.members() for name in LIMITS)
        return min((limit for limit in limits if isinstance(limit, int)), default=None)

    @property
    def model(self) -> str:
        """The model's name; for Azure the deployment's."""
        return self._endpoint.model

    @property
    def wishes(self) -> Wishes:
        """What was said of provider, model, key and place when it was made; the environment decided on the rest."""
        return self._wishes

    @property
    def settings(self) -> dict[str, Any]:
        """What every request says beside its messages, such as the temperature. A copy."""
        return dict(self._settings)

    @property
    def price(self) -> Price | None:
        """What the model costs as the user has said it, which comes before every list of prices."""
        return self._price

    def with_fallbacks(self, *, said: bool = False) -> Iterator[Configured]:
        """This LLM and those asked in its place, with theirs; `said`: that were said when it was made.

        The others are those that the environment names.
        """
        yield self
        for fallback in self._fallbacks if self._fallback or not said else ():
            yield from fallback.with_fallbacks(said=said)

    def with_settings(self, **settings: Any) -> Self:
        """The same client with other settings of its requests: `llm.with_settings(temperature=0, max_tokens=500)`.

        Those that are not named stay as they are; None leaves one to the server. Both use the same connections. They
        are settings of its fallbacks, too. Raises ConfigError for what is no setting.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _settings=chosen(merged(self._settings, settings)))
        if self._fallbacks:
            other._fallbacks = tuple(each.with_settings(**settings) for each in self._fallbacks)
            pairs = zip(self._fallback, other._fallbacks, strict=False)
            other._fallback = tuple(given if isinstance(given, str) else each for given, each in pairs)
            other._provider = self._chain.with_settings(lambda own: chosen(merged(own, settings)))
        return other

    def with_model(self, model: str) -> Self:
        """A client like this one for another model, named as `LLM(model=)` takes it, with connections of its own.

        It has no `price`: that of this model is not that of the other. Raises NoProvider and ConfigError.
        """
        other = object.__new__(type(self))
        named, behind = parted(stripped(model))
        wishes = wishes_instead(named, self._wishes, self.provider) if named else replace(self._wishes, model=None)
        state = {"_wishes": wishes, "_price": None, "_fallback": behind or self._fallback}
        other.__setstate__(self.__getstate__() | state)
        return other

    def equals(self, other: Configured) -> bool:
        """Whether `other` would send the same requests to the same place."""
        names = ("_endpoint", "_settings", "_timeout_seconds", "_max_retries", "_tool_calling", "_price")
        pairs = zip(self._fallbacks, other._fallbacks, strict=False)
        return (
            all(getattr(self, name) == getattr(other, name) for name in names)
            and len(self._fallbacks) == len(other._fallbacks)
            and all(one.equals(two) for one, two in pairs)
        )

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
            adjustments=adjustments_of(self._provider),
            fallbacks=tuple(each.describe() for each in self._fallbacks),
            away=self._chain.away if self._fallbacks else (),
        )

    @property
    def _chain(self) -> Chain:
        """What asks the fallbacks; only for those that have some."""
        return cast("Chain", self._provider)

    def members(self) -> tuple[Member, ...]:
        """This model and its fallbacks, each as a chain asks it."""
        from agentkit.llm.chain.members import Member

        if self._fallbacks:
            return self._chain.members
        endpoint = self._endpoint
        name = f"{endpoint.provider}:{endpoint.model}"
        return (Member(name, endpoint.shown_url, self._provider, self.tariff, self._settings),)

    def __getstate__(self) -> dict[str, Any]:
        """The configuration alone: what the arguments said. The environment is read anew where it is unpickled."""
        names = ("_wishes", "_settings", "_timeout_seconds", "_max_retries", "_tool_calling", "_price", "_fallback")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._set_up()

    def _set_up(self) -> None:
        self._connect()
        self._link()

    @abstractmethod
    def _connect(self) -> None:
        """Decide where the model is."""

    @abstractmethod
    def _link(self) -> None:
        """Have the models asked that were given as its fallbacks."""


_BAR = "|"
"""What stands between a model's name and the names of its fallbacks."""


def parted(model: str | None) -> tuple[str | None, tuple[str, ...]]:
    """A model's name, if any, and those of its fallbacks, as in `openai:gpt-5.4-mini | groq:openai/gpt-oss-120b`.

    Raises ConfigError when there is a bar and no name after it.
    """
    if model is None or _BAR not in model:
        return model, ()
    first, *others = (name.strip() for name in model.split(_BAR))
    if not all(others):
        raise ConfigError(
            f"A name is missing beside a | in model={model!r:.200}: write 'openai:gpt-5.4-mini | offline'."
        )
    return first or None, tuple(others)


_NO_TEXT = "Provider, model, key and addresses are texts, as in LLM(model='gpt-5.4-mini'). Got {0}."


def stripped(text: str | None) -> str | None:
    """The text without blanks around it, as they come along when a key is pasted; None when nothing is left.

    Raises ConfigError for what is no text, without telling it: it may be a key.
    """
    if text is not None and not isinstance(text, str):
        raise ConfigError(_NO_TEXT.format(type(text).__name__))
    return (text.strip() or None) if text else None


def chosen(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are made: None leaves one to the server. Raises ConfigError for what is no setting."""
    if settings.get("stream"):
        raise ConfigError("stream=True is no setting; use LLM.stream or LLM.astream.")
    made = {name: value for name, value in settings.items() if value is not None and name != "stream"}
    return {**made, **_ANY_TOOL} if made.get("tool_choice") == "any" else made


_ANY_TOOL = {"tool_choice": "required"}
"""What most servers call it that a model must use a tool, whichever; Mistral and Anthropic call it `any`."""
