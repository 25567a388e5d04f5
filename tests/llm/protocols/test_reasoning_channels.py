"""Tests for reasoning that is closed but not opened, and the channels of the harmony format."""

import pytest

from agentkit.events import ReasoningDelta, TextDelta
from agentkit.llm.client import LLM
from agentkit.llm.protocols.parsing import ReasoningSplitter, split_unopened_reasoning
from agentkit.testing import FakeServer, raw

CALL = '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 1}<|call|>'
HARMONY = {
    "reasoning and answer": (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi <b>x</b>.<|return|>",
        ("Hm.", "Hi <b>x</b>."),
    ),
    "an answer alone": ("<|start|>assistant<|channel|>final<|message|>Hi", ("", "Hi")),
    "several": (
        "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>analysis<|message|>B<|end|>"
        "<|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>final"
        "<|message|>Done",
        ("A\n\nB", "I look.\n\nDone"),
    ),
    "a call": (f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant{CALL}", ("Hm.", CALL)),
    "two calls": (f"{CALL}<|start|>assistant{CALL}", ("", CALL * 2)),
    "an unclosed call": (CALL.removesuffix("<|call|>"), ("", CALL.removesuffix("<|call|>"))),
    "cut reasoning": ("<|channel|>analysis<|message|>Hm", ("Hm", "")),
    "an end that is cut": ("<|channel|>final<|message|>Hi<|re", ("", "Hi<|re")),
    "a header that is cut": ("<|channel|>final", ("", "final")),
    "a header that is damaged": (
        "<|channel|>analysis<|message|>Hm.<|end|> Hi",
        ("Hm.", " Hi"),
    ),
    "another format": ("<|hello|> x", ("", "<|hello|> x")),
}


@pytest.mark.for_each("size", [1, 3, 1_000])
@pytest.mark.for_each(("text", "parts"), HARMONY.values(), ids=HARMONY)
def test_channels_separate_reasoning_from_text(text, parts, size):
    """The analysis channel is reasoning, however the chunks are split; a call keeps its markup."""
    splitter = ReasoningSplitter()
    pieces = [splitter.split(text[at : at + size]) for at in range(0, len(text), size)]
    pieces.append(splitter.split("", is_last=True))
    assert ("".join(thought for thought, _ in pieces), "".join(text for _, text in pieces)) == parts


CLOSED = {
    "on its line": ("I think.\n</think>\n\nHello", ("I think.", "Hello")),
    "within the text": ("I think.</think>Hello", ("I think.", "Hello")),
    "without an answer": ("I think.</think>", ("I think.", "")),
    "in brackets": ("I think.[/THINK]Hello", ("I think.", "Hello")),
    "at the start": ("</think>\nHello", ("", "Hello")),
    "opened as well": ("<think>I think.</think>Hello", None),
    "mentioned": ("Use </think> to close it.", None),
    "in code": ("`</think>` closes it.", None),
    "in a code block": ("```\n</think>\n```", None),
    "HTML": ("<b>Hello</b>", None),
}


@pytest.mark.for_each(("text", "parts"), CLOSED.values(), ids=CLOSED)
def test_text_before_an_unopened_closing_tag_is_reasoning(text, parts):
    """Text before an unopened closing tag is reasoning, unless the tag is only mentioned."""
    assert split_unopened_reasoning(text) == parts


def streamed(*pieces):
    """Return a stream of these pieces."""
    chunks = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    return raw(*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}]})


def test_unopened_reasoning_in_answers():
    """Unopened reasoning is separated; after a model has closed it once, also in its streams."""
    pieces = ("I th", "ink.</thi", "nk>\n", "\nHel", "lo")
    with FakeServer(streamed(*pieces), streamed(*pieces), streamed("Hel", "lo"), "I think.</think>Hello") as server:
        llm = LLM(base_url=server.base_url, model="m")
        first, second, third = (list(llm.stream("Hi")) for _ in range(3))
        responses = [events[-1].response for events in (first, second)] + [llm.complete("Hi")]
    assert [(each.reasoning, each.text) for each in responses] == [("I think.", "Hello")] * 3
    assert ReasoningDelta("I think.") in first
    assert second[:-1] == [ReasoningDelta("I think."), TextDelta("Hel"), TextDelta("lo")]
    assert third[:-1] == [TextDelta("Hello")]


@pytest.mark.parametrize("model", ["qwq-32b", "deepseek-r1:8b", "Qwen/Qwen3-4B-Thinking-2507", "kimi-k2-thinking"])
def test_known_models_never_show_unopened_reasoning(model):
    """The first stream of such a model buffers its reasoning; text after separate reasoning is streamed."""
    separate = raw(
        {"choices": [{"delta": {"reasoning_content": "Hm."}}]},
        *({"choices": [{"delta": {"content": piece}}]} for piece in ("Hel", "lo")),
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    )
    with FakeServer(streamed("I think.</thi", "nk>Hel", "lo"), separate, streamed("Hel", "lo")) as server:
        llm = LLM(base_url=server.base_url, model=model)
        closed, apart, plain = (list(llm.stream("Hi"))[:-1] for _ in range(3))
    assert closed == [ReasoningDelta("I think."), TextDelta("Hel"), TextDelta("lo")]
    assert apart == [ReasoningDelta("Hm."), TextDelta("Hel"), TextDelta("lo")]
    assert plain == [TextDelta("Hello")]
