"""Which parameters does a run give, and what is said where there is none?"""

from dataclasses import dataclass
from typing import Annotated, Any, Generic, Optional, Protocol, TypedDict, TypeVar

import pytest

from agentkit import ConfigError, Decision, RunContext, Tool, Verdict
from agentkit.tooling.run_context import CONTEXT, is_told_of_run, taken_of

T = TypeVar("T")


@dataclass
class Shop:
    """What the tools need to know."""

    owner: str = "An"


class Box(Generic[T]):
    """A class that cannot tell what is in it."""


class Named(Protocol):
    """A protocol that is not for the time of running."""

    owner: str


class Fields(TypedDict):
    """A dictionary, which no class tells apart."""

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
    """Has a method that is a tool."""

    def method(self, run: RunContext[Shop], count: int) -> Any:
        """Count."""
        return run, count


ALL = [plain, of_a_shop, last, annotated, by_place, rich, optional, union, awaiting, Counter().method]
SPREAD = [(after_many, {"count": [3]}), (any_name, {"count": {"count": 3}})]


@pytest.fixture
def context():
    """The context of a tool call that is at work."""
    context = RunContext(Shop(), agent="clerk")
    token = CONTEXT.set(context)
    yield context
    CONTEXT.reset(token)


@pytest.mark.for_each("function", [*ALL, after_many, any_name], ids=lambda each: each.__name__)
def test_no_model_is_asked_for_it(function):
    """The parameter is in no schema, and its text in no description."""
    tool = Tool(function)
    assert list(tool.parameters["properties"]) == ["count"]
    assert tool.description == "Count."


@pytest.mark.parametrize(("function", "arguments"), [*((each, {"count": 3}) for each in ALL), *SPREAD])
def test_the_run_gives_it(function, arguments, context):
    """Wherever it stands among the parameters, it is the context of the call that is at work."""
    assert Tool(function).invoke(arguments).value == (context, 3)


@pytest.mark.parametrize("function", [optional, union])
def test_outside_of_a_run_a_default_holds(function):
    """Where there is no run, a parameter that has a default has that."""
    assert Tool(function).invoke({"count": 3}).value == (None, 3)


def test_outside_of_a_run_it_is_asked_for():
    """A call from elsewhere is told how to make one."""
    error = Tool(of_a_shop).invoke({"count": 3}).error
    assert "receives 'run', a RunContext, from an agent's run" in error
    assert "run=RunContext(...)" in error


@pytest.mark.parametrize("judge", [None, lambda _: Decision(Verdict.ALLOW, "fine", "It may.")])
def test_a_direct_call_gives_it_by_hand(judge):
    """Called from Python the tool takes a context like any other argument."""
    own = RunContext(Shop("Bo"))
    assert Tool(of_a_shop, judge=judge)(own, count=3) == (own, 3)
    assert Tool(of_a_shop, judge=judge)(run=own, count=3) == (own, 3)


def test_a_model_cannot_give_it(context):
    """What a model writes for it is an argument that the tool does not have."""
    result = Tool(of_a_shop).invoke({"count": 3, "run": {"value": {"owner": "Eve"}}})
    assert result.status == "failed"
    assert "run" in result.error


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Shop, Shop()), (Any, None), (object, None), (Box[int], Box()), (Named, 3), (Fields, {}), (Shop | None, None)],
)
def test_what_fits_is_taken(kind, value):
    """A value of the class is, and of what cannot tell its values apart any."""

    def function(run: RunContext[kind]) -> None:
        """Do nothing."""

    Tool(function).check_context(value)


@pytest.mark.parametrize(
    ("value", "told"),
    [(None, "no context"), ("An", "a context of type str"), (Shop, "a context of type type")],
)
def test_what_does_not_fit_is_refused(value, told):
    """Who runs an agent with such a tool is told what it needs."""
    with pytest.raises(ConfigError, match=f"'of_a_shop' needs a Shop as the context of its run, which has {told}"):
        Tool(of_a_shop).check_context(value)


def test_what_may_be_left_out_is_not_needed():
    """A tool that does without, and one described by a schema, run with any context."""
    Tool(optional).check_context(None)
    Tool.from_schema("given", "Given.", {"type": "object"}, print).check_context(3)


def test_messages_are_not_shown():
    """A context in a log does not tell the conversation."""
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
def test_functions_of_a_run_take_nothing_or_the_context(function, is_accepted, takes_context):
    """A function of a run takes no argument or the run context, which it gets only if it requires it."""
    context = RunContext(Shop("Bo"))
    assert is_told_of_run(function) is is_accepted
    if takes_context is not None:
        assert taken_of(function, context) == ((context,) if takes_context else ())
