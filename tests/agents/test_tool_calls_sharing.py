"""Proves that it is known which objects a function shares with others."""

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
from agentkit.agents.tool_calls import shared_by

AT_THE_TOP: list[str] = []


class Shop:
    """Something with a state."""

    def order(self) -> None:
        """Order something."""


@dataclass(frozen=True)
class Fixed:
    """Something that never changes."""

    name: str


def around(*held):
    """A function whose closure holds these."""

    def call() -> object:
        return held

    return call


def calling(function):
    """A function that calls another one."""

    def call() -> object:
        return function()

    return call


def keep_at_the_top() -> None:
    """Change what the module holds."""
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
def test_what_functions_are_given_is_known(held) -> None:
    """The objects that partials give are those that a function shares, also inside of other functions."""
    for function in (functools.partial(print, held), functools.partial(print, file=held)):
        assert [each is held for each in shared_by(function)] == [True]
        assert [each is held for each in shared_by(calling(function))] == [True]


@pytest.mark.parametrize("held", [{"An": 1}, ["a"], SHOP], ids=lambda held: type(held).__name__)
def test_what_a_closure_holds_is_not_shared(held) -> None:
    """A function that uses a client or notes its calls runs at the same time as others."""
    assert shared_by(around(held)) == []
    assert shared_by(around(around(held))) == []


def test_the_object_of_a_method_is_shared() -> None:
    """A method shares its object, and so does a function around it."""
    names = ["b"]
    for method, owner in ((SHOP.order, SHOP), (names.append, names)):
        for function in (method, functools.partial(method), calling(method)):
            assert [each is owner for each in shared_by(function)] == [True]


def test_objects_that_are_called_share_what_they_call() -> None:
    """An object that is called shares itself, and the objects of the methods that it keeps."""

    class Caller:
        def __init__(self, method) -> None:
            self.method = method

        def __call__(self) -> None:
            self.method()

    class Private(BaseModel):
        _method: object = PrivateAttr(default_factory=lambda: SHOP.order)

        def __call__(self) -> None: ...

    for caller in (Caller(SHOP.order), Private()):
        shared = shared_by(caller)
        assert [each is other for each, other in zip(shared, (caller, SHOP), strict=True)] == [True, True]


@pytest.mark.for_each(
    "held",
    [
        *(1, 1.5, None, "a", b"a", (1, "a"), frozenset({1}), Path("a"), re.compile("a"), Fixed("a")),
        *(Shop, re, len, keep_at_the_top, Shop.order, ..., object()),
    ],
    ids=lambda held: type(held).__name__,
)
def test_what_cannot_change_is_not_shared(held) -> None:
    """Values, classes, modules and plain functions are no reason for calls to wait for one another."""
    assert shared_by(functools.partial(print, held)) == []


@pytest.mark.parametrize("lock", [threading.Lock(), threading.RLock(), threading.Event(), threading.Semaphore()])
def test_functions_with_locks_look_after_themselves(lock) -> None:
    """Who holds a lock beside its objects reckons with calls at the same time."""
    assert shared_by(functools.partial(print, {"An": 1}, lock)) == []
    method = SHOP.order

    def call() -> None:
        with lock:
            method()

    assert shared_by(call) == []


def test_what_modules_hold_and_our_own_functions_keep_is_not_looked_at() -> None:
    """Functions at the top of a module share nothing, nor do the shipped tools."""
    assert (
        shared_by(keep_at_the_top)
        == shared_by(calculator_tool.function)
        == shared_by(functools.partial(calculator_tool))
        == []
    )


def test_variables_without_a_value_and_long_chains_are_borne() -> None:
    """A variable of a closure may have no value yet, and there may be more functions than are looked at."""

    def call() -> object:
        return later

    assert shared_by(call) == []
    later = calling(SHOP.order)
    for _ in range(200):
        later = calling(later)
    assert shared_by(call) == []
