"""Tests for calls that models write as text, in any number of deltas."""

import itertools
import json
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentkit.events import ReasoningDelta, TextDelta, ToolCallDelta
from agentkit.llm.prompted_tools.parser import AnswerReader, attempted_calls
from agentkit.llm.prompted_tools.text_format import escape_markup
from agentkit.messages import ToolSpec

TEXT = {"type": "string"}


def tool(name, properties, required=()):
    """Return a tool with these parameters."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec(name, f"What {name} does.", schema)


TOOLS = (
    tool("calculator", {"expression": TEXT}, ["expression"]),
    tool("write_file", {"path": TEXT, "content": TEXT}, ["path", "content"]),
    tool("wikipedia", {"query": TEXT, "lang": TEXT}, ["query"]),
    tool("now", {}),
    tool("run_python", {"code": TEXT}, ["code"]),
    tool("book", {"city": TEXT, "days": {"type": "integer"}}, ["city", "days"]),
    tool("any", {"a": {}, "b": {}, "c": {}, "d": {}}),
    tool("sum", {"numbers": {"type": "array", "items": {"type": "number"}}}, ["numbers"]),
    tool("either", {"value": {"anyOf": [{"type": "integer"}, {"type": ["string", "null"]}]}}, ["value"]),
    tool("referring", {"value": {"$ref": "#/$defs/value"}}, ["value"]),
)
ANSWERS = [json.loads(line) for line in (Path(__file__).parent / "answers.jsonl").read_text("utf-8").splitlines()]


def read(pieces, *, is_cut=False, is_single=False):
    """Return the reader of an answer fed in pieces, and the events that it emitted."""
    reader = AnswerReader(TOOLS, is_single=is_single)
    events = [event for piece in pieces for event in reader.feed(piece)]
    return reader, [*events, *reader.finish(is_cut=is_cut)]


def work(text, *, by_character=False):
    """Return the number of function calls for parsing an answer, in one piece or character by character."""
    count = itertools.count()
    sys.setprofile(lambda *_: next(count))
    try:
        read(text if by_character else [text])
    finally:
        sys.setprofile(None)
    return next(count)


def text_of_events(events, kind):
    """Return the text of all events of one kind."""
    return "".join(event.text for event in events if isinstance(event, kind))


def refuse(name):
    """Raise an error for a constant that is not JSON."""
    raise ValueError(name)


def arguments_in(text):
    """Return the arguments as a dictionary, or unchanged if they are not JSON."""
    try:
        return json.loads(text, parse_constant=refuse)
    except ValueError:
        return text


def facts(reader):
    """Return the text, reasoning and calls of an answer."""
    return reader.text, reader.reasoning, reader.calls


@pytest.mark.for_each("case", ANSWERS, ids=lambda case: case["about"])
def test_calls_are_parsed_as_models_write_them(case):
    """Calls are parsed as models write them, in one piece and character by character; quoted calls do not run."""
    is_cut = case.get("cut", False)
    complete, _ = read([case["answer"]], is_cut=is_cut)
    assert [[call.name, arguments_in(call.arguments)] for call in complete.calls] == case["calls"]
    assert (complete.text, complete.reasoning) == (case["text"], case.get("reasoning", ""))
    streamed, events = read(case["answer"], is_cut=is_cut)
    assert facts(streamed) == facts(complete)
    assert (text_of_events(events, TextDelta), text_of_events(events, ReasoningDelta)) == (
        streamed.text,
        streamed.reasoning,
    )


WORDS = st.sampled_from(
    [
        *("<TOOL: calculator>", "</TOOL>", "<tool:", "now", "/>", ">", "<", "</", "&lt;", "&gt;", "TOOL", "2+2", " "),
        *("\n", "```\n", "```", "`", "~~~", "xml", "<RESULT: now>", "<result", "<think>", "</think>", "<TOOL>", "&"),
        *('<tool name="now">', '{"expression": "1"}', "expression: ", "<tool_call>", '{"name": "now"}', "words", "."),
    ]
)


@given(st.lists(WORDS, max_size=14), st.lists(st.integers(0, 150), max_size=12), st.booleans())
@example(["```\n", "<TOOL: calculator>", "2+2", "</TOOL>", "\n", "```", "words"], [3, 9, 30], False)
def test_splitting_does_not_change_the_answer(words, cuts, is_cut):
    """However an answer is split into deltas, its events and message have the same content."""
    answer = "".join(words)
    places = sorted({0, *(cut % (len(answer) + 1) for cut in cuts), len(answer)})
    pieces = [answer[start:end] for start, end in pairwise(places)]
    full_text, _ = read([answer], is_cut=is_cut)
    reader, events = read(pieces, is_cut=is_cut)
    assert facts(reader) == facts(full_text)
    assert (text_of_events(events, TextDelta), text_of_events(events, ReasoningDelta)) == (
        reader.text,
        reader.reasoning,
    )
    calls = [event for event in events if isinstance(event, ToolCallDelta)]
    assert [(call.index, call.name, call.arguments) for call in calls] == [
        (index, call.name, call.arguments) for index, call in enumerate(reader.calls)
    ]


@given(st.lists(WORDS.filter(lambda word: "`" not in word and "~" not in word), max_size=14))
def test_markup_is_never_emitted_as_text(words):
    """A tag that begins a call is never emitted as text outside of code."""
    answer = "".join(words)
    reader, events = read(answer)
    assert "<TOOL: calculator>" not in text_of_events(events, TextDelta)
    assert "<RESULT:" not in reader.text


@given(st.text())
@example("Hello\u2028\x85 <")
def test_text_without_markup_passes_unchanged(text):
    """An answer without markup is returned unchanged."""
    if not any(word in text.lower() for word in ("tool", "result", "think")):
        assert read(text)[0].text == text


@pytest.mark.parametrize("text", ["<re\u017fult: x>", "<RE\u017fULT: x>5</RE\u017fULT>", "<thin\u212a>a</thin\u212a>"])
def test_unicode_case_folding_does_not_create_tags(text):
    """A letter that matches a tag's letter only after Unicode case folding does not form a tag."""
    assert read([f"See {text} here"])[0].text == f"See {text} here"
    assert escape_markup(text) == text


