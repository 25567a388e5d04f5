"""Tests for the parsing of Messages responses, as real servers send them."""

import json

import pytest

from agentkit.errors import BadResponse, ModelError
from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.protocols.anthropic import BLOCKS, AnthropicMessages
from agentkit.usage import Usage

THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "s"}
CALL = {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}


def text(text, **fields):
    """Return a text block."""
    return {"type": "text", "text": text, **fields}


def begin(index, block):
    """Return the event that starts a block."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index, kind, **fields):
    """Return the event with a delta of a block."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def read(*events, closed=False):
    """Return the events and the response of a stream."""
    reader = AnthropicMessages().reader()
    messages = [event for chunk in events for event in reader.feed(chunk)]
    return messages, reader.finish(closed=closed)


# the stop reason; the finish reason
REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "length": "length",
    "MAX_TOKENS": "length",
    "pause_turn": "length",
    "unknown reason": "stop",
    None: "stop",
}


@pytest.mark.for_each(("reason", "expected"), REASONS.items())
def test_finish_reason_of_an_answer(reason, expected):
    """Stop reasons are mapped to the finish reason, which is `tool_calls` for an answer with calls."""
    assert AnthropicMessages().decode({"content": [text("Hi")], "stop_reason": reason}).finish_reason == expected
    called = AnthropicMessages().decode({"content": [CALL], "stop_reason": reason}).finish_reason
    assert called == ("length" if expected == "length" else "tool_calls")


# the usage of a server; the parsed usage
FIGURES = {
    "plain": ({"input_tokens": 7, "output_tokens": 3}, Usage(7, 3, requests=1)),
    "of the cache": (
        {
            "input_tokens": 7,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 20,
            "output_tokens": 3,
            "output_tokens_details": {"thinking_tokens": 2},
        },
        Usage(127, 3, 100, 2, requests=1, written_tokens=20),
    ),
    "null": ({"input_tokens": 7, "cache_read_input_tokens": None, "output_tokens": 3}, Usage(7, 3, requests=1)),
    "as text": ({"input_tokens": "7", "output_tokens": "3"}, Usage(7, 3, requests=1)),
    "none": ({}, Usage(requests=1, unreported=1)),
    "several iterations": (
        {
            "input_tokens": 20,
            "output_tokens": 3,
            "iterations": [
                {"type": "compaction", "input_tokens": 100, "cache_read_input_tokens": 50, "output_tokens": 9},
                {"type": "message", "input_tokens": 20, "cache_read_input_tokens": None, "output_tokens": 3},
                {"type": "of a later year"},
            ],
        },
        Usage(170, 12, 50, requests=1),
    ),
    "no iterations": ({"input_tokens": 7, "output_tokens": 3, "iterations": [None]}, Usage(7, 3, requests=1)),
}


@pytest.mark.parametrize(("figures", "usage"), FIGURES.values(), ids=FIGURES)
def test_cache_tokens_are_part_of_the_input(figures, usage):
    """The input tokens include cache reads and writes, which are also counted separately."""
    assert AnthropicMessages().decode({"content": [], "usage": figures}).usage == usage
    start = {"type": "message_start", "message": {"usage": figures}}
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": None}}
    assert read(start, stop)[1].usage == usage


def test_later_usage_replaces_earlier_usage():
    """Usage in a stream is cumulative: later values replace earlier ones, and missing ones are preserved."""
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}
    assert read(start, END)[1].usage == Usage(7, 3, requests=1)
    zero = {**END, "usage": {"input_tokens": 0, "output_tokens": 3}}
    assert read(start, zero)[1].usage == Usage(7, 3, requests=1)


def test_second_message_start_raises_bad_response():
    """A second message_start raises BadResponse, unless it repeats the same id."""
    start = {"type": "message_start", "message": {"id": "a"}}
    assert read(start, begin(0, text("Hi")), start, END)[1].text == "Hi"
    with pytest.raises(BadResponse, match="started a second answer"):
        read(start, begin(0, text("Hi")), {"type": "message_start", "message": {"id": "b"}})


def test_null_stop_reason_is_ignored():
    """A later null stop_reason does not overwrite an earlier one."""
    cut = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}
    assert read(begin(0, text("Hi")), cut, {**cut, "delta": {"stop_reason": None}})[1].finish_reason == "length"


