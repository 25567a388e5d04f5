"""Answers to score."""

import pytest

from agentkit import Agent, Tool
from agentkit.evals import Case
from agentkit.testing import ScriptedLLM


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def name(text: str = "") -> str:
    """Name."""
    return text


@pytest.fixture
def answering():
    """A function from what a model says to the result of a run."""

    def run(*lines, prompt="question", **options):
        return Agent("x", [Tool(add), Tool(name)], llm=ScriptedLLM(*lines), **options).run(prompt)

    return run


@pytest.fixture
def scoring(answering):
    """A function from a scorer, an answer and what a case expects to the score."""

    def score(scorer, answer, expected=None, prompt="question", **more):
        lines = answer if isinstance(answer, tuple) else (answer,)
        return scorer(Case(prompt, expected, **more), answering(*lines, prompt=prompt))

    return score
