"""Prices and context sizes of models, from the data of the genai-prices package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentkit.errors import ConfigError
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.providers.openai import SERVICES
from agentkit.usage import Cost, Price, Tariff, Usage

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice

OFFLINE_PRICE = Price(0, 0, source="the offline model is free")
_OTHER_NAMES = {"gemini": "google"}
"""Providers that the package knows by another name."""

_OF_INPUT, _OF_BOTH = frozenset({"input_mtok"}), frozenset({"input_mtok", "output_mtok"})
"""The rates without which nobody can say what a request costs."""

_OTHER_FEES = {
    *("requests_kcount", "output_reasoning_mtok", "output_citation_mtok", "input_mchars"),
    *("input_text_messages_kcount", "audio_hours", "input_audio_hours"),
}
"""What some models charge for besides tokens: a Price would be too low, so theirs is unknown."""


def tariff_of(endpoint: Endpoint, price: Price | None = None) -> Tariff:
    """What requests to an endpoint are charged by; `price` is the user's own.

    A server at a base URL of the user's own is no one's but its owner's, whatever it is called: it goes by its address.
    """
    service = SERVICES.get(endpoint.provider)
    is_own = endpoint.is_openai or (service.base_url == endpoint.base_url if service else endpoint.provider != "openai")
    return Tariff(endpoint.provider if is_own else _address(endpoint.shown_url), endpoint.model, price=price)


def price_of(provider: str, model: str, on: date | None = None, *, for_input_alone: bool = False) -> Price | None:
    """What a model costs at a provider on a day, by default today; None when the package does not know it.

    `provider` is a name as in `LLM(provider=)` or in genai-prices, or the https address of a server. Where the price
    depends on the hour, it is the dearest of the day. Models that charge for more than tokens have no Price,
    and neither have those whose answers have none, such as models that make vectors, unless it is `for_input_alone`.
    """
    if provider == "offline":
        return OFFLINE_PRICE
    on = on or datetime.now(tz=UTC).date()
    snapshot = _snapshot()
    needed = _OF_INPUT if for_input_alone else _OF_BOTH
    return _price_of(provider, model, on, snapshot.timestamp, needed)


def price_under(tariff: Tariff | None, on: date | None = None, *, for_input_alone: bool = False) -> Price | None:
    """What a tariff charges: the user's own price, else that of the model which served, else of the one asked for.

    What Azure serves is what it says, not what a deployment happens to be called.
    """
    if tariff is None:
        return None
    if tariff.price is not None:
        return tariff.price
    names = [tariff.served] if tariff.provider == "azure" and tariff.served else [tariff.served, tariff.model]
    known = (
        price_of(tariff.provider, name, on, for_input_alone=for_input_alone) for name in dict.fromkeys(names) if name
    )
    return next(filter(None, known), None)


def prices_under(tariffs: Iterable[Tariff]) -> tuple[Price | None, ...]:
    """The price of each model that may answer; None for each whose price nobody knows."""
    return tuple(map(price_under, tariffs))


def cost_of(usage: Usage, unknown_price: Price | None = None, on: date | None = None) -> Cost | None:
    """What a usage cost; None when nothing of it can be told. `unknown_price` stands in for prices that nobody knows.

    Requests without a price, or without figures, are counted in the cost; the sum is then a lower bound. Raises
    ConfigError for what is no usage, such as a whole result.
    """
    given: object = usage
    if not isinstance(given, Usage):
        kind = type(given).__name__
        raise ConfigError(f"cost_of() takes a Usage, such as that of a result, an agent or a response: {kind}.usage.")
    dollars, unpriced, is_known, prices = 0.0, 0, not usage.by_tariff, []
    for part in usage.by_tariff:
        price = price_under(part.tariff, on, for_input_alone=not part.output_tokens) or unknown_price
        missing = _unpriced(part, price)
        unpriced += missing
        if price is not None and (missing < part.requests or not missing):
            is_known = True
            dollars += price.dollars_of(part)
            prices.append(price)
    return Cost(dollars, *_told(prices), unpriced) if is_known else None


def context_window(provider: str, model: str) -> int | None:
    """How many tokens a model can read at once; None when the package does not know."""
    found = _model(provider, model)
    return found.context_window if found else None


def _unpriced(part: Usage, price: Price | None) -> int:
    """How many requests of a part have no price, or no figures to multiply it with."""
    if price is None:
        return part.requests or 1
    return 0 if price.is_free else part.unreported


def _told(prices: Iterable[Price]) -> tuple[str, str]:
    """Where prices are from, and the oldest of their dates; those of what is free only when all is."""
    prices = list(prices)
    prices = [price for price in prices if not price.is_free] or prices
    sources = " and ".join(dict.fromkeys(price.source for price in prices))
    return sources, min((price.date for price in prices if price.date), default="")


def _address(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _snapshot() -> DataSnapshot:
    """The data that came with the package, or what the host program has put in its place."""
    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot()


# The data stays as it is until the host program replaces it, which its timestamp tells.
@lru_cache(1_024)
def _price_of(provider: str, model: str, on: date, _timestamp: datetime, needed: frozenset[str]) -> Price | None:
    found = _model(provider, model)
    if found is None:
        return None
    prices = filter(None, (_price(found.get_prices(moment), needed) for moment in _moments(found, on)))
    dearest = max(prices, key=lambda price: (price.input, price.output), default=None)
    return dearest and _signed(dearest, *_source(_snapshot(), on))


def _model(provider: str, model: str) -> ModelInfo | None:
    """The model as the package knows it. Its guesses at misspelt providers are not taken."""
    snapshot = _snapshot()
    name, url = _OTHER_NAMES.get(provider, provider), provider if "://" in provider else None
    if not model or (url is None and all(known.id != name for known in snapshot.providers)):
        return None
    try:
        return snapshot.find_provider_model(model, None, None if url else name, url)[1]
    except LookupError:
        return None


def _moments(model: ModelInfo, on: date) -> Iterator[datetime]:
    """Moments of a day, at least one for each price that a model has in its course."""
    yield datetime.combine(on, time(), UTC)
    for entry in model.prices if isinstance(model.prices, list) else ():
        for name in ("start_time", "end_time"):
            if moment := getattr(entry.constraint, name, None):
                yield datetime.combine(on, moment)


def _price(prices: ModelPrice, needed: frozenset[str]) -> Price | None:
    """The package's price as ours; None when tokens have none, or when there is more to pay than tokens."""
    rates = {name: rate for name, rate in vars(prices).items() if rate is not None}
    if not needed <= rates.keys() or rates.keys() & _OTHER_FEES:
        return None
    starts = sorted({tier.start for rate in rates.values() for tier in getattr(rate, "tiers", ())})
    return replace(_flat(rates, 0), tiers=tuple((start, _flat(rates, start + 1)) for start in starts))