def test_blocks_of_every_type_are_assembled():
    """Blocks of every type are assembled from their pieces and stored unchanged."""
    found = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []}
    output, response = read(
        {"type": "message_start", "message": {"id": "m", "model": "claude", "usage": {"input_tokens": 7}}},
        {"type": "ping"},
        begin(0, {"type": "thinking", "thinking": "", "signature": ""}),
        piece(0, "thinking_delta", thinking="H"),
        piece(0, "thinking_delta", thinking="m"),
        piece(0, "signature_delta", signature="s"),
        {"type": "content_block_stop", "index": 0},
        begin(1, {"type": "redacted_thinking", "data": "x"}),
        begin(2, text("")),
        piece(2, "text_delta", text="Hel"),
        piece(2, "a_delta_that_nobody_knows", text="?"),
        piece(2, "text_delta", text="lo"),
        piece(2, "citations_delta", citation={"url": "u"}),
        begin(3, {**CALL, "input": {}}),
        piece(3, "input_json_delta", partial_json=""),
        piece(3, "input_json_delta", partial_json='{"x"'),
        piece(3, "input_json_delta", partial_json=": 1}"),
        begin(4, found),
        {"type": "an_event_that_nobody_knows", "index": 9},
        END,
        {"type": "message_stop"},
    )
    assert [event for event in output if not isinstance(event, ToolCallDelta)] == [
        *(ReasoningDelta("H"), ReasoningDelta("m"), TextDelta("Hel"), TextDelta("lo")),
    ]
    calls = [event for event in output if isinstance(event, ToolCallDelta)]
    assert calls == [ToolCallDelta(0, "f", ""), ToolCallDelta(0, "", '{"x"'), ToolCallDelta(0, "", ": 1}")]
    blocks = (
        THOUGHT,
        {"type": "redacted_thinking", "data": "x"},
        text("Hello", citations=[{"url": "u"}]),
        CALL,
        found,
    )
    assert response.message.extra == {BLOCKS: blocks}
    assert (response.text, response.message.reasoning, response.model) == ("Hello", "Hm", "claude")
    assert [(each.id, each.name, json.loads(each.arguments)) for each in response.tool_calls] == [("a", "f", {"x": 1})]
    assert AnthropicMessages().decode(response.raw) == response


# the events of a stream; its text, and the arguments of its calls
STREAMS = {
    "whole blocks": ([begin(0, text("Hi")), begin(1, CALL), END], "Hi", ['{"x": 1}']),
    "one index for all": (
        [begin(0, text("")), piece(0, "text_delta", text="Hi"), begin(0, CALL), END],
        "Hi",
        ['{"x": 1}'],
    ),
    "no index": ([begin(None, text("")), piece(None, "text_delta", text="Hi"), END], "Hi", []),
    "cut arguments": (
        [begin(0, {**CALL, "input": {}}), piece(0, "input_json_delta", partial_json='{"x": '), END],
        "",
        ['{"x": '],
    ),
    "arguments of no call": (
        [begin(0, {"type": "server_tool_use", "input": {}}), piece(0, "input_json_delta", partial_json="{}"), END],
        "",
        [],
    ),
    "reasoning in the text": (
        [
            begin(0, text("<th")),
            piece(0, "text_delta", text="ink>Hm</think>\n\nH"),
            piece(0, "text_delta", text="i"),
            END,
        ],
        "Hi",
        [],
    ),
    "blocks in another order": (
        [begin(1, CALL), begin(2, text("i")), begin(0, text("H")), END],
        "H\n\ni",
        ['{"x": 1}'],
    ),
    "no start of a block": (
        [piece(0, "thinking_delta", thinking="Hm"), piece(1, "text_delta", text="Hi"), END],
        "Hi",
        [],
    ),
    "no index in pieces": (
        [
            *(begin(0, THOUGHT), piece(None, "thinking_delta", thinking="?"), begin(1, text(""))),
            *(piece(None, "text_delta", text="Hi"), begin(2, {**CALL, "input": {}})),
            *(piece(None, "input_json_delta", partial_json='{"x": 1}'), END),
        ],
        "Hi",
        ['{"x": 1}'],
    ),
    "index 0 in all pieces": (
        [begin(0, THOUGHT), begin(1, text("")), piece(0, "text_delta", text="Hi"), END],
        "Hi",
        [],
    ),
    "pieces without a type": (
        [begin(0, text("")), piece(0, None, text="Hi"), begin(1, CALL), piece(1, "", partial_json='{"x": 2}'), END],
        "Hi",
        ['{"x": 2}'],
    ),
    "arguments as an object": (
        [begin(0, {**CALL, "input": {}}), piece(0, "input_json_delta", partial_json={"x": 2}), END],
        "",
        ['{"x": 2}'],
    ),
    "an empty object first": (
        [
            begin(0, {**CALL, "input": {}}),
            piece(0, "input_json_delta", partial_json="{}"),
            *(piece(0, "input_json_delta", partial_json='{"x": 2}'), END),
        ],
        "",
        ['{"x": 2}'],
    ),
    "all of it in the beginning": (
        [{"type": "message_start", "message": {"content": [text("Hi"), CALL]}}, END],
        "Hi",
        ['{"x": 1}'],
    ),
    "all of it as a message": ([{"type": "message", "content": [text("Hi"), CALL]}], "Hi", ['{"x": 1}']),
    "an index of any kind": ([begin([1], text("")), piece([1], "text_delta", text="Hi"), END], "Hi", []),
    "no start": ([begin(0, text("Hi")), {"type": "message_stop"}], "Hi", []),
    "nothing": ([{"type": "message_start", "message": {}}, END], "", []),
}


