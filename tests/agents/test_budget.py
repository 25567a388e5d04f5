"""Tests for budgets: reservations, charges, limits and nested budgets."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from agentkit.agents.budget import Budget, Reservation
from agentkit.events import LimitReached
from agentkit.usage import UNLIMITED, Limits, Price, Usage

PRICE = Price(1.0, 2.0)
OPEN = {"tool_calls": None, "seconds": None, "repeated_calls": None}


def budget(parent=None, clock=lambda: 0.0, **limits):
    """Return a budget with these limits and no others."""
    return Budget(Limits(**{**OPEN, **limits}), parent, clock)


def reserve(spending, input_tokens=100, max_tokens=None, price=PRICE, **options):
    """Reserve the budget of a request."""
    return spending.reserve(input_tokens, lambda: max_tokens, lambda: price, **options)


def settle(spending, reservation, usage, price=PRICE):
    """Replace a reservation with the actual usage."""
    spending.settle(reservation, usage, lambda: price)


def used(input_tokens, output_tokens):
    """Return the usage of one request."""
    return Usage(input_tokens, output_tokens, requests=1)


def test_nothing_is_reserved_without_limits():
    """Without limits, a reservation has no maximum length, and the usage is counted."""
    free = budget()
    reservation = reserve(free)
    assert (reservation.max_tokens, reservation.narrowed) == (None, None)
    settle(free, reservation, used(90, 50))
    assert (free.usage, free.spent.output_tokens) == (used(90, 50), 50)


@pytest.mark.parametrize(
    ("limits", "room"),
    [
        ({"output_tokens": 1_000}, 1_000),
        ({"total_tokens": 1_000}, 900),
        ({"cost": 0.001}, 450),
        ({"output_tokens": 1_000, "total_tokens": 500, "cost": 1.0}, 400),
        ({"output_tokens": 50_000}, 16_384),
        ({"input_tokens": 1_000}, None),
        ({"input_tokens": 1_000, "output_tokens": 30}, 30),
    ],
)
def test_maximum_length_of_an_answer(limits, room):
    """The maximum length of an answer is the smallest remaining limit, or a default maximum."""
    reservation = reserve(budget(**limits))
    assert reservation.max_tokens == room


def test_chosen_length_is_not_exceeded():
    """A length chosen by the user is used if it is smaller."""
    assert reserve(budget(output_tokens=1_000), max_tokens=300).max_tokens == 300
    assert reserve(budget(output_tokens=200), max_tokens=300).max_tokens == 200


@pytest.mark.parametrize("name", ["output_tokens", "total_tokens", "cost"])
def test_reservation_names_its_limit(name):
    """A reservation names the limit that shortened the answer."""
    limit = 0.01 if name == "cost" else 5_000
    reservation = reserve(budget(**{name: limit}))
    assert reservation.narrowed.limit == name
    assert reserve(budget(**{name: limit}), max_tokens=100).narrowed is None


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        ({"input_tokens": 99}, "input_tokens"),
        ({"output_tokens": 15}, "output_tokens"),
        ({"total_tokens": 115}, "total_tokens"),
        ({"cost": 0.000_13}, "cost"),
        ({"cost": 0.000_05}, "cost"),
    ],
)
def test_request_that_could_exceed_a_limit_is_refused(limits, name):
    """A request that could exceed a limit is refused, and nothing is reserved for it."""
    spending = budget(**limits)
    refused = reserve(spending)
    assert isinstance(refused, LimitReached)
    assert (refused.limit, spending.spent.input_tokens, spending.spent.dollars) == (name, 0, 0)


def test_reservation_with_too_few_tokens_is_refused():
    """A reservation is refused if less than the required number of tokens is left."""
    assert isinstance(reserve(budget(output_tokens=150)), Reservation)
    assert reserve(budget(output_tokens=150), min_tokens=200).limit == "output_tokens"


def test_actual_usage_replaces_the_reservation():
    """After the answer, the actual usage replaces the reservation."""
    spending = budget(total_tokens=1_000, cost=1.0)
    settle(spending, reserve(spending), used(80, 40))
    assert (spending.spent.input_tokens, spending.spent.output_tokens) == (80, 40)
    assert spending.spent.dollars == pytest.approx(PRICE.dollars(80, 40))


def test_unreported_usage_keeps_the_reservation():
    """Unreported usage counts as the whole reservation."""
    spending = budget(output_tokens=1_000, cost=1.0)
    reservation = reserve(spending, max_tokens=700)
    settle(spending, reservation, Usage(requests=1, unreported=1))
    assert (spending.spent.input_tokens, spending.spent.output_tokens) == (100, 700)
    assert spending.spent.dollars == pytest.approx(PRICE.worst_case(100, 700))
    assert reserve(spending).max_tokens == 300


def test_failed_attempts_are_charged():
    """Failed attempts are charged at the maximum, in addition to the answer's usage."""
    spending = budget(output_tokens=1_000, cost=1.0)
    reservation = reserve(spending, max_tokens=300)
    settle(spending, reservation, used(80, 40) + Usage(requests=2, unreported=2))
    assert (spending.spent.input_tokens, spending.spent.output_tokens) == (280, 640)
    assert spending.spent.dollars == pytest.approx(2 * PRICE.worst_case(100, 300) + PRICE.dollars(80, 40))
    assert spending.usage == Usage(80, 40, requests=3, unreported=2)


