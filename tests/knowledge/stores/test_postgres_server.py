"""How are passages kept in a PostgreSQL database?"""

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
    """A connection of our own to the server."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SET search_path = agentkit_knowledge, public")
        yield connection


@pytest.fixture
def knowledge(postgres_url):
    """Knowledge on a server, that holds one text."""
    with Knowledge(postgres_url) as knowledge:
        knowledge.add_text("Some words.", "text")
        yield knowledge


def test_words_need_no_extension(knowledge, server):
    """As long as there are no vectors, the extension is not asked for."""
    assert len(knowledge.search("words")) == 1
    assert server.execute("SELECT to_regclass('agentkit_knowledge.vectors')").fetchone() == (None,)


def test_vectors_are_indexed(postgres_url, server, embed):
    """Vectors have an index for their length, which the server can use; very long ones are kept without."""
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


def test_rare_words_count_for_more(postgres_url):
    """A word that stands in few passages counts for more than one that stands in all."""
    with Knowledge(postgres_url) as knowledge:
        for number in range(20):
            knowledge.add_text("common common common", f"text{number}")
        knowledge.add_text("common xylophone", "rare")
        assert knowledge.search("common xylophone", 1)[0].source == "rare"


def test_a_newer_schema_is_refused(knowledge, server, postgres_url):
    """A database of a newer version says that agentkit must be updated."""
    server.execute("UPDATE schema_version SET version = 99")
    with pytest.raises(KnowledgeError, match=r"or name another database\.$"):
        Knowledge(postgres_url).search("words")


def test_a_server_that_is_not_there_is_an_error(tmp_path):
    """A server that does not answer is a clear error, without the user and settings of the URL."""
    with pytest.raises(KnowledgeError, match="cannot be read or written") as told:
        Knowledge(f"postgresql://ann:secret@/postgres?host={tmp_path}").search("words")
    assert "secret" not in str(told.value)
    assert "Check that the server is running" in str(told.value)
    assert repr(Knowledge("postgres://ann:secret@host/name").store) == "PostgresStore('postgres://host/name')"


def test_a_lost_connection_is_made_again(knowledge, server):
    """When the server ends the connection, that call fails, and the next one has a new connection."""
    server.execute(END_ALL)
    with pytest.raises(KnowledgeError):
        knowledge.search("words")
    assert len(knowledge.search("words")) == 1


def test_a_database_that_refuses_is_an_error(knowledge, server):
    """What the server says is told, and the connection is kept."""
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


def test_without_the_package_the_error_says_what_to_install():
    """Without psycopg, the error names the command that installs it."""
    command = [sys.executable, "-c", ALONE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert install_command("postgres") in done.stdout
