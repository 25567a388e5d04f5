"""Token usage, prices and limits."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, TypeGuard

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.suggestions import check_unknown_arguments

LONG_REQUESTS = (32_000, 100_000, 128_000, 200_000, 256_000, 272_000, 512_000, 524_288)
"""Input token counts above which some provider charges more for the whole request."""


@dataclass(frozen=True, slots=True)
class Tariff:
    """What determines the price of a request: provider, model and length.

    `provider` is its name, or the address of a server known only by its base URL. `model` is the requested name,
    `served` the name the server reported, or empty. `over_tokens` is the greatest of `LONG_REQUESTS` that the input
    exceeded. `price` is the user's own price, which takes precedence over every price list.
    """

    provider: str
    model: str
    served: str = ""
    over_tokens: int = 0
    price: Price | None = None

    def __str__(self) -> str:
        """`openai:gpt-5.4-mini`; if the server reports another model, `azure:my-deployment (gpt-5.4-mini)`."""
        served = f" ({self.served})" if self.served not in ("", self.model) else ""
        return f"{self.provider}:{self.model}{served}"

    def of_request(self, served: str, input_tokens: int) -> Tariff:
        """The tariff of one request that the model `served` answered."""
        longer = bisect_left(LONG_REQUESTS, input_tokens)
        over_tokens = LONG_REQUESTS[longer - 1] if longer else 0
        return Tariff(self.provider, self.model, served, over_tokens, self.price)


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the server reported them, summed over `requests` requests.

    `cached_tokens` were read from the provider's cache, `written_tokens` written to it: both are part of
    `input_tokens`. `reasoning_tokens` are part of `output_tokens`. `unreported` counts the requests whose server
    reported no usage: if it is above zero, the sums are lower bounds. `tariff` identifies what was paid for, if known;
    a sum over several tariffs has None, and one entry of `parts` per tariff.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    requests: int = 0
    unreported: int = 0
    written_tokens: int = 0
    tariff: Tariff | None = field(default=None, compare=False)
    parts: tuple[Usage, ...] = field(default=(), compare=False, repr=False)

    @property
    def total_tokens(self) -> int:
        """Sum of input and output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def by_tariff(self) -> tuple[Usage, ...]:
        """This usage split by tariff; empty if nothing was used."""
        return self.parts or ((self,) if self.tariff or any(_counts(self)) else ())

    def with_tariff(self, tariff: Tariff) -> Usage:
        """The same figures under `tariff`."""
        return Usage(*_counts(self), tariff)

    def __add__(self, other: Usage) -> Usage:
        """The sum of all figures, with one part for each tariff if there are several."""
        if other is NO_USAGE:
            return self
        if self is NO_USAGE:
            return other
        if self.tariff == other.tariff and not self.parts and not other.parts:
            return _sum(self, other, self.tariff)
        sums: dict[Tariff | None, Usage] = {}
        for part in (*self.by_tariff, *other.by_tariff):
            sums[part.tariff] = sums[part.tariff] + part if part.tariff in sums else part
        if len(sums) == 1:
            return next(iter(sums.values()))
        return _sum(self, other, parts=tuple(sorted(sums.values(), key=_sort_key)))


NO_USAGE = Usage()
"""The usage of work without model requests."""


def unreported(requests: int, tariff: Tariff | None = None) -> Usage:
    """The usage of requests whose figures are unknown."""
    return Usage(requests=requests, unreported=requests, tariff=tariff) if requests else NO_USAGE


