"""What do the tests of knowledge share? Files, a PDF, an embedding that counts words, and stores that are real."""

import hashlib
import math

import pytest

from agentkit.knowledge.knowledge import Knowledge


@pytest.fixture
def pdf():
    """Makes a PDF of pages with one line of text each."""
    return _pdf


def _pdf(*pages):
    """A PDF, written by hand."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R"
            " /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(pages)} >>"
    objects.append("<< /Title (The handbook) >>")
    body, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n"
    end += f"<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return body + end.encode()


MEANINGS = {"car": "vehicle", "automobile": "vehicle", "lorry": "vehicle", "physician": "doctor", "holiday": "leave"}


@pytest.fixture
def embed():
    """Vectors in which words of one meaning are one: a small dictionary stands for what a model has learned."""
    return lambda texts: [_vector(text) for text in texts]


def _vector(text):
    vector = [0.0] * 1024
    for word in text.lower().replace(".", " ").replace("?", " ").split():
        meaning = MEANINGS.get(word, word)
        vector[int.from_bytes(hashlib.sha256(meaning.encode()).digest()[:2], "big") % 1024] += 1
    return [number / (math.hypot(*vector) or 1) for number in vector]


@pytest.fixture
def database(tmp_path):
    """A file for knowledge that is not there yet."""
    return tmp_path / "kept" / "notes.db"


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of a server that holds no knowledge."""
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS agentkit_knowledge CASCADE")
    return postgres_server


@pytest.fixture(params=["sqlite", "postgres"])
def place(request):
    """What `Knowledge` takes, for each kind of store."""
    return request.getfixturevalue("postgres_url" if request.param == "postgres" else "database")


@pytest.fixture
def knowledge(place):
    """Knowledge that holds nothing yet, in each kind of store."""
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
