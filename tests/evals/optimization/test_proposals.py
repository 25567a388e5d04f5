"""Tests for proposers of better texts: models and functions."""

import pytest

from agentkit import LLM, Agent, Limits
from agentkit.errors import ConfigError, Unreachable
from agentkit.evals.optimization.candidates import Candidate, FailedCase
from agentkit.evals.optimization.search import (
    Proposal,
    Propose,
    Proposer,
    SearchStopped,
    prompt_of,
    proposal_in,
    stop_of,
)
from agentkit.testing import FakeServer, ScriptedLLM
from agentkit.usage import Usage

FAILURE = FailedCase("c1", "2+2?", "5", "4", ("exact: not equal",))
QUESTION = Propose(3, Candidate({"instruction": "Add {name}'s sums.", "tool:add": "Adds."}), "instruction", (FAILURE,))


def test_model_is_shown_the_text_and_the_failures():
    """The prompt of the proposer contains the part, its text, its placeholders and the failures as data."""
    question = prompt_of(QUESTION)
    assert question.startswith("The text is the agent's instruction; the new one may have 8,000 characters.\n")
    assert "keep each exactly: {name}\n" in question
    assert "<text>\nAdd {name}'s sums.\n</text>" in question
    assert "Prompt: 2+2?\nAnswer: 5\nExpected: 4\nScorer: exact: not equal" in question


def test_tool_is_named():
    """The prompt for a tool's description names the tool, and mentions placeholders only if there are some."""
    question = prompt_of(Propose(1, QUESTION.parent, "tool:add", (FAILURE,)))
    assert question.startswith(
        "The text is the description of the agent's tool add; the new one may have 1,000 characters."
    )
    assert "placeholders" not in question


@pytest.mark.parametrize(
    ("answer", "text", "reason"),
    [
        ("It  cannot add.\n<new_text>\nAdd well.\n</new_text>", "Add well.", "It cannot add."),
        ("<new_text>a</new_text> or rather\n<new_text>b</new_text>", "b", "<new_text>a</new_text> or rather"),
        ("Add well.", "", "The proposer wrote no text between <new_text> and </new_text>."),
        ("<new_text>\n\n</new_text>", "", "The proposer wrote an empty text."),
    ],
)
def test_proposal_is_between_two_marker_lines(answer, text, reason):
    """The last text between the two marker lines is the proposal, and the text before it is the reason."""
    assert proposal_in(answer) == Proposal(text, reason)


def test_model_returns_a_proposal():
    """A proposal from a model is returned with its usage."""
    llm = ScriptedLLM("So:\n<new_text>\nAdd well.\n</new_text>")
    assert Proposer(llm).propose(QUESTION, Limits()) == (Proposal("Add well.", "So:"), Usage(10, 5, requests=1))
    assert llm.requests[0].instruction.startswith("You improve one text that an AI agent works by.")


def test_unreachable_proposer_stops_the_search():
    """A proposer that cannot be reached stops the search."""
    with FakeServer() as server:
        llm = LLM(base_url=server.base_url, model="any", max_retries=0)
    output, usage = Proposer(llm).propose(QUESTION, Limits())
    assert isinstance(output, SearchStopped)
    assert output.reason
    assert usage.output_tokens == 0
    assert Proposer(ScriptedLLM(Unreachable("Nobody is there."))).propose(QUESTION, Limits())[0] == SearchStopped(
        "Nobody is there."
    )


def test_function_proposes():
    """A function receives part, text and failures and returns the new text at no known cost."""
    questions = []

    def write(part, text, failures):
        questions.append((part, text, failures))
        return "Add well."

    assert Proposer(write).propose(QUESTION, Limits()) == (Proposal("Add well."), Usage())
    assert questions == [("instruction", "Add {name}'s sums.", (FAILURE,))]


def test_function_may_have_nothing_to_propose():
    """A function that returns an empty text makes no proposal."""
    output, _ = Proposer(lambda *_: "").propose(QUESTION, Limits())
    assert output == Proposal("", "The proposer returned no text.")


@pytest.mark.parametrize("question", ["gpt", 5, lambda text: text, lambda: ""])
def test_invalid_proposer_is_rejected(question):
    """A proposer that is neither a model nor a suitable function raises a ConfigError."""
    with pytest.raises(ConfigError, match="takes an LLM, or a function"):
        Proposer(question)


def test_invalid_proposers_are_rejected():
    """A function that returns no text and the offline model are rejected as proposers."""
    with pytest.raises(ConfigError, match="must return the new text"):
        Proposer(lambda *_: None).propose(QUESTION, Limits())
    with pytest.raises(ConfigError, match="offline model cannot write"):
        Proposer(LLM("offline"))


def test_end_of_a_search_has_a_reason():
    """The reason why a search ended names the limit, an unknown price or another cause."""
    limits = Limits(cost=0.5, total_tokens=12_000)
    stopped = Agent("helper", llm=ScriptedLLM("yes"), limits=Limits(total_tokens=1)).run("Hello")
    assert stop_of(stopped, "", limits) == SearchStopped("the limit of 12,000 total tokens is used up")
    unpriced = Agent("helper", llm=ScriptedLLM("yes"), limits=Limits(cost=0.1)).run("Hello")
    assert stop_of(unpriced, "", limits) == SearchStopped("the limit of $0.5 is used up")
    assert stop_of(unpriced, str(unpriced.error), limits).reason.startswith("The price of the model is unknown")
    assert stop_of(None, "The scorer failed.", limits) == SearchStopped("The scorer failed.")
    assert stop_of(None, "", limits) == SearchStopped("it was cancelled")
