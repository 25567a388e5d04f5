"""Budgets of a run: limits, reserved before they are spent and shared with subagents, and the context window."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from itertools import zip_longest
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.events import LimitReached
from agentkit.llm.client import LLM
from agentkit.llm.pricing import context_window
from agentkit.messages import Message, Request, SystemMessage, UserMessage
from agentkit.recording import Clock
from agentkit.sessions.context_window import (
    SUMMARY_INSTRUCTION,
    Fitted,
    Window,
    fit,
    fit_with_plan,
    summary_prompt,
    to_summarise,
    with_summary,
)
from agentkit.sessions.state import Summary
from agentkit.sessions.token_estimates import Calibration, Estimates
from agentkit.usage import COUNTED_LIMITS, NO_USAGE, RESERVED_LIMITS, Charge, Limits, Price, Usage, highest_price

MIN_TOKENS = 16
"""With fewer tokens available, no answer is requested."""

_MAX_RESERVED_TOKENS, _MAX_TOKENS = 16_384, 10_000_000
_PLACES = 12

_FREE = Price(0, 0)

RequestPrice = Price | None | tuple[Price | None, ...]
"""The price of a request: that of the model, or of each model that can answer. None is unknown."""

RESUME_HINT = "The result contains what was done so far; continue with result.resume()."


@dataclass(frozen=True, slots=True)
class Reservation:
    """The maximum that one request can take; `max_tokens` is None if the length of the answer is not limited.

    `dollars` holds the reserved amount of each budget, from the run's own upwards; empty if nothing was reserved.
    `narrowed` is the limit that shortens the answer.
    """

    input_tokens: int = 0
    max_tokens: int | None = None
    dollars: tuple[float, ...] = ()
    narrowed: LimitReached | None = None


_COUNTERS = {"cost": "dollars"}
"""The attribute of `Spending` that counts against a reserved limit, where it has another name."""


@dataclass(slots=True)
class Spending:
    """Spending so far, including reservations. `counts` holds what is counted one by one, by the name of its limit.

    `above` holds the dollars charged to the parent budgets for the same work; `overlap` counts tokens reserved as both
    input and output.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    above: tuple[float, ...] = ()
    overlap: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens - self.overlap

    def of(self, limit: str) -> float:
        """The amount that counts against a limit, which is one of the reserved or counted ones."""
        amount: float = self.counts[limit] if limit in COUNTED_LIMITS else getattr(self, _COUNTERS.get(limit, limit))
        return amount

    def add(self, input_tokens: int, output_tokens: int, dollars: float, parent: Sequence[float] = ()) -> None:
        """Add to the spending."""
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.dollars = _sum(self.dollars, dollars) if dollars else self.dollars
        if any(parent):
            self.above = tuple(_sum(*pair) for pair in zip_longest(self.above, parent, fillvalue=0.0))


