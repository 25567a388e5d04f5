"""Tests for embeddings over a real connection, with the responses of real servers."""

import asyncio

import openai
import pytest

from agentkit.errors import BadResponse, RateLimited, Rejected, Unauthorized, Unreachable
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer, drop, fail, raw
from agentkit.usage import Price

KEY = "sk-test-0123456789"


def embed(llm, texts, **settings):
    """Return the vectors of a sync request."""
    return llm.embed(texts, **settings)


def aembed(llm, texts, **settings):
    """Return the vectors of an async request."""
    return asyncio.run(llm.aembed(texts, **settings))


@pytest.fixture(name="embed", params=[embed, aembed], ids=["embed", "aembed"])
def embed_fixture(request):
    """Both ways to request vectors."""
    return request.param


def connect(server, **options):
    """Return an LLM for the server that does not retry."""
    return LLM(**{"base_url": server.base_url, "model": "m", "max_retries": 0, "api_key": KEY, **options})


def answer(*vectors, **fields):
    """Return a response body with the given vectors as JSON."""
    import json

    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return raw(json.dumps({"object": "list", "data": data, **fields}), content_type="application/json")


def test_many_texts_are_sent_in_batches(embed):
    """Many texts are sent in several requests, and their vectors are in the order of the texts."""
    texts = [f"text number {number}" for number in range(250)]
    with FakeServer() as server:
        llm = connect(server)
        vectors = embed(llm, texts)
        assert vectors == [llm.embed([text])[0] for text in texts[:3]] + vectors[3:]
        assert vectors[-1] == llm.embed([texts[-1]])[0]
        assert [len(request.json["input"]) for request in server.requests[:3]] == [96, 96, 58]
    assert vectors.usage.requests == 3


def test_long_texts_are_sent_in_smaller_batches(embed):
    """Texts with a large total length are sent in several requests."""
    texts = [f"{number} {'word ' * 8_000}" for number in range(12)]
    with FakeServer() as server:
        assert len(embed(connect(server), texts)) == 12
        assert [len(request.json["input"]) for request in server.requests] == [4, 4, 4]


TOO_MANY = (
    "Too many inputs. The max number of inputs is 16.",
    "BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch",
    "Value error, batch size is invalid, it should not be larger than 10.",
    "Too many tokens overall, split into more batches.",
    "Invalid 'input': array too long. Expected an array with maximum length 2048.",
    "Requested 400000 tokens, max 300000 tokens per request",
    "input should have at most 96 entries",
)


@pytest.mark.for_each("text", TOO_MANY)
@pytest.mark.for_each("status", [400, 413, 422])
def test_refused_batch_is_halved(text, status):
    """A batch that the server refuses is halved, and the smaller size is used for later ones."""

    def bounded(request, most=12):
        from agentkit.testing.fake_responses import embeddings_reply

        is_too_much = len(request.json["input"]) > most
        return fail(status, text) if is_too_much else embeddings_reply(request)

    with FakeServer(embeddings=[bounded] * 20) as server:
        llm = connect(server)
        assert len(llm.embed(["text"] * 40)) == 40
        sizes = [len(request.json["input"]) for request in server.requests]
        assert sizes == [40, 20, 10, 10, 10, 10]
        assert len(llm.embed(["text"] * 40)) == 40
        assert [len(request.json["input"]) for request in server.requests[6:]] == [10] * 4
        llm.embed(["text"] * 100)


def test_overlong_text_is_named_in_the_error(embed):
    """The error for a too long text names the text, and the smaller batch size is not remembered."""

    def bounded(request):
        from agentkit.testing.fake_responses import embeddings_reply

        if any(len(text) > 100 for text in request.json["input"]):
            return fail(400, "This model's maximum context length is 20 tokens, however you requested 50 tokens.")
        return embeddings_reply(request)

    texts = ["short"] * 8
    texts[5] = "long " * 50
    with FakeServer(embeddings=[bounded] * 8) as server:
        llm = connect(server)
        with pytest.raises(Rejected, match=r"texts\[5\] \(250 characters\) is too long for m") as raised:
            embed(llm, texts)
        assert raised.value.is_too_long
        already = len(server.requests)
        llm.embed(["short"] * 8)
        assert len(server.requests[already].json["input"]) == 8
        for _ in range(8 - already - 1):
            llm.embed(["short"])


def test_vectors_are_requested_in_base64(embed):
    """Vectors are requested in base64, and without it from a server that rejects the parameter."""
    refused = fail(400, "Unrecognized request argument supplied: encoding_format", parameter="encoding_format")
    with FakeServer(embeddings=[refused]) as server:
        llm = connect(server)
        assert len(embed(llm, ["x"])[0]) == 64
        llm.embed(["y"])
        messages = [request.json.get("encoding_format") for request in server.requests]
    assert messages == ["base64", None, None]


