"""Tests for the logging of tracer failures."""

import logging

from agentkit.tracing.listeners import FailureGuard


def fail(text):
    """Raise an error."""
    raise OSError(text)


def test_only_the_first_failure_is_logged(caplog):
    """Only the first failure is logged, as a warning with redacted secrets."""
    silence = FailureGuard("It cannot be written", "Look at the disk.")
    with caplog.at_level(logging.DEBUG):
        assert silence.call(fail, "key sk-abcdefghij0123456789ABCDEFG") is None
        assert silence.call(fail, "again") is None
        assert silence.call(str.upper, "a") == "A"
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("agentkit.tracing", "WARNING")
    assert record.getMessage() == (
        "It cannot be written (OSError: key [redacted: API key]). "
        "Runs are not affected; further failures are not logged. Look at the disk."
    )