@dataclass(slots=True)
class Budget:
    """The limits and spending of a run and its nested runs; `parent` is the budget of the parent run.

    Thread-safe. `price` is only called if cost is limited. `max_iterations` is the maximum number of
    requests of the run itself.
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
        """Seconds left for the run; infinite without a limit."""
        left = min(map(_own_seconds_left, self.chain()))
        return self.clock.seconds_left(left) if isinstance(self.clock, Clock) and left < math.inf else left

    @property
    def charged(self) -> Charge:
        """The amount charged through this budget to it and its parents."""
        with self.lock:
            spent = self.spent
            return Charge(spent.input_tokens, spent.output_tokens, dict(spent.counts), (spent.dollars, *spent.above))

    def charge(self, charge: Charge) -> None:
        """Charge work that was done elsewhere and is reported afterwards."""
        chain = list(self.chain())
        with self.lock:
            reported = charge.dollars or (0.0,)
            dollars = [*reported, *[reported[-1]] * len(chain)][: len(chain)]
            _charge_all(chain, charge.input_tokens, charge.output_tokens, dollars)
            for budget in chain:
                budget.spent.counts.update(charge.counts)

    def reserve(
        self,
        input_tokens: int,
        max_tokens: Callable[[], int | None],
        price: Callable[[], RequestPrice],
        min_tokens: int = MIN_TOKENS,
    ) -> Reservation | LimitReached:
        """Reserve the worst case of a request; returns the limit that it would exceed.

        `max_tokens` returns the user's maximum answer length, if set. A request that leaves fewer than
        `min_tokens` answer tokens is refused, unless the user wants no more.
        """
        late = self.out_of_time()
        if late is not None:
            return late
        chain = list(self.chain())
        if not any(getattr(each.limits, name) is not None for each in chain for name in RESERVED_LIMITS):
            return Reservation(input_tokens)
        answer_tokens, narrowed, is_limited = max_tokens() or _MAX_RESERVED_TOKENS, None, False
        min_tokens = min(min_tokens, answer_tokens)
        with self.lock:
            prices = [_effective_price(budget.limits, price) for budget in chain]
            for budget, known in zip(chain, prices, strict=True):
                available = budget.max_answer(input_tokens, known, min_tokens)
                if isinstance(available, LimitReached):
                    return available
                tokens, limit = available
                is_limited = is_limited or tokens < _MAX_TOKENS
                if tokens < answer_tokens:
                    answer_tokens, narrowed = tokens, budget.narrow(limit)
            dollars = tuple(known.worst_case(input_tokens, answer_tokens) if known else 0.0 for known in prices)
            _charge_all(chain, input_tokens, answer_tokens if is_limited else 0, dollars)
        return Reservation(input_tokens, answer_tokens if is_limited else None, dollars, narrowed)

    def settle(self, reservation: Reservation, usage: Usage, price: Callable[[], RequestPrice]) -> None:
        """Replace a reservation by the actual usage.

        Each attempt without reported usage is charged at its worst case: the reservation covers the first, further ones
        are added.
        """
        chain = list(self.chain())
        unreported = usage.unreported - 1
        input_tokens = reservation.input_tokens if reservation.dollars else 0
        reserved = reservation.max_tokens or 0
        with self.lock:
            for budget in chain:
                budget.usage += usage
            prices = [_effective_price(budget.limits, price) for budget in chain]
            worst = reservation.dollars or (0.0,) * len(chain)
            reported = [known.dollars_of(usage) if known else 0.0 for known in prices]
            dollars = [known + unreported * worst_cost for known, worst_cost in zip(reported, worst, strict=True)]
            _charge_all(
                chain,
                usage.input_tokens + unreported * input_tokens,
                usage.output_tokens + unreported * reserved,
                dollars,
            )

    def release(self, reservation: Reservation) -> None:
        """Return the reservation of a request that was not charged."""
        self.settle(reservation, NO_USAGE, lambda: None)

    def take(self, limit: str, requested: int) -> int:
        """Count up to `requested` against a counted limit such as `tool_calls`; returns how many are granted."""
        chain = list(self.chain())
        with self.lock:
            granted = int(max(min(requested, *(_remaining_count(budget, limit) for budget in chain)), 0))
            for budget in chain:
                budget.spent.counts[limit] += granted
        return granted

    def reserve_part(self, part: Limits, sign: int = 1) -> None:
        """Reserve a part of the budget for a run in another process; a sign of -1 returns it."""
        input_tokens, output_tokens, overlap = _reserved_tokens(part)
        chain = list(self.chain())
        with self.lock:
            _charge_all(chain, sign * input_tokens, sign * output_tokens, [sign * (part.cost or 0.0)] * len(chain))
            for budget in chain:
                budget.spent.overlap += sign * overlap
                budget.spent.counts.update({name: sign * (getattr(part, name) or 0) for name in COUNTED_LIMITS})

    def record_usage(self, usage: Usage) -> None:
        """Record usage that was already charged."""
        with self.lock:
            for budget in self.chain():
                budget.usage += usage

    def out_of_time(self) -> LimitReached | None:
        """The time limit, if it is reached."""
        if self.seconds_left > 0:
            return None
        shortest = min(self.chain(), key=_own_seconds_left).limits
        return LimitReached(
            "seconds", f"The run reached its time limit ({shortest.format_limit('seconds')}). {RESUME_HINT}"
        )

    def exhausted(self, limit: str) -> LimitReached | None:
        """The counted limit, if nothing is left of it in this budget or a parent."""
        return (
            self.limit_exceeded(limit) if any(_remaining_count(budget, limit) <= 0 for budget in self.chain()) else None
        )

    def limit_exceeded(self, limit: str) -> LimitReached:
        """The counted limit that applies here: that of the budget with the least left."""
        limits = min(self.chain(), key=lambda budget: _remaining_count(budget, limit)).limits
        return LimitReached(limit, f"The run is limited to {limits.format_limit(limit)}. {RESUME_HINT}")

    def chain(self) -> Iterator[Budget]:
        """This budget and all its parents."""
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget.parent

    def max_answer(self, input_tokens: int, price: Price | None, min_tokens: int) -> tuple[int, str] | LimitReached:
        """The answer tokens available in this budget alone and the limit that sets them, or the limit that leaves none.

        Called under the lock for each budget of the chain, with the price under that budget's limits.
        """
        if self.limits.cost is not None and price is None:
            return LimitReached("cost", f"{UNKNOWN_PRICE} {RESUME_HINT}")
        available = dict(self._available(input_tokens, price))
        name = min(available, key=lambda name: available[name], default="")
        if not name or available[name] >= min_tokens:
            return int(min([_MAX_TOKENS, *available.values()])), name
        needed = self._required_limit(name, input_tokens, price, min_tokens)
        return self._limit_reached(name, "Another request could exceed", f" It needs a limit of at least {needed}.")

    def _required_limit(self, name: str, input_tokens: int, price: Price | None, min_tokens: int) -> str:
        """The lowest limit under which a request with this input is sent, given what is spent."""
        spent = self.spent
        if name == "cost" and price is not None:
            dollars = spent.dollars + price.worst(input_tokens).dollars(input_tokens, min_tokens)
            return Limits(cost=float(f"{dollars:.2g}") * 1.1).format_limit("cost")
        tokens = {"input_tokens": spent.input_tokens + input_tokens, "output_tokens": spent.output_tokens + min_tokens}
        total = spent.total_tokens + input_tokens + min_tokens
        return f"{tokens.get(name, total):,}"

    def narrow(self, limit: str) -> LimitReached:
        """Record that a limit of this budget shortens an answer; returns that limit."""
        return self._limit_reached(limit, "The answer was cut off at")

    def _limit_reached(self, name: str, description: str, needed: str = "") -> LimitReached:
        return LimitReached(name, f"{description} the limit of {self.limits.format_limit(name)}.{needed} {RESUME_HINT}")

    def _available(self, input_tokens: int, price: Price | None) -> Iterator[tuple[str, float]]:
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


def _remaining_count(budget: Budget, limit: str) -> float:
    """What is left of a counted limit in one budget alone; infinite without a limit."""
    value = getattr(budget.limits, limit)
    return math.inf if value is None else value - budget.spent.counts[limit]


def _own_seconds_left(budget: Budget) -> float:
    """Seconds left in a budget, ignoring its parents."""
    limits = budget.limits
    return math.inf if limits.seconds is None else limits.seconds - (budget.clock() - budget.started)


def _effective_price(limits: Limits, price: Callable[[], RequestPrice]) -> Price | None:
    """The price of a request; the user's `unknown_price` replaces an unknown price.

    The highest price if several models can answer.
    """
    if limits.cost is None:
        return None
    known, unknown = price(), limits.unknown_price
    stand_in = unknown if isinstance(unknown, Price) else _FREE if unknown == "free" else None
    replaced = [each or stand_in for each in (known if isinstance(known, tuple) else (known,))]
    prices = [each for each in replaced if each is not None]
    return highest_price(prices) if len(prices) == len(replaced) else None


def _sum(one: float, two: float) -> float:
    """Sum dollars independently of their order: a replay charges the total of a call at once."""
    return round(one + round(two, _PLACES), _PLACES)


def _reserved_tokens(part: Limits) -> tuple[int, int, int]:
    """The input and output tokens to reserve for a part, and how many of them are reserved twice."""
    total, least_input, least_output = part.total_tokens, part.input_tokens or 0, part.output_tokens or 0
    if total is None:
        return least_input, least_output, 0
    if part.input_tokens is None:
        least_input = total - min(least_output, total)
    elif part.output_tokens is None:
        least_output = total - min(least_input, total)
    reserved = min(least_input, total), min(least_output, total)
    return *reserved, max(sum(reserved) - total, 0)


def _charge_all(chain: Sequence[Budget], input_tokens: int, output_tokens: int, dollars: Sequence[float]) -> None:
    """Add to the spending of each budget, from the lowest upwards."""
    for place, budget in enumerate(chain):
        budget.spent.add(input_tokens, output_tokens, dollars[place], dollars[place + 1 :])


UNKNOWN_PRICE = (
    "The price of the model is unknown, so its cost cannot be limited: set LLM(price=Price(...)), "
    "Limits(unknown_price=Price(...)) or Limits(unknown_price='free')."
)


_SHORT_TOKENS = 24_000
"""Requests up to this size fit every model in the list of context windows, so no lookup is needed."""

_NEXT_PROMPT = UserMessage("")
"""Placeholder for the prompt that follows."""

_UNCALIBRATED = Calibration()


@dataclass(slots=True)
class ContextBudget:
    """The context window of an agent with its token calibration. Thread-safe: the last update wins."""

    window: Window
    estimates: Estimates = field(default_factory=Estimates)
    calibration: Calibration = _UNCALIBRATED
    summary: Summary | None = None
    is_learned: bool = False

    def tokens(self, request: Request) -> int:
        """Estimate how many tokens the server will count for a request."""
        return self.calibration.to_server(self._estimate(request))

    def learn(self, request: Request, reported_tokens: int) -> None:
        """Calibrate with the number of tokens that the server reported."""
        self.calibration = self.calibration.updated(self._estimate(request), reported_tokens)

    def refused(self, request: Request, max_tokens: int | None, limit_tokens: int | None) -> None:
        """Shrink the window after a request with a `max_tokens` answer was refused as too long."""
        self.is_learned = True
        self.window = self.window.after_refusal(self.tokens(request) + (max_tokens or 0), limit_tokens)

    @property
    def answer_tokens(self) -> int | None:
        """Maximum length of an answer in a window learnt from a refusal; None before the first refusal."""
        return max(self.window.tokens // 4, 1) if self.is_learned and self.window.tokens else None

    def available_tokens(self, request: Request, llm: Callable[[], LLM]) -> int | None:
        """Number of estimated tokens available for the messages; None if the window is unknown."""
        known = None
        if self.window.tokens is None:
            if self.tokens(request) <= _SHORT_TOKENS:
                return None
            known = context_window(llm().provider, llm().model)
        ordered = self.estimates.total((), request.instruction, request.tools, request.output_schema)
        used_tokens = self.calibration.to_server(ordered)
        available = self.window.available_tokens(known, used_tokens)
        return None if available is None else self.calibration.to_estimate(available)

    def recall(self, summary: Summary | None, history: Sequence[Message]) -> None:
        """Adopt another agent's or process's summary of the conversation if it covers more than the current one."""
        if summary is None:
            return
        messages = [*history, _NEXT_PROMPT]
        own = self.summary.count if self.summary is not None and self.summary.covers(messages) else 0
        if summary.covers(messages) and summary.count > own:
            self.summary = summary

    def to_summarise(self, messages: Sequence[Message], max_tokens: int, newest: int) -> Sequence[Message]:
        """The oldest messages, which a summary should replace; empty if the conversation fits."""
        if not self.window.summarise:
            return ()
        shown = self.shown_messages(messages)
        summarised = set(map(id, to_summarise(shown, max_tokens, self.estimates)))
        shift = len(messages) - len(shown)
        last = max(
            (place for place, message in enumerate(shown[: newest - shift]) if id(message) in summarised), default=None
        )
        return () if last is None else messages[: last + 1 + shift]

    def summary_request(self, old: Sequence[Message], max_tokens: int) -> Request:
        """The request for a summary."""
        prompt = summary_prompt(self.window.apply_edit(self.shown_messages(old)), max(max_tokens // 2, 1_000))
        return Request([UserMessage(prompt)], SUMMARY_INSTRUCTION)

    def shown_messages(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages sent to the model: the summary, if one applies, followed by the messages it does not cover."""
        summary = self.summary
        if summary is None or not summary.covers(messages):
            return messages
        system_messages = [message for message in messages[: summary.count] if isinstance(message, SystemMessage)]
        rest = [*system_messages, *messages[summary.count :]]
        shown = with_summary(summary.text, rest, summary.count - len(system_messages))
        index = next(index for index, message in enumerate(shown) if message is not rest[index])
        # Reuse one message object for the summary in every request, so that its tokens are counted once.
        shown[index] = self.estimates.cached_value(rest[index], summary.text, partial(shown.__getitem__, index))
        return shown

    def fit_messages(self, messages: Sequence[Message], max_tokens: int, newest: int, *, with_handles: bool) -> Fitted:
        """The part of the conversation that fits; `newest` is the index at which the newest exchange begins."""
        shown = self.shown_messages(messages)
        begins = max(newest - (len(messages) - len(shown)), 0)

        def fit_shown(shown: Sequence[Message], max_tokens: int) -> Fitted:
            return fit(shown, max_tokens, self.window, self.estimates, begins, with_handles=with_handles)

        return fit_with_plan(shown, messages, fit_shown, max_tokens)

    def _estimate(self, request: Request) -> int:
        return self.estimates.total(request.messages, request.instruction, request.tools, request.output_schema)
