"""Tests for how long a failed model is skipped."""

import pytest

from agentkit.errors import RateLimited, Unauthorized, Unreachable
from agentkit.llm.fallback import CircuitBreaker
from agentkit.messages import FailedModel

GONE = Unreachable("gone")


class Clock:
    """A clock that is advanced by the tests."""

    def __init__(self):
        self.seconds = 1_000.0

    def __call__(self):
        """Return the time in seconds."""
        return self.seconds


@pytest.fixture
def clock():
    """A clock that is advanced by the test."""
    return Clock()


def fail(circuit_breaker, clock, error=GONE, *, took=0.0):
    """Call the model, which fails after the given seconds."""
    began = clock.seconds
    clock.seconds += took
    circuit_breaker.record_failure(error, FailedModel("m", type(error).__name__, str(error)), began)


def is_asked_after(circuit_breaker, clock, seconds):
    """Return whether a request calls the model after the given seconds, and no request a moment before."""
    clock.seconds += seconds - 0.5
    is_early = circuit_breaker.claim() is None
    clock.seconds += 0.5
    return not is_early and circuit_breaker.claim() is None


def test_model_is_available_until_it_fails(clock):
    """A model that never failed is available, and an answer does not change that."""
    circuit_breaker = CircuitBreaker(clock)
    circuit_breaker.record_success()
    assert (circuit_breaker.claim(), circuit_breaker.missed) == (None, None)


def test_delay_doubles_after_each_failure(clock):
    """A failed model is skipped for 30 seconds, and twice as long after each failure up to ten minutes."""
    circuit_breaker = CircuitBreaker(clock)
    for seconds in (30, 60, 120, 240, 480, 600, 600):
        fail(circuit_breaker, clock)
        assert is_asked_after(circuit_breaker, clock, seconds)


def test_answer_resets_the_delay(clock):
    """An answer makes the model available to all requests, and resets the delay."""
    circuit_breaker = CircuitBreaker(clock)
    fail(circuit_breaker, clock)
    clock.seconds += 30
    fail(circuit_breaker, clock)
    circuit_breaker.record_success()
    assert (circuit_breaker.claim(), circuit_breaker.claim(), circuit_breaker.missed) == (None, None, None)
    fail(circuit_breaker, clock)
    assert is_asked_after(circuit_breaker, clock, 30)


@pytest.mark.parametrize(
    ("error", "took", "seconds"),
    [
        (GONE, 120, 120),
        (GONE, 5_000, 600),
        (RateLimited("wait", retry_after_seconds=90), 0, 90),
        (RateLimited("wait", retry_after_seconds=3), 0, 30),
        (RateLimited("wait", retry_after_seconds=86_400), 0, 600),
        (RateLimited("insufficient_quota"), 0, 600),
        (Unauthorized("bad key"), 0, 600),
    ],
    ids=["slow", "very-slow", "wish", "short-wish", "long-wish", "no-money", "key"],
)
def test_minimum_delay(clock, error, took, seconds):
    """The delay is at least the duration of the failure or the requested delay, and longest for lasting errors."""
    circuit_breaker = CircuitBreaker(clock)
    fail(circuit_breaker, clock, error, took=took)
    assert is_asked_after(circuit_breaker, clock, seconds)


def test_one_request_tries_the_model_again(clock):
    """After the delay one request tries the model, and the others use the fallback until it has ended."""
    circuit_breaker = CircuitBreaker(clock)
    fail(circuit_breaker, clock)
    clock.seconds += 30
    assert circuit_breaker.missed is None
    assert circuit_breaker.claim() is None
    assert circuit_breaker.claim().error == "gone"
    assert not circuit_breaker.missed.was_tried
    clock.seconds += 30  # the request that tried the model never ended
    assert circuit_breaker.claim() is None


def test_concurrent_failures_count_once(clock):
    """Requests that fail concurrently count as one failure."""
    circuit_breaker = CircuitBreaker(clock)
    began = clock.seconds
    clock.seconds += 1
    for _ in range(10):
        circuit_breaker.record_failure(GONE, FailedModel("m", "Unreachable", "gone"), began)
    assert is_asked_after(circuit_breaker, clock, 30)


def test_model_is_available_after_an_answer(clock):
    """A model that answered after its delay can be called again."""
    circuit_breaker = CircuitBreaker(clock)
    fail(circuit_breaker, clock)
    clock.seconds += 30
    assert circuit_breaker.claim() is None
    circuit_breaker.record_success()
    assert circuit_breaker.claim() is None
