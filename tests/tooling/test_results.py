"""Tests for the results of tool calls: status, errors, truncation, and redaction."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any, get_args

import pytest

from agentkit.decisions import Decision, Verdict
from agentkit.errors import BadArguments, Blocked, SandboxError, ToolTimeout
from agentkit.messages import Status
from agentkit.tooling.results import denial, denial_text, exception_result, failure, success, with_handle
from agentkit.tooling.tool import Tool

DENIED = Decision(Verdict.DENY, "no-rm", "This deletes files.", remedy="Use trash.")


@pytest.mark.for_each(
    ("value", "status", "error"),
    [
        ("text", "ok", None),
        (None, "ok", None),
        ({"a": 1}, "ok", None),
        ({"error": None}, "ok", None),
        ({"error": ""}, "ok", None),
        ({"error": "broken"}, "failed", "broken"),
        ({"error": {"code": 3}}, "failed", "{'code': 3}"),
        ({"status": "empty", "results": []}, "empty", None),
        ({"status": "blocked", "error": "refused by the service"}, "blocked", "refused by the service"),
        ({"order": 7, "status": "failed"}, "ok", None),
        ({"ticket": 7, "status": "waiting"}, "ok", None),
        ({"status": "waiting", "error": "late"}, "failed", "late"),
        ({"status": "truncated"}, "truncated", None),
        ({"status": 200, "content": "page"}, "ok", None),
        ({"status": "shipped"}, "ok", None),
        ({"status": "shipped", "error": "late"}, "failed", "late"),
        ({"status": ["ok"]}, "ok", None),
        (["error"], "ok", None),
    ],
)
def test_dictionary_determines_the_status(value: Any, status: Status, error: str | None) -> None:
    """A dictionary with a status or an error determines the status; any other value is a success."""
    result = success("demo", value, 1_000)
    assert (result.status, result.error, result.value) == (status, error, value)
    assert result.ok is (error is None)


@pytest.mark.for_each("status", get_args(Status))
def test_every_status_is_accepted(status: Status) -> None:
    """Each status can be reported by a tool with an error, except for those reserved for runs."""
    status_text = success("demo", {"status": status, "error": "broken"}, 1_000).status
    assert status_text == ("failed" if status in ("waiting", "interrupted") else status)


def test_output_beyond_the_limit_is_truncated() -> None:
    """Truncated output has the status `truncated`, and the whole value is available to the caller."""
    result = success("demo", "x" * 500, 100)
    assert (result.status, len(result.content), len(result.value), result.ok) == ("truncated", 100, 500, True)


def test_truncated_failure_is_a_failure() -> None:
    """A truncated failure is still a failure."""
    assert success("demo", {"error": "e", "output": "x" * 500}, 200).status == "failed"


def test_failure_is_reported_as_json() -> None:
    """The content of a failed call is JSON with the error and the tool name."""
    result = failure("demo", 'no "quotes"', "failed", DENIED)
    assert json.loads(result.content) == {"error": 'no "quotes"', "tool": "demo"}
    assert (result.status, result.error, result.decision, result.value) == ("failed", 'no "quotes"', DENIED, None)


def test_failure_is_truncated_and_can_be_encoded() -> None:
    """A long error with lone surrogates is truncated and can be encoded."""
    result = failure("demo\ud800", "x\ud800" * 10**6, "failed")
    assert len(result.content) < 2_500
    result.content.encode()
    assert "characters left out" in str(result.error)


@pytest.mark.for_each(
    ("error", "status", "text"),
    [
        (ValueError("no"), "failed", "ValueError: no"),
        (ValueError(), "failed", "ValueError"),
        (KeyError("k"), "failed", "KeyError: 'k'"),
        (TimeoutError("mine"), "failed", "TimeoutError: mine"),
        (ToolTimeout("It did not finish within 3 seconds."), "timed_out", "It did not finish within 3 seconds."),
        (Blocked("Not here."), "denied", "Not here."),
        (BadArguments("'x' is missing."), "failed", "'x' is missing."),
        (SandboxError(""), "failed", "SandboxError"),
        (ExceptionGroup("many", [ValueError("a")]), "failed", "ExceptionGroup: many (1 sub-exception)"),
    ],
)
def test_exception_is_reported_without_traceback(error: Exception, status: Status, text: str) -> None:
    """An exception is reported with its type and message; the status shows a timeout or denial."""
    result = exception_result("demo", error)
    assert (result.status, result.error) == (status, text)


def test_exception_with_failing_str_is_reported() -> None:
    """An exception whose `__str__` fails is reported with its type."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("mute")

    assert exception_result("demo", Mute()).error == "Mute: (Mute: its text representation failed with RuntimeError)"


