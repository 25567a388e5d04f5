"""Tests for the answers of the offline model."""

import asyncio
import json
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from agentkit import default_tools
from agentkit.content import Image
from agentkit.errors import BadResponse, Rejected
from agentkit.events import ResponseReceived, TextDelta, ToolCallDelta
from agentkit.installation import install_command
from agentkit.llm.providers.offline.model import MAX_REQUEST_CHARS, OfflineModel, installed
from agentkit.messages import AssistantMessage, OutputSchema, Request, ToolCall, ToolMessage, ToolSpec, UserMessage
from agentkit.usage import Tariff, Usage

pytestmark = pytest.mark.slow

TEXT = {"type": "string"}
PATIENCE = 300
"""Seconds that a busy machine may take for one answer."""


def tool(name, description, **parameters):
    """Return a tool as a model receives it."""
    return ToolSpec(name, description, {"type": "object", "properties": parameters, "required": list(parameters)})


NOW = tool("get_current_datetime", "Tell the current date and time.")
SUM = tool("calculator", "Evaluate an arithmetic expression.", expression=TEXT)
LENGTH = tool("string_length", "Count the characters, words and lines of a text.", text=TEXT)
READ = tool("read_file", "Read a text file.", path=TEXT)
TOOLS = (NOW, SUM, LENGTH, READ)


@pytest.fixture(scope="module")
def model():
    """One model, and so one engine, for all tests of this file."""
    return OfflineModel(timeout_seconds=PATIENCE)


def ask(text, tools=TOOLS, **more):
    """Return a request with one user message."""
    return Request([UserMessage(text)], tools=tools, **more)


def with_results(*results, question="do it"):
    """Return a conversation that ends in tool results, each a tool, its arguments and its content."""
    calls = tuple(ToolCall(f"c{place}", name, json.dumps(sent)) for place, (name, sent, _) in enumerate(results))
    contents = [each if isinstance(each, str) else json.dumps(each) for _, _, each in results]
    told = [ToolMessage(f"c{place}", results[place][0], content) for place, content in enumerate(contents)]
    return [UserMessage(question), AssistantMessage("", calls), *told]


def run(script):
    """Run a Python program in a separate process and return the lines that it prints."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


# --- tool calls


def test_sum_is_sent_to_the_calculator(model):
    """A question that matches a tool becomes a call of it, with JSON arguments."""
    response = model.complete(ask("How much is 1250 * 0.17?"))
    (call,) = response.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("calculator", {"expression": "1250 * 0.17"})
    assert (response.finish_reason, response.text, response.model) == ("tool_calls", "", "needle3")
    assert response.usage == Usage(requests=1, unreported=1, tariff=Tariff("offline", "needle3"))
    assert response.message.origin == "offline"


def test_raw_response_contains_the_engine_envelope(model):
    """The raw response contains the engine's envelope and the network access of its process."""
    raw = model.complete(ask("what time is it?")).raw
    assert raw["function_calls"] == [{"name": "get_current_datetime", "arguments": {}}]
    assert {"confidence", "validation", "network"} <= raw.keys()


def test_long_quotations_are_passed_unabridged(model):
    """A quotation longer than the engine can read is passed to the tool unabridged."""
    words = " ".join(f"word{number}" for number in range(500))
    (call,) = model.complete(ask(f"How many words are in '{words}'?")).tool_calls
    assert json.loads(call.arguments) == {"text": words}


def test_several_calls_have_unique_ids(model):
    """Call ids are unique, including those from earlier in the conversation."""
    earlier = [*with_results(("calculator", {}, "3")), UserMessage("what is 7*8, and what is 9*9?")]
    calls = model.complete(Request(earlier, tools=TOOLS)).tool_calls
    assert [json.loads(call.arguments)["expression"] for call in calls] == ["7*8", "9*9"]
    assert len({"c0", *(call.id for call in calls)}) == 3


@pytest.mark.parametrize("text", ["Who are you?", "Tell me a joke", "Translate 'good night' into French"])
def test_request_without_a_matching_tool_is_explained(model, text):
    """A request that no tool supports is answered with the model's capabilities, without a call."""
    response = model.complete(ask(text))
    assert response.tool_calls == ()
    for part in ("offline model", "calculator, string_length", "cannot chat", "Ask, for example: `", "OPENAI_API_KEY"):
        assert part in response.text


