"""Tests for which errors call the fallback, and the error if all models fail."""

import pytest

from agentkit.errors import BadResponse, ModelError, RateLimited, Rejected, Unauthorized, Unreachable
from agentkit.llm.fallback import (
    all_failed_error,
    failed_model,
    format_failed_model,
    is_permanent,
    should_try_next,
)
from agentkit.llm.protocols.error_mapping import error_from_body
from agentkit.messages import FailedModel
from agentkit.usage import Tariff, Usage

TARIFF = Tariff("openai", "gpt")


def refusal(status, message, code=None):
    """Return the error for a server's refusal."""
    return error_from_body({"error": {"message": message, "code": code}}, status=status)


@pytest.mark.for_each(
    ("error", "passes", "lasts"),
    [
        (Unreachable("no connection"), True, False),
        (refusal(500, "boom"), True, False),
        (refusal(529, "overloaded"), True, False),
        (refusal(429, "slow down"), True, False),
        (refusal(429, "none left", "insufficient_quota"), True, True),
        (refusal(402, "no money"), True, True),
        (refusal(400, "Your credit balance is too low"), True, True),
        (refusal(401, "bad key"), True, True),
        (refusal(403, "not in your country"), True, True),
        (refusal(404, "no such model", "model_not_found"), True, True),
        (refusal(400, "it is gone", "model_decommissioned"), True, True),
        (refusal(404, "no such deployment", "DeploymentNotFound"), True, True),
        (refusal(410, "gone"), True, True),
        (BadResponse("a page of HTML"), True, False),
        (ModelError("something"), True, False),
        (refusal(400, "temperature must be below 2"), False, True),
        (refusal(422, "no such field"), False, True),
        (refusal(400, "too long", "context_length_exceeded"), False, True),
        (refusal(413, "too many bytes"), False, True),
        (refusal(400, "not this", "content_filter"), False, True),
        (refusal(403, "Your input was flagged"), False, True),
        (Rejected("I cannot help with that", code="content_filter"), False, True),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, ModelError) else "",
)
def test_failures_passed_to_the_fallback(error, passes, lasts):
    """A service failure is passed to the fallback, a refused request is not, and some errors are lasting."""
    assert should_try_next(error) is passes
    assert not passes or is_permanent(error) is lasts


def test_failed_requests_that_may_be_charged():
    """A request that may have been charged counts as unreported, and a rejected one does not count."""
    lost = Usage(requests=1, unreported=1)
    assert failed_model("m", BadResponse("cut"), TARIFF).usage == lost
    assert failed_model("m", BadResponse("cut"), TARIFF).usage.tariff == TARIFF
    assert failed_model("m", refusal(429, "slow down"), TARIFF).usage == Usage()
    often = Unreachable("no answer")
    often.unanswered = 3
    assert failed_model("m", often, None).usage == Usage(requests=3, unreported=3)


def test_missed_text_of_a_skipped_model():
    """A skipped model is described as skipped, and a long message is truncated."""
    output = format_failed_model(FailedModel("openai:gpt", "Unreachable", "x" * 900, was_tried=False))
    assert output.startswith("[openai:gpt, skipped after a recent failure] xxx")
    assert len(output) < 700


def test_error_contains_all_messages():
    """The error has the class of the last one, contains all messages, and does not modify the original."""
    last = RateLimited("wait", status=429, retry_after_seconds=7)
    known = [
        failed_model("a", Unauthorized("bad key", status=401), TARIFF),
        failed_model("b", BadResponse("cut"), TARIFF),
        failed_model("c", last, TARIFF),
    ]
    error = all_failed_error(last, known)
    assert str(error) == "None of the 3 models answered. [a] bad key [b] cut [c] wait"
    assert (type(error), error.status, error.retry_after_seconds, error.unanswered) == (RateLimited, 429, 7, 1)
    assert error.missed == tuple(known)
    assert (str(last), last.missed) == ("wait", ())


def test_refusal_after_other_failures():
    """If the last model refuses the request, the error is reported as a refusal."""
    last = Rejected("too long", code="context_length_exceeded", limit_tokens=9)
    error = all_failed_error(last, [failed_model("a", Unreachable("gone"), None), failed_model("b", last, None)])
    assert str(error) == "The request was refused. [a] gone [b] too long"
    assert (error.is_too_long, error.limit_tokens) == (True, 9)
