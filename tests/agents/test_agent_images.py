"""Tests for images in tool results: formats, rejections, sessions, replays and MCP."""

import asyncio
import base64
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, RootModel

from agentkit import Agent, Image, Limits, Session, tool
from agentkit.decisions import Label
from agentkit.llm.client import LLM
from agentkit.mcp import MCPServer
from agentkit.mcp.server import ToolServer
from agentkit.messages import ToolMessage
from agentkit.redaction import redact
from agentkit.sessions.cassettes.request_matching import message_key
from agentkit.testing import FakeServer, ScriptedLLM, call, fail, record, replay

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PICTURE = Image.read(PNG)
OTHER = Image.read(PNG + bytes(3))
WORDS = "[image 1: image/png, 72 bytes]"


@dataclass
class Page:
    """A page of a document."""

    number: int
    picture: Image


class Sheet(BaseModel):
    """A page of a document, as a pydantic model."""

    number: int
    picture: Image


class Book(BaseModel):
    """A list of pages."""

    sheets: list[Sheet]


class Album(RootModel[list[Image]]):
    """A list of images."""


class Shot(NamedTuple):
    """An image with its location."""

    place: str
    picture: Image


# the value of a tool, its text for the model, the number of images
RETURNED: dict[str, tuple[Any, str, int]] = {
    "a picture": (PICTURE, WORDS, 1),
    "a text and a picture": (["The screen:", PICTURE], f'["The screen:", "{WORDS}"]', 1),
    "a dictionary": ({"page": 3, "picture": PICTURE}, f'{{"page": 3, "picture": "{WORDS}"}}', 1),
    "a dataclass": (Page(3, PICTURE), f'{{"number": 3, "picture": "{WORDS}"}}', 1),
    "a named tuple": (Shot("Hue", PICTURE), f'{{"place": "Hue", "picture": "{WORDS}"}}', 1),
    "a model": (Sheet(number=3, picture=PICTURE), f'{{"number": 3, "picture": "{WORDS}"}}', 1),
    "models in a model": (
        Book(sheets=[Sheet(number=3, picture=PICTURE)]),
        f'{{"sheets": [{{"number": 3, "picture": "{WORDS}"}}]}}',
        1,
    ),
    "a model of pictures": (Album([PICTURE]), f'["{WORDS}"]', 1),
    "several": ([PICTURE, OTHER], f'["{WORDS}", "[image 2: image/png, 75 bytes]"]', 2),
    "an address": (Image("https://example.com/cat.png"), "[image 1: https://example.com/cat.png]", 1),
    "a wrong name for its type": (Image(PICTURE.url.replace("png", "jpg", 1)), "[image 1: image/jpg, 72 bytes]", 1),
}


def looker(*tools, llm, **options):
    """Return an agent that calls these tools and reads their results."""
    return Agent("looker", tools=tools, llm=llm, **options)


def returning(value, name="screenshot"):
    """Return a tool that returns the given value."""

    def look() -> Any:
        return value

    return tool(look, name=name)


def urls(parts):
    """Return the URLs of the images in the parts of a message, in either protocol."""
    found = [part["image_url"] for part in parts if "image_url" in part]
    return [each["url"] if isinstance(each, dict) else each for each in found]


@pytest.mark.for_each(("value", "text", "count"), RETURNED.values(), ids=RETURNED)
def test_images_in_chat_completions(value, text, count):
    """In chat completions, images follow the tool result in a message that names the call."""
    with FakeServer(call("screenshot"), "A cat.") as server:
        helper = looker(returning(value), llm=LLM(base_url=server.base_url, model="any"))
        assert helper("What is on the screen?") == "A cat."
        result, shown = server.requests[1].json["messages"][-2:]
    assert (result["role"], result["content"]) == ("tool", text)
    assert shown["role"] == "user"
    assert result["tool_call_id"] in shown["content"][0]["text"]
    assert len(urls(shown["content"])) == count
    assert all(url.startswith(("data:image/png;base64,", "https:")) for url in urls(shown["content"]))


@pytest.mark.for_each(("value", "text", "count"), RETURNED.values(), ids=RETURNED)
def test_images_in_responses(value, text, count):
    """In Responses, images are part of the tool result."""
    with FakeServer(call("screenshot"), "A cat.") as server:
        llm = LLM("openai", base_url=server.base_url, model="any", api_key="k", protocol="responses")
        assert looker(returning(value), llm=llm)("What is on the screen?") == "A cat."
        output = server.requests[1].json["input"][-1]["output"]
    assert output[0] == {"type": "input_text", "text": text}
    assert len(urls(output)) == count