def test_unsupported_tool_is_not_suggested(model):
    """A tool that nothing in the question supports is neither called nor suggested."""
    weather = tool("get_weather", "Get the weather forecast for a city.", city=TEXT)
    response = model.complete(ask("what is 2 + 2?", tools=(weather,)))
    assert (response.tool_calls, response.text.startswith("No tool fits this request.")) == ((), True)
    assert response.raw["doubts"]


def test_best_matching_tools_are_named(model):
    """An answer without a call names the best matching tools and the number of the others."""
    many = tuple(tool(f"tool_{place}", f"Number {place}.", value=TEXT) for place in range(20))
    text = model.complete(ask("don't water the plants", tools=(*many, tool("water_plants", "Water plants.")))).text
    assert "calls tools: water_plants, tool_0" in text
    assert "tool_3 and 16 others" in text


def test_sum_is_sent_to_a_tool_for_its_operation(model):
    """A user's tool named `add` is called for `3 plus 4`."""
    whole = {"type": "integer"}
    (call,) = model.complete(ask("what's 3 plus 4?", tools=(tool("add", "Add.", a=whole, b=whole),))).tool_calls
    assert (call.name, json.loads(call.arguments)) == ("add", {"a": 3, "b": 4})


def test_request_without_tools_is_explained(model):
    """A request without tools is answered with an explanation."""
    assert "this request offers none" in model.complete(ask("What is 2+2?", tools=())).text


def test_negated_request_is_not_carried_out(model):
    """A negated request is not carried out."""
    response = model.complete(ask("don't calculate 2+2"))
    assert (
        response.tool_calls,
        response.text.startswith("Nothing was done, because the request says what not to do."),
    ) == ((), True)


def test_missing_argument_is_requested(model):
    """If an argument is missing, the text names the tool and the argument."""
    assert (
        "string_length fits, but the request does not state its text: add it."
        in model.complete(ask("How many words?")).text
    )


def test_doubtful_call_is_suggested_and_confirmed(model):
    """A doubtful call is suggested, and made after the user confirms it."""
    response = model.complete(ask("ponder notes.txt"))
    assert response.tool_calls == ()
    assert 'Did you mean read_file with path "notes.txt"?' in response.text
    assert response.raw["doubts"]
    conversation = [UserMessage("ponder notes.txt"), response.message, UserMessage("Yes, please.")]
    (call,) = model.complete(Request(conversation, tools=TOOLS)).tool_calls
    assert (call.name, json.loads(call.arguments)) == ("read_file", {"path": "notes.txt"})


@pytest.mark.parametrize(
    "before",
    [
        (),
        (AssistantMessage("Shall I?"),),
        (AssistantMessage("Shall I?", origin="offline"),),
        (AssistantMessage("Shall I?", extra={"suggested": [["read_file", {"path": "x"}]]}, origin="openai:x"),),
        (UserMessage("hm"),),
    ],
)
def test_yes_without_a_suggestion_is_ignored(model, before):
    """A yes is only accepted as the answer to a suggestion of this model."""
    assert model.complete(Request([*before, UserMessage("yes")], tools=TOOLS)).tool_calls == ()


def test_suggestion_must_explain_all_words(model):
    """A tool without arguments is not suggested for a question that contains other words."""
    assert "Did you mean" not in model.complete(ask("What time is it in Tokyo?")).text


@pytest.mark.slow
def test_suggestion_must_contain_the_numbers(model):
    """A call without the date of the question is not suggested."""
    response = model.complete(ask("is 2026-12-25 a weekday", tools=tuple(each.spec for each in default_tools)))
    assert (response.tool_calls, response.text.startswith("No tool fits this request.")) == ((), True)


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("none", []),
        ("auto", ["calculator"]),
        ("required", ["calculator"]),
        ("calculator", ["calculator"]),
        ("read_file", []),
        ({"type": "function", "function": {"name": "read_file"}}, []),
        ({"type": "function", "name": "calculator"}, ["calculator"]),
        ({}, ["calculator"]),
    ],
)
def test_tool_choice_limits_the_tools(model, choice, names):
    """`none` forbids calls, a name leaves only that tool, and unknown values change nothing."""
    settings = {"tool_choice": choice, "temperature": 0.5}
    calls = model.complete(ask("What is 2+2?", settings=settings)).tool_calls
    assert [call.name for call in calls] == names


