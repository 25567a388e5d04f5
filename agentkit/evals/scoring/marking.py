"""What do all scorers of a case say of an answer?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from agentkit.agents.result import RunResult
from agentkit.evals.case import Case
from agentkit.evals.score import Score
from agentkit.evals.scoring.scorer import Scorer
from agentkit.tooling.rendering import text_of


def marked(scorers: Iterable[Scorer], case: Case, result: RunResult[Any]) -> tuple[tuple[Score, ...], str]:
    """The scores, as far as they came, and why no more came; whatever a scorer raises is told, not raised."""
    scores: list[Score] = []
    for scorer in scorers:
        try:
            scores.append(scorer(case, result))
        except Exception as error:
            return tuple(scores), f"The scorer {scorer.name!r} failed ({type(error).__name__}): {text_of(error)}"
    return tuple(scores), ""


def marked_prompts(
    scorers_of: Callable[[Case], Iterable[Scorer]], prompts: Iterable[Case], results: Iterable[RunResult[Any]]
) -> tuple[tuple[Score, ...], str]:
    """The scores of the answer to each prompt of a conversation; each reason says which prompt it was."""
    scores: list[Score] = []
    for number, (prompt, result) in enumerate(zip(prompts, results, strict=False), 1):
        found, fault = marked(scorers_of(prompt), prompt, result)
        scores += [replace(score, reason=f"prompt {number}: {score.reason or 'as expected'}") for score in found]
        if fault:
            return tuple(scores), f"Prompt {number}: {fault}"
    return tuple(scores), ""