def test_images_follow_all_results():
    """Images follow all results of a response, and later requests repeat them unchanged."""
    with FakeServer([call("one"), call("two"), call("three")], call("one"), "Done.") as server:
        llm = LLM(base_url=server.base_url, model="any")
        tools = returning(PICTURE, "one"), returning("text", "two"), returning(OTHER, "three")
        looker(*tools, llm=llm)("Look at all.")
        second, third = (request.json["messages"] for request in server.requests[1:])
    assert [entry["role"] for entry in second] == ["system", "user", "assistant", *["tool"] * 3, "user", "user"]
    assert [urls(entry["content"]) for entry in second[-2:]] == [[PICTURE.url], [OTHER.url]]
    assert third[: len(second)] == second
    assert [entry["role"] for entry in third[len(second) :]] == ["assistant", "tool", "user"]


# the status and error of a server that rejects the images of a tool
BLIND = {
    "OpenAI": (400, "Invalid content type. image_url is only supported by certain models."),
    "DeepSeek": (400, "messages[3]: unknown variant `image_url`, expected `text` at line 1 column 9"),
    "OpenRouter": (404, "No endpoints found that support image input"),
    "llama.cpp": (400, "Output of tool call should be 'Input text'"),
    "vLLM": (400, "any is not a multimodal model"),
    "Groq": (400, "messages[3].content must be a string"),
    "Anthropic": (400, "messages.1.content.2: Could not process image"),
}


@pytest.mark.for_each("protocol", ["chat", "responses"])
@pytest.mark.for_each(("status", "text"), BLIND.values(), ids=BLIND)
def test_rejected_images_of_tools_are_described(protocol, status, text):
    """If a model rejects images in tool results, descriptions are sent instead, also in later requests."""
    with FakeServer(call("screenshot"), fail(status, text), "I see words.", call("screenshot"), "Still.") as server:
        llm = LLM("openai", base_url=server.base_url, model="any", api_key="k", protocol=protocol)
        helper = looker(returning(PICTURE), llm=llm)
        assert helper("What is on the screen?") == "I see words."
        assert helper("And now?") == "Still."
        body = json.dumps(server.requests[2].json)
    assert "data:image" not in body
    assert WORDS in body
    assert "receives text only" in body
    assert llm.describe().adjustments == ("images in tool results are described in words",)


def test_rejected_images_with_text_based_tool_calling():
    """With text-based tool calling, rejected images are described, but the user's images are sent."""
    text = "image_url is only supported by certain models"
    lines = "<TOOL: screenshot></TOOL>", fail(400, text), "I see words.", "Still."
    with FakeServer(*lines) as server:
        helper = looker(returning(PICTURE), llm=LLM(base_url=server.base_url, model="any", tool_calling="text"))
        assert helper("What is on the screen?") == "I see words."
        assert "receives text only" in server.requests[2].json["messages"][-1]["content"]
        assert helper(["Is it this?", OTHER]) == "Still."
        assert urls(server.requests[3].json["messages"][-1]["content"]) == [OTHER.url]


def test_image_of_the_user_is_not_removed():
    """A rejected image of the user fails the run and is not removed."""
    text = "image_url is only supported by certain models"
    with FakeServer(call("screenshot"), fail(400, text), fail(400, text)) as server:
        helper = looker(returning(PICTURE), llm=LLM(base_url=server.base_url, model="any"))
        result = helper.run(["Is it this?", OTHER])
        assert "certain models" in str(result.error)
        assert OTHER.url in json.dumps(server.requests[2].json)


def test_server_requires_an_assistant_message_before_user():
    """For servers of Mistral models, an assistant message is inserted before the images."""
    text = "Unexpected role 'user' after role 'tool'"
    with FakeServer(call("screenshot"), fail(400, text), "A cat.") as server:
        helper = looker(returning(PICTURE), llm=LLM(base_url=server.base_url, model="any"))
        assert helper("What is on the screen?") == "A cat."
        sent = server.requests[2].json["messages"]
    assert [entry["role"] for entry in sent[-3:]] == ["tool", "assistant", "user"]
    assert urls(sent[-1]["content"]) == [PICTURE.url]


def test_images_with_text_based_tool_calling():
    """With text-based tool calling, the images of a result are attached to the message."""
    with FakeServer("<TOOL: screenshot></TOOL>", "A cat.") as server:
        llm = LLM(base_url=server.base_url, model="any", tool_calling="text")
        assert looker(returning(PICTURE), llm=llm)("What is on the screen?") == "A cat."
        content = server.requests[1].json["messages"][-1]["content"]
    assert WORDS in content[0]["text"]
    assert urls(content) == [PICTURE.url]


FLAWED = {
    "too long": (Image.read(PNG + bytes(3_750_000)), "[image/png, 3.8 MB: not shown, it has more than 3.75 MB"),
    "another type": (Image("data:image/svg+xml;base64,PHN2Zy8+"), "models read PNG, JPEG, GIF and WebP"),
    "not base64": (Image("data:image/png;base64,iVBOR*"), "its data is not valid base64"),
    "plain data": (Image("data:image/svg+xml,<svg/>"), "must begin with https:, or be a data: URL in base64"),
    "a file": (Image("file:///etc/passwd"), "must begin with https:, or be a data: URL in base64"),
    "too many": ([PICTURE] * 21, "[image/png, 72 bytes: not shown, more than 20 were returned]"),
}