@dataclass(frozen=True, slots=True)
class Charge:
    """What some work has charged to limits: tokens (the worst case if the usage is unknown), and other counts by limit.

    `dollars` lists the amount charged to each budget, from the work's own upwards, since budgets can use different
    prices; the last amount applies to all further budgets.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    dollars: tuple[float, ...] = ()


_Counts = tuple[int, int, int, int, int, int, int]
_counts: Callable[[Usage], _Counts] = attrgetter(*(name for name in Usage.__slots__ if name not in {"tariff", "parts"}))


def _sum(one: Usage, two: Usage, tariff: Tariff | None = None, parts: tuple[Usage, ...] = ()) -> Usage:
    return Usage(
        one.input_tokens + two.input_tokens,
        one.output_tokens + two.output_tokens,
        one.cached_tokens + two.cached_tokens,
        one.reasoning_tokens + two.reasoning_tokens,
        one.requests + two.requests,
        one.unreported + two.unreported,
        one.written_tokens + two.written_tokens,
        tariff,
        parts,
    )


def _sort_key(part: Usage) -> str:
    """Sort key of the parts of a sum, which makes the order independent of the order of addition."""
    return repr(part.tariff)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model in US dollars per million tokens of each kind, with its source and date.

    Without `cached`, cached input costs as much as other input; the same applies to `written`. Reasoning costs as much
    as other output. `tiers` are the prices of longer requests: pairs of a number of input tokens, ascending, and the
    flat price that applies to the whole request above it. Raises ConfigError for anything but a number of 0 or more.
    """

    input: float
    output: float
    cached: float | None = None
    source: str = "given"
    date: str = ""
    written: float | None = None
    tiers: tuple[tuple[int, Price], ...] = ()

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached", "written"):
            rate = getattr(self, name)
            optional = name in {"cached", "written"}
            if not (optional and rate is None) and not is_number(rate):
                raise ConfigError(f"Price({name}=) takes US dollars per million tokens, 0 or more. Got {rate!r:.200}.")

    @property
    def is_free(self) -> bool:
        """Whether every request is free."""
        prices = (self, *(price for _, price in self.tiers))
        return not any(rate for price in prices for rate in (price.input, price.output, price.cached, price.written))

    def at(self, input_tokens: int) -> Price:
        """The flat price of a request with this many input tokens."""
        if not self.tiers:
            return self
        flat = Price(self.input, self.output, self.cached, self.source, self.date, self.written)
        return next((price for start, price in reversed(self.tiers) if input_tokens > start), flat)

    def worst(self, input_tokens: int) -> Price:
        """The highest price of a request with at most this many input tokens: never less than `at`, cached or not."""
        reached = (self, *(price for start, price in self.tiers if input_tokens > start))
        inputs = [rate for price in reached for rate in (price.input, price.cached, price.written) if rate is not None]
        return Price(max(inputs), max(price.output for price in reached), None, self.source, self.date)

    def dollars(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0, written_tokens: int = 0) -> float:
        """The cost of one request in US dollars; cached and written tokens are part of the input."""
        return _flat_dollars(self.at(input_tokens), input_tokens, output_tokens, cached_tokens, written_tokens)

    def dollars_of(self, usage: Usage) -> float:
        """The cost of all requests of a usage in US dollars, each at the tier of its length."""
        dollars = 0.0
        for part in usage.by_tariff:
            price = self.at(part.tariff.over_tokens + 1 if part.tariff else 0)
            counts = (part.input_tokens, part.output_tokens, part.cached_tokens, part.written_tokens)
            dollars += _flat_dollars(price, *counts)
        return dollars

    def worst_case(self, input_tokens: int, max_output_tokens: int) -> float:
        """The maximum cost of one request in US dollars: no cache reads, all input written, all output used."""
        return _flat_dollars(self.worst(input_tokens), input_tokens, max_output_tokens)


def highest_price(prices: Sequence[Price]) -> Price:
    """The maximum of several prices, in the worst case: never less than any of them."""
    if len(prices) == 1:
        return prices[0]
    starts = sorted({start for price in prices for start, _ in price.tiers})
    flat = [_worst_price(prices, input_tokens) for input_tokens in (0, *(start + 1 for start in starts))]
    return Price(flat[0].input, flat[0].output, None, flat[0].source, tiers=tuple(zip(starts, flat[1:], strict=True)))


def _worst_price(prices: Sequence[Price], input_tokens: int) -> Price:
    worst = [price.worst(input_tokens) for price in prices]
    sources = " and ".join(dict.fromkeys(price.source for price in prices))
    return Price(max(each.input for each in worst), max(each.output for each in worst), None, sources)


def _flat_dollars(price: Price, input_tokens: int, output_tokens: int, cached: int = 0, written: int = 0) -> float:
    """The cost of tokens at a flat price. Inconsistent counts from a server never make it negative."""
    cached = min(cached, input_tokens)
    written = min(written, input_tokens - cached)
    cached_rate = price.input if price.cached is None else price.cached
    written_rate = price.input if price.written is None else price.written
    uncached = input_tokens - cached - written
    input_price = uncached * price.input + cached * cached_rate + written * written_rate
    return (input_price + output_tokens * price.output) / 1_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost in US dollars, with the price list used and the date of its newest price.

    `unpriced_requests` counts the requests whose price or usage is unknown: if it is above zero, the dollars are a
    lower bound. If no cost is known at all, None is used instead of a Cost.
    """

    dollars: float
    source: str = ""
    date: str = ""
    unpriced_requests: int = 0

    def __str__(self) -> str:
        """`≈ $0.0123 (genai-prices 0.2.3, 2026-11-09)`; a lower bound includes its number of unpriced requests."""
        amount = f"≈ {_format_dollars(self.dollars)}" if self.dollars else "$0"
        noun = "request" if self.unpriced_requests == 1 else "requests"
        missing = f"{self.unpriced_requests} {noun} of unknown price" if self.unpriced_requests else ""
        notes = ", ".join(filter(None, (self.source, self.date, missing)))
        return f"{'at least ' if missing else ''}{amount}{f' ({notes})' if notes else ''}"


def format_cost(cost: Cost | None) -> str:
    """Render a cost; `unknown` for None."""
    return "unknown" if cost is None else str(cost)


def _format_dollars(dollars: float) -> str:
    """Two decimals from one dollar on; below, two significant digits and at least four decimals."""
    places = 2 if dollars >= 1 else max(4, 1 - math.floor(math.log10(dollars)))
    return f"${dollars:,.{places}f}"


LimitKind = Literal["reserved", "counted", "checked"]
"""How a limit is enforced: reserved before each model request, counted one by one, or checked by the code it concerns.