def test_images_are_rejected(model):
    """A message with an image is rejected with an explanation."""
    request = Request([UserMessage(("what is this?", Image("https://example.com/a.png")))], tools=TOOLS)
    with pytest.raises(Rejected, match="no images"):
        model.complete(request)


def test_texts_in_parts_are_read_as_one(model):
    """A message of several texts is read as one text."""
    (call,) = model.complete(Request([UserMessage(("What is", "2+2?"))], tools=TOOLS)).tool_calls
    assert call.name == "calculator"


@pytest.mark.parametrize("text", ["a \ud800 b", "a \0 b", "\U0001f600 \U0001f44d"])
def test_unusual_characters_reach_the_tool_unchanged(model, text):
    """Characters that the engine cannot read are passed to the tool unchanged."""
    (call,) = model.complete(ask(f"How many words are in '{text}'?")).tool_calls
    assert json.loads(call.arguments) == {"text": text}


def test_empty_conversation_makes_no_call(model):
    """An empty conversation makes no tool call."""
    assert model.complete(Request([], tools=TOOLS)).tool_calls == ()


def test_overlong_text_is_rejected(model):
    """A request longer than the limit is rejected with its length and the limit."""
    with pytest.raises(Rejected, match=r"has [\d,]+ characters, and the limit is [\d,]+"):
        model.complete(ask("x" * (MAX_REQUEST_CHARS + 1)))


# --- reports of results

DATE = {"datetime": "2026-11-22T14:05:09+07:00", "date": "2026-11-22", "time": "14:05:09", "weekday": "Sunday"}
PRODUCT = {"expression": "1250 * 0.17", "result": 212.5}
FOUND = {"query": "x", "results": [{"title": "T", "url": "u"}]}
SIZES = {"text": "a b", "characters": 3, "words": 2, "lines": 1}


@pytest.mark.parametrize(
    ("question", "name", "sent", "content", "report"),
    [
        ("?", "calculator", {"expression": "1250 * 0.17"}, PRODUCT, "1250 * 0.17 = 212.5"),
        ("what time is it", "now", {}, DATE, "time: 14:05:09"),
        ("what day is it?", "now", {}, DATE, "weekday: Sunday"),
        ("now?", "now", {}, DATE, "datetime: 2026-11-22T14:05:09+07:00\nweekday: Sunday"),
        ("how many words?", "size", {"text": "a b"}, SIZES, "words: 2"),
        ("how long is it?", "size", {"text": "a b"}, SIZES, "characters: 3"),
        ("how many letters are in the word cat?", "size", {"text": "a b"}, SIZES, "characters: 3"),
        ("create it", "write", {}, {"path": "a", "created": False, "bytes": 2}, "path: a\ncreated: false\nbytes: 2"),
        ("?", "json", {}, {"success": True, "data": {"a": [1, "é"]}}, '{"a": [1, "é"]}'),
        ("?", "json", {}, {"success": False, "error": "no colon"}, "json failed: no colon"),
        ("?", "python", {}, {"error": "NameError: x", "output": "1\n"}, "python failed: NameError: x\n1"),
        ("?", "shell", {}, {"output": "a\nb\n", "stdout": "a\nb\n", "stderr": "", "return_code": 0}, "a\nb"),
        ("?", "shell", {}, {"output": "a", "return_code": 2}, "a\nreturn_code: 2"),
        ("?", "read", {"path": "a"}, {"path": "a", "content": "line", "decision": {"verdict": "allow"}}, "line"),
        ("?", "write", {"path": "a"}, {"path": "a", "success": True, "bytes_written": 0}, "path: a\nbytes_written: 0"),
        ("?", "list", {}, {"path": ".", "directories": [], "files": ["a", "b"]}, "path: .\nfiles: a, b"),
        ("?", "search", {"query": "x"}, FOUND, "- title: T\n  url: u"),
        ("?", "search", {"query": "x"}, {"query": "x", "results": []}, "query: x"),
        ("?", "nested", {}, {"a": {"b": 1, "c": [{"d": 2}]}}, "a:\nb: 1\nc: - d: 2"),
        ("?", "weather", {}, "Sunny, 22 C", "Sunny, 22 C"),
        ("?", "list", {}, [1, 2], "1, 2"),
        ("?", "flag", {}, False, "false"),
        ("?", "nothing", {}, "", "nothing came back empty."),
        ("?", "nothing", {}, {}, "nothing came back empty."),
        ("?", "nothing", {}, None, "nothing came back empty."),
        ("?", "nothing", {}, {"success": True}, "nothing came back empty."),
        ("?", "odd", [1], {"text": "t"}, "t"),
        ("?", "deep", {}, "[" * 100_000, "[" * 100_000),
    ],
)
def test_results_are_reported_in_sentences(model, question, name, sent, content, report):
    """The answer after a call reports its result: the main text, the requested numbers, or all of it."""
    response = model.complete(Request(with_results((name, sent, content), question=question)))
    assert (response.text, response.tool_calls, response.finish_reason) == (report, (), "stop")


