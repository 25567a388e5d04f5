"""Tests for the run context as a parameter of tools and other functions."""

from dataclasses import dataclass
from typing import Annotated, Any, Generic, Optional, Protocol, TypedDict, TypeVar

import pytest

from agentkit import ConfigError, Decision, RunContext, Tool, Verdict
from agentkit.tooling.run_context import CONTEXT, accepts_run_context, context_arguments

T = TypeVar("T")


@dataclass
class Shop:
    """The context of the tools."""

    owner: str = "An"


class Box(Generic[T]):
    """A generic class without type information at runtime."""


class Named(Protocol):
    """A protocol that is not checkable at runtime."""

    owner: str


class Fields(TypedDict):
    """A TypedDict, which cannot be checked with isinstance."""

    owner: str


def plain(run: RunContext, count: int) -> Any:
    """Count.

    Args:
        run: What the run gives.
        count: How many.
    """
    return run, count


def of_a_shop(run: RunContext[Shop], count: int) -> Any:
    """Count."""
    return run, count


def last(count: int, run: RunContext[Shop]) -> Any:
    """Count."""
    return run, count


def annotated(run: Annotated[RunContext[Shop], "the run"], count: int) -> Any:
    """Count."""
    return run, count


def by_place(run: RunContext[Shop], count: int, /) -> Any:
    """Count."""
    return run, count


def after_many(*count: int, run: RunContext[Shop]) -> Any:
    """Count."""
    return run, count[0]


def any_name(run: RunContext[Shop], **count: int) -> Any:
    """Count."""
    return run, count["count"]


def rich(run: RunContext[Shop], count: Annotated[int, "how many"] | None = None) -> Any:
    """Count."""
    return run, count


def optional(count: int, run: Optional[RunContext[Shop]] = None) -> Any:  # noqa: UP045 the older spelling
    """Count."""
    return run, count


def union(count: int, run: RunContext[Shop] | None = None) -> Any:
    """Count."""
    return run, count


async def awaiting(run: RunContext[Shop], count: int) -> Any:
    """Count."""
    return run, count


class Counter:
    """A class with a method that is a tool."""

    def method(self, run: RunContext[Shop], count: int) -> Any:
        """Count."""
        return run, count


ALL = [plain, of_a_shop, last, annotated, by_place, rich, optional, union, awaiting, Counter().method]
SPREAD = [(after_many, {"count": [3]}), (any_name, {"count": {"count": 3}})]


@pytest.fixture
def context():
    """Return the context of a running tool call."""
    context = RunContext(Shop(), agent="clerk")
    token = CONTEXT.set(context)
    yield context
    CONTEXT.reset(token)


@pytest.mark.for_each("function", [*ALL, after_many, any_name], ids=lambda each: each.__name__)
def test_context_is_not_in_the_schema(function):
    """The context parameter is omitted from the schema and the description."""
    tool = Tool(function)
    assert list(tool.parameters["properties"]) == ["count"]
    assert tool.description == "Count."


@pytest.mark.parametrize(("function", "arguments"), [*((each, {"count": 3}) for each in ALL), *SPREAD])
def test_context_is_passed_by_the_run(function, arguments, context):
    """The context of the current run is passed to the parameter at any position."""
    assert Tool(function).invoke(arguments).value == (context, 3)


@pytest.mark.parametrize("function", [optional, union])
def test_default_is_used_outside_of_a_run(function):
    """Outside of a run the parameter has its default value."""
    assert Tool(function).invoke({"count": 3}).value == (None, 3)


def test_missing_context_outside_of_a_run():
    """A call without a run fails with an error that shows how to pass a context."""
    error = Tool(of_a_shop).invoke({"count": 3}).error
    assert "receives 'run', a RunContext, from an agent's run" in error
    assert "run=RunContext(...)" in error


@pytest.mark.parametrize("judge", [None, lambda _: Decision(Verdict.ALLOW, "fine", "It may.")])
def test_direct_call_passes_a_context(judge):
    """A direct call can pass a context like any other argument."""
    own = RunContext(Shop("Bo"))
    assert Tool(of_a_shop, judge=judge)(own, count=3) == (own, 3)
    assert Tool(of_a_shop, judge=judge)(run=own, count=3) == (own, 3)


def test_model_cannot_pass_the_context(context):
    """A context in the arguments of a model is rejected as an unknown argument."""
    result = Tool(of_a_shop).invoke({"count": 3, "run": {"value": {"owner": "Eve"}}})
    assert result.status == "failed"
    assert "run" in result.error


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Shop, Shop()), (Any, None), (object, None), (Box[int], Box()), (Named, 3), (Fields, {}), (Shop | None, None)],
)
def test_matching_context_is_accepted(kind, value):
    """A value of the annotated class is accepted, and any value if the type cannot be checked."""

    def function(run: RunContext[kind]) -> None:
        """Do nothing."""

    Tool(function).check_context(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "no context"), ("An", "a context of type str"), (Shop, "a context of type type")],
)
def test_context_of_another_class_is_rejected(value, text):
    """A context of another class raises an error that names the required class."""
    with pytest.raises(ConfigError, match=f"'of_a_shop' needs a Shop as the context of its run, which has {text}"):
        Tool(of_a_shop).check_context(value)


def test_optional_context_accepts_any_value():
    """A tool with an optional context or a given schema accepts any context."""
    Tool(optional).check_context(None)
    Tool.from_schema("given", "Given.", {"type": "object"}, print).check_context(3)


def test_repr_omits_messages():
    """The representation of a context does not include its messages."""
    assert "messages" not in repr(RunContext(Shop(), messages=("secret",)))


@pytest.mark.parametrize(
    ("function", "is_accepted", "takes_context"),
    [
        (lambda: "Be brief.", True, False),
        (lambda run: f"Help {run.value.owner}.", True, True),
        (lambda run=None: run, True, False),
        (lambda run, more: (run, more), False, True),
        (Shop, False, False),
        ("Be brief.", False, None),
    ],
    ids=["nothing", "the context", "an optional context", "too much", "a class", "a text"],
)
def test_functions_of_a_run_may_take_the_context(function, is_accepted, takes_context):
    """A function of a run takes no argument or the run context, which is passed only if required."""
    context = RunContext(Shop("Bo"))
    assert accepts_run_context(function) is is_accepted
    if takes_context is not None:
        assert context_arguments(function, context) == ((context,) if takes_context else ())
