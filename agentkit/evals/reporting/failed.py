"""What is there to say of a trial that did not pass? What was asked, answered and expected, and why (pure)."""

from __future__ import annotations

from agentkit.evals.case import expected_text
from agentkit.evals.trial import Trial
from agentkit.wording import call_text, cut, hidden


def facts_of(trial: Trial, most_chars: int) -> dict[str, str]:
    """What is known of it, by its heading: each text without secrets and cut; what is empty is left out."""
    facts = {"Prompt": trial.case.text, "Answer": trial.answer, "Expected": expected_text(trial.case)}
    if trial.case.is_conversation:
        facts["Conversation"] = trial.transcript
    facts["Tool calls"] = "\n".join(call_text(used.call) for used in (trial.result.tool_calls if trial.result else ()))
    facts["Why"] = "\n".join([*(f"{each.name} {each.value:.2f}: {each.reason}" for each in trial.scores), trial.error])
    return {head: cut(hidden(text.strip()), most_chars) for head, text in facts.items() if text.strip()}