@pytest.mark.for_each(("events", "text", "arguments"), STREAMS.values(), ids=STREAMS)
def test_streams_of_other_servers_are_parsed(events, text, arguments):
    """Streams of other servers with the same protocol are parsed."""
    _, response = read(*events)
    assert (response.text, [each.arguments for each in response.tool_calls]) == (text, arguments)


def test_text_at_the_start_of_a_block_is_emitted():
    """Text in a content_block_start event is emitted as a delta."""
    assert read(begin(0, {**THOUGHT}), begin(1, text("Hi")), END)[0] == [ReasoningDelta("Hm"), TextDelta("Hi")]


def test_arguments_at_the_start_of_a_block_are_emitted_once():
    """Call arguments in content_block_start are emitted once, when the block stops without deltas."""
    stop = {"type": "content_block_stop", "index": 0}
    output, _ = read(begin(0, CALL), stop, END)
    assert output == [ToolCallDelta(0, "f", ""), ToolCallDelta(0, "", '{"x": 1}')]
    output, _ = read(begin(0, CALL), piece(0, "input_json_delta", partial_json='{"x": 2}'), stop, END)
    assert output == [ToolCallDelta(0, "f", ""), ToolCallDelta(0, "", '{"x": 2}')]
    assert read(begin(0, text("Hi")), stop, {**stop, "index": 7}, END)[0] == [TextDelta("Hi")]


def test_separated_text_blocks_are_emitted_as_paragraphs():
    """Text blocks separated by other blocks are emitted as paragraphs, and adjacent ones are joined."""
    search = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []}
    output, response = read(
        *(begin(0, text("")), piece(0, "text_delta", text="I look."), begin(1, search), begin(2, found)),
        *(begin(3, text("")), piece(3, "text_delta", text="# Pa"), piece(3, "text_delta", text="ris")),
        *(begin(4, text("!")), piece(5, "thinking_delta", thinking="Hm"), begin(6, text("")), END),
        *(piece(6, "text_delta", text="So."), {"type": "message_stop"}),
    )
    assert response.text == "I look.\n\n# Paris!\n\nSo."
    assert "".join(event.text for event in output if isinstance(event, TextDelta)) == response.text


def test_unknown_delta_types_are_stored():
    """A block with unknown delta types is sent back with the content of its deltas."""
    _, response = read(
        begin(0, {"type": "compaction", "content": None}),
        piece(0, "compaction_delta", content="They said Hi.", encrypted_content=None),
        piece(9, "compaction_delta", content="of no block"),
        *(begin(1, text("Hello")), END),
    )
    assert response.message.extra == {BLOCKS: ({"type": "compaction", "content": "They said Hi."}, text("Hello"))}


def test_stream_with_an_end_marker_is_complete():
    """A stream with an end marker needs no stop reason, but must contain an answer."""
    assert read(begin(0, text("Hi")), closed=True)[1].text == "Hi"
    with pytest.raises(BadResponse, match="cut short"):
        read(closed=True)
    with pytest.raises(BadResponse, match="without an answer"):
        read({"type": "message_stop"})


def test_completeness_of_an_answer():
    """A stop reason marks an answer as answered, and the last event as complete."""
    reader = AnthropicMessages().reader()
    assert (reader.is_answered, reader.is_whole) == (False, False)
    tuple(reader.feed(END))
    assert (reader.is_answered, reader.is_whole) == (True, False)
    tuple(reader.feed({"type": "message_stop"}))
    assert (reader.is_answered, reader.is_whole) == (True, True)


@pytest.mark.parametrize(
    "body",
    [
        {"type": "error", "error": {"type": "api_error", "message": "Oh no"}},
        {"type": "error", "error": "Oh no"},
        {"error": {"message": "Oh no"}},
        {"detail": "Oh no"},
    ],
)
def test_error_inside_a_success_is_raised(body):
    """An error inside a successful response is raised, however it is wrapped."""
    with pytest.raises(ModelError, match="Oh no"):
        AnthropicMessages().decode(body)


@pytest.mark.parametrize("block", ["Hi", {"text": "Hi"}])
def test_text_block_may_have_no_type(block):
    """A text block may be a plain string or have no type."""
    answer = AnthropicMessages().decode({"content": [block, None], "detail": None, "message": None})
    assert (answer.text, answer.message.extra) == ("Hi", {})


def test_content_may_be_a_string():
    """Content that is a string is parsed as one text block."""
    assert AnthropicMessages().decode({"content": "Hi"}).text == "Hi"


def test_refusal_is_reported_with_its_explanation():
    """A refusal is reported with its explanation, or else with its category."""
    details = [{"explanation": "It harms."}, {"category": "bio"}, None]
    messages = []
    for each in details:
        with pytest.raises(ModelError) as caught:
            AnthropicMessages().decode({"content": [], "stop_reason": "refusal", "stop_details": each})
        messages.append(str(caught.value))
    assert [text.partition("answer: ")[2] for text in messages] == ["It harms.", "for bio", "no reason was given"]
