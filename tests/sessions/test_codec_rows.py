"""Tests for the rows of stored entries, and positions in them."""

import pytest

from agentkit.errors import SessionError
from agentkit.events import RunEnded, RunStarted
from agentkit.sessions.codec import entries_in, new_id, parse_entries, rows_of
from agentkit.sessions.store import START, SessionEntry

ENTRIES = [
    SessionEntry("run-1", 1.5, RunStarted("helper", "Xin ch\u00e0o")),
    SessionEntry("run-2", 2.0, RunEnded("done", "\ud800")),
]


def test_entries_round_trip():
    """An entry is stored as run, time and a JSON line, and is read back unchanged."""
    rows = rows_of(ENTRIES)
    assert rows[0] == ("run-1", 1.5, '{"event":"run_started","agent":"helper","prompt":"Xin ch\u00e0o"}')
    assert entries_in(rows) == ENTRIES


def test_invalid_row_is_rejected():
    """A row whose line is not a stored event raises a SessionError."""
    with pytest.raises(SessionError):
        entries_in([("run-1", 1.0, "nonsense")])


def test_rows_after_a_position():
    """Rows after a position return their entries and the position of the last one."""
    found = [(7, index, *row) for index, row in enumerate(rows_of(ENTRIES), 3)]
    assert parse_entries(found, START) == (ENTRIES, (7, 4))


@pytest.mark.parametrize(
    ("found", "after", "position"),
    [
        ([], (7, 4), START),
        ([(7, None, None, None, None)], (7, 4), (7, 4)),
        ([(8, None, None, None, None)], (7, 4), (8, 0)),
    ],
    ids=["no session", "nothing new", "another session"],
)
def test_position_without_new_entries(found, after, position):
    """Without new entries, the position is unchanged unless the session was deleted or replaced."""
    assert parse_entries(found, after) == ([], position)


def test_new_ids():
    """New sessions have unique ids that fit into a database integer and differ from the initial one."""
    ids = {new_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert all(START[0] < each < 2**63 for each in ids)
