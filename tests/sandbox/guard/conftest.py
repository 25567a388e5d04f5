"""What the guard's tests share: code that they run in this process leaves no trace in it."""

import sys

import pytest


@pytest.fixture(autouse=True)
def same_recursion_limit():
    """Code may ask for deeper recursion; whoever runs it here gets the old limit back."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)
