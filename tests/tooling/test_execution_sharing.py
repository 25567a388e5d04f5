"""Tests for the detection of objects that are shared between functions, whose calls run in order."""

from __future__ import annotations

import functools
import re
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel, PrivateAttr

from agentkit import calculator_tool
from agentkit.tooling.execution import shared_objects

AT_THE_TOP: list[str] = []


class Shop:
    """An object with state."""

    def order(self) -> None:
        """Order something."""


@dataclass(frozen=True)
class Fixed:
    """An immutable object."""

    name: str


def around(*held):
    """Return a function whose closure holds these objects."""

    def call() -> object:
        return held

    return call


def calling(function):
    """Return a function that calls another one."""

    def call() -> object:
        return function()

    return call


def keep_at_the_top() -> None:
    """Change the global variable."""
    AT_THE_TOP.append("a")


SHOP = Shop()


@pytest.mark.parametrize(
    "held",
    [
        pytest.param({"An": 1}, id="dictionary"),
        pytest.param(["a"], id="list"),
        pytest.param({"a"}, id="set"),
        pytest.param(deque([1]), id="deque"),
        pytest.param(SHOP, id="object"),
    ],
)
def test_objects_of_partials_are_shared(held) -> None:
    """Objects bound by a partial are shared, also inside other functions."""
    for function in (functools.partial(print, held), functools.partial(print, file=held)):
        assert [each is held for each in shared_objects(function)] == [True]
        assert [each is held for each in shared_objects(calling(function))] == [True]


@pytest.mark.parametrize("held", [{"An": 1}, ["a"], SHOP], ids=lambda held: type(held).__name__)
def test_objects_in_a_closure_are_not_shared(held) -> None:
    """Objects held in a closure are not shared, so calls run concurrently."""
    assert shared_objects(around(held)) == []
    assert shared_objects(around(around(held))) == []


def test_object_of_a_method_is_shared() -> None:
    """A method and a function that wraps it share the method's object."""
    names = ["b"]
    for method, owner in ((SHOP.order, SHOP), (names.append, names)):
        for function in (method, functools.partial(method), calling(method)):
            assert [each is owner for each in shared_objects(function)] == [True]


def test_callable_objects_are_shared() -> None:
    """A callable object shares itself and the objects of the methods it holds."""

    class Caller:
        def __init__(self, method) -> None:
            self.method = method

        def __call__(self) -> None:
            self.method()

    class Private(BaseModel):
        _method: object = PrivateAttr(default_factory=lambda: SHOP.order)

        def __call__(self) -> None: ...

    for caller in (Caller(SHOP.order), Private()):
        shared = shared_objects(caller)
        assert [each is other for each, other in zip(shared, (caller, SHOP), strict=True)] == [True, True]


@pytest.mark.for_each(
    "held",
    [
        *(1, 1.5, None, "a", b"a", (1, "a"), frozenset({1}), Path("a"), re.compile("a"), Fixed("a")),
        *(Shop, re, len, keep_at_the_top, Shop.order, ..., object()),
    ],
    ids=lambda held: type(held).__name__,
)
def test_immutable_objects_are_not_shared(held) -> None:
    """Immutable values, classes, modules and plain functions are not shared."""
    assert shared_objects(functools.partial(print, held)) == []


@pytest.mark.parametrize("lock", [threading.Lock(), threading.RLock(), threading.Event(), threading.Semaphore()])
def test_functions_with_locks_are_not_serialized(lock) -> None:
    """A function that holds a lock is not serialized."""
    assert shared_objects(functools.partial(print, {"An": 1}, lock)) == []
    method = SHOP.order

    def call() -> None:
        with lock:
            method()

    assert shared_objects(call) == []


def test_module_functions_and_shipped_tools_share_nothing() -> None:
    """Module-level functions and shipped tools share nothing."""
    assert (
        shared_objects(keep_at_the_top)
        == shared_objects(calculator_tool.function)
        == shared_objects(functools.partial(calculator_tool))
        == []
    )


def test_unset_variables_and_long_chains_are_handled() -> None:
    """Unset closure variables and long chains of functions are handled."""

    def call() -> object:
        return later

    assert shared_objects(call) == []
    later = calling(SHOP.order)
    for _ in range(200):
        later = calling(later)
    assert shared_objects(call) == []