Reserved and counted limits are shared by all runs within a budget; checked limits apply to each run.
"""


@dataclass(frozen=True, slots=True)
class LimitDeclaration:
    """The declaration of a limit on a field of `Limits`, from which counting, messages and documentation derive.

    `text` renders a value in messages; `counts` says what is limited, as shown in the documentation.
    """

    kind: LimitKind
    text: str
    counts: str
    is_whole: bool = True


def _limit(default: float | None, kind: LimitKind, text: str, counts: str, *, is_whole: bool = True) -> Any:
    """Declare a limit: its default, and the arguments of its `LimitDeclaration`."""
    return field(default=default, metadata={"limit": LimitDeclaration(kind, text, counts, is_whole)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run, including all agents it starts. None disables a limit.

    The number of requests to the model is limited by the agent's `max_iterations`. `cost` is in US dollars;
    `unknown_price` selects what happens if the model's price is unknown: `refuse` the run, treat it as `free`, or use
    the given Price. `repeated_calls` is how often the same call can return the same result: then the model is warned,
    and after as many further repetitions the run stops. Of one response the first `calls_per_response` tool calls are
    run; the others get a result that says so, and the run continues. Raises ConfigError for a limit that is not a
    number above 0.
    """

    tool_calls: int | None = _limit(100, "counted", "{:,} tool calls", "tool calls; the others are refused")
    calls_per_response: int | None = _limit(
        128,
        "checked",
        "{:,} tool calls of a response",
        "tool calls of one response; the others are refused",
    )
    input_tokens: int | None = _limit(None, "reserved", "{:,} input tokens", "tokens that the model reads")
    output_tokens: int | None = _limit(None, "reserved", "{:,} output tokens", "tokens that the model writes")
    total_tokens: int | None = _limit(None, "reserved", "{:,} total tokens", "tokens that the model reads and writes")
    cost: float | None = _limit(None, "reserved", "≈ ${:g}", "US dollars", is_whole=False)
    seconds: float | None = _limit(
        1_800.0, "checked", "{:g} seconds", "time, including tools and approvals", is_whole=False
    )
    repeated_calls: int | None = _limit(5, "checked", "{:,} repeated calls", "identical calls with identical results")
    unknown_price: Literal["refuse", "free"] | Price = "refuse"

    def __post_init__(self) -> None:
        for name, declared in LIMITS.items():
            value = getattr(self, name)
            if value is not None:
                _check_limit(name, value, whole=declared.is_whole)
        _check_unknown_price(self.unknown_price)

    def format_limit(self, name: str) -> str:
        """A limit with its value, such as `1,000 output tokens`."""
        return LIMITS[name].text.format(getattr(self, name))

    def _refuse_unknown(self, given: Iterable[str]) -> None:
        check_unknown_arguments(Limits, given)


LIMITS: Mapping[str, LimitDeclaration] = MappingProxyType(
    {each.name: each.metadata["limit"] for each in fields(Limits) if "limit" in each.metadata}
)
"""The declarations of all limits by name."""

RESERVED_LIMITS, COUNTED_LIMITS = (
    tuple(name for name, declared in LIMITS.items() if declared.kind == kind) for kind in ("reserved", "counted")
)


def _check_limit(name: str, value: object, *, whole: bool) -> None:
    if not (is_whole(value, 1) if whole else is_number(value) and value):
        expected = "a whole number of at least 1" if whole else "a number above 0"
        raise ConfigError(f"Limits({name}=) takes {expected}, or None for no limit. Got {value!r:.200}.")


def _check_unknown_price(value: object) -> None:
    if value not in ("refuse", "free") and not isinstance(value, Price):
        raise ConfigError(f"Limits(unknown_price=) takes 'refuse', 'free' or a Price. Got {value!r:.200}.")


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number of 0 or more; True and False are excluded."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def is_whole(value: object, least: int) -> TypeGuard[int]:
    """Whether a value is an integer of at least `least`; True and False are excluded."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


_UNSET: dict[str, Any] = dict.fromkeys(LIMITS)
UNLIMITED = Limits(**_UNSET)