def test_text_is_emitted_immediately():
    """Text is emitted immediately, and only possible markup is buffered."""
    reader = AnswerReader(TOOLS)
    assert reader.feed("Let me") == [TextDelta("Let me")]
    assert reader.feed(" see <b") == [TextDelta(" see <b")]
    assert reader.feed("> <TO") == [TextDelta(">")]
    assert reader.feed("OL: now>") == []
    assert reader.feed("</TOOL>") == [ToolCallDelta(0, "now", "{}")]
    assert reader.feed("\nDone") == [TextDelta(" \nDone")]


def test_only_the_first_call_is_used():
    """If only one call is requested, the first one is used."""
    reader, _ = read(["<TOOL: now/> <TOOL: now/>"], is_single=True)
    assert [call.name for call in reader.calls] == ["now"]
    reader, _ = read(["```\n<TOOL: now/> <TOOL: now/>\n```"], is_single=True)
    assert len(reader.calls) == 1


def test_unclosed_tag_is_emitted():
    """Text that is too long for a tag is emitted as text."""
    reader = AnswerReader(TOOLS)
    assert text_of_events(reader.feed("<TOOL: " + 300 * "x"), TextDelta) == "<TOOL: " + 300 * "x"


@pytest.mark.for_each("text", ["`", "<", "<TOOL: run_python>", "{", "'", '{"', "```\n", "<tool", "&lt;", "\n", "\\"])
def test_parsing_time_is_linear(text):
    """The parsing time is linear in the length of an answer, however hostile it is."""
    for start in ("", "<TOOL: any>{'a': "):
        once = 3_000 // len(text) * text
        assert work(start + 2 * once) < 3 * work(start + once)


HOSTILE = [
    "`",
    "```\n",
    "```\n<TOOL: now>",
    "~~~ ",
    "<",
    "<tool",
    "<tool ",
    "`<TOOL: now> ",
    "&lt",
    " ",
    "\n",
    "<TOOL: calculator>\n```",
    '<TOOL: calculator>{"',
    "<think>",
    "</TOOL",
    "<RESULT",
]