def test_keyboard_interrupt_in_str_is_raised() -> None:
    """A KeyboardInterrupt raised in `__str__` of an exception is not caught."""

    class Interrupting(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exception_result("demo", Interrupting())


def test_denial_has_reason_and_remedy() -> None:
    """The error of a denied call contains the reason and the remedy."""
    result = denial("demo", DENIED)
    assert (result.status, result.error, result.decision) == ("denied", "This deletes files. Use trash.", DENIED)
    assert denial_text(Decision(Verdict.DENY, "r", "Because.")) == "Because."


def test_long_unknown_tool_name_is_truncated():
    """An unknown tool name is truncated to the maximum length of a name."""
    assert json.loads(failure("x" * 100_000, "no such tool", "failed").content)["tool"] == "x" * 64


def test_decision_contains_no_secrets() -> None:
    """Secrets are removed from the decision in a result."""
    token = "ghp_" + "Q7" * 18
    decision = Decision(Verdict.ALLOW, "r", f"sends {token}", f"curl -H {token}", "no")
    for result in (success("demo", "x", 100, decision), failure("demo", "x", "failed", decision)):
        assert result.decision is not None
        assert token not in repr(result)
        assert (result.decision.rule, result.decision.remedy) == ("r", "no")


def test_secrets_in_an_error_value_are_removed() -> None:
    """A secret in an exception object returned as the error is removed."""
    result = success("demo", {"error": ValueError("ghp_" + "Q7" * 18)}, 1_000)
    assert "Q7" not in str(result.error)


@pytest.mark.parametrize("value", ["x" * 500, {"output": "x" * 500}, list(range(500))])
def test_truncated_result_stores_the_whole_output(value: Any) -> None:
    """A truncated result stores the whole output; any other result does not."""
    result = success("demo", value, 200)
    assert result.full_content == (value if isinstance(value, str) else json.dumps(value))
    assert success("demo", value, 5_000).full_content is None
    assert failure("demo", "no", "failed").full_content is None


def test_whole_output_is_bounded_and_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored output has at most 1,000,000 characters, includes the end, and has no secrets."""
    monkeypatch.setenv("DB_PASSWORD", "p4ssw0rd-xyz99")
    full_text = success("demo", "p4ssw0rd-xyz99 " * 500_000 + "the end", 1_000).full_content
    assert full_text is not None
    assert len(full_text) == 1_000_000
    assert full_text.endswith("the end")
    assert "xyz99" not in full_text
    assert success("demo", "x" * 3_000_000, 2_000_000).full_content is None


def test_truncated_result_contains_its_handle() -> None:
    """A truncated result says how to read the rest; a complete result does not."""
    cut, full_text = success("demo", "x" * 5_000, 1_000), success("demo", "short", 1_000)
    assert 'read_more(handle="call_1", start=' in with_handle(cut, "call_1").content
    assert with_handle(cut, "call_1").full_content == cut.full_content
    assert with_handle(full_text, "call_1") is full_text


class Whereabouts:
    """A value whose text is the name of the current thread."""

    def __str__(self) -> str:
        """Return the name of the thread."""
        return threading.current_thread().name


@pytest.mark.parametrize(
    ("rest", "threads"), [("", 1), ("x" * 100_000, 0), (["x" * 1_000] * 100, 0), ({"a": [1] * 5_000}, 0)]
)
def test_long_result_is_rendered_in_a_thread(rest: Any, threads: int) -> None:
    """An awaited call renders a long result in a thread and a short one in the event loop."""

    async def look() -> list[Any]:
        return [Whereabouts(), rest]

    content = asyncio.run(Tool(look, max_chars=200_000).ainvoke()).content
    assert content.count(threading.current_thread().name) == threads


def test_long_text_is_stored_without_secrets() -> None:
    """The stored text has at most 1,000,000 characters and no secrets."""
    secret = "sk-" + "a1b2" * 10
    full_text = success("read", f"{'x' * 700_000} {secret} {'y' * 700_000}", 50_000).full_content
    assert len(full_text or "") == 1_000_000
    short = success("read", f"{'x' * 70_000} {secret} {'y' * 70_000}", 50_000).full_content
    assert secret not in (short or secret)
    assert "[redacted: API key]" in (short or "")