def test_refused_encoding_of_the_user_is_raised():
    """A refused encoding_format that the user set is raised without a retry."""
    refused = fail(400, "encoding_format is unknown", parameter="encoding_format")
    with FakeServer(embeddings=[refused]) as server, pytest.raises(Rejected, match="encoding_format is unknown"):
        connect(server).embed(["x"], encoding_format="base64")


NO_VECTORS = (
    (404, "The model `gpt` does not exist", Rejected),
    (403, "You are not allowed to generate embeddings from this model", Unauthorized),
    (400, "The model does not support Embeddings API", Rejected),
    (501, "This server does not support embeddings. Start it with `--embeddings`", Unreachable),
)


@pytest.mark.for_each(("status", "text", "kind"), NO_VECTORS)
def test_chat_model_error_suggests_embedding_models(embed, status, text, kind):
    """The error of a chat model that makes no vectors suggests embedding models."""
    with FakeServer(embeddings=[fail(status, text)]) as server:
        with pytest.raises(kind, match=r"Chat models cannot compute embeddings.*text-embedding-3-small") as raised:
            embed(connect(server), ["x", "y"])
        assert text.split("`")[0] in str(raised.value)


BAD_ANSWERS = (
    (answer([0.1], usage={}), "received 2 texts and returned 1 vectors"),
    (answer([0.1], [0.2], [0.3]), "received 2 texts and returned 3 vectors"),
    (answer([0.1, 0.2], [0.3]), "vectors of different lengths: 1, 2"),
    (answer([0.1], []), "not a list of finite numbers"),
    (answer([0.1], None), "not a list of finite numbers"),
    (answer([0.1], [float("nan")]), "not a list of finite numbers"),
    (answer([0.1], ["much"]), "not a list of finite numbers"),
    (answer([0.1], "no base64!"), "not a list of finite numbers"),
    (answer([0.1], "AAA="), "not a list of finite numbers"),
    (answer([0.1], [[0.1], [0.2]]), "not a list of finite numbers"),
    (answer([0.1], [10**400]), "not a list of finite numbers"),
    (
        raw('{"data": [{"index": 3, "embedding": [1]}, {"index": 1, "embedding": [1]}]}'),
        "indexes of the 2 returned vectors are wrong",
    ),
    (raw('{"embeddings": [[1], [2]]}'), "returned 0 vectors: it says"),
    (raw("<html>", content_type="text/html"), "not an OpenAI-compatible endpoint"),
    (raw('{"data": ['), "invalid JSON"),
)


@pytest.mark.for_each(("line", "message"), BAD_ANSWERS)
def test_invalid_vectors_raise_bad_response(embed, line, message):
    """A response without a valid vector for each text raises BadResponse with the reason."""
    with FakeServer(embeddings=[line]) as server, pytest.raises(BadResponse, match=message):
        embed(connect(server), ["x", "y"])


GOOD_ANSWERS = (
    (answer([1, 0], [0, 1]), [[1.0, 0.0], [0.0, 1.0]]),
    (answer([[1, 0]], [[0, 1]]), [[1.0, 0.0], [0.0, 1.0]]),
    (answer("AACAPwAAAAA=", "AAAAAAAAgD8="), [[1.0, 0.0], [0.0, 1.0]]),
    (raw('{"data": [{"index": 1, "embedding": [0]}, {"index": 0, "embedding": [1]}]}'), [[1.0], [0.0]]),
    (raw('{"data": [{"embedding": [1]}, {"embedding": [0]}]}'), [[1.0], [0.0]]),
    (raw('{"data": [{"index": "1", "embedding": [0]}, {"index": "0", "embedding": [1]}]}'), [[1.0], [0.0]]),
    (raw('{"data": [{"index": 1.0, "embedding": [0]}, {"embedding": [1]}], "detail": null}'), [[1.0], [0.0]]),
    (answer("AACAPwAAAAA", "AAAAAAAA\ngD8="), [[1.0, 0.0], [0.0, 1.0]]),
    (raw('{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [0]}]}'), [[1.0], [0.0]]),
)


@pytest.mark.for_each(("line", "vectors"), GOOD_ANSWERS)
def test_vectors_of_many_formats(line, vectors):
    """Vectors as lists, base64 or nested lists are parsed and sorted by their index."""
    with FakeServer(embeddings=[line]) as server:
        assert connect(server).embed(["x", "y"]) == vectors


def test_wrong_number_of_dimensions_raises_an_error():
    """Vectors with another number of dimensions than requested raise an error."""
    with (
        FakeServer(embeddings=[answer([1, 0, 0])]) as server,
        pytest.raises(BadResponse, match="dimensions=2 was requested, but the server returned 3"),
    ):
        connect(server).embed(["x"], dimensions=2)


USAGES = (
    ({"prompt_tokens": 7, "total_tokens": 7}, (7, 0, 0)),
    ({"total_tokens": 7}, (7, 0, 0)),
    ({"prompt_tokens": 7, "completion_tokens": 0, "total_tokens": 7}, (7, 0, 0)),
    (None, (0, 0, 1)),
    ({}, (0, 0, 1)),
)


