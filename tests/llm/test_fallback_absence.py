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


def fail(absence, clock, error=GONE, *, took=0.0):
    """Call the model, which fails after the given seconds."""
    began = clock.seconds
    clock.seconds += took
    absence.has_failed(error, FailedModel("m", type(error).__name__, str(error)), began)


def is_asked_after(absence, clock, seconds):
    """Return whether a request calls the model after the given seconds, and no request a moment before."""
    clock.seconds += seconds - 0.5
    is_early = absence.claim() is None
    clock.seconds += 0.5
    return not is_early and absence.claim() is None


def test_model_is_available_until_it_fails(clock):
    """A model that never failed is available, and an answer does not change that."""
    absence = CircuitBreaker(clock)
    absence.has_answered()
    assert (absence.claim(), absence.missed) == (None, None)


def test_delay_doubles_after_each_failure(clock):
    """A failed model is skipped for 30 seconds, and twice as long after each failure up to ten minutes."""
    absence = CircuitBreaker(clock)
    for seconds in (30, 60, 120, 240, 480, 600, 600):
        fail(absence, clock)
        assert is_asked_after(absence, clock, seconds)


def test_answer_resets_the_delay(clock):
    """An answer makes the model available to all requests, and resets the delay."""
    absence = CircuitBreaker(clock)
    fail(absence, clock)
    clock.seconds += 30
    fail(absence, clock)
    absence.has_answered()
    assert (absence.claim(), absence.claim(), absence.missed) == (None, None, None)
    fail(absence, clock)
    assert is_asked_after(absence, clock, 30)


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
    absence = CircuitBreaker(clock)
    fail(absence, clock, error, took=took)
    assert is_asked_after(absence, clock, seconds)


def test_one_request_tries_the_model_again(clock):
    """After the delay one request tries the model, and the others use the fallback until it has ended."""
    absence = CircuitBreaker(clock)
    fail(absence, clock)
    clock.seconds += 30
    assert absence.missed is None
    assert absence.claim() is None
    assert absence.claim().error == "gone"
    assert not absence.missed.was_asked
    clock.seconds += 30  # the request that tried the model never ended
    assert absence.claim() is None


def test_concurrent_failures_count_once(clock):
    """Requests that fail concurrently count as one failure."""
    absence = CircuitBreaker(clock)
    began = clock.seconds
    clock.seconds += 1
    for _ in range(10):
        absence.has_failed(GONE, FailedModel("m", "Unreachable", "gone"), began)
    assert is_asked_after(absence, clock, 30)


def test_model_is_available_after_an_answer(clock):
    """A model that answered after its delay can be called again."""
    absence = CircuitBreaker(clock)
    fail(absence, clock)
    clock.seconds += 30
    assert absence.claim() is None
    absence.has_answered()
    assert absence.claim() is None
