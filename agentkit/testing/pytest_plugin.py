"""The pytest plugin for recorded runs.

    @pytest.mark.cassette
    def test_trip():
        assert "Hanoi" in agent("What is the capital of Vietnam?")

In `test_travel.py`, its cassette is `cassettes/test_travel.test_trip.cassette` next to that file. If a test's name has
other characters than lower-case letters, digits, `_` and `.`, as parametrized tests have, a short hash is appended, so
that two tests never share a cassette, even if file names ignore case. `pytest --record=once` records missing
cassettes, `--record=all` records all again, and without it no model, tool or person is ever asked.
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
_SUFFIX = ".cassette"
_PLAIN_NAME = re.compile(r"[a-z0-9_.]+")
_MAX_NAME_CHARS = 120


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--record`."""
    parser.getgroup("agentkit").addoption(
        "--record",
        choices=("none", "once", "all"),
        default="none",
        help="agentkit cassettes: 'none' replays (default), 'once' records missing cassettes, 'all' records all again.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the fixture."""
    import pytest

    fixtures = ModuleType("agentkit fixtures")  # imported here, so that this module does not require pytest
    vars(fixtures)[_NAME] = pytest.fixture(cassette)
    config.pluginmanager.register(fixtures, "agentkit-fixtures")
    config.addinivalue_line(
        "markers", "cassette(name): replay cassettes/NAME.cassette for the model requests and tool calls of this test."
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the fixture to tests with the marker, before all other fixtures."""
    for item in items:
        names = getattr(item, "fixturenames", [])
        is_asked_for = _NAME in names
        if is_asked_for:
            names.remove(_NAME)
        if is_asked_for or (hasattr(item, "fixturenames") and item.get_closest_marker(_NAME)):
            names.insert(0, _NAME)


def cassette(request: pytest.FixtureRequest) -> Iterator[Recorder | Player]:
    """The recorder or player of the test: its `path`, `is_replaying`, `now()`."""
    import pytest

    from agentkit.errors import SessionError
    from agentkit.recording import active
    from agentkit.testing.scripted_llm import open_cassette

    try:
        tape = open_cassette(_path(request.node), request.config.getoption("--record"))
    except SessionError as error:  # the error text is sufficient: the traceback contains no code of the test
        pytest.fail(str(error), pytrace=False)
    request.node.obj = _with_recording(tape, request.node.obj)
    try:
        with active(tape):  # for fixtures that are set up later
            yield tape
    finally:
        tape.finish(keep=False)  # has no effect unless the test did not start


def _path(test: Any) -> Path:
    """The path of a test's cassette."""
    marker = test.get_closest_marker(_NAME)
    name = str(marker.args[0]) if marker and marker.args else _unique_name(test)
    return Path(test.path).parent / _FOLDER / f"{name.removesuffix(_SUFFIX)}{_SUFFIX}"


def _unique_name(test: Any) -> str:
    """A unique name within the folder, from file, class and test name.

    A name that was shortened or had characters replaced ends in a hash of the full name.
    """
    within = test.nodeid.partition("::")[2]
    full_name = f"{Path(test.path).stem}.{within.replace('::', '.')}"
    if len(full_name) <= _MAX_NAME_CHARS and _PLAIN_NAME.fullmatch(full_name):
        return full_name
    from hashlib import sha256

    digest = sha256(f"{Path(test.path).name}::{within}".encode("utf-8", "backslashreplace")).hexdigest()[:10]
    readable = re.sub(r"[^a-zA-Z0-9_.]+", "_", full_name)[:_MAX_NAME_CHARS].strip("_.")
    return f"{readable}-{digest}"


def _with_recording(tape: Recorder | Player, test: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the test with the recorder or player, because an async test does not run in the fixture's context."""
    from agentkit.testing.scripted_llm import activated

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> Any:
        with activated(tape):
            return test(*arguments, **named)

    @wraps(test)
    async def arun(*arguments: Any, **named: Any) -> Any:
        with activated(tape):
            return await test(*arguments, **named)

    return arun if inspect.iscoroutinefunction(test) else run