def test_released_reservation_costs_nothing():
    """A released reservation costs nothing."""
    spending = budget(output_tokens=1_000, cost=1.0)
    spending.release(reserve(spending))
    assert (spending.spent.input_tokens, spending.spent.output_tokens) == (0, 0)
    assert spending.spent.dollars == pytest.approx(0)


@pytest.mark.parametrize(
    ("unknown", "outcome"), [("refuse", None), ("free", Reservation), (Price(1.0, 2.0), Reservation)]
)
def test_unknown_price(unknown, outcome):
    """An unknown price refuses the request, is free, or is replaced by a given price."""
    spending = budget(cost=1.0, unknown_price=unknown)
    reservation = reserve(spending, price=None)
    if outcome is None:
        assert reservation.limit == "cost"
        return
    settle(spending, reservation, used(1_000, 1_000), None)
    assert spending.spent.dollars == pytest.approx(0 if unknown == "free" else 0.003)


def test_cost_limit_does_not_apply_to_a_free_model():
    """A cost limit does not refuse requests to a free model."""
    spending = budget(cost=0.001)
    settle(spending, reserve(spending, 0), used(0, 500))
    assert reserve(spending).limit == "cost"
    assert reserve(spending, price=Price(0, 0)).max_tokens is None


def test_each_budget_uses_its_own_unknown_price():
    """Nested budgets each use their own setting for an unknown price."""
    above = budget(cost=1.0, unknown_price="free")
    inside = budget(above, cost=0.01, unknown_price=Price(1.0, 2.0))
    reservation = reserve(inside, price=None)
    assert (inside.spent.dollars > 0, above.spent.dollars) == (True, 0)
    settle(inside, reservation, used(100, 100), None)
    assert inside.spent.dollars == pytest.approx(0.000_3)
    assert above.spent.dollars == 0


def test_request_must_fit_into_all_outer_budgets():
    """A request must fit into the budgets of all outer runs, and counts in each of them."""
    above = budget(output_tokens=500)
    inside = budget(above, output_tokens=900)
    reservation = reserve(inside)
    assert (reservation.max_tokens, above.spent.output_tokens) == (500, 500)
    assert reservation.narrowed.reason.startswith("The answer was cut off at the limit of 500 output tokens")
    assert reserve(inside).limit == "output_tokens"
    settle(inside, reservation, used(100, 100))
    assert above.usage == inside.usage == used(100, 100)
    assert reserve(Budget(UNLIMITED, above)).max_tokens == 400


def test_shortest_remaining_time_applies():
    """The shortest remaining time of all outer runs applies, and its limit is named."""
    now = [0.0]
    above = budget(clock=lambda: now[0], seconds=10)
    now[0] = 8.0
    inside = budget(above, lambda: now[0], seconds=5)
    assert inside.seconds_left == 2.0
    now[0] = 10.0
    assert "(10 seconds)" in reserve(inside).reason
    assert budget().seconds_left == math.inf


