"""Tests for `extract`, which returns a typed value from a text."""

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Literal

import pytest

from agentkit.content import Image
from agentkit.errors import BadResponse, ConfigError, Rejected
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer, ScriptedLLM, call, fail, refuse, say

TEXT = "Invoice A1: a lamp for 30 EUR."
PIXEL = "data:image/png;base64,iVBORw0KGgo="


@dataclass
class Invoice:
    """An invoice."""

    number: str
    total: float


GOOD = '{"number": "A1", "total": 30}'
BAD = '{"number": "A1", "total": "much"}'
TOLD = "'total' should be a valid number, unable to parse string as a number; got \"much\"."


def blocking(llm, *arguments, **options):
    """Extract synchronously."""
    return llm.extract(*arguments, **options)


def awaiting(llm, *arguments, **options):
    """Extract asynchronously."""
    return asyncio.run(llm.aextract(*arguments, **options))


@pytest.fixture(params=[blocking, awaiting], ids=lambda mode: mode.__name__)
def extract(request):
    """Both ways to extract."""
    return request.param


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_type_is_extracted_over_http(extract, protocol):
    """The schema and the text are sent to the server, and the answer is converted to the type."""
    with FakeServer(GOOD) as server:
        llm = LLM(base_url=server.base_url, model="any", protocol=protocol)
        invoice = extract(llm, TEXT, Invoice, instruction="Amounts are in EUR.", temperature=0, top_p=None)
        sent = server.requests[0].json
    assert invoice == Invoice("A1", 30.0)
    shape = sent["text"]["format"] if protocol == "responses" else sent["response_format"]["json_schema"]
    assert (shape["name"], shape["strict"], shape["schema"]["required"]) == ("Invoice", True, ["number", "total"])
    assert (sent["temperature"], "top_p" in sent) == (0, False)
    assert "do not guess" in json.dumps(sent)
    assert "Amounts are in EUR." in json.dumps(sent)
    assert TEXT in json.dumps(sent)


def test_invalid_answer_is_sent_back_with_its_error(extract):
    """An invalid answer is sent back with its error and the schema, and the corrected one is returned."""
    with ScriptedLLM(BAD, "I am sorry.", GOOD) as llm:
        assert extract(llm, TEXT, Invoice) == Invoice("A1", 30.0)
    first, second, third = (request.messages for request in llm.requests)
    assert [message.content for message in first] == [TEXT]
    assert [second[0], second[1].text, len(third)] == [first[0], BAD, 5]
    assert TOLD in second[2].content
    assert '"required":["number","total"]' in second[2].content
    assert "it contains none" in third[4].content
    assert {request.output_schema.name for request in llm.requests} == {"Invoice"}


def test_last_invalid_answer_raises_bad_response(extract):
    """After `retries` more answers, BadResponse contains the error of the last one."""
    with ScriptedLLM(GOOD.replace("30", "[]"), BAD) as llm, pytest.raises(BadResponse) as caught:
        extract(llm, TEXT, Invoice, retries=1)
    assert str(caught.value) == f"The model gave no Invoice in 2 answers. {TOLD}"
    with ScriptedLLM(BAD) as llm, pytest.raises(BadResponse, match=r"^The model gave no Invoice\. 'total' should"):
        extract(llm, TEXT, Invoice, retries=0)


def test_truncated_answer_is_not_retried(extract):
    """An answer truncated at its token limit raises an error without a retry, unless it is complete."""
    with ScriptedLLM(say(BAD[:20], finish_reason="length")) as llm, pytest.raises(BadResponse, match="max_tokens"):
        extract(llm, TEXT, Invoice)
    with ScriptedLLM(say(GOOD, finish_reason="length")) as llm:
        assert extract(llm, TEXT, Invoice).number == "A1"


def test_unexpected_tool_calls_are_not_sent_back(extract):
    """A tool call instead of an answer is not sent back, and the model is asked again."""
    with ScriptedLLM(call("save", number="A1"), GOOD) as llm:
        extract(llm, TEXT, Invoice)
    assert [type(message).__name__ for message in llm.requests[1].messages] == ["UserMessage", "UserMessage"]


def test_provider_errors_are_raised(extract):
    """A provider's refusal is raised as in other requests."""
    with FakeServer(refuse("No."), fail(400, "Bad.")) as server:
        llm = LLM(base_url=server.base_url, model="any")
        for _ in range(2):
            with pytest.raises(Rejected):
                extract(llm, TEXT, Invoice)


def test_non_object_types_and_images(extract):
    """Non-object types are unwrapped, `str` is requested without a schema, and images are accepted."""
    with ScriptedLLM('{"result": "good"}', "A lamp.", '{"result": [1, 2]}') as llm:
        assert extract(llm, "I like it.", Literal["good", "bad"]) == "good"
        assert extract(llm, [TEXT, Image(PIXEL)], str) == "A lamp."
        assert extract(llm, "1 and 2", list[int]) == [1, 2]
    assert llm.requests[1].messages[0].content == (TEXT, Image(PIXEL))
    assert llm.requests[1].output_schema is None


def test_string_is_always_valid(extract):
    """With `str`, every answer is valid."""
    with ScriptedLLM("{") as llm:
        assert extract(llm, TEXT, str) == "{"


@pytest.mark.parametrize("retries", [-1, 1.5, "2"])
def test_invalid_retries_are_rejected(extract, retries):
    """The number of retries is validated before a request is sent."""
    with ScriptedLLM() as llm, pytest.raises(ConfigError, match=r"retries= takes a whole number, 0 or more\. Got"):
        extract(llm, TEXT, Invoice, retries=retries)


def test_value_that_is_not_a_type_raises_config_error(extract):
    """A value that is not a type raises ConfigError before a request is sent."""
    with ScriptedLLM() as llm, pytest.raises(ConfigError, match="pass the type itself"):
        extract(llm, TEXT, "Invoice")


def test_pydantic_is_imported_when_a_type_is_given():
    """An LLM imports pydantic only for extraction."""
    code = (
        "import sys; from agentkit.testing import ScriptedLLM; llm = ScriptedLLM('Hi', '1'); llm.chat('Hi');"
        "assert 'pydantic' not in sys.modules; llm.extract('Hi', int); assert 'pydantic' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- the offline model

OFFLINE_SECONDS = 300


@pytest.fixture(scope="module")
def offline():
    """One offline LLM, and so one engine, for all tests of this file."""
    return LLM("offline", timeout_seconds=OFFLINE_SECONDS)


@dataclass
class Person:
    """A person."""

    name: str
    age: int
    nickname: str | None = None


@pytest.mark.slow
def test_offline_model_extracts_a_type(extract, offline):
    """The offline model extracts a small type from a short text."""
    assert extract(offline, "Alice is 30 years old", Person) == Person("Alice", 30)


@pytest.mark.slow
def test_offline_model_reports_missing_fields(extract, offline):
    """The offline model raises BadResponse for a field that is missing from the text."""
    with pytest.raises(BadResponse, match="age"):
        extract(offline, "Alice is old", Person)
