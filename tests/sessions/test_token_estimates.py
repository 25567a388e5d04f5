"""Tests for token estimates and their calibration."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.content import File, Image
from agentkit.messages import (
    AssistantMessage,
    OutputSchema,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from agentkit.sessions.token_estimates import Calibration, Estimates, tokens_in, tokens_of

ENGLISH = (
    "The quick growth of language models has changed how people write programs. A model reads what was said before, "
    "decides what it wants to do next, and asks for a tool when it cannot know the answer by itself. The results are "
    "then told to the model, which goes on until it has found what the person wanted to know."
)
VIETNAMESE = (
    "Trí tuệ nhân tạo đang thay đổi cách chúng ta sống và làm việc. Ngày càng nhiều công ty bắt đầu sử dụng các mô "
    "hình ngôn ngữ để giúp nhân viên hoàn thành công việc hằng ngày, chẳng hạn như viết thư, tóm tắt tài liệu và trả "
    "lời câu hỏi."
)
CHINESE = (
    "人工智能正在改变我们的生活方式。越来越多的公司开始使用语言模型来帮助员工完成日常工作。"
    "这些模型可以写邮件、总结文件和回答问题。"
)
PYTHON = '''
def fetch(self, url, timeout=None, **kwargs):
    """Return the body."""
    if self._session is None:
        self._session = Session(retries=3)
    response = self._session.get(url, timeout=timeout or self.timeout)
    for key, value in response.headers.items():
        self._seen[key.lower()] = value
    return response.json()["data"][0]
'''
JSON = json.dumps([{"id": row, "price": row * 1.25, "tags": ["a", "b"], "active": True} for row in range(50)])


@pytest.mark.parametrize(
    ("text", "chars_a_token"),
    [(ENGLISH, 5.2), (VIETNAMESE, 3.8), (CHINESE, 2.0), (PYTHON, 3.4), (JSON, 1.9)],
    ids=["English", "Vietnamese", "Chinese", "Python", "JSON"],
)
def test_estimate_depends_on_the_script(text: str, chars_a_token: float) -> None:
    """Tokens are estimated from the characters of a text, depending on its script and kind."""
    assert len(text) / tokens_in(text) == pytest.approx(chars_a_token, rel=0.12)


@given(st.text(st.characters(codec=None)), st.text())
def test_estimates_add_up(one: str, other: str) -> None:
    """Any text has an estimate, and the estimates of two texts add up."""
    assert tokens_in(one) >= 0
    assert tokens_in(one + other) == pytest.approx(tokens_in(one) + tokens_in(other), abs=5)


@pytest.mark.for_each(
    ("entry", "least"),
    [
        (UserMessage("hello"), 5),
        (UserMessage((Image("data:x"), "what is this?")), 1_000),
        (UserMessage((Image("https://example.com/a.png", "low"),)), 100),
        (SystemMessage("Be brief."), 5),
        (AssistantMessage("x", (ToolCall("call_1", "add", '{"a": 1}'),)), 20),
        (AssistantMessage("", (ToolCall("call_1", "add", "{}", {"signature": "x" * 5_000}),)), 1_000),
        (AssistantMessage("", extra={"reasoning": [{"encrypted_content": "x" * 5_000, "index": 1}]}), 1_000),
        (ToolMessage("call_1", "add", "x" * 1_000), 200),
        (ToolMessage("call_1", "look", "", images=(Image("data:x"), Image("data:y", "low"))), 1_100),
        (ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}}), 30),
        (ToolSpec("add", "Add.", {}, {"type": "object", "properties": {"a": {"type": "integer"}}}), 25),
        (OutputSchema("sum", {"type": "object", "properties": {"total": {"type": "integer"}}}), 25),
        (UserMessage(" " * 8_000), 250),
    ],
)
def test_everything_in_a_request_counts(entry: object, least: int) -> None:
    """Text, whitespace, images, calls, results, tools, schemas and provider data count towards the estimate."""
    assert least <= tokens_of(entry) <= 2 * least + 20


def test_estimate_is_cached() -> None:
    """Equal messages have the same estimate, which is cached."""
    estimates = Estimates()
    messages = [UserMessage("hello"), UserMessage("hello"), AssistantMessage("hi")]
    assert [estimates.of(message) for message in messages] == [tokens_of(message) for message in messages]
    assert estimates.total(messages) == estimates.total(messages) == sum(map(tokens_of, messages))


def test_estimate_of_a_request_is_the_sum_of_its_parts() -> None:
    """The estimate of a request is the sum of its parts."""
    tool = ToolSpec("add", "Add two numbers.", {"type": "object"})
    alone = Estimates().total([UserMessage("hello")])
    assert Estimates().total([UserMessage("hello")], "Be brief.", [tool]) == alone + tokens_of(tool) + tokens_of(
        SystemMessage("Be brief.")
    )


def test_output_schema_counts() -> None:
    """The output schema counts towards the estimate."""
    output = OutputSchema("sum", {"type": "object", "properties": {"total": {"type": "integer"}}})
    estimates, messages = Estimates(), [UserMessage("hello")]
    assert estimates.total(messages, output=output) == estimates.total(messages) + tokens_of(output)


def test_deeply_nested_provider_data_counts() -> None:
    """Strings in deeply nested provider data are counted."""
    deep: object = "x" * 5_000
    for _ in range(50_000):
        deep = [deep]
    assert tokens_of(AssistantMessage("", extra={"reasoning": deep})) >= 1_000


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ({"type": "image_generation_call", "result": "iVBORw0KGgo" + "A" * 2_000_000}, 1_000, 1_100),
        ({"outputs": [{"type": "image", "url": "data:image/png;base64," + "A" * 2_000_000}]}, 1_000, 1_100),
        ({"source": {"media_type": "application/pdf", "data": "JVBERi0" + "A" * 200_000}}, 4_000, 6_100),
        ({"result": "/9j/ is how a picture begins"}, 0, 20),
        ({"encrypted_content": "A" * 5_000}, 1_000, 1_100),
    ],
)
def test_files_in_provider_data_are_estimated_as_files(text: dict[str, object], least: int, most: int) -> None:
    """An image or PDF in provider data is not estimated as a long string."""
    assert least <= tokens_of(AssistantMessage("", extra={"output": (text,)})) <= most


def test_estimate_does_not_depend_on_earlier_ones() -> None:
    """An estimate does not depend on earlier estimates."""
    estimates = Estimates()
    messages = [UserMessage("What is it?"), AssistantMessage("It is four."), UserMessage("And the double of it?")]
    specs = [ToolSpec("add", "Add two numbers.", {}), ToolSpec("double", "Double a number.", {})]
    for text in (messages[:1], messages, messages[1:], messages[:2], [], messages):
        for order, tools in (("Be brief.", specs), ("Be brief.", specs[:1]), ("", specs[:1]), ("", [])):
            assert estimates.total(text, order, tools) == Estimates().total(text, order, tools)


# a file, and the bounds of its estimate
FILES = {
    "pages that can be counted": (File.read(b"%PDF-1.4 " + b"<< /Type /Page >> << /Type/Pages >>" * 4), 6_000, 6_100),
    "pages that are hidden": (File.read(b"%PDF-1.7 " + bytes(200_000)), 6_000, 8_000),
    "a minute of speech": (File.read(b"RIFF\n\0\0\nWAVE" + bytes(64_000 * 60)), 1_500, 1_600),
    "a minute of MP3": (File.read(b"ID3\x04" + bytes(16_000 * 60)), 1_500, 1_600),
    "a minute in another format": (File.read(b"OggS\0" + bytes(12_000 * 60)), 1_500, 1_600),
    "an address": (File("https://example.com/a.pdf"), 5_000, 5_010),
    "a text": (File.read(b"hello " * 1_000, "a.txt"), 1_000, 1_300),
}


@pytest.mark.parametrize(("file", "least", "most"), FILES.values(), ids=FILES)
def test_files_are_estimated(file, least, most) -> None:
    """A PDF is estimated by its pages, a recording by its duration and a text file by its words."""
    assert least <= tokens_of(UserMessage(("", file))) <= most
    assert least <= tokens_of(ToolMessage("a", "b", "", files=(file,))) <= most


def test_estimates_are_dropped_with_their_messages() -> None:
    """The estimate of a message and its derived copies are dropped with the message."""
    estimates = Estimates()
    for number in range(1_000):
        message = UserMessage(str(number))
        assert estimates.of(message) == tokens_of(message)
        assert estimates.cached_value(message, "copy", lambda message=message: UserMessage(message.content)) == message
    assert estimates.count <= 2


def test_forgetting_releases_the_latest_request() -> None:
    """The messages of the latest request are cached until `forget` is called."""
    estimates = Estimates()
    total = estimates.total([UserMessage("Hi"), UserMessage("there")])
    assert (total > 0, estimates.count) == (True, 2)
    assert estimates.total(()) == 0
    assert estimates.count == 2
    estimates.forget()
    assert estimates.count == 0


def test_shortened_message_is_cached() -> None:
    """A shortened message is cached for each way of shortening."""
    estimates, message = Estimates(), UserMessage("hello")
    made = [estimates.cached_value(message, mode, lambda: UserMessage("short")) for mode in (1, 1, 2)]
    assert made[0] is made[1]
    assert made[0] is not made[2]


def test_calibration_uses_the_counts_of_the_server() -> None:
    """Token counts reported by the server correct the estimates in both directions."""
    calibration = Calibration()
    assert (calibration.to_server(100), calibration.to_estimate(100)) == (100, 100)
    for _ in range(3):
        calibration = calibration.updated(1_000, 1_500)
    assert calibration.ratio == 1.5
    assert (calibration.to_server(100), calibration.to_estimate(150)) == (150, 100)


def test_calibration_ignores_outliers() -> None:
    """The calibration is the median of the last nine ratios, within bounds; a count of zero is ignored."""
    calibration = Calibration()
    for reported in (1_200, 1_200, 1_000_000, 1_200, 1):
        calibration = calibration.updated(1_000, reported)
    assert calibration.ratio == 1.2
    assert calibration.updated(0, 50) is calibration.updated(50, 0) is calibration
    assert Calibration().updated(1, 10**9).ratio == 4.0
    assert Calibration().updated(10**9, 1).ratio == 0.4
    for _ in range(20):
        calibration = calibration.updated(1_000, 900)
    assert calibration.ratios == (0.9,) * 9
