"""What may the model read of a tool's result? Each check in turn, before anybody is told of the result.

What a check takes out is nowhere: neither in the value nor in the whole text behind a cut one. What the run must know
stays, whatever a check gives: that the call was made and failed, what it cost, its judgment, and what it may hold.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from pathlib import Path
from traceback import extract_tb
from types import TracebackType

from agentkit.agents.answers import REFUSALS, Check
from agentkit.agents.running.questions import CallFunction
from agentkit.decisions import Label
from agentkit.errors import ToolTimeout
from agentkit.messages import ToolResult
from agentkit.redaction import redact
from agentkit.tooling import running
from agentkit.tooling.functions.signature import is_asynchronous
from agentkit.tooling.result import failure, returned

_WITHHELD = "The call was made, but its result is withheld: {reason}"


class ResultChecks:
    """The checks of one call's result; `result` is what they have left of it. `prepare` says what is known of it.

    They are called where the tool was, so that calls which run at the same time are checked at the same time.
    """

    def __init__(self, checks: tuple[Check, ...], max_chars: int, prepare: Callable[[ToolResult], ToolResult]) -> None:
        self._checks, self._max_chars, self._prepare = checks, max_chars, prepare
        self.result: ToolResult | None = None

    def questions(self, result: ToolResult, ends: float = math.inf) -> Generator[CallFunction, None, ToolResult]:
        """Have each check called until one withholds the result; a call that waits or hands over has given nothing."""
        result = self._prepare(result)
        for check in () if result.status == "waiting" or result.lead else self._checks:
            seen = _uncut(result)
            question = CallFunction(check.function, (seen,), ends - time.monotonic())
            yield question
            reason = _objection(check, question.answer)
            if reason:
                result = _withheld(result, reason)
                break
            result = _amended(result, seen, question.answer, self._max_chars)
        self.result = result
        return result

    def run(self, result: ToolResult, ends: float) -> ToolResult:
        """The result as the checks leave it, blocking; `ends` is when the run's time is up."""
        for asked in self.questions(result, ends):
            with asked.asking():
                work = partial(asked.function, *asked.given)
                asked.answer = running.call(work, _left(asked), is_async=_is_async(asked))
        return self.result or result

    async def arun(self, result: ToolResult, ends: float) -> ToolResult:
        """Like `run`, awaiting; a check that is not async has a thread of its own."""
        for asked in self.questions(result, ends):
            with asked.asking():
                work = partial(asked.function, *asked.given)
                asked.answer = await running.acall(work, _left(asked), is_async=_is_async(asked))
        return self.result or result


def _uncut(result: ToolResult) -> ToolResult:
    """The result with all that can be read of it: piece by piece, a model could read past any check of the pieces."""
    return result if result.whole is None else replace(result, content=result.whole)


def _left(asked: CallFunction) -> float | None:
    return None if math.isinf(asked.seconds_left) else max(asked.seconds_left, 0.0)


def _is_async(asked: CallFunction) -> bool:
    return is_asynchronous(asked.function)


def _objection(check: Check, answer: object) -> str:
    """Why the result is withheld, if it is. Of a fault its place is told, as its words may quote the result."""
    match answer:
        case ToolTimeout():
            return f"The check {check.name} was not done in time."
        case BaseException() as error if isinstance(error, REFUSALS):
            return check.refusal(error)
        case BaseException() as fault:
            return f"The check {check.name} failed ({type(fault).__name__}{_place(fault.__traceback__)})."
        case None | str() | ToolResult():
            return ""
    kind = type(answer).__name__
    return f"The check {check.name} gave {kind}; it returns None to pass, a text or another ToolResult."


def _place(traceback: TracebackType | None) -> str:
    frames = extract_tb(traceback)
    return f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


def _withheld(result: ToolResult, reason: str) -> ToolResult:
    """What is told in the place of the result."""
    status = "blocked" if result.ok else result.status
    told = failure(result.tool, _WITHHELD.format(reason=reason), status, result.decision)
    return _known(told, result)


def _amended(result: ToolResult, seen: ToolResult, given: object, max_chars: int) -> ToolResult:
    """The result with what a check has put in place of what it has seen.

    What the check gave anew stays; the rest follows its words.
    """
    if isinstance(given, str):
        given = replace(seen, content=given, images=(), files=())
    if not isinstance(given, ToolResult) or given is seen:
        return result
    if given.content == seen.content:
        said = result
    elif result.ok:
        said = _said(result, given.content, max_chars)
    else:
        said = failure(result.tool, given.content, result.status, result.decision)
    error = given.error if given.error != result.error else said.error
    return _known(
        replace(
            said,
            status="failed" if error and result.ok else said.status,
            value=given.value if given.value is not result.value else said.value,
            whole=_clean(given.whole if given.whole != result.whole else said.whole),
            error=_clean(error or said.error),
            images=given.images,
            files=given.files,
        ),
        result,
        given.labels,
    )


def _said(result: ToolResult, content: str, max_chars: int) -> ToolResult:
    """Other words in the place of those of a call that went well, within its tool's bounds."""
    made = returned(result.tool, content, max_chars, result.decision)
    is_other = "truncated" in (made.status, result.status)
    return made if is_other else replace(made, status=result.status)


def _known(told: ToolResult, result: ToolResult, labels: frozenset[Label] = frozenset()) -> ToolResult:
    """What is told, with what is known of the call: no check can make that unsaid, though it may add labels."""
    held = result.labels | labels
    return replace(told, decision=result.decision, seconds=result.seconds, labels=held, usage=result.usage)


def _clean(text: str | None) -> str | None:
    return redact(text) if text else text