def test_several_results_are_reported_separately(model):
    """Each result is reported on a separate line, or in a separate paragraph."""
    first = ("calculator", {}, {"expression": "1+1", "result": 2})
    assert model.complete(Request(with_results(first, ("weather", {}, "Sunny")))).text == "1+1 = 2\nSunny"
    assert model.complete(Request(with_results(first, ("weather", {}, "Sunny\nWarm")))).text == "1+1 = 2\n\nSunny\nWarm"


def test_result_without_its_call_is_reported(model):
    """A result without its call in the conversation is reported completely."""
    assert model.complete(Request([ToolMessage("?", "add", '{"sum": 3}')])).text == "sum: 3"


# --- typed answers

PERSON = OutputSchema(
    "person",
    {
        "type": "object",
        "properties": {"name": TEXT, "age": {"type": "integer"}, "nickname": {"anyOf": [TEXT, {"type": "null"}]}},
        "required": ["name", "age", "nickname"],
    },
)


def test_typed_answer_is_filled_from_the_text(model):
    """With an output schema, the answer is JSON of that schema; missing nullable fields are null."""
    response = model.complete(ask("Alice is 30 years old", tools=(), output_schema=PERSON))
    assert json.loads(response.text) == {"name": "Alice", "age": 30, "nickname": None}


def test_typed_answer_may_be_a_list(model):
    """An output schema may be an array."""
    schema = OutputSchema("shopping", {"type": "array", "items": TEXT})
    response = model.complete(ask("I bought milk, bread and cheese", tools=(), output_schema=schema))
    assert json.loads(response.text) == ["milk", "bread", "cheese"]


def test_typed_answer_is_filled_from_results(model):
    """After tool calls, the schema is filled from their results."""
    results = with_results(("look_up", {}, {"name": "Alice", "age": 30}), question="who is it?")
    response = model.complete(Request(results, output_schema=PERSON))
    assert json.loads(response.text)["age"] == 30


def test_tools_are_called_before_the_typed_answer(model):
    """A question that matches a tool is answered by a call first."""
    assert model.complete(ask("What is 2+2?", output_schema=PERSON)).tool_calls


@pytest.mark.parametrize("text", ["What is the capital of France?", "Nothing to see here.", "Alice is old"])
def test_typed_answer_is_not_invented(model, text):
    """Fields that are missing from the text raise an error."""
    with pytest.raises(BadResponse, match="person"):
        model.complete(ask(text, tools=(), output_schema=PERSON))


def test_text_too_long_for_extraction_is_rejected(model):
    """A long text is not read in part."""
    with pytest.raises(Rejected, match="characters"):
        model.complete(ask("Alice is 30. " * 100, tools=(), output_schema=PERSON))


# --- streams, threads, processes


def test_stream_emits_the_answer_in_pieces(model):
    """A stream emits text in one piece, each call in one, and the whole response last."""
    text, received = model.stream(ask("hi"))
    assert isinstance(text, TextDelta)
    assert received == ResponseReceived(received.response)
    assert received.response.text == text.text
    call, _ = model.stream(ask("What is 2+2?"))
    assert call == ToolCallDelta(0, "calculator", '{"expression": "2+2"}')


def test_async_stream_emits_the_same_events(model):
    """An async stream emits the same events as a blocking one."""

    async def collect():
        return [event async for event in model.astream(ask("What is 2+2?"))]

    assert [type(event) for event in asyncio.run(collect())] == [ToolCallDelta, ResponseReceived]


NAMES = ("Alice", "Bob", "Carol")


