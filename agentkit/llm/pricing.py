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
LOCAL_PRICE = Price(0, 0, source="the model runs on this machine")
_FREE = {"offline": OFFLINE_PRICE, "local": LOCAL_PRICE}
_OF_INPUT, _OF_BOTH = frozenset({"input_mtok"}), frozenset({"input_mtok", "output_mtok"})
"""The rates required to compute a price."""

_OTHER_FEES = {
    *("requests_kcount", "output_reasoning_mtok", "output_citation_mtok", "input_mchars"),
    *("input_text_messages_kcount", "audio_hours", "input_audio_hours"),
}
"""Charges in addition to tokens: models with these have no Price, because it would be too low."""


def tariff_of(endpoint: Endpoint, price: Price | None = None) -> Tariff:
    """The tariff for requests to an endpoint; `price` is set by the user.

    A custom base URL is identified by its address, whatever its provider name, since its prices can differ.
    """
    service = SERVICES.get(endpoint.provider)
    is_own = endpoint.is_openai or (service.base_url == endpoint.base_url if service else endpoint.provider != "openai")
    return Tariff(endpoint.provider if is_own else _address(endpoint.shown_url), endpoint.model, price=price)


def price_of(provider: str, model: str, on: date | None = None, *, for_input_alone: bool = False) -> Price | None:
    """The price of a model at a provider on a day, by default today; None if genai-prices does not list it.

    `provider` is a name as in `LLM(provider=)` or in genai-prices, or the https address of a server. If the price
    depends on the time of day, the highest is returned. Models with charges other than for tokens have no Price; models
    without output price, such as embedding models, have one only with `for_input_alone`.
    """
    if provider in _FREE:
        return _FREE[provider]
    on = on or datetime.now(tz=UTC).date()
    snapshot = _snapshot()
    needed = _OF_INPUT if for_input_alone else _OF_BOTH
    return _price_of(provider, model, on, snapshot.timestamp, needed)