@pytest.mark.for_each("piece", HOSTILE)
def test_unfinished_markup_in_single_characters(piece):
    """Repeated unfinished markup gives the same result character by character as in one piece."""
    for start in ("", "<TOOL: calculator>", "```\n<TOOL: now></TOOL>", "```", "`"):
        answer = start + piece * (2_000 // len(piece))
        assert facts(read(answer)[0]) == facts(read([answer])[0]), start


@pytest.mark.for_each("piece", HOSTILE)
def test_parsing_time_of_possible_markup_is_linear(piece):
    """The parsing time of possible markup is linear in its length."""
    few, many = (work(piece * (count // len(piece)), by_character=True) for count in (1_000, 4_000))
    assert many < 6 * few


@pytest.mark.parametrize("piece", ["`", " ", "\n", "~~~ ", "<", '<TOOL: calculator>{"'])
def test_very_long_incomplete_markup(piece):
    """Hundreds of thousands of characters of incomplete markup are parsed to their end."""
    reader, _ = read([piece * (200_000 // len(piece))])
    assert not any(call.name != "calculator" for call in reader.calls)


LONG = 1_500


@pytest.mark.for_each(
    "answer",
    [
        f"```{'x' * LONG}\n<TOOL: now></TOOL>\n```",
        f"```\n{' ' * LONG}<TOOL: now></TOOL>\n```",
        f"```\nx\n```{' ' * LONG}\n<TOOL: now></TOOL>\n",
        f"```\n<TOOL: now></TOOL>\n```{' ' * LONG}\n",
        f"```\n<TOOL: now></TOOL>\n```\n```{'x' * LONG}\n<TOOL: now></TOOL>\n```",
        f"{'`' * LONG}\n<TOOL: now></TOOL>\n",
        f"`<TOOL: now> {'x' * LONG}`",
        f"`<TOOL: now> {'x' * LONG}\n",
        f"<think>a</think>{' ' * LONG}\n",
        f"{' ' * LONG}\n<think></think> Hi",
    ],
)
def test_very_long_lines_and_gaps(answer):
    """Lines and gaps over 1,000 characters give the same result however the answer is split."""
    complete = facts(read([answer])[0])
    assert facts(read(answer)[0]) == complete
    assert facts(read([answer[:700], answer[700:1400], answer[1400:]])[0]) == complete


def test_blanks_after_reasoning_are_removed():
    """Blanks between the reasoning and the text are removed."""
    assert facts(read(["<think>a</think>", " \n", " "])[0]) == ("", "a", ())
    assert facts(read([" \n<think></think>", "Hi"])[0]) == ("Hi", "", ())


@pytest.mark.for_each(
    ("text", "calls"),
    [
        ('{"name": "f", "arguments": {"x": 1}}', [("f", '{"x": 1}')]),
        ('{"name": "f", "parameters": "{\\"x\\": 1}"}', [("f", '{"x": 1}')]),
        ('{"name": "f"}', [("f", "{}")]),
        ('[{"name": "f", "args": {}}, {"type": "function", "function": {"name": "g"}}]', [("f", "{}"), ("g", "{}")]),
        ('<tool-use>\n{"tool_calls": [{"name": "f", "input": {"x": 1}}]}\n</tool-use>', [("f", '{"x": 1}')]),
        ('<|python_tag|>{"name": "f", "parameters": {"x": 1}}', [("f", '{"x": 1}')]),
        ('<function=f>{"x": {"y": 1}}</function>', [("f", '{"x": {"y": 1}}')]),
        ('<function=f{"x": 1}></function>\n<function(g){"y": 2}</function>', [("f", '{"x": 1}'), ("g", '{"y": 2}')]),
        ("It is 4.", []),
        ("", []),
        ("4", []),
        ('{"sum": 4}', []),
        ('[{"name": "f"}, {"sum": 4}]', []),
        ('{"name": 4, "function": {"name": "f"}}', [("f", "{}")]),
        ('{"function": "f"}', []),
        ("[" * 10_000, []),
    ],
)
def test_calls_in_a_rejected_generation(text, calls):
    """A rejected generation that contains only calls is parsed in every known format."""
    assert [(call.name, call.arguments) for call in attempted_calls(text)] == calls


def test_unclosed_calls_are_scanned_once():
    """A text with thousands of unclosed calls is scanned once, and not once for each call."""
    started = time.process_time()
    assert attempted_calls("<function=add>{} " * 60_000 + "!") == ()
    assert time.process_time() - started < 10
    text = '<function=add>{"a": 1}</function> <function(sub)>{"b": {}}\n></function> <function=x>{"c": 2}'
    text_of_events = [(call.name, call.arguments) for call in attempted_calls(text)]
    assert text_of_events == [("add", '{"a": 1}'), ("sub", '{"b": {}}'), ("x", '{"c": 2}')]
