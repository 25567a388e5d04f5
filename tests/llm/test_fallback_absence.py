"""How long is a model that gave no answer left alone?"""

import pytest

from agentkit.errors import RateLimited, Unauthorized, Unreachable
from agentkit.llm.fallback import CircuitBreaker
from agentkit.messages import FailedModel

GONE = Unreachable("gone")


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.seconds = 1_000.0

    def __call__(self):
        """The time in seconds."""
        return self.seconds


@pytest.fixture
def clock():
    """A clock of the test's own."""
    return Clock()


def fail(absence, clock, error=GONE, *, took=0.0):
    """The model is asked, and fails after so many seconds."""
    began = clock.seconds
    clock.seconds += took
    absence.has_failed(error, FailedModel("m", type(error).__name__, str(error)), began)


def is_asked_after(absence, clock, seconds):
    """Whether a request asks the model so many seconds later, and none did a moment before."""
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


def test_an_answer_ends_it(clock):
    """Once it answers it is there for everybody, and its next failure is its first."""
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
def test_never_shorter_than_it_is_worth(clock, error, took, seconds):
    """A failure keeps it away as long as it took, or as the server asks for; one that a person must mend, longest."""
    absence = CircuitBreaker(clock)
    fail(absence, clock, error, took=took)
    assert is_asked_after(absence, clock, seconds)


def test_one_request_tries_it(clock):
    """When its time is up one request asks it, and the others go on to the next model until that is over."""
    absence = CircuitBreaker(clock)
    fail(absence, clock)
    clock.seconds += 30
    assert absence.missed is None
    assert absence.claim() is None
    assert absence.claim().error == "gone"
    assert not absence.missed.was_asked
    clock.seconds += 30  # who asked it has never come back
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
