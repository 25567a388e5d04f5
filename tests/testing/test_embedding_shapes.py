"""Tests for embeddings responses of the fake server."""

import json

import openai
import pytest

from agentkit.testing import FakeServer, RecordedRequest, ScriptError, fail
from agentkit.testing.fake_responses import embeddings_reply


def asked(**body):
    """Return the status and the body of the answer to an embeddings request."""
    content = embeddings_reply(RecordedRequest("POST", "/v1/embeddings", json=body)).content
    return content.status, json.loads(b"".join(content.chunks))


def test_embeddings_answer():
    """An answer has a numbered vector for each text, the model, and the tokens."""
    status, body = asked(model="m", input=["one two", "three"], dimensions=4)
    assert (status, body["object"], body["model"]) == (200, "list", "m")
    assert [(entry["object"], entry["index"], len(entry["embedding"])) for entry in body["data"]] == [
        ("embedding", 0, 4),
        ("embedding", 1, 4),
    ]
    assert body["usage"] == {"prompt_tokens": 3, "total_tokens": 3}


def test_single_text():
    """A single text can be sent without a list."""
    assert len(asked(model="m", input="one")[1]["data"]) == 1


@pytest.mark.for_each(
    "body",
    [
        {},
        {"input": []},
        {"input": ""},
        {"input": ["x", ""]},
        {"input": [1]},
        {"input": ["x"] * 2_049},
        {"input": "x", "dimensions": 0},
        {"input": "x", "dimensions": "many"},
    ],
)
def test_invalid_requests_are_rejected(body):
    """Requests that OpenAI rejects are rejected with the name of the parameter."""
    status, output = asked(model="m", **body)
    assert (status, output["error"]["param"] in ("input", "dimensions")) == (400, True)


def test_embeddings_do_not_use_lines():
    """Embedding requests are recorded with the others and do not use lines."""
    with FakeServer("Hi") as server, openai.OpenAI(base_url=server.base_url, api_key="key") as client:
        client.embeddings.create(model="m", input="x")
        output = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello"}])
        assert output.choices[0].message.content == "Hi"
        assert [request.path for request in server.requests] == ["/v1/embeddings", "/v1/chat/completions"]


def test_other_answers_come_first():
    """Answers in `embeddings` are used first; unused ones are reported at the end."""
    with FakeServer(embeddings=[fail(400, "No")]) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="key", max_retries=0)
        with pytest.raises(openai.BadRequestError):
            client.embeddings.create(model="m", input="x")
        assert len(client.embeddings.create(model="m", input="x").data) == 1
        client.close()
    with pytest.raises(ScriptError, match="Only 0 of the script's 1 lines"), FakeServer(embeddings=[fail()]):
        pass


def test_text_among_embeddings_is_rejected():
    """A string in the list of embeddings raises an error in the script."""
    with (
        pytest.raises(ScriptError, match="A text cannot answer an embeddings request"),
        FakeServer(embeddings=["Hi"]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="key", max_retries=0) as client,
        pytest.raises(openai.InternalServerError),
    ):
        client.embeddings.create(model="m", input="x")
