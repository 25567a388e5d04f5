"""Tests for the storage of passages in a PostgreSQL database."""

import subprocess
import sys
from pathlib import Path

import pytest

from agentkit.errors import KnowledgeError
from agentkit.installation import install_command
from agentkit.knowledge import Knowledge

ROOT = Path(__file__).parents[3]
END_ALL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'agentkit'"
)


@pytest.fixture
def server(postgres_url):
    """Return a separate connection to the server."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SET search_path = agentkit_knowledge, public")
        yield connection


@pytest.fixture
def knowledge(postgres_url):
    """Return knowledge on a server with one text."""
    with Knowledge(postgres_url) as knowledge:
        knowledge.add_text("Some words.", "text")
        yield knowledge


def test_words_need_no_extension(knowledge, server):
    """Searching without vectors does not require the pgvector extension."""
    assert len(knowledge.search("words")) == 1
    assert server.execute("SELECT to_regclass('agentkit_knowledge.vectors')").fetchone() == (None,)


def test_vectors_are_indexed(postgres_url, server, embed):
    """Vectors are indexed by their length, and very long ones are stored without an index."""
    with Knowledge(postgres_url, embed=embed) as knowledge:
        for number in range(20):
            knowledge.add_text(f"word{number} and a car", f"text{number}")
        server.execute("SET enable_seqscan = off")
        plan = server.execute(
            "EXPLAIN SELECT passage FROM vectors WHERE vector_dims(vector) = 1024"
            " ORDER BY vector::vector(1024) <=> (SELECT vector FROM vectors LIMIT 1)::vector(1024) LIMIT 5"
        ).fetchall()
        assert any("vectors_of_1024" in line for (line,) in plan)
        assert knowledge.search("word7", 1)[0].source == "text7"
    with Knowledge(postgres_url, name="long", embed=lambda texts: [[1.0] * 2_001 for _ in texts]) as knowledge:
        knowledge.add_text("words", "text")
        assert len(knowledge.search("nothing shared")) == 1


def test_rare_words_have_more_weight(postgres_url):
    """A word that occurs in few passages has more weight than one that occurs in all."""
    with Knowledge(postgres_url) as knowledge:
        for number in range(20):
            knowledge.add_text("common common common", f"text{number}")
        knowledge.add_text("common xylophone", "rare")
        assert knowledge.search("common xylophone", 1)[0].source == "rare"


def test_newer_schema_is_rejected(knowledge, server, postgres_url):
    """A database with a newer schema raises an error that asks to update agentkit."""
    server.execute("UPDATE schema_version SET version = 99")
    with pytest.raises(KnowledgeError, match=r"or name another database\.$"):
        Knowledge(postgres_url).search("words")


def test_unreachable_server_is_an_error(tmp_path):
    """A server that does not answer raises an error without the user and options of the URL."""
    with pytest.raises(KnowledgeError, match="cannot be read or written") as raised:
        Knowledge(f"postgresql://ann:secret@/postgres?host={tmp_path}").search("words")
    assert "secret" not in str(raised.value)
    assert "Check that the server is running" in str(raised.value)
    assert repr(Knowledge("postgres://ann:secret@host/name").store) == "PostgresStore('postgres://host/name')"


def test_lost_connection_is_reopened(knowledge, server):
    """A lost connection fails one call and is reopened by the next."""
    server.execute(END_ALL)
    with pytest.raises(KnowledgeError):
        knowledge.search("words")
    assert len(knowledge.search("words")) == 1


def test_error_of_the_server_is_raised(knowledge, server):
    """An error from the server is raised, and the connection can still be used."""
    server.execute("ALTER TABLE documents RENAME TO elsewhere")
    with pytest.raises(KnowledgeError, match="documents"):
        knowledge.search("words")
    server.execute("ALTER TABLE elsewhere RENAME TO documents")
    assert len(knowledge.search("words")) == 1


ALONE = """
import sys
sys.modules["psycopg"] = None
from agentkit.errors import MissingExtra
from agentkit.knowledge import Knowledge
try:
    Knowledge("postgresql://host/name").search("words")
except MissingExtra as error:
    print(error)
"""


def test_missing_package_error_has_the_install_command():
    """Without psycopg, the error contains the install command."""
    command = [sys.executable, "-c", ALONE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert install_command("postgres") in done.stdout
