"""Fixtures for knowledge: files, an embedding function that counts words, and real stores."""

import hashlib
import math

import pytest

from agentkit.knowledge.knowledge import Knowledge

MEANINGS = {"car": "vehicle", "automobile": "vehicle", "lorry": "vehicle", "physician": "doctor", "holiday": "leave"}


@pytest.fixture
def embed():
    """Return an embedding function that gives words of the same meaning the same vector."""
    return lambda texts: [_vector(text) for text in texts]


def _vector(text):
    vector = [0.0] * 1024
    for word in text.lower().replace(".", " ").replace("?", " ").split():
        meaning = MEANINGS.get(word, word)
        vector[int.from_bytes(hashlib.sha256(meaning.encode()).digest()[:2], "big") % 1024] += 1
    return [number / (math.hypot(*vector) or 1) for number in vector]


@pytest.fixture
def database(tmp_path):
    """Return a path for a knowledge file that does not exist."""
    return tmp_path / "kept" / "notes.db"


@pytest.fixture
def postgres_url(postgres_server):
    """Return the URL of a server without knowledge tables."""
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS agentkit_knowledge CASCADE")
    return postgres_server


@pytest.fixture(params=["sqlite", "postgres"])
def place(request):
    """Return the place argument of `Knowledge` for each kind of store."""
    return request.getfixturevalue("postgres_url" if request.param == "postgres" else "database")


@pytest.fixture
def knowledge(place):
    """Return empty knowledge for each kind of store."""
    with Knowledge(place) as knowledge:
        yield knowledge


@pytest.fixture
def folder(tmp_path):
    """A folder of documents."""
    folder = tmp_path / "documents"
    (folder / "deep").mkdir(parents=True)
    (folder / "leave.md").write_text(
        "# Handbook\n\n## Holidays\n\nEverybody has thirty days of leave. They must be asked for in March.\n\n"
        "## Sickness\n\nWho is ill calls before nine.\n",
        "utf-8",
    )
    (folder / "deep" / "tool.py").write_text('def undo(run):\n    """Put the files back."""\n    return run\n', "utf-8")
    (folder / "page.html").write_text(
        "<title>Prices</title><h1>Prices</h1><p>A ticket costs <a href='/t'>seven euros</a>.</p>", "utf-8"
    )
    (folder / "vn.txt").write_text("Thủ đô của Việt Nam là Hà Nội. Đường phố rất đông.", "utf-8")
    return folder
