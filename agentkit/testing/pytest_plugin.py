"""The pytest plugin for recorded runs.

    @pytest.mark.cassette
    def test_trip():
        assert "Hanoi" in agent("What is the capital of Vietnam?")

In `test_travel.py`, its cassette is `cassettes/test_travel.test_trip.cassette` beside that file. Where a test's name
has other characters than lower-case letters, digits, `_` and `.`, as that of a parametrized one, a short hash of it is
added, so that no two tests share a cassette, also where file names ignore case. `pytest --record=once` records what
there is no cassette of, `--record=all` records everything anew, and without it nothing is ever asked.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from agentkit.sessions.cassettes.playback import Player
    from agentkit.sessions.cassettes.recorder import Recorder

_NAME = "cassette"
_FOLDER = "cassettes"
_ENDING = ".cassette"
_PLAIN_NAME = re.compile(r"[a-z0-9_.]+")
_MOST_NAME_CHARS = 120


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--record`."""
    parser.getgroup("agentkit").addoption(
        "--record",
        choices=("none", "once", "all"),
        default="none",
        help="agentkit cassettes: 'none' replays (default), 'once' records what has none yet, 'all' records anew.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make marker and fixture known."""
    import pytest

    fixtures = ModuleType("agentkit fixtures")  # pytest is imported here, so that this module needs none of it
    vars(fixtures)[_NAME] = pytest.fixture(cassette)
    config.pluginmanager.register(fixtures, "agentkit-fixtures")
    config.addinivalue_line(
        "markers", "cassette(name): answer from cassettes/NAME.cassette what agentkit asks in this test."
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the fixture to the tests that bear the marker, and let it come before all others."""
    for item in items:
        names = getattr(item, "fixturenames", [])
        is_asked_for = _NAME in names
        if is_asked_for:
            names.remove(_NAME)
        if is_asked_for or (hasattr(item, "fixturenames") and item.get_closest_marker(_NAME)):
            names.insert(0, _NAME)


def cassette(request: pytest.FixtureRequest) -> Iterator[Recorder | Player]:
    """The tape on which the test is recorded, or from which it is replayed: its `path`, `is_replaying`, `now()`."""
    import pytest

    from agentkit.errors import SessionError
    from agentkit.recording import active
    from agentkit.testing.cassettes import opened

    try:
        tape = opened(_path(request.node), request.config.getoption("--record"))
    except SessionError as error:  # which says all that there is to know: where it was raised, none of it is the test's
        pytest.fail(str(error), pytrace=False)
    request.node.obj = _within(tape, request.node.obj)
    try:
        with active(tape):  # for the fixtures that come later
            yield tape
    finally:
        tape.finish(keep=False)  # which is late, unless the test was never begun


def _path(test: Any) -> Path:
    """Where the cassette of a test is."""
    marker = test.get_closest_marker(_NAME)
    named = str(marker.args[0]) if marker and marker.args else _own_name(test)
    return Path(test.path).parent / _FOLDER / f"{named.removesuffix(_ENDING)}{_ENDING}"


def _own_name(test: Any) -> str:
    """A name that no other test of the folder has: that of its file, its class if need be, and its own.

    A name that was shortened, or in which characters were replaced, ends in a hash of the whole.
    """
    within = test.nodeid.partition("::")[2]
    whole = f"{Path(test.path).stem}.{within.replace('::', '.')}"
    if len(whole) <= _MOST_NAME_CHARS and _PLAIN_NAME.fullmatch(whole):
        return whole
    from hashlib import sha256

    own = sha256(f"{Path(test.path).name}::{within}".encode("utf-8", "backslashreplace")).hexdigest()[:10]
    readable = re.sub(r"[^a-zA-Z0-9_.]+", "_", whole)[:_MOST_NAME_CHARS].strip("_.")
    return f"{readable}-{own}"


def _within(tape: Recorder | Player, test: Callable[..., Any]) -> Callable[..., Any]:
    """The test with the tape around it: where an async test runs, the fixture's context is not known."""
    from agentkit.testing.cassettes import running

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> Any:
        with running(tape):
            return test(*arguments, **named)

    @wraps(test)
    async def arun(*arguments: Any, **named: Any) -> Any:
        with running(tape):
            return await test(*arguments, **named)

    return arun if inspect.iscoroutinefunction(test) else run
