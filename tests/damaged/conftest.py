"""Fixtures that damage files: bytes that are flipped, cut, moved or foreign, and values of the wrong type."""

import json
import random
import sqlite3

import pytest

DEEP = "[" * 60_000
SCALARS = [None, True, -1, 0, 1e308, 10**30, float("nan"), "", "x", "\ud800", "\0", "../..", "9" * 5_000, [], {}, [[]]]
FOREIGN = [
    b"",
    b"\0" * 5_000,
    b"\xff\xfe" + "text".encode("utf-16-le") * 100,
    b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 4,
    b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4,
    b"PK\x03\x04" + bytes(500),
    b"#!/bin/sh\necho hello\n",
    b"<html><body>Not found</body></html>\n",
    b'{"name": "package", "version": "1.0.0"}\n',
    b"[]\n",
    b"null\n",
    b'"text"\n',
    DEEP.encode(),
    b'{"a":' * 50_000,
    b"x" * 100_000,
]


@pytest.fixture(name="damaged")
def damaged_fixture(tmp_path):
    """Return a function that yields the given number of damaged versions of a file."""

    def made(full_text, count, seed):
        if full_text.startswith(b"SQLite"):
            return damaged_databases(full_text, count, seed, tmp_path / "scratch")
        return damaged(full_text, count, seed)

    return made


def damaged(full_text, count, seed):
    """Yield the given number of damaged versions of a file, always the same ones; foreign files come first."""
    chance = random.Random(seed)
    yield from FOREIGN[:count]
    for number in range(count - len(FOREIGN)):
        # randomly flipped bytes rarely change a structured text in a way that still parses
        damages = (_retyped, _flipped, _cut, _moved, _replaced) if number % 2 else (_retyped,)
        yield chance.choice(damages)(bytearray(full_text), chance)


def _flipped(full_text, chance):
    for _ in range(chance.choice((1, 1, 3, 20))):
        full_text[chance.randrange(len(full_text))] ^= 1 << chance.randrange(8)
    return bytes(full_text)


def _cut(full_text, chance):
    return bytes(full_text[: chance.randrange(len(full_text))])


def _moved(full_text, chance):
    start, end, place = sorted(chance.randrange(len(full_text)) for _ in range(3))
    piece = full_text[start:end]
    if chance.random() < 0.5:
        del full_text[start:end]
    full_text[place:place] = piece
    return bytes(full_text)


def _replaced(full_text, chance):
    start = chance.randrange(len(full_text))
    piece = chance.choice((b"\0" * 8, b"\xff\xfe\xfd", b"\xed\xa0\x80", b"\r", "\u2028".encode(), b'"', b"{", b"\n\n"))
    full_text[start : start + chance.choice((0, len(piece)))] = piece
    return bytes(full_text)


def _retyped(full_text, chance):
    """Return the file with one value of its JSON, or of a JSON line, replaced; other files are flipped."""
    lines = full_text.split(b"\n")
    place = chance.randrange(len(lines))
    for part, put in ((bytes(full_text), lambda text: text), (lines[place], None)):
        try:
            data = json.loads(part)
        except ValueError:
            continue
        changed = nested(json.dumps(changed_value(data, chance)), chance).encode()
        if put is not None:
            return changed
        lines[place] = changed
        return b"\n".join(lines)
    return _flipped(full_text, chance)


def changed_value(data, chance):
    """Return JSON data in which one value was replaced, removed or renamed."""
    places = [*_places(data)]
    holder, key = chance.choice(places) if places else (None, None)
    if holder is None:
        return chance.choice(SCALARS)
    kind = chance.random()
    if kind < 0.15:
        del holder[key]
    elif kind < 0.2:
        holder[key] = "DEEP"
    elif kind < 0.3 and isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    elif kind < 0.4:
        other, name = chance.choice(places)
        holder[key] = json.loads(json.dumps(other[name]))
    else:
        holder[key] = chance.choice(SCALARS)
    return data


def nested(text, chance):
    """Return JSON in which the marked place is a deeply nested list, sometimes deeper than Python's stack."""
    levels = chance.choice((100, 300, 700, 950, 60_000))
    return text.replace('"DEEP"', "[" * levels + "]" * levels)


def _places(data):
    """Yield every container and key in JSON data."""
    for key in [*data] if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ():
        yield data, key
        yield from _places(data[key])


def damaged_databases(full_text, count, seed, scratch):
    """Yield damaged versions of a SQLite file: damaged bytes, and values that agentkit does not write."""
    chance = random.Random(seed)
    yield from FOREIGN
    for number in range(count - len(FOREIGN)):
        kind = number % 4
        if kind == 0:
            yield chance.choice((_cut, _moved, _replaced))(bytearray(full_text), chance)
        elif kind == 1:
            yield _flipped_page(bytearray(full_text), chance)
        else:
            yield _with_other_values(full_text, chance, scratch)


def _flipped_page(full_text, chance):
    """Flip bytes in the first page, which contains the schema, or at the beginning of another page."""
    page = chance.choice((0, 0, *range(0, len(full_text), 4_096)))
    for _ in range(chance.choice((1, 4, 30))):
        place = page + chance.randrange(4_096 if page == 0 else 200)
        full_text[place % len(full_text)] ^= 1 << chance.randrange(8)
    return bytes(full_text)


def _with_other_values(full_text, chance, scratch):
    scratch.write_bytes(full_text)
    connection = sqlite3.connect(scratch, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = chance.choice([name for name in tables if not name.startswith("sqlite_")])
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column = chance.choice(columns)
        texts = [
            each for (each,) in connection.execute(" ".join(("SELECT", column, "FROM", table))) if isinstance(each, str)
        ]
        statement = " ".join(("UPDATE OR IGNORE", table, "SET", column, "= ?"))
        try:
            connection.execute(statement, (_other(texts, chance),))
        except sqlite3.Error:  # rejected by a constraint of the schema, or part of the full-text index
            connection.execute(" ".join(("DELETE FROM", table)))
    finally:
        connection.close()
    return scratch.read_bytes()


def _other(texts, chance):
    """Return a value for a column: other JSON for JSON columns, or any value."""
    if texts and chance.random() < 0.6:
        try:
            return nested(json.dumps(changed_value(json.loads(chance.choice(texts)), chance)), chance)
        except ValueError:
            pass
    return chance.choice((None, b"", b"\xff\xfe\x01", "", "x", DEEP, "[]", '"x"', "{", -1, 1.5, 2**62, "\0", b"\0" * 9))