def _flat(rates: dict[str, object], input_tokens: int) -> Price:
    """The price of a request of so many input tokens."""
    names = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
    of_input, of_output, cached, written = (_rate(rates.get(name), input_tokens) for name in names)
    return Price(of_input or 0.0, of_output or 0.0, cached, written=written)


def _rate(rate: object, input_tokens: int) -> float | None:
    """US dollars per million tokens in a request of so many input tokens."""
    from genai_prices.types import TieredPrices

    if isinstance(rate, TieredPrices):
        reached = [tier.price for tier in rate.tiers if input_tokens > tier.start]
        rate = reached[-1] if reached else rate.base
    return None if rate is None else float(str(rate))


def _signed(price: Price, source: str, date: str) -> Price:
    """The price with its source and date, the tiers too."""
    tiers = tuple((start, replace(tier, source=source, date=date)) for start, tier in price.tiers)
    return replace(price, source=source, date=date, tiers=tiers)


def _source(snapshot: DataSnapshot, on: date) -> tuple[str, str]:
    """The package with its version, and the newest change of a price that it knows; or when its data was updated."""
    from genai_prices import __version__

    if snapshot.from_auto_update:
        return f"genai-prices {__version__}, updated", f"{snapshot.timestamp:%Y-%m-%d}"
    return f"genai-prices {__version__}", max(filter(lambda start: start <= f"{on}", _starts(snapshot)), default="")


def _starts(snapshot: DataSnapshot) -> Iterator[str]:
    """The days from which prices hold."""
    models = (model for provider in snapshot.providers for model in provider.models)
    for model in models:
        for entry in model.prices if isinstance(model.prices, list) else ():
            if start := getattr(entry.constraint, "start_date", None):
                yield f"{start}"
