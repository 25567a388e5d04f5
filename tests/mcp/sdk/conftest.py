"""Fixtures with servers that require a login, and a browser that logs in."""

import importlib.util
from pathlib import Path

import pytest

_FILE = Path(__file__).parents[1] / "protected_server.py"


@pytest.fixture(scope="session")
def protecting():
    """The module with servers that require a login."""
    spec = importlib.util.spec_from_file_location("protected_server", _FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def authority(protecting):
    """An authority that issues tokens."""
    return protecting.Authority()


@pytest.fixture
def protected(protecting, authority):
    """The address of a server that issues its own tokens and requires them, and the requests it receives."""
    with protecting.listening() as (listener, origin):
        url = f"{origin}/mcp"
        with protecting.running(listener, protecting.protected(authority, url)) as came:
            yield url, came


@pytest.fixture
def apart(protecting, authority):
    """The address of a server with a separate token issuer, and the requests that each receives."""
    with protecting.listening() as (actual, origin), protecting.listening() as (reference, issuer):
        url = f"{origin}/mcp"
        with (
            protecting.running(actual, protecting.protected(authority, url, issuer)) as came,
            protecting.running(reference, protecting.giving(authority, issuer)) as question,
        ):
            yield url, came, question
