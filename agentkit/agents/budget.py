"""Budget of a run: limits are reserved before they are spent, and shared with subagents."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import zip_longest
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.events import LimitReached
from agentkit.recording import Clock
from agentkit.usage import NO_USAGE, Charge, Limits, Price, Usage, dearest

FEWEST_TOKENS = 16
"""With less room than this no answer is asked for."""

_MOST_RESERVED_TOKENS, _MOST_TOKENS = 16_384, 10_000_000
_PLACES = 12
_NO_LIMITS = (None, None, None, None)

UNLIMITED = Limits(tool_calls=None, seconds=None, repeated_calls=None)

_FREE = Price(0, 0)

Known = Price | None | tuple[Price | None, ...]
"""What is known of the price of a request: that of the model, or of each that may answer. None is not known."""

GO_ON = "What was done so far is in the result; go on with result.resume()."


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one request may take at most; `max_tokens` is None where nothing limits how long its answer may be.

    `dollars` are what each budget has set aside, from the run's own upwards; none where nothing was set aside.
    `narrowed` is the limit that leaves the answer less room than it would have had.
    """

    input_tokens: int = 0
    max_tokens: int | None = None
    dollars: tuple[float, ...] = ()
    narrowed: LimitReached | None = None


@dataclass(slots=True)
class Spending:
    """What was taken so far, with what is reserved.

    `above` are the dollars that the same has cost the budgets above; `overlap` counts tokens that are held for input or
    output, whichever they will be.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    tool_calls: int = 0
    above: tuple[float, ...] = ()
    overlap: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens - self.overlap

    def add(self, input_tokens: int, output_tokens: int, dollars: float, above: Sequence[float] = ()) -> None:
        """Count so much more."""
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.dollars = _sum(self.dollars, dollars)
        if any(above):
            self.above = tuple(_sum(*pair) for pair in zip_longest(self.above, above, fillvalue=0.0))


@dataclass(slots=True)
class Budget:
    """What a run and all that it sets to work may take; `parent` is that of the run which set this one to work.

    Any thread may use it. `price` is asked only where money is limited. `max_iterations` is what holds where `limits`
    names no number of iterations.
    """

    limits: Limits
    parent: Budget | None = None
    clock: Callable[[], float] = time.monotonic
    spent: Spending = field(default_factory=Spending)
    usage: Usage = NO_USAGE
    started: float = 0.0
    lock: Any = field(default_factory=threading.RLock)
    max_iterations: int = 0

    def __post_init__(self) -> None:
        self.started = self.clock()
        if self.parent is not None:
            self.lock = self.parent.lock

    @property
    def seconds_left(self) -> float:
        """How long the run may still take; infinite without a limit."""
        left = min(map(_own_seconds_left, self.chain()))
        return self.clock.left(left) if isinstance(self.clock, Clock) and left < math.inf else left

    @property
    def charged(self) -> Charge:
        """What was charged through this budget to it and those above."""
        with self.lock:
            spent = self.spent
            return Charge(spent.input_tokens, spent.output_tokens, spent.tool_calls, (spent.dollars, *spent.above))

    def charge(self, charge: Charge) -> None:
        """Charge what work has cost that was done before, and is only told of now."""
        chain = list(self.chain())
        with self.lock:
            told = charge.dollars or (0.0,)
            dollars = [*told, *[told[-1]] * len(chain)][: len(chain)]
            _book(chain, charge.input_tokens, charge.output_tokens, dollars)
            for budget in chain:
                budget.spent.tool_calls += charge.tool_calls

    def reserve(
        self,
        input_tokens: int,
        max_tokens: Callable[[], int | None],
        price: Callable[[], Known],
        fewest: int = FEWEST_TOKENS,
    ) -> Reservation | LimitReached:
        """Set aside what a request takes at worst, or the limit that it would break.

        `max_tokens` is how long the answer may be as far as the user has said so; with room for fewer than `fewest`
        tokens it is not worth asking.
        """
        late = self.out_of_time()
        if late is not None:
            return late
        chain = list(self.chain())
        if not any(_limits_requests(budget.limits) for budget in chain):
            return Reservation(input_tokens)
        room, narrowed, is_limited = max_tokens() or _MOST_RESERVED_TOKENS, None, False
        with self.lock:
            prices = [_price_under(budget.limits, price) for budget in chain]
            for budget, known in zip(chain, prices, strict=True):
                left = budget.answer_room(input_tokens, known, fewest)
                if isinstance(left, LimitReached):
                    return left
                tokens, limit = left
                is_limited = is_limited or tokens < _MOST_TOKENS
                if tokens < room:
                    room, narrowed = tokens, budget.narrow(limit)
            dollars = tuple(known.worst_case(input_tokens, room) if known else 0.0 for known in prices)
            _book(chain, input_tokens, room if is_limited else 0, dollars)
        return Reservation(input_tokens, room if is_limited else None, dollars, narrowed)

    def settle(self, reservation: Reservation, usage: Usage, price: Callable[[], Known]) -> None:
        """Put what a request has taken in the place of what was reserved.

        Of each time that it was sent and no figures came the worst is charged: one stays, and others come to it.
        """
        chain = list(self.chain())
        more = usage.unreported - 1
        held = reservation.input_tokens if reservation.dollars else 0
        reserved = reservation.max_tokens or 0
        with self.lock:
            for budget in chain:
                budget.usage += usage
            prices = [_price_under(budget.limits, price) for budget in chain]
            worst = reservation.dollars or (0.0,) * len(chain)
            taken = [known.dollars_of(usage) if known else 0.0 for known in prices]
            dollars = [known + more * most for known, most in zip(taken, worst, strict=True)]
            _book(chain, usage.input_tokens + more * held, usage.output_tokens + more * reserved, dollars)

    def release(self, reservation: Reservation) -> None:
        """Give back what was reserved for a request that came to nothing."""
        self.settle(reservation, NO_USAGE, lambda: None)

    def take_tool_calls(self, wanted: int) -> int:
        """How many of so many tool calls may be made; these are counted."""
        chain = list(self.chain())
        with self.lock:
            rooms = [budget.limits.tool_calls - budget.spent.tool_calls for budget in chain if budget.limits.tool_calls]
            granted = max(min([wanted, *rooms]), 0)
            for budget in chain:
                budget.spent.tool_calls += granted
        return granted

    def hold(self, part: Limits, sign: int = 1) -> None:
        """Set aside a part of what is left, for somebody elsewhere who keeps to it; a sign of -1 gives it back."""
        input_tokens, output_tokens, overlap = _held(part)
        chain = list(self.chain())
        with self.lock:
            _book(chain, sign * input_tokens, sign * output_tokens, [sign * (part.cost or 0.0)] * len(chain))
            for budget in chain:
                budget.spent.overlap += sign * overlap
                budget.spent.tool_calls += sign * (part.tool_calls or 0)

    def note(self, usage: Usage) -> None:
        """Enter what was used, and has been charged already."""
        with self.lock:
            for budget in self.chain():
                budget.usage += usage

    def out_of_time(self) -> LimitReached | None:
        """The limit of time that holds, in words, once it is hit."""
        if self.seconds_left > 0:
            return None
        return LimitReached("seconds", f"The time of the run is up ({self._seconds():g} seconds). {GO_ON}")

    def no_tool_calls(self) -> LimitReached:
        """The limit of tool calls that holds, in words."""
        limited = [budget for budget in self.chain() if budget.limits.tool_calls]
        most = min(
            limited, key=lambda budget: (budget.limits.tool_calls or 0) - budget.spent.tool_calls
        ).limits.tool_calls
        return LimitReached("tool_calls", f"The run may make no more than {most} tool calls. {GO_ON}")

    def chain(self) -> Iterator[Budget]:
        """This budget and all above it."""
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget.parent

    def _seconds(self) -> float:
        """The limit of time of the budget in which the least of it is left."""
        return min(self.chain(), key=_own_seconds_left).limits.seconds or math.inf

    def answer_room(self, input_tokens: int, price: Price | None, fewest: int) -> tuple[int, str] | LimitReached:
        """How many tokens an answer may have within this budget alone and by which limit, or which leaves no room.

        Each budget of the chain is asked with the price that it reckons with, while nobody else can take anything.
        """
        if self.limits.cost is not None and price is None:
            return LimitReached("cost", f"{UNKNOWN_PRICE} {GO_ON}")
        rooms = dict(self._rooms(input_tokens, price))
        name = min(rooms, key=lambda name: rooms[name], default="")
        if not name or rooms[name] >= fewest:
            return int(min([_MOST_TOKENS, *rooms.values()])), name
        return self._reached(name, "Another request could go beyond")

    def narrow(self, limit: str) -> LimitReached:
        """Take note that a limit of this budget leaves an answer less room than it would have had, and say so."""
        return self._reached(limit, "The answer was cut at")

    def _reached(self, name: str, what: str) -> LimitReached:
        limit = getattr(self.limits, name)
        told = f"≈ ${limit:g}" if name == "cost" else f"{limit:,} {name.replace('_', ' ')}"
        return LimitReached(name, f"{what} the limit of {told}. {GO_ON}")

    def _rooms(self, input_tokens: int, price: Price | None) -> Iterator[tuple[str, float]]:
        limits, spent = self.limits, self.spent
        if limits.input_tokens is not None:
            yield "input_tokens", math.inf if spent.input_tokens + input_tokens <= limits.input_tokens else 0
        if limits.output_tokens is not None:
            yield "output_tokens", limits.output_tokens - spent.output_tokens
        if limits.total_tokens is not None:
            yield "total_tokens", limits.total_tokens - spent.total_tokens - input_tokens
        if limits.cost is not None and price is not None and not price.is_free:
            worst = price.worst(input_tokens)
            left = limits.cost - spent.dollars - worst.dollars(input_tokens, 0)
            affordable = left * 1_000_000 / worst.output if worst.output else math.inf
            yield "cost", affordable if left > 0 else 0


def _own_seconds_left(budget: Budget) -> float:
    """How long a budget lasts, whatever those above it say."""
    limits = budget.limits
    return math.inf if limits.seconds is None else limits.seconds - (budget.clock() - budget.started)


def _limits_requests(limits: Limits) -> bool:
    """Whether anything is limited that a request takes."""
    return (limits.input_tokens, limits.output_tokens, limits.total_tokens, limits.cost) != _NO_LIMITS


def _price_under(limits: Limits, price: Callable[[], Known]) -> Price | None:
    """What a request costs; what the user has said stands in for a price that nobody knows.

    Of several models that may answer it is the dearest.
    """
    if limits.cost is None:
        return None
    told, unknown = price(), limits.unknown_price
    stand_in = unknown if isinstance(unknown, Price) else _FREE if unknown == "free" else None
    known = [each or stand_in for each in (told if isinstance(told, tuple) else (told,))]
    prices = [each for each in known if each is not None]
    return dearest(prices) if len(prices) == len(known) else None


def _sum(one: float, two: float) -> float:
    """A sum of dollars, the same in whatever order it is made: a replay charges all that a call has cost at once."""
    return round(one + round(two, _PLACES), _PLACES)


def _held(part: Limits) -> tuple[int, int, int]:
    """The input and output tokens to hold for a part, and how many of them are held twice."""
    total, least_input, least_output = part.total_tokens, part.input_tokens or 0, part.output_tokens or 0
    if total is None:
        return least_input, least_output, 0
    if part.input_tokens is None:
        least_input = total - min(least_output, total)
    elif part.output_tokens is None:
        least_output = total - min(least_input, total)
    held = min(least_input, total), min(least_output, total)
    return *held, max(sum(held) - total, 0)


def _book(chain: Sequence[Budget], input_tokens: int, output_tokens: int, dollars: Sequence[float]) -> None:
    """Count so much more in each budget, from the lowest upwards."""
    for place, budget in enumerate(chain):
        budget.spent.add(input_tokens, output_tokens, dollars[place], dollars[place + 1 :])


UNKNOWN_PRICE = (
    "Nobody knows the price of the model, so its cost cannot be limited: give LLM(price=Price(...)), or "
    "Limits(unknown_price=Price(...)) or Limits(unknown_price='free')."
)