def price_under(tariff: Tariff | None, on: date | None = None, *, for_input_alone: bool = False) -> Price | None:
    """The price of a tariff: the user's own, otherwise that of the model that served, otherwise of the one requested.

    For Azure the served model is used if known, because deployment names are arbitrary.
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
    """The price of each model that could answer; None if it is unknown."""
    return tuple(map(price_under, tariffs))


def cost_of(usage: Usage, unknown_price: Price | None = None, on: date | None = None) -> Cost | None:
    """The cost of a usage; None if it is completely unknown. `unknown_price` is used for models without a known price.

    Requests without price or without figures are counted in the cost; the sum is then a lower bound. Raises ConfigError
    if the argument is not a Usage, for example a whole result.
    """
    given: object = usage
    if not isinstance(given, Usage):
        kind = type(given).__name__
        raise ConfigError(f"cost_of() takes a Usage, such as that of a result, an agent or a response: {kind}.usage.")
    dollars, unpriced, is_known, prices = 0.0, 0, not usage.by_tariff, []
    for part in usage.by_tariff:
        price = price_under(part.tariff, on, for_input_alone=not part.output_tokens) or unknown_price
        missing = _count_unpriced(part, price)
        unpriced += missing
        if price is not None and (missing < part.requests or not missing):
            is_known = True
            dollars += price.dollars_of(part)
            prices.append(price)
    return Cost(dollars, *_price_sources(prices), unpriced) if is_known else None


def context_window(provider: str, model: str) -> int | None:
    """The context window of a model in tokens; None if genai-prices does not list it."""
    found = _model(provider, model)
    return found.context_window if found else None


def _count_unpriced(part: Usage, price: Price | None) -> int:
    """Number of requests without price, or without figures to multiply it by."""
    if price is None:
        return part.requests or 1
    return 0 if price.is_free else part.unreported


def _price_sources(prices: Iterable[Price]) -> tuple[str, str]:
    """The sources of prices, and their oldest date; free prices count only if all are free."""
    prices = list(prices)
    prices = [price for price in prices if not price.is_free] or prices
    sources = " and ".join(dict.fromkeys(price.source for price in prices))
    return sources, min((price.date for price in prices if price.date), default="")


def _address(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _snapshot() -> DataSnapshot:
    """The data bundled with genai-prices, or the data that the host program replaced it with."""
    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot()


# The cache key includes the timestamp, because the host program can replace the data.
@lru_cache(1_024)
def _price_of(provider: str, model: str, on: date, _timestamp: datetime, needed: frozenset[str]) -> Price | None:
    found = _model(provider, model)
    if found is None:
        return None
    prices = filter(None, (_price(found.get_prices(moment), needed) for moment in _moments(found, on)))
    most_expensive = max(prices, key=lambda price: (price.input, price.output), default=None)
    return most_expensive and _with_source(most_expensive, *_source(_snapshot(), on))


def _model(provider: str, model: str) -> ModelInfo | None:
    """The model in genai-prices, without its guesses for misspelt providers."""
    from agentkit.llm.providers.openai import SERVICES

    snapshot, service = _snapshot(), SERVICES.get(provider)
    name = service.price_name or provider if service is not None else provider
    url = provider if "://" in provider else None
    if not model or (url is None and all(known.id != name for known in snapshot.providers)):
        return None
    try:
        return snapshot.find_provider_model(model, None, None if url else name, url)[1]
    except LookupError:
        return None


def _moments(model: ModelInfo, on: date) -> Iterator[datetime]:
    """Times of a day that cover each price that a model has during the day."""
    yield datetime.combine(on, time(), UTC)
    for entry in model.prices if isinstance(model.prices, list) else ():
        for name in ("start_time", "end_time"):
            if moment := getattr(entry.constraint, name, None):
                yield datetime.combine(on, moment)


def _price(prices: ModelPrice, needed: frozenset[str]) -> Price | None:
    """Convert a price of genai-prices; None if token prices are missing, or if there are other charges."""
    rates = {name: rate for name, rate in vars(prices).items() if rate is not None}
    if not needed <= rates.keys() or rates.keys() & _OTHER_FEES:
        return None
    starts = sorted({tier.start for rate in rates.values() for tier in getattr(rate, "tiers", ())})
    return replace(_flat(rates, 0), tiers=tuple((start, _flat(rates, start + 1)) for start in starts))


def _flat(rates: dict[str, object], input_tokens: int) -> Price:
    """The price of a request with `input_tokens` input tokens."""
    names = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
    of_input, of_output, cached, written = (_rate(rates.get(name), input_tokens) for name in names)
    return Price(of_input or 0.0, of_output or 0.0, cached, written=written)


def _rate(rate: object, input_tokens: int) -> float | None:
    """The rate in US dollars per million tokens, for a request with `input_tokens` input tokens."""
    from genai_prices.types import TieredPrices

    if isinstance(rate, TieredPrices):
        reached = [tier.price for tier in rate.tiers if input_tokens > tier.start]
        rate = reached[-1] if reached else rate.base
    return None if rate is None else float(str(rate))


def _with_source(price: Price, source: str, date: str) -> Price:
    """The price with source and date set, also in its tiers."""
    tiers = tuple((start, replace(tier, source=source, date=date)) for start, tier in price.tiers)
    return replace(price, source=source, date=date, tiers=tiers)


def _source(snapshot: DataSnapshot, on: date) -> tuple[str, str]:
    """The package version and the newest price change in its data; for updated data the date of the update."""
    from genai_prices import __version__

    if snapshot.from_auto_update:
        return f"genai-prices {__version__}, updated", f"{snapshot.timestamp:%Y-%m-%d}"
    return f"genai-prices {__version__}", max(filter(lambda start: start <= f"{on}", _starts(snapshot)), default="")


def _starts(snapshot: DataSnapshot) -> Iterator[str]:
    """The start dates of all prices."""
    models = (model for provider in snapshot.providers for model in provider.models)
    for model in models:
        for entry in model.prices if isinstance(model.prices, list) else ():
            if start := getattr(entry.constraint, "start_date", None):
                yield f"{start}"
