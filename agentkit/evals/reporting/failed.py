"""What is there to say of a trial that did not pass? What was asked, answered and expected, and why (pure)."""

from __future__ import annotations

import json

from agentkit.evals.case import plain
from agentkit.evals.trial import Trial
from agentkit.wording import call_text, hidden


def facts_of(trial: Trial, most_chars: int) -> dict[str, str]:
    """What is known of it, by its heading: each text without secrets and cut; what is empty is left out."""
    facts = {"Prompt": trial.case.text, "Answer": trial.answer, "Expected": _expected(trial)}
    if trial.case.is_conversation:
        facts["Conversation"] = trial.transcript
    facts["Tool calls"] = "\n".join(call_text(used.call) for used in (trial.result.tool_calls if trial.result else ()))
    facts["Why"] = "\n".join([*(f"{each.name} {each.value:.2f}: {each.reason}" for each in trial.scores), trial.error])
    return {head: _cut(hidden(text.strip()), most_chars) for head, text in facts.items() if text.strip()}


def _expected(trial: Trial) -> str:
    expected, calls = trial.case.expected, trial.case.expected_calls
    told = [] if expected is None else [expected if isinstance(expected, str) else json.dumps(plain(expected))]
    if calls is not None:
        told.append("calls: " + (", ".join(json.dumps(call.to_data(), ensure_ascii=False) for call in calls) or "none"))
    return "\n".join(told)


def _cut(text: str, most_chars: int) -> str:
    return text if len(text) <= most_chars else f"{text[:most_chars]}…"
