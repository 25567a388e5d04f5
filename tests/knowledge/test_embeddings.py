"""Tests for embeddings: batches, validation, and changes of the model."""

import pytest

from agentkit.errors import ConfigError, NoProvider
from agentkit.knowledge import Knowledge, Memory
from agentkit.knowledge.embeddings import BATCH, open_vectors
from agentkit.knowledge.stores.sqlite import SQLiteChunkStore
from agentkit.llm.client import LLM
from agentkit.testing import FakeServer, ScriptedLLM
from agentkit.usage import NO_USAGE


def made_by(embed, embed_question=None):
    """Return the embedder of an empty space."""
    return open_vectors(SQLiteChunkStore(":memory:"), "knowledge/default", embed, embed_question)


def test_texts_are_embedded_in_batches():
    """The function receives at most 64 texts per call, and vectors are normalized except zero vectors."""
    sizes = []

    def embed(texts):
        sizes.append(len(texts))
        return ((3, 4) if text else (0, 0) for text in texts)

    assert made_by(embed).embed_passages(["a"] * 70 + [""])[-2:] == [[0.6, 0.8], [0.0, 0.0]]
    assert sizes == [BATCH, 7]


@pytest.mark.parametrize(
    "given", [None, [1, 2], [[1.0]], [[1], [1, 2]], [["a"], [1]], [[float("nan")]] * 2, [[float("inf")]] * 2]
)
def test_invalid_vectors_are_rejected(given):
    """A function that returns invalid vectors raises a ConfigError."""
    with pytest.raises(ConfigError, match="embed="):
        made_by(lambda _: given).embed_passages(["a", "b"])


@pytest.mark.parametrize("given", [(7, None), (None, len), (len, 7), (object(), None)])
def test_invalid_embed_arguments_are_rejected(given):
    """Invalid `embed` and `embed_question` arguments raise a ConfigError."""
    with pytest.raises(ConfigError, match="embed"):
        made_by(*given)


def test_unknown_provider_is_rejected():
    """A model name with an unknown provider raises NoProvider."""
    with pytest.raises(NoProvider, match="Unknown provider"):
        made_by("olama:nomic-embed-text")


def test_no_vectors_without_an_embedding_function():
    """No vectors are created without an embedding function."""
    assert made_by(None) is None


def test_model_embeds_passages_and_questions(tmp_path):
    """An LLM embeds passages and questions, and its usage is counted."""
    with FakeServer() as server, Knowledge(":memory:", embed=LLM(base_url=server.base_url, model="m")) as knowledge:
        assert knowledge.usage == NO_USAGE
        knowledge.add_text("A cup of green tea", "tea")
        knowledge.add_text("Rockets reach the orbit", "rockets")
        assert [each.source for each in knowledge.search("teas", 1)] == ["tea"]
        assert [len(request.json["input"]) for request in server.requests] == [1, 1, 1]
        assert knowledge.usage.requests == 3
        assert knowledge.search("  ") == []
        assert len(server.requests) == 3


def test_model_by_its_name(monkeypatch):
    """A model can be given by its name, and questions can use another one."""
    with FakeServer() as server:
        monkeypatch.setenv("OLLAMA_BASE_URL", server.base_url)
        with Knowledge(":memory:", embed="ollama:passages", embed_question="ollama:questions") as knowledge:
            knowledge.add_text("A cup of green tea", "tea")
            knowledge.search("tea")
        assert [request.json["model"] for request in server.requests] == ["passages", "questions"]


def scripted(model, **settings):
    """Return a model with a name that needs no server."""
    return ScriptedLLM(model=model).with_settings(**settings)


OTHERS = (
    (scripted("other"), "made by first, but embed= is other"),
    (scripted("first", dimensions=8), "made by first, but embed= is first with dimensions=8"),
    (lambda texts: [[1.0] * 64 for _ in texts], "made by first, but embed= is a function"),
)


@pytest.mark.parametrize(("other", "message"), OTHERS)
def test_another_embedding_model_is_rejected(place, other, message):
    """Using another model raises a ConfigError until `embed_again` is called."""
    with Knowledge(place, embed=scripted("first")) as knowledge:
        knowledge.add_text("A cup of green tea", "tea")
    with Knowledge(place, embed=other) as knowledge:
        for use in (lambda: knowledge.search("tea"), lambda: knowledge.add_text("More tea", "more")):
            with pytest.raises(ConfigError, match=message):
                use()
        assert knowledge.embed_again() == 1
        assert knowledge.search("tea")
    with Knowledge(place) as knowledge:
        assert knowledge.search("tea")
    with (
        Knowledge(place, embed=scripted("first")) as knowledge,
        pytest.raises(ConfigError, match=r"embed_again\(\)"),
    ):
        knowledge.search("tea")


def test_same_model_of_another_provider(place):
    """The same model of another provider is accepted."""
    with FakeServer() as server, Knowledge(place, embed=scripted("m")) as knowledge:
        knowledge.add_text("A cup of green tea", "tea")
        with Knowledge(place, embed=LLM(base_url=server.base_url, model="m")) as elsewhere:
            assert elsewhere.search("tea")


def test_memory_rejects_another_embedding_model(place):
    """A memory rejects another model until `embed_again` is called."""
    with Memory(place, embed=scripted("first")) as memory:
        memory.remember("Ann drinks green tea.")
    with Memory(place) as memory, pytest.raises(ConfigError, match="needs embed"):
        memory.embed_again()
    with Memory(place, embed=scripted("other")) as memory:
        with pytest.raises(ConfigError, match="made by first"):
            memory.recall("tea")
        assert memory.embed_again() == 1
        assert [note.text for note in memory.recall("tea")] == ["Ann drinks green tea."]


def test_collections_can_use_different_models(place):
    """Each collection in a store can use vectors of another model."""
    for model in ("one", "two"):
        with Knowledge(place, name=model, embed=scripted(model)) as knowledge:
            knowledge.add_text("A cup of green tea", "tea")
            assert knowledge.search("tea")
