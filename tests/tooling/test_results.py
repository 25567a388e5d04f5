"""Proves how what came of a tool call is told."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any, get_args

import pytest

from agentkit.decisions import Decision, Verdict
from agentkit.errors import BadArguments, Blocked, SandboxError, ToolTimeout
from agentkit.messages import Status
from agentkit.tooling.results import denial, failure, fault, objection, returned, with_handle
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
def test_a_dictionary_speaks_for_itself(value: Any, status: Status, error: str | None) -> None:
    """A dictionary with a status word or an error says how the call went; anything else went well."""
    result = returned("demo", value, 1_000)
    assert (result.status, result.error, result.value) == (status, error, value)
    assert result.ok is (error is None)


@pytest.mark.for_each("status", get_args(Status))
def test_every_status_word_is_understood(status: Status) -> None:
    """Each of the status words can be reported by a tool with an error, but for those that only a run can say."""
    told = returned("demo", {"status": status, "error": "broken"}, 1_000).status
    assert told == ("failed" if status in ("waiting", "interrupted") else status)


def test_output_that_was_cut_is_truncated() -> None:
    """Output beyond its bound has the status truncated, and the whole value is still there for the caller."""
    result = returned("demo", "x" * 500, 100)
    assert (result.status, len(result.content), len(result.value), result.ok) == ("truncated", 100, 500, True)


def test_a_failure_that_was_cut_stays_a_failure() -> None:
    """Cutting the output never hides that the call failed."""
    assert returned("demo", {"error": "e", "output": "x" * 500}, 200).status == "failed"


def test_a_failure_is_told_as_json() -> None:
    """A call that came to nothing is told as JSON with the error and the tool's name."""
    result = failure("demo", 'no "quotes"', "failed", DENIED)
    assert json.loads(result.content) == {"error": 'no "quotes"', "tool": "demo"}
    assert (result.status, result.error, result.decision, result.value) == ("failed", 'no "quotes"', DENIED, None)


def test_a_failure_is_bounded_and_can_be_encoded() -> None:
    """An error text of any length and with any characters is told within bounds."""
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
def test_an_exception_is_told_in_words(error: Exception, status: Status, text: str) -> None:
    """What a function raised is told as type and message, without a traceback; a timeout and a denial by status."""
    result = fault("demo", error)
    assert (result.status, result.error) == (status, text)


def test_an_exception_without_a_text_is_still_told() -> None:
    """An exception whose own text cannot be had is told by its type."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("mute")

    assert fault("demo", Mute()).error == "Mute: (Mute: its text representation failed with RuntimeError)"


def test_a_text_that_interrupts_is_not_caught() -> None:
    """Whoever interrupts the program while a text is made is obeyed."""

    class Interrupting(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fault("demo", Interrupting())


def test_a_denial_carries_reason_and_remedy() -> None:
    """A denied call is told why, and what would be allowed."""
    result = denial("demo", DENIED)
    assert (result.status, result.error, result.decision) == ("denied", "This deletes files. Use trash.", DENIED)
    assert objection(Decision(Verdict.DENY, "r", "Because.")) == "Because."


def test_a_name_that_no_tool_can_have_is_told_in_part():
    """Of a made-up tool name a model is told as much as a real name may have."""
    assert json.loads(failure("x" * 100_000, "no such tool", "failed").content)["tool"] == "x" * 64


def test_a_decision_shows_no_secrets() -> None:
    """The evidence of a decision quotes what a model wrote; where a result tells it, it is without secrets."""
    token = "ghp_" + "Q7" * 18
    decision = Decision(Verdict.ALLOW, "r", f"sends {token}", f"curl -H {token}", "no")
    for result in (returned("demo", "x", 100, decision), failure("demo", "x", "failed", decision)):
        assert result.decision is not None
        assert token not in repr(result)
        assert (result.decision.rule, result.decision.remedy) == ("r", "no")


def test_the_error_of_a_value_is_told_without_secrets_before_it_is_cut() -> None:
    """An error that is no text is told as text, without secrets."""
    result = returned("demo", {"error": ValueError("ghp_" + "Q7" * 18)}, 1_000)
    assert "Q7" not in str(result.error)


@pytest.mark.parametrize("value", ["x" * 500, {"output": "x" * 500}, list(range(500))])
def test_the_whole_of_a_cut_output_is_kept(value: Any) -> None:
    """Beside the head and tail that a model is told, a result keeps the whole text; what is told whole is not kept."""
    result = returned("demo", value, 200)
    assert result.whole == (value if isinstance(value, str) else json.dumps(value))
    assert returned("demo", value, 5_000).whole is None
    assert failure("demo", "no", "failed").whole is None


def test_the_whole_is_bounded_and_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an endless output a million characters are kept, its end among them, and no secret."""
    monkeypatch.setenv("DB_PASSWORD", "p4ssw0rd-xyz99")
    whole = returned("demo", "p4ssw0rd-xyz99 " * 500_000 + "the end", 1_000).whole
    assert whole is not None
    assert len(whole) == 1_000_000
    assert whole.endswith("the end")
    assert "xyz99" not in whole
    assert returned("demo", "x" * 3_000_000, 2_000_000).whole is None


def test_a_cut_result_tells_its_handle() -> None:
    """With a handle, a cut result says how to read the rest; one that was told whole stays as it is."""
    cut, whole = returned("demo", "x" * 5_000, 1_000), returned("demo", "short", 1_000)
    assert 'read_more(handle="call_1", start=' in with_handle(cut, "call_1").content
    assert with_handle(cut, "call_1").whole == cut.whole
    assert with_handle(whole, "call_1") is whole


class Whereabouts:
    """A value whose text is the name of the thread that asks for it."""

    def __str__(self) -> str:
        """The thread's name."""
        return threading.current_thread().name


@pytest.mark.parametrize(
    ("rest", "threads"), [("", 1), ("x" * 100_000, 0), (["x" * 1_000] * 100, 0), ({"a": [1] * 5_000}, 0)]
)
def test_a_long_result_is_told_in_a_thread(rest: Any, threads: int) -> None:
    """Where the caller awaits, a long result is told in a thread, so that the event loop can serve others."""

    async def look() -> list[Any]:
        return [Whereabouts(), rest]

    told = asyncio.run(Tool(look, max_chars=200_000).ainvoke()).content
    assert told.count(threading.current_thread().name) == threads


def test_a_long_text_is_kept_whole_without_its_secrets() -> None:
    """Of a text too long for a model, the whole is kept in at most 1,000,000 characters, without secrets."""
    secret = "sk-" + "a1b2" * 10
    whole = returned("read", f"{'x' * 700_000} {secret} {'y' * 700_000}", 50_000).whole
    assert len(whole or "") == 1_000_000
    short = returned("read", f"{'x' * 70_000} {secret} {'y' * 70_000}", 50_000).whole
    assert secret not in (short or secret)
    assert "[redacted: API key]" in (short or "")
