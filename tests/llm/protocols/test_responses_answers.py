"""Tests for the parsing of Responses answers, as other servers send them."""

import pytest

from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.protocols.responses import ITEMS, ResponsesReader, decode_answer

THOUGHT = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm"}]}
TEXT = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}
ONE, TWO = (
    {"type": "function_call", "id": name, "call_id": name, "name": name, "arguments": f'{{"{name}": 1}}'}
    for name in ("f", "g")
)
END = {"type": "response.completed", "response": {"output": []}}


def event(kind, place=0, **fields):
    """Return an event of the stream at an index of the output items."""
    return {"type": f"response.{kind}", "output_index": place, **fields}


def begin(item, place=0):
    """Return the event that starts an empty item."""
    return event("output_item.added", place, item={**item, "arguments": "", "content": [], "summary": []})


def end(item, place=0):
    """Return the event that ends an item."""
    return event("output_item.done", place, item=item)


def read(*events):
    """Return the emitted deltas of text, reasoning and calls, and the response."""
    reader = ResponsesReader()
    messages = [each for chunk in events for each in reader.feed(chunk)]
    return messages, reader.finish(closed=False)


def content_of(response):
    """Return the text, the reasoning and the calls of a response."""
    calls = [(call.name, call.arguments) for call in response.tool_calls]
    return response.text, response.message.reasoning, calls


CALLS = [("f", ONE["arguments"]), ("g", TWO["arguments"])]
ALIKE = [each for item in (THOUGHT, TEXT, ONE, TWO) for each in (begin(item), end(item))]

STREAMS = {
    "all at one index": ([*ALIKE, END], ("Hi", "Hm", CALLS)),
    "all without an index": ([{**each, "output_index": None} for each in ALIKE] + [END], ("Hi", "Hm", CALLS)),
    "texts that only end": (
        [
            event("reasoning_text.done", 0, content_index=0, text="Hm"),
            event("output_text.done", 1, content_index=0, text="Hi"),
            event("content_part.done", 1, content_index=0, part=TEXT["content"][0]),
            END,
        ],
        ("Hi", "Hm", []),
    ),
    "texts that end under other ids": (
        [
            *(
                {"type": "response.output_text.delta", "item_id": content_of, "delta": content_of}
                for content_of in ("H", "i")
            ),
            {"type": "response.output_text.done", "item_id": "x", "text": "Hi"},
            {"type": "response.content_part.done", "item_id": "y", "part": TEXT["content"][0]},
            END,
        ],
        ("Hi", "", []),
    ),
    "a part that only ends": ([event("content_part.done", part=TEXT["content"][0]), END], ("Hi", "", [])),
    "a part of another kind": ([event("content_part.done", part={"type": "x", "text": "?"}), END], ("", "", [])),
    "reasoning deltas without an item": ([event("reasoning_text.delta", delta="Hm"), END], ("", "Hm", [])),
    "a call that only begins": ([event("output_item.added", item=ONE), END], ("", "", CALLS[:1])),
    "calls without a beginning": (
        [
            event("function_call_arguments.delta", 0, delta=ONE["arguments"]),
            event("function_call_arguments.delta", 1, delta=TWO["arguments"]),
            *(end(ONE, 0), end(TWO, 1), END),
        ],
        ("", "", CALLS),
    ),
    "calls that only end": ([end(ONE, 0), end(TWO, 1), END], ("", "", CALLS)),
    "arguments of unknown ids": (
        [
            {**begin(ONE), "output_index": None},
            {"type": "response.function_call_arguments.delta", "item_id": "x", "delta": ONE["arguments"]},
            END,
        ],
        ("", "", CALLS[:1]),
    ),
    "other ids at the end": (
        [
            {**each, "output_index": None, "item": {**each["item"], "id": each["type"]}}
            for item in (THOUGHT, ONE, TWO)
            for each in (begin(item), end(item))
        ]
        + [END],
        ("", "Hm", CALLS),
    ),
    "reasoning in the text": (
        [*(event("output_text.delta", delta=content_of) for content_of in ("<think>H", "m</th", "ink>\n", "Hi")), END],
        ("Hi", "Hm", []),
    ),
    "complete text without a name": ([{"output": [THOUGHT, TEXT, ONE]}], ("Hi", "Hm", CALLS[:1])),
}


@pytest.mark.for_each(("events", "expected"), STREAMS.values(), ids=STREAMS)
def test_streams_of_other_servers_are_parsed(events, expected):
    """Whatever indexes a server changes or omits, the response contains all content once."""
    output, response = read(*events)
    assert content_of(response) == expected
    assert "".join(each.text for each in output if isinstance(each, TextDelta)) in {expected[0], ""}
    assert "".join(each.text for each in output if isinstance(each, ReasoningDelta)) in {expected[1], ""}
    names = [each.name for each in output if isinstance(each, ToolCallDelta) and each.name]
    assert names in ([name for name, _ in expected[2]], [])


@pytest.mark.parametrize(
    ("kind", "status", "finish"),
    [("completed", "in_progress", "stop"), ("incomplete", None, "length"), ("done", "queued", "stop")],
)
def test_last_event_determines_the_finish_reason(kind, status, finish):
    """The type of the last event determines the finish reason, even if the response has an old status."""
    assert (
        read({"type": f"response.{kind}", "response": {"output": [TEXT], "status": status}})[1].finish_reason == finish
    )


def test_complete_answer_is_parsed():
    """An answer that is not streamed has the same parts."""
    assert content_of(decode_answer({"output": [THOUGHT, TEXT, ONE]})) == ("Hi", "Hm", CALLS[:1])


def test_messages_of_one_answer_are_paragraphs():
    """Several messages of one answer become paragraphs, whole or streamed."""
    later = {**TEXT, "id": "n", "phase": "final_answer"}
    search = {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "?"}}
    output, response = read(
        *(begin(TEXT), event("output_text.delta", delta="Hi"), end(TEXT), begin(search, 1), end(search, 1)),
        *(begin(later, 2), event("output_text.delta", 2, delta="H"), event("output_text.delta", 2, delta="i")),
        *(event("output_text.done", 2, text="Hi"), end(later, 2), END),
    )
    assert [event.text for event in output] == ["Hi", "\n\nH", "i"]
    assert response.text == decode_answer({"output": [TEXT, search, later]}).text == "Hi\n\nHi"
    assert response.message.extra == {ITEMS: (TEXT, search, later)}