def test_async_request_does_not_block_the_event_loop(model):
    """While the engine computes, other tasks continue."""

    async def tick(done):
        ticks = 0
        while not done.is_set():
            ticks += 1
            await asyncio.sleep(0.01)
        return ticks

    async def both():
        done = asyncio.Event()
        ticking = asyncio.create_task(tick(done))
        responses = await asyncio.gather(
            *(model.acomplete(ask(f"{name} is 30 years old", tools=(), output_schema=PERSON)) for name in NAMES)
        )
        done.set()
        return responses, await ticking

    responses, ticks = asyncio.run(both())
    assert [json.loads(each.text)["name"] for each in responses] == list(NAMES)
    assert ticks > 3


def test_models_share_one_engine():
    """The engine process starts with the first request, is shared, and stops when its last model is released."""
    first, _, last = run(
        f"""
        import os
        from pathlib import Path
        from agentkit.llm.providers.offline.model import OfflineModel
        from agentkit.messages import Request, ToolSpec, UserMessage
        now = ToolSpec("get_current_datetime", "Tell the current date.", {{"type": "object", "properties": {{}}}})
        request = Request([UserMessage("what time is it?")], tools=(now,))
        children = lambda: len(Path(f"/proc/self/task/{{os.getpid()}}/children").read_text().split())
        one, other = OfflineModel(timeout_seconds={PATIENCE}), OfflineModel(timeout_seconds={PATIENCE})
        assert children() == 0
        one.complete(request), other.complete(request)
        print(children())
        one.close()
        print(children())
        other.close()
        print(children())
        assert one.complete(request).tool_calls
        """
    )
    assert (first, last) == ("1", "0")


def test_forked_process_uses_its_own_engine():
    """Parent and forked child can both use the engine after the fork."""
    assert sorted(
        run(
            f"""
            import os
            from agentkit.llm.providers.offline.model import OfflineModel
            from agentkit.messages import Request, ToolSpec, UserMessage
            now = ToolSpec("get_current_datetime", "Tell the current date.", {{"type": "object", "properties": {{}}}})
            request = Request([UserMessage("what time is it?")], tools=(now,))
            model = OfflineModel(timeout_seconds={PATIENCE})
            model.complete(request)
            child = os.fork()
            print("fork" if child == 0 else "host", model.complete(request).tool_calls[0].name, flush=True)
            if child:
                os.waitpid(child, 0)
            """
        )
    ) == ["fork get_current_datetime", "host get_current_datetime"]


def test_importing_the_model_is_light():
    """Importing the model does not import the engine's package or any other."""
    (loaded,) = run(
        """
        import sys
        before = set(sys.modules)
        import agentkit.llm.providers.offline
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(sorted(new - set(sys.stdlib_module_names) - {"agentkit"}))
        """
    )
    assert loaded == "[]"


def test_missing_package_error_has_the_install_command():
    """A missing package raises an error at the first request that needs it."""
    absent, error = run(
        """
        import sys
        sys.modules["needle"] = None
        from agentkit.errors import MissingExtra
        from agentkit.llm.providers.offline.model import OfflineModel, installed
        from agentkit.messages import Request, ToolSpec, UserMessage
        now = ToolSpec("get_current_datetime", "Tell the current date.", {"type": "object", "properties": {}})
        print(installed())
        try:
            OfflineModel().complete(Request([UserMessage("what time is it?")], tools=(now,)))
        except MissingExtra as error:
            print(error)
        """
    )
    assert absent == "False"
    assert install_command("offline") in error


def test_installed_does_not_import_the_package():
    """`installed` finds the package without importing it."""
    assert installed()


def test_threads_may_share_a_model(model):
    """Concurrent threads each receive the answer to their own question."""
    answers = {}

    def work(number):
        answers[number] = model.complete(ask(f"What is {number}+2?")).tool_calls[0].arguments

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: json.dumps({"expression": f"{number}+2"}) for number in range(3)}


def test_cancelled_request_does_not_wait_for_the_engine(model):
    """A cancelled task does not wait for the engine."""

    async def cancel():
        task = asyncio.create_task(model.acomplete(ask("Alice is 30 years old", tools=(), output_schema=PERSON)))
        await asyncio.sleep(0.01)
        task.cancel()
        begin = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - begin

    assert asyncio.run(cancel()) < 60
