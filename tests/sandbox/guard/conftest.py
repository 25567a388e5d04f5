"""Fixtures of the guard's tests: code that runs in this process leaves no traces."""

import sys

import pytest


@pytest.fixture(autouse=True)
def same_recursion_limit():
    """Restore the recursion limit, which guarded code can raise."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)