def test_tool_calls_are_granted_up_to_the_limit():
    """Tool calls are granted up to the smallest remaining limit and counted in every budget."""
    above = budget(tool_calls=3)
    inside = budget(above, tool_calls=50)
    assert [inside.take("tool_calls", 2), inside.take("tool_calls", 2), inside.take("tool_calls", 2)] == [2, 1, 0]
    assert (inside.spent.counts["tool_calls"], above.spent.counts["tool_calls"]) == (3, 3)
    assert "limited to 3 tool calls" in inside.limit_exceeded("tool_calls").reason
    assert budget().take("tool_calls", 1_000) == 1_000


@pytest.mark.parametrize("seed", range(5))
def test_threads_never_exceed_a_limit(seed):
    """Concurrent threads never exceed a limit, even with the maximum usage in nested runs."""
    limits = Limits(**{**OPEN, "tool_calls": 200, "output_tokens": 20_000, "total_tokens": 60_000, "cost": 0.08})
    top = Budget(limits, clock=lambda: 0.0)
    beyond, granted, lock, begin = [], [], threading.Lock(), threading.Barrier(8)

    def check():
        with top.lock:
            spent = top.spent
            total = spent.input_tokens + spent.output_tokens
            if spent.output_tokens > 20_000 or total > 60_000 or spent.dollars > 0.08 + 1e-9:
                beyond.append((spent.output_tokens, total, spent.dollars))

    def spend(number):
        chance, inside = Random(seed * 100 + number), Budget(UNLIMITED, Budget(Limits(**OPEN), top))
        begin.wait(30)
        for _ in range(200):
            with lock:
                granted.append(inside.take("tool_calls", chance.randrange(1, 4)))
            input_tokens, longest = chance.randrange(1, 400), chance.randrange(16, 800)
            reservation = reserve(inside, input_tokens, longest)
            check()
            if isinstance(reservation, LimitReached):
                continue
            match chance.randrange(4):
                case 0:
                    inside.release(reservation)
                case 1:
                    settle(inside, reservation, Usage(requests=1, unreported=1))
                case _:
                    taken = chance.randrange(reservation.max_tokens + 1)
                    settle(inside, reservation, used(chance.randrange(input_tokens + 1), taken))
            check()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(spend, range(8)))
    assert beyond == []
    assert sum(granted) == top.spent.counts["tool_calls"] == 200


def test_recorded_charges_can_be_applied_again():
    """Recorded charges can be applied to another chain of budgets with the same result."""

    def chain():
        top = budget(cost=1.0, unknown_price=Price(5.0, 5.0))
        return [top, run := budget(top, cost=1.0, unknown_price=Price(1.0, 2.0)), Budget(UNLIMITED, run)]

    recorded, replayed = chain(), chain()
    for _ in range(3):
        settle(recorded[-1], reserve(recorded[-1], price=None), used(90, 50), price=None)
    reserve(recorded[-1], max_tokens=100, price=None)
    recorded[-1].take("tool_calls", 2)
    replayed[-1].charge(recorded[-1].charged)
    assert [each.spent for each in replayed] == [each.spent for each in recorded]
    assert replayed[0].spent.dollars > replayed[1].spent.dollars > replayed[2].spent.dollars == 0


@pytest.mark.parametrize(
    ("part", "left"),
    [
        (Limits(total_tokens=100), (900, None, None)),
        (Limits(total_tokens=100, input_tokens=70), (900, 930, None)),
        (Limits(total_tokens=100, output_tokens=400), (900, None, 900)),
        (Limits(total_tokens=100, input_tokens=70, output_tokens=90), (900, 930, 910)),
        (Limits(input_tokens=70, output_tokens=90), (None, 930, 910)),
    ],
)
def test_held_part_is_returned(part, left):
    """A held part counts toward each of its limits until it is returned."""
    limits = ("total_tokens", "input_tokens", "output_tokens")
    top = budget(**{name: 1_000 for name in limits if getattr(part, name)})
    inside = budget(top)
    inside.reserve_part(part)
    spent = top.spent.total_tokens, top.spent.input_tokens, top.spent.output_tokens
    rooms = [None if room is None else 1_000 - taken for room, taken in zip(left, spent, strict=True)]
    assert rooms == list(left)
    inside.reserve_part(part, -1)
    assert (top.spent.total_tokens, top.spent.input_tokens, top.spent.output_tokens, top.spent.overlap) == (0, 0, 0, 0)
    inside.record_usage(used(5, 5))
    assert (top.usage, top.spent.input_tokens) == (used(5, 5), 0)
