"""Tests for reasoning in tags at the beginning of an answer's text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.llm.protocols.parsing import ReasoningSplitter


def parted(*pieces):
    """Return the reasoning and the text in these pieces."""
    thoughts = ReasoningSplitter()
    parts = [*map(thoughts.split, pieces), thoughts.split("", is_last=True)]
    return "".join(thought for thought, _ in parts), "".join(text for _, text in parts)


CASES = {
    "<think>Hm</think>Hi": ("Hm", "Hi"),
    "\n<think>\nH m\n</think>\n\nHi \n": ("H m", "Hi \n"),
    "<thinking>a </think> b</thinking> Hi": ("a </think> b", "Hi"),
    "<thought>Hm</thought>Hi": ("Hm", "Hi"),
    "<reasoning>Hm</reasoning>\nHi": ("Hm", "Hi"),
    "<seed:think>Hm</seed:think>Hi": ("Hm", "Hi"),
    "[THINK]a [/ b[/THINK]Hi": ("a [/ b", "Hi"),
    "[THAT]Hi": ("", "[THAT]Hi"),
    "<think></think>Hi": ("", "Hi"),
    "<think>Hm": ("Hm", ""),
    "<think>Hm </th": ("Hm </th", ""),
    "<think>a < b</think>": ("a < b", ""),
    "<think>": ("", ""),
    "Hi <think>Hm</think>": ("", "Hi <think>Hm</think>"),
    "<thinks>Hi": ("", "<thinks>Hi"),
    "</think>Hi": ("", "</think>Hi"),
    " <th": ("", " <th"),
    "  Hi": ("", "  Hi"),
    " ": ("", " "),
    "": ("", ""),
}


@pytest.mark.for_each("text", CASES)
def test_tagged_text_at_the_beginning_is_reasoning(text):
    """Tagged text at the beginning is reasoning, and all other text is the answer."""
    assert parted(text) == CASES[text]


@given(st.sampled_from(list(CASES)), st.data())
def test_splitting_does_not_change_reasoning_and_text(text, data):
    """Thoughts and text are the same however the text is cut into pieces."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, None], strict=True)]
    assert parted(*pieces) == CASES[text]


@pytest.mark.parametrize("beginning", ["", "<think>", "<think>a"])
def test_blanks_are_not_buffered_endlessly(beginning):
    """A server that sends only blanks is read with bounded work: each piece searches the last thousand."""
    thoughts = ReasoningSplitter()
    parts = [thoughts.split(beginning), *(thoughts.split(" ") for _ in range(50_000))]
    assert sum(len(thought) + len(text) for thought, text in parts) > 48_000