@pytest.mark.parametrize(("value", "expected"), FLAWED.values(), ids=FLAWED)
def test_unsupported_image_is_replaced_by_a_note(value, expected):
    """An image that providers would reject is replaced by a note that explains why."""
    result = returning(value).invoke({})
    assert expected in result.content
    assert len(result.images) == (20 if isinstance(value, list) else 0)


def test_images_do_not_count_toward_the_length():
    """Images do not count toward the maximum length; one whose note does not fit is omitted."""
    large = Image.read(PNG + bytes(1_000_000))
    result = tool(lambda: {"text": "x" * 900, "picture": large}, name="t", max_chars=1_000).invoke({})
    assert (result.status, len(result.images)) == ("ok", 1)
    pages = [{"page": number, "picture": PICTURE} for number in range(15)]
    result = tool(lambda: pages, name="t", max_chars=500).invoke({})
    assert result.status == "truncated"
    assert [f"[image {number}:" in result.content for number in (1, len(result.images), len(result.images) + 1)] == [
        True,
        True,
        False,
    ]


def test_direct_call_returns_the_image():
    """Calling the tool directly returns the image."""
    assert returning(PICTURE)() is PICTURE
    assert returning(PICTURE).invoke({}).value is PICTURE


def test_history_contains_images():
    """The history contains the images of results and can be set again."""
    first = looker(returning(PICTURE), llm=ScriptedLLM(call("screenshot"), "A cat."))
    first("What is on the screen?")
    json.dumps(first.history)
    with FakeServer("White.") as server:
        second = looker(llm=LLM(base_url=server.base_url, model="any"))
        second.history = first.history
        second("Which colour?")
        sent = server.requests[0].json["messages"]
    assert [entry["role"] for entry in sent[1:]] == ["user", "assistant", "tool", "user", "assistant", "user"]
    assert urls(sent[4]["content"]) == [PICTURE.url]


def test_session_stores_images(tmp_path):
    """A session stores images without redacting them and sends them again."""
    path = tmp_path / "talk.db"
    hidden = Image.read(PNG + bytes(2) + base64.b64decode("/AKIA234567ABCDEFGHIJ/AA"))
    assert redact(hidden.url) != hidden.url
    looker(returning(hidden), llm=ScriptedLLM(call("screenshot"), "A cat."), session=Session.open(path))("Look.")
    with FakeServer("White.") as server:
        looker(llm=LLM(base_url=server.base_url, model="any"), session=Session.open(path))("Which colour?")
        assert hidden.url in json.dumps(server.requests[0].json)


def test_replay_uses_recorded_images(tmp_path):
    """A replay uses the recorded images, and a different image is a different request."""
    path = tmp_path / "run.cassette"
    with record(path):
        looker(returning(PICTURE), llm=ScriptedLLM(call("screenshot"), "A cat."))("Look.")
    with replay(path):
        result = looker(returning(OTHER), llm=ScriptedLLM("Never said."))("Look.")
    assert result == "A cat."
    messages = [ToolMessage("a", "screenshot", WORDS, images=(picture,)) for picture in (PICTURE, OTHER)]
    assert message_key(messages[0]) != message_key(messages[1])


@pytest.mark.parametrize("name", ["screenshot", "page"])
def test_images_are_passed_over_mcp(name):
    """Images are sent to and received from MCP, and received images are untrusted."""
    tools = returning(PICTURE), returning({"page": 3, "picture": PICTURE}, "page")
    server = ToolServer(tools).protocol_server()
    with MCPServer(server, level="safe") as remote, FakeServer(call(name), "A cat.") as model:
        result = looker(remote, llm=LLM(base_url=model.base_url, model="any")).run("Look.")
        assert urls(model.requests[1].json["messages"][-1]["content"]) == [PICTURE.url]
        assert remote.call(name)[-1] == PICTURE
    assert result.tool_calls[0].result.labels == {Label.UNTRUSTED}


def test_different_images_are_different_results():
    """Results with different images of the same size are not repeated calls; equal images are."""

    def run(pictures):
        shots = iter(pictures)

        def screenshot() -> Image:
            """Take a picture."""
            return next(shots)

        script = [call("screenshot")] * 6, "Done."
        llm = ScriptedLLM(*script[0], script[1])
        return looker(screenshot, llm=llm).run("Watch.", limits=Limits(repeated_calls=3))

    new = run([Image.read(PNG + bytes([number])) for number in range(6)])
    assert (new.status, "[Note" in str(new.messages)) == ("done", False)
    assert "[Note" in str(run([PICTURE] * 6).messages)


def test_images_in_every_way_to_run():
    """Every way to run an agent sends the images of its tools."""
    for mode in ("arun", "stream"):
        llm = ScriptedLLM(call("screenshot"), "A cat.")
        helper = looker(returning(PICTURE), llm=llm)
        asyncio.run(helper.arun("Look.")) if mode == "arun" else list(helper.stream("Look."))
        assert llm.requests[1].messages[-1].images == (PICTURE,)
