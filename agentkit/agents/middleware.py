"""Middleware: functions around each model request and each tool call, which can change what goes in and comes out."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.errors import AgentKitError, ConfigError, RunError
from agentkit.messages import Response, ToolResult
from agentkit.tooling import execution
from agentkit.tooling.run_context import REST, RunContext, RunParameter, check_value, run_parameter_of
from agentkit.tooling.signature import innermost, is_asynchronous

MiddlewareFunction = Callable[..., Any]
"""A function `(request, proceed)` around a model request, or `(call, proceed)` around a tool call, sync or async.

It can have a further parameter annotated RunContext. `proceed` sends the request or runs the call.
"""

_RESULTS = {"request": Response, "call": ToolResult}
"""The kinds of middleware, named after their first parameter, and what they return."""


@dataclass(frozen=True, slots=True)
class Middleware:
    """A middleware function; `stage` says what it surrounds. `of_run` is its RunContext parameter, if it has one."""

    function: MiddlewareFunction
    stage: str
    of_run: RunParameter | None = None

    @property
    def name(self) -> str:
        """The name of the function in errors."""
        return getattr(innermost(self.function), "__name__", repr(self.function))

    def within(self, context: RunContext[Any]) -> Middleware:
        """The middleware with its RunContext parameter bound."""
        return self if self.of_run is None else replace(self, function=self.of_run.bound(self.function, context))

    def check_context(self, value: Any) -> None:
        """Raise ConfigError if the context of a run does not match the annotation."""
        if self.of_run is not None:
            check_value(value, [self.of_run.parameter], f"The middleware {self.name}")

    def checked(self, result: Any) -> Any:
        """The result. Raises RunError if it has another type than what the function surrounds."""
        wanted = _RESULTS[self.stage]
        if isinstance(result, wanted):
            return result
        raise RunError(f"The middleware {self.name} returned {type(result).__name__}; it returns a {wanted.__name__}.")

    def failed(self, error: Exception) -> RunError:
        """The error for an exception of the function, with its name."""
        return RunError(f"The middleware {self.name} failed ({type(error).__name__}: {error}).")


def middleware_from(functions: Iterable[MiddlewareFunction]) -> tuple[Middleware, ...]:
    """Convert functions to middleware. Raises ConfigError if the first parameter is not `request` or `call`."""
    if not isinstance(functions, Iterable):
        raise ConfigError(f"middleware= takes a list of functions. Got {functions!r:.200}.")
    return tuple(map(_middleware, functions))


def _middleware(function: MiddlewareFunction) -> Middleware:
    try:
        given = [each.name for each in inspect.signature(function).parameters.values() if each.kind not in REST]
    except (TypeError, ValueError):  # not callable, or a C function without a signature
        given = []
    of_run = run_parameter_of(function)
    names = [name for name in given if of_run is None or name != of_run.parameter.name]
    if len(names) != 2 or names[0] not in _RESULTS:
        raise ConfigError(
            "A middleware is a function (request, proceed) around a model request, or (call, proceed) around a tool "
            f"call, and optionally of a RunContext. Got {function!r:.200}."
        )
    return Middleware(function, names[0], of_run)


def surrounded(layers: Iterable[Middleware], inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function within its middleware, blocking; the first layer is the outermost."""
    for layer in reversed(tuple(layers)):
        inner = partial(_proceed, layer, inner)
    return inner


def asurrounded(
    layers: Iterable[Middleware], inner: Callable[[Any], Awaitable[Any]]
) -> Callable[[Any], Awaitable[Any]]:
    """Async version of `surrounded`; a sync layer runs in a thread."""
    for layer in reversed(tuple(layers)):
        inner = partial(_aproceed, layer, inner)
    return inner


def _proceed(layer: Middleware, inner: Callable[[Any], Any], given: Any) -> Any:
    async def proceed(changed: Any) -> Any:
        return inner(changed)

    is_async = is_asynchronous(layer.function)
    work = partial(layer.function, given, proceed if is_async else inner)
    try:
        return layer.checked(execution.call(work, None, is_async=is_async))
    except AgentKitError:
        raise
    except Exception as error:
        raise layer.failed(error) from error


async def _aproceed(layer: Middleware, inner: Callable[[Any], Awaitable[Any]], given: Any) -> Any:
    loop, is_async = asyncio.get_running_loop(), is_asynchronous(layer.function)

    async def awaited(changed: Any) -> Any:
        return await inner(changed)

    def proceed(changed: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaited(changed), loop).result()

    work = partial(layer.function, given, awaited if is_async else proceed)
    try:
        return layer.checked(await execution.acall(work, None, is_async=is_async))
    except AgentKitError:
        raise
    except Exception as error:
        raise layer.failed(error) from error