@pytest.mark.parametrize(("usage", "expected"), USAGES)
def test_usage_of_embeddings(usage, expected):
    """The tokens are those counted by the server under any name; without any they are unreported."""
    with FakeServer(embeddings=[answer([1], usage=usage, model="served")]) as server:
        vectors = connect(server).embed(["x"])
    used = vectors.usage
    assert (used.input_tokens, used.output_tokens, used.unreported, vectors.model) == (*expected, "served")


def test_cost_of_vectors():
    """Vectors are priced by the given price, and without a price their cost is None."""
    with FakeServer() as server:
        llm = connect(server, price=Price(2, 0))
        assert llm.embed(["one two three"]).cost.dollars == pytest.approx(6e-6)
        assert connect(server).embed(["one two three"]).cost is None


def test_temporary_failures_are_retried(embed):
    """Temporary failures are retried as for answers, and unanswered attempts are counted."""
    with FakeServer(embeddings=[fail(429, headers={"Retry-After": "0.01"}), drop()]) as server:
        vectors = embed(connect(server, max_retries=2), ["x"])
        assert len(server.requests) == 3
    assert (vectors.usage.requests, vectors.usage.unreported) == (2, 1)


def test_no_error_shows_a_key(embed):
    """No error contains the key, even if the server quotes it."""
    line = raw(f'{{"data": "{KEY}", "note": "{KEY}"}}')
    with FakeServer(embeddings=[fail(401, f"Incorrect API key provided: {KEY}"), line]) as server:
        for kind in (Unauthorized, BadResponse):
            with pytest.raises(kind) as raised:
                embed(connect(server), ["x"])
            assert KEY not in str(raised.value)


def test_rate_limit_does_not_halve_the_batch(embed):
    """A rate limit does not halve the batch."""
    with FakeServer(embeddings=[fail(429, "Too many requests in this batch")]) as server:
        with pytest.raises(RateLimited):
            embed(connect(server), ["x", "y"])
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("version", "path"),
    [("2024-02-01", "/openai/deployments/my-vectors/embeddings"), ("v1", "/openai/v1/embeddings")],
)
def test_azure(embed, version, path):
    """Azure embeddings use the path of the deployment or the v1 style, with the key in a separate header."""
    with FakeServer() as server:
        llm = LLM("azure", "my-vectors", KEY, azure_endpoint=server.origin, azure_api_version=version)
        assert len(embed(llm, ["x"])) == 1
        (request,) = server.requests
    assert (request.path, request.headers["api-key"], request.json["model"]) == (path, KEY, "my-vectors")


def test_headers_and_query(embed):
    """Custom headers and the query are sent with every request, and a pasted path is removed."""
    with FakeServer() as server:
        llm = LLM(base_url=f"{server.base_url}/embeddings?team=blue", model="m", headers={"X-Team": "blue"})
        embed(llm, ["x"])
        (request,) = server.requests
    assert (request.path, request.query, request.headers["x-team"]) == ("/v1/embeddings", {"team": "blue"}, "blue")


def openai_client(server):
    """Return a client of the openai package."""
    return openai.OpenAI(base_url=server.base_url, api_key=KEY)


def azure_client(server):
    """Return an Azure client of the openai package."""
    return openai.AzureOpenAI(
        azure_endpoint=server.origin, azure_deployment="my-vectors", api_key=KEY, api_version="2024-02-01"
    )


@pytest.mark.parametrize(
    ("lend", "path"),
    [(openai_client, "/v1/embeddings"), (azure_client, "/openai/deployments/my-vectors/embeddings")],
)
def test_client_of_the_user_sends_embeddings(embed, lend, path):
    """The user's own client also sends the requests for embeddings."""
    with FakeServer() as server, lend(server) as client:
        assert len(embed(LLM(client=client, model="my-vectors"), ["x"])) == 1
        assert [request.path for request in server.requests] == [path]


def test_async_client_is_used_by_aembed():
    """An async client is used by `aembed`."""

    async def vectors(server):
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key=KEY) as client:
            return await LLM(client=client, model="m").aembed(["x"])

    with FakeServer() as server:
        assert len(asyncio.run(vectors(server))) == 1


def test_concurrent_tasks_can_embed_texts():
    """Concurrent tasks can embed texts with one LLM."""

    async def together(llm):
        return await asyncio.gather(*(llm.aembed([f"text {number}"]) for number in range(20)))

    with FakeServer() as server:
        llm = connect(server)
        assert asyncio.run(together(llm)) == [llm.embed([f"text {number}"]) for number in range(20)]


def test_same_vectors_from_the_openai_package():
    """The openai package receives the same vectors from the fake server."""
    with FakeServer() as server, openai.OpenAI(base_url=server.base_url, api_key=KEY) as client:
        found = client.embeddings.create(model="m", input=["x", "y"]).data
        actual = connect(server).embed(["x", "y"])
    assert [entry.embedding for entry in found] == [pytest.approx(vector) for vector in actual]
