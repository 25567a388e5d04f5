"""Tests for the embeddings of LLMs: requests, settings, and recordings."""

import asyncio

import pytest

from agentkit.errors import ConfigError, NoProvider, Rejected, ReplayError
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer, ScriptedLLM, fail, record, replay


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
    """Return an LLM for the server."""
    return LLM(**{"base_url": server.base_url, "model": "m", "max_retries": 0, **options})


def test_each_text_has_a_vector(embed):
    """Each text has a vector, in order, and texts with common words have similar vectors."""
    with FakeServer() as server:
        tea, green, rocket = embed(connect(server), ["a cup of tea", "a cup of green tea", "rockets reach orbit"])
    near, far = (sum(one * other for one, other in zip(tea, vector, strict=True)) for vector in (green, rocket))
    assert len({len(tea), len(green), len(rocket)}) == 1
    assert near > 0.7 > far


def test_empty_list_sends_no_request(embed):
    """An empty list returns no vectors and sends no request."""
    with FakeServer() as server:
        assert embed(connect(server), []) == []
        assert server.requests == []


@pytest.mark.for_each(
    ("texts", "message"),
    [
        ("one text", r"For a single text, use embed\(\[text\]\)\[0\]"),
        (b"bytes", "takes a list of texts"),
        (7, "takes a list of texts"),
        (["one", 2], r"texts\[1\] is int"),
        (["one", " \n"], r"texts\[1\] is empty"),
    ],
)
def test_invalid_list_of_texts_is_rejected(embed, texts, message):
    """A value that is not a list of texts is rejected before a request is sent."""
    with FakeServer() as server:
        with pytest.raises(ConfigError, match=message):
            embed(connect(server), texts)
        assert server.requests == []


@pytest.mark.parametrize("dimensions", [0, -1, True, 1.5, "8"])
def test_invalid_dimensions_are_rejected(dimensions):
    """An invalid number of dimensions is rejected before a request is sent."""
    with FakeServer() as server, pytest.raises(ConfigError, match="dimensions= takes"):
        connect(server).embed(["x"], dimensions=dimensions)


def test_settings_are_sent_with_the_texts(embed):
    """Settings are sent with the texts, except for those that apply to answers."""
    with FakeServer() as server:
        llm = connect(server, temperature=0.5, max_tokens=5, reasoning_effort="low", settings={"user": "ann"})
        assert len(embed(llm, ["x"], dimensions=8, encoding_format="float", truncate=None)[0]) == 8
        (request,) = server.requests
    expected = {"model": "m", "input": ["x"], "dimensions": 8, "user": "ann", "encoding_format": "float"}
    assert request.json == expected


def test_dimensions_may_be_a_setting():
    """`dimensions` may be one of the LLM's settings."""
    with FakeServer() as server:
        assert len(connect(server, settings={"dimensions": 16}).embed(["x"])[0]) == 16


def test_offline_model_rejects_embeddings(embed):
    """The offline model rejects embeddings with an error that names other models."""
    with pytest.raises(
        ConfigError,
        match=r"'offline' cannot compute "
        r"embeddings.*text-embedding-3-small.*nomic-embed-text",
    ):
        embed(LLM("offline"), ["x"])


def test_fallbacks_reject_embeddings(embed):
    """An LLM with fallbacks rejects embeddings, as vectors of two models cannot be compared."""
    llm = LLM(base_url="http://127.0.0.1:1/v1", model="a", fallback="b")
    with pytest.raises(ConfigError, match="fallbacks cannot embed texts"):
        embed(llm, ["x"])


def test_vectors_are_recorded(embed, tmp_path):
    """Vectors are recorded and replayed without a key, and other texts raise ReplayError with a diff."""
    secret = ["a cup of tea", "the key is sk-abcdefghij0123456789ABCDEFG"]
    with FakeServer() as server, record(tmp_path / "cassette.jsonl"):
        made = embed(connect(server), ["a cup of tea", "rockets"], dimensions=8)
        hidden = connect(server).embed(secret)
    with replay(tmp_path / "cassette.jsonl"):
        again = embed(LLM(), ["a cup of tea", "rockets"], dimensions=8)
        assert LLM().embed(secret) == hidden
    assert "sk-abc" not in (tmp_path / "cassette.jsonl").read_text("utf-8")
    assert (again, again.usage, again.model) == (made, made.usage, "m")
    with (
        pytest.raises(ReplayError, match="a model embeds texts as it is now") as raised,
        replay(tmp_path / "cassette.jsonl"),
    ):
        embed(LLM(), ["a cup of tea", "trains"], dimensions=8)
    assert "-rockets\n+trains" in str(raised.value)


def test_refusals_are_recorded(embed, tmp_path):
    """A refusal is recorded, and raised again in the replay."""
    with (
        FakeServer(embeddings=[fail(404, "no such model")]) as server,
        record(tmp_path / "cassette.jsonl"),
        pytest.raises(Rejected) as first,
    ):
        embed(connect(server), ["x"])
    with replay(tmp_path / "cassette.jsonl"), pytest.raises(Rejected) as second:
        embed(LLM(), ["x"])
    assert str(first.value) == str(second.value)


def test_llm_without_a_provider_outside_a_replay(embed, tmp_path):
    """An LLM created in a replay without a provider raises NoProvider outside of it."""
    with record(tmp_path / "cassette.jsonl"):
        pass
    with replay(tmp_path / "cassette.jsonl"):
        llm = LLM()
    with pytest.raises(NoProvider, match="No API key found"):
        embed(llm, ["x"])


def test_scripted_llm_returns_vectors(embed):
    """A scripted LLM returns the vectors of the fake server, without using a line of its script."""
    with FakeServer() as server, ScriptedLLM("Hi") as llm:
        assert embed(llm, ["a cup of tea"])[0] == pytest.approx(connect(server).embed(["a cup of tea"])[0])
        assert llm.chat("Hello") == "Hi"
