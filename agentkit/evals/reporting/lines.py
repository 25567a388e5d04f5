"""How is one thing of a report said? Cut, without secrets, and without what could trick a terminal (pure)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from agentkit.evals.case import expected_text
from agentkit.evals.trial import Trial
from agentkit.wording import call_text, cut, hidden, one_line

MOST_NAME_CHARS = 28
_MOST_LISTED = 10


def short(name: str) -> str:
    """A name that may be long."""
    return one_line(name, MOST_NAME_CHARS)


def why(trial: Trial) -> str:
    """Why a trial did not pass."""
    reasons = [f"{score.name}: {score.reason or f'{score.value:.2f}'}" for score in trial.scores if not score.passed]
    return trial.error or "; ".join(reasons)


def facts_of(trial: Trial, most_chars: int) -> dict[str, str]:
    """What is known of it, by its heading: each text without secrets and cut; what is empty is left out."""
    facts = {"Prompt": trial.case.text, "Answer": trial.answer, "Expected": expected_text(trial.case)}
    if trial.case.is_conversation:
        facts["Conversation"] = trial.transcript
    facts["Tool calls"] = "\n".join(call_text(used.call) for used in (trial.result.tool_calls if trial.result else ()))
    facts["Why"] = "\n".join([*(f"{each.name} {each.value:.2f}: {each.reason}" for each in trial.scores), trial.error])
    return {head: cut(hidden(text.strip()), most_chars) for head, text in facts.items() if text.strip()}


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes: two for a wide letter, none for a mark upon another."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def seconds_text(seconds: float) -> str:
    """`0.42 s`, `12 s`."""
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def listed(lines: Iterable[str]) -> list[str]:
    """The first ten, indented, and how many more there are."""
    every = list(lines)
    left = len(every) - _MOST_LISTED
    return [f"  {line}" for line in every[:_MOST_LISTED]] + ([f"  … and {left} more"] if left > 0 else [])
