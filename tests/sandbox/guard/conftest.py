"""What the guard's tests share: code that they run in this process leaves no trace in it."""

import sys

import pytest


@pytest.fixture(autouse=True)
def same_recursion_limit():
    """Restore the recursion limit, which guarded code can raise."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)
