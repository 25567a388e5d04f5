"""Tests for tools: their description, arguments, judges, limits, methods, and results."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import inspect
import json
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pytest
from pydantic import Field

from agentkit.decisions import Decision, SafetyLevel, Verdict
from agentkit.errors import BadArguments, Blocked, ConfigError, ToolTimeout
from agentkit.messages import ToolResult, ToolSpec
from agentkit.tooling.tool import Tool, tool

ALLOW = Decision(Verdict.ALLOW, "fine", "Nothing speaks against it.")
ASK = Decision(Verdict.ASK, "ask-first", "Somebody should look.")


def no_etc(arguments: Mapping[str, Any]) -> Decision:
    """Deny paths below /etc."""
    if arguments["path"].startswith("/etc"):
        return Decision(Verdict.DENY, "no-etc", "That folder is the system's.", remedy="Use the workspace.")
    return ALLOW


ran: list[str] = []


@tool(judge=no_etc)
def show(path: str = "/etc/passwd", *, encoding: str = "utf-8") -> str:
    """Show a file.

    Args:
        path: Which one.
        encoding: How it is written.
    """
    ran.append(path)
    return f"{path} in {encoding}"


@tool
def divide(a: float, b: float = 2.0) -> float:
    """Divide."""
    return a / b


@tool(name="wait", timeout_seconds=0.05, level="network", max_chars=1_000, description="Wait a bit.")
async def wait_long(seconds: float = 0.0) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return f"waited {seconds}"


class Basket:
    """A class with tools among its methods."""

    def __init__(self, owner: str) -> None:
        self.owner = owner

    @tool
    def add(self, fruit: str, count: int = 1) -> str:
        """Add fruit."""
        return f"{self.owner}: {count} {fruit}"

    @tool(judge=lambda arguments: no_etc({"path": arguments["fruit"]}))
    def guarded(self, fruit: str) -> str:
        """Add fruit, unless it is a system file."""
        return fruit

    unusual = Tool(lambda this, fruit: f"{this.owner}: {fruit}", "unusual")

    @tool
    def swap(self, fruit: Fruit) -> str:
        """Have an annotation that is defined later."""
        return f"{self.owner}: {fruit.name}"

    @tool
    @staticmethod
    def outer_static(self_made: str) -> str:
        """Need no instance."""
        return self_made

    @staticmethod
    @tool
    def inner_static(self_made: str) -> str:
        """Need no instance either."""
        return self_made

    @tool
    @classmethod
    def outer_class(cls, fruit: str) -> str:
        """Know the class."""
        return f"{cls.__name__}: {fruit}"

    @classmethod
    @tool
    def inner_class(cls, fruit: str) -> str:
        """Know the class too."""
        return f"{cls.__name__}: {fruit}"

    borrowed = divide


class Neighbour:
    """A class that uses a function of another one."""

    borrowed = Tool(Basket.__dict__["outer_static"].function)


@dataclasses.dataclass
class Fruit:
    """A fruit, defined after the tool that takes one."""

    name: str


def test_direct_call_returns_the_function_value() -> None:
    """A direct call returns the value of the function without coercion, or raises its exception."""
    assert divide(6, b=3) == 2
    assert divide.function(6) == 3
    assert (divide.__name__, divide.__doc__) == ("divide", "Divide.")
    assert str(inspect.signature(divide)) == "(a: 'float', b: 'float' = 2.0) -> 'float'"
    with pytest.raises(ZeroDivisionError):
        divide(1, 0)
    with pytest.raises(TypeError):
        divide("6")


def test_async_tool_returns_a_coroutine() -> None:
    """A direct call of an async tool returns a coroutine."""
    assert wait_long.is_async
    assert asyncio.run(wait_long(0.0)) == "waited 0.0"


def test_attributes_of_a_tool() -> None:
    """Name, description, parameters, level and limits come from the function or are given explicitly."""
    assert (divide.name, divide.description, divide.level) == ("divide", "Divide.", SafetyLevel.SAFE)
    assert (divide.timeout_seconds, divide.max_chars, divide.is_async) == (60.0, 50_000, False)
    assert (wait_long.name, wait_long.description, wait_long.level) == ("wait", "Wait a bit.", SafetyLevel.NETWORK)
    assert (wait_long.timeout_seconds, wait_long.max_chars) == (0.05, 1_000)
    assert divide.parameters == {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number", "default": 2.0}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert show.parameters["properties"]["path"]["description"] == "Which one."
    assert Tool(lambda: 1, "one", "").description == ""
    assert repr(wait_long) == "Tool('wait', level=NETWORK)"


def test_specification_of_a_tool() -> None:
    """The specification, with a strict schema if possible, is created once."""
    nullable = {"anyOf": [{"type": "number"}, {"type": "null"}]}
    strict = {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": nullable},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert divide.spec == ToolSpec("divide", "Divide.", divide.parameters, strict)
    assert divide.spec is divide.spec
    assert divide.to_openai_tool() == {
        "type": "function",
        "function": {"name": "divide", "description": "Divide.", "parameters": divide.parameters},
    }


def test_tool_is_immutable() -> None:
    """No attribute of a tool can be set or deleted, and its schemas are copies."""
    with pytest.raises(
        AttributeError, match=r"Tool 'divide' is immutable. Create another tool instead of setting 'name'"
    ):
        divide.name = "other"
    with pytest.raises(AttributeError, match="is immutable"):
        del divide.name
    divide.parameters["properties"].clear()
    divide.to_openai_tool()["function"]["parameters"].clear()
    assert divide.parameters["properties"]
    assert copy.copy(divide).name == "divide"


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ('{"a": 6}', 3.0),
        ({"a": "6", "b": 3}, 2.0),
        ('"{\\"a\\": 6}"', 3.0),
        ({"a": 6, "b": None}, 3.0),
    ],
)
def test_invoke_validates_and_runs(arguments: Any, value: float) -> None:
    """`invoke` and `ainvoke` accept a model's arguments and return value, text, decision and time."""
    for result in (divide.invoke(arguments), asyncio.run(divide.ainvoke(arguments))):
        assert (result.tool, result.status, result.value, result.error, result.ok) == (
            "divide",
            "ok",
            value,
            None,
            True,
        )
        assert result.content == str(value)
        assert result.decision is not None
        assert (result.decision.allowed, result.decision.rule) == (True, "no-rule")
        assert 0 < result.seconds < 60


def test_invoke_without_arguments() -> None:
    """A tool without required parameters can be invoked without arguments."""
    nothing = Tool(lambda: "done", "nothing")
    for result in (nothing.invoke(), nothing.invoke(""), asyncio.run(nothing.ainvoke())):
        assert result.content == "done"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "Argument 'a' is missing; it should be a number."),
        ({"a": 1, "c": 2}, "divide has no parameter 'c'; its parameters are a, b."),
        ("[1", "The arguments are not valid JSON"),
    ],
)
def test_invalid_arguments_are_explained(arguments: Any, error: str) -> None:
    """Invalid arguments are a failed result with an explanation, or a denial if the call is judged."""
    result = divide.invoke(arguments)
    assert (result.status, result.value) == ("failed", None)
    assert result.decision == divide.judge(arguments)
    assert str(result.error).startswith(error)
    assert json.loads(result.content)["tool"] == "divide"
    assert asyncio.run(divide.ainvoke(arguments)).error == result.error
    decision = divide.judge(arguments)
    assert (decision.denied, decision.rule) == (True, "bad-arguments")
    assert decision.reason.startswith(error)
    with pytest.raises(BadArguments):
        divide.check(arguments)


def test_denied_call_does_not_run() -> None:
    """`run` and `arun` accept a judged call, and do not run a denied one."""
    denied = Decision(Verdict.DENY, "no", "Not today.")
    for result in (divide.run({"a": 1, "b": 2}, denied), asyncio.run(divide.arun({"a": 1, "b": 2}, denied))):
        assert (result.status, result.value, result.decision) == ("denied", None, denied)


def test_judge_receives_checked_arguments() -> None:
    """A direct call and a model's call are judged on the same validated arguments."""

    def count(n: int) -> int:
        return n

    def few(arguments: Mapping[str, Any]) -> Decision:
        return Decision(Verdict.DENY if arguments["n"] > 5 else Verdict.ALLOW, "few", "At most five.")

    careful: Any = Tool(count, judge=few)
    assert careful(n=3) == 3
    for mode in (lambda: careful("9"), lambda: careful(n=9)):
        with pytest.raises(Blocked, match="At most five"):
            mode()
    with pytest.raises(BadArguments):
        careful(n="many")


def test_denial_applies_to_every_call() -> None:
    """A denial stops direct calls and invocations alike, with a reason and a remedy."""
    ran.clear()
    text = r"That folder is the system's\. Use the workspace\."
    with pytest.raises(Blocked, match=text):
        show("/etc/shadow")
    with pytest.raises(Blocked, match=text):
        show()
    for result in (show.invoke({}), asyncio.run(show.ainvoke({"path": "/etc/shadow"}))):
        assert (result.status, result.error, result.value) == ("denied", text.replace("\\", ""), None)
        assert result.decision == show.judge({})
    assert ran == []
    assert show("/home/a", encoding="ascii") == "/home/a in ascii"
    assert show.invoke({"path": "/home/b"}).decision == ALLOW
    assert ran == ["/home/a", "/home/b"]


def test_judge_does_not_run_the_tool() -> None:
    """`judge` returns the decision without running the tool, also for a tool without a judge."""
    ran.clear()
    assert show.judge({"path": "/home/a"}) == ALLOW
    assert show.judge("").rule == "no-etc"
    assert ran == []
    assert divide.judge({"a": 1}) == Decision(Verdict.ALLOW, "no-rule", "The tool divide has no judge.")


def test_direct_call_counts_as_approval() -> None:
    """A direct call or `invoke` runs despite an `ask` decision, which the result contains."""
    asking = Tool(divide.function, judge=lambda _: ASK)
    assert asking(6) == 3
    result = asking.invoke({"a": 6})
    assert (result.value, result.decision) == (3, ASK)


@pytest.mark.parametrize("answer", [None, True, "allow", ValueError("confused")])
def test_failing_judge_denies(answer: Any) -> None:
    """A judge that raises or does not return a Decision denies the call."""

    def judge(_: Mapping[str, Any]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    guarded = Tool(divide.function, judge=judge)
    assert guarded.judge({"a": 1}).rule == "judge-failed"
    assert guarded.invoke({"a": 1}).status == "denied"
    with pytest.raises(Blocked, match=r"The judge of divide (failed|returned)"):
        guarded(1)


def test_judge_cannot_change_the_arguments() -> None:
    """A judge receives a copy of the arguments."""

    def greedy(arguments: Mapping[str, Any]) -> Decision:
        arguments.clear()
        return ALLOW

    assert Tool(divide.function, judge=greedy).invoke({"a": 6}).value == 3


def test_judge_cannot_change_nested_arguments() -> None:
    """A judge receives a copy of nested values."""

    def total(numbers: list[int]) -> int:
        return sum(numbers)

    def greedy(arguments: Mapping[str, Any]) -> Decision:
        arguments["numbers"].clear()
        return ALLOW

    assert Tool(total, judge=greedy).invoke({"numbers": [1, 2]}).value == 3


def test_judge_may_read_an_iterable() -> None:
    """The function gets the items of an iterable that its judge has read, and both get them checked."""

    def total(numbers: Iterable[int]) -> int:
        return sum(numbers)

    def positive(arguments: Mapping[str, Any]) -> Decision:
        return ALLOW if all(number > 0 for number in arguments["numbers"]) else ASK

    careful = Tool(total, judge=positive)
    assert careful.invoke({"numbers": ["1", 2]}).value == 3
    assert careful.judge({"numbers": [1, -2]}) == ASK


def test_invalid_direct_call_of_a_judged_tool_raises_type_error() -> None:
    """A direct call that does not match the signature raises TypeError, and is not run."""
    with pytest.raises(TypeError, match=r"show\(\) got an unexpected keyword argument 'paht'"):
        show(paht="/etc/passwd")


def test_run_accepts_validated_arguments() -> None:
    """`run` and `arun` accept validated arguments and a decision."""
    for result in (divide.run({"a": 6.0}, ASK), asyncio.run(divide.arun({"a": 6.0}, ASK))):
        assert (result.value, result.decision) == (3.0, ASK)


def fail(error: Any) -> None:
    """Raise the given exception."""
    raise error


async def afail(error: Any) -> None:
    """Raise the given exception asynchronously."""
    raise error


@pytest.mark.parametrize("function", [fail, afail])
def test_tool_exception_is_returned_as_a_result(function: Any) -> None:
    """An exception of a tool is returned as a failed, timed out or denied result."""
    failing = Tool(function, "failing")
    cases = [
        (ValueError("no"), "failed", "ValueError: no"),
        (StopIteration("odd"), "failed", None),
        (ToolTimeout("too slow"), "timed_out", "too slow"),
        (Blocked("not here"), "denied", "not here"),
        (ConnectionError(), "failed", "ConnectionError"),
    ]
    for error, status, text in cases:
        for result in (failing.invoke({"error": error}), asyncio.run(failing.ainvoke({"error": error}))):
            assert (result.status, result.value) == (status, None)
            assert text is None or result.error == text
            assert "Traceback" not in result.content
            assert result.decision is not None


@pytest.mark.parametrize("timeout_seconds", [None, 60])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_interruptions_are_raised(error: BaseException, timeout_seconds: float | None) -> None:
    """KeyboardInterrupt and SystemExit are not failures of the tool and are raised."""
    with pytest.raises(type(error)):
        Tool(fail, timeout_seconds=timeout_seconds).invoke({"error": error})

    def judge(_: Mapping[str, Any]) -> Decision:
        raise error

    with pytest.raises(type(error)):
        Tool(divide.function, judge=judge).invoke({"a": 1})


def test_tool_that_exceeds_its_timeout() -> None:
    """At its timeout a tool has the status timed_out, with the seconds and the state of its work."""
    release = threading.Event()
    hanging = Tool(lambda: release.wait(30), "hanging", timeout_seconds=0.05)
    started = time.perf_counter()
    for result in (
        hanging.invoke(),
        asyncio.run(hanging.ainvoke()),
        wait_long.invoke({"seconds": 30}),
        asyncio.run(wait_long.ainvoke({"seconds": 30})),
    ):
        assert result.status == "timed_out"
        assert str(result.error).startswith("It did not finish within 0.05 seconds; ")
    assert time.perf_counter() - started < 15
    release.set()


def test_tool_without_a_timeout_runs_in_the_caller_s_thread() -> None:
    """`timeout_seconds=None` runs a sync tool where it is called."""

    def where() -> int:
        return threading.get_ident()

    assert Tool(where, timeout_seconds=None).invoke().value == where()
    assert Tool(where).invoke().value != where()


def test_output_is_bounded() -> None:
    """The content has at most `max_chars` characters, while the value is complete."""
    result = Tool(lambda: "x" * 5_000, "long", max_chars=100).invoke()
    assert (result.status, len(result.content), len(result.value)) == ("truncated", 100, 5_000)


def test_output_that_cannot_be_rendered_fails() -> None:
    """A value that cannot be rendered returns a failed result."""

    class Broken(dict[str, Any]):
        """A dictionary that cannot be read."""

        def get(self, *_: Any) -> Any:
            """Fail."""
            raise RuntimeError("unreadable")

    assert Tool(lambda: Broken(error=1), "broken").invoke().error == "RuntimeError: unreadable"


def test_methods_can_be_tools() -> None:
    """A method that is a tool is bound to its instance, and `self` is not among its parameters."""
    own, yours = Basket("An"), Basket("Bo")
    assert own.add("kiwi", 2) == "An: 2 kiwi"
    assert yours.add.invoke({"fruit": "kiwi"}).value == "Bo: 1 kiwi"
    assert own.add.check({"fruit": "fig"}) == {"fruit": "fig", "count": 1}
    assert list(own.add.parameters["properties"]) == ["fruit", "count"]
    assert Tool(own.add.function, name="plain").invoke({"fruit": "fig"}).value == "An: 1 fig"
    assert own.unusual.invoke({"fruit": "fig"}).value == "An: fig"
    assert own.borrowed is divide
    assert Neighbour().borrowed.invoke({"self_made": "mine"}).value == "mine"


def test_methods_accessed_on_the_class_need_an_instance() -> None:
    """A method accessed on its class is called with an instance, and its judge applies."""
    assert Basket.add.lacks_instance
    assert Basket.add(Basket("An"), "kiwi") == "An: 1 kiwi"
    assert Basket.guarded(Basket("An"), "kiwi") == "kiwi"
    with pytest.raises(Blocked):
        Basket.guarded(Basket("An"), "/etc/fruit")
    with pytest.raises(Blocked):
        Basket("An").guarded("/etc/fruit")


def test_static_and_class_methods_can_be_tools() -> None:
    """`@tool` can be applied above or below `@staticmethod` and `@classmethod`."""
    for source in (Basket, Basket("An")):
        assert source.outer_static.invoke({"self_made": "a"}).value == "a"
        assert source.inner_static.invoke({"self_made": "b"}).value == "b"
        assert source.outer_class.invoke({"fruit": "c"}).value == "Basket: c"
        assert source.outer_class("c") == "Basket: c"
        assert source.inner_class("d") == "Basket: d"


def test_annotations_of_methods_may_be_defined_later() -> None:
    """An annotation of a method may name a class defined later; it is resolved on first use."""
    assert Basket("An").swap.invoke({"fruit": {"name": "fig"}}).value == "An: fig"


def mixed(a: int, b: str, *, c: bool = False) -> tuple[int, str, bool]:
    """Take some by position and some by name."""
    return a, b, c


async def amixed(a: int, b: str) -> tuple[int, str]:
    """Take two, later."""
    return a, b


class Doubler:
    """A callable object."""

    def __call__(self, a: int) -> int:
        """Call it."""
        return a


@pytest.mark.parametrize(
    ("function", "arguments", "value"),
    [
        (mixed, {"a": 1, "b": "x", "c": "true"}, (1, "x", True)),
        (functools.partial(mixed, 1), {"b": "x"}, (1, "x", False)),
        (functools.partial(mixed, b="secret"), {"a": 1}, (1, "secret", False)),
        (functools.partial(amixed, b="later"), {"a": 1}, (1, "later")),
        (Doubler(), {"a": 1}, 1),
        (lambda text: text.upper(), {"text": "a"}, "A"),
        (lambda: amixed(1, "handed out"), {}, (1, "handed out")),
    ],
)
def test_anything_callable_can_be_a_tool(function: Any, arguments: dict[str, Any], value: Any) -> None:
    """Functions, partials, callable objects, named lambdas and functions returning coroutines can be tools."""
    made = Tool(function, "made")
    assert made.invoke(arguments).value == value
    assert asyncio.run(made.ainvoke(arguments)).value == value


def test_bound_argument_of_a_partial_is_hidden() -> None:
    """A model can neither read nor override an argument that a partial binds."""
    made = Tool(functools.partial(mixed, b="secret"))
    assert "secret" not in json.dumps(made.to_openai_tool())
    assert made.invoke({"a": 1, "b": "other"}).status == "failed"


def generator() -> Any:
    """Yield."""
    yield 1


async def async_generator() -> Any:
    """Yield."""
    yield 1


@pytest.mark.parametrize("function", [generator, async_generator])
def test_generator_function_returns_a_list(function: Any) -> None:
    """`invoke` returns the values of a generator as a list; a direct call returns the generator."""
    made = Tool(function)
    assert (made.invoke({}).value, made.invoke({}).content) == ([1], "[1]")
    assert asyncio.run(made.ainvoke({})).value == [1]
    assert not isinstance(made(), list)


@pytest.mark.for_each(
    ("function", "options", "message"),
    [
        (5, {}, "5 cannot be called, so it cannot be a tool"),
        ("name", {}, r"'name' cannot be called.*@tool\(name=\.\.\.\)"),
        (Basket, {}, "Basket is a class, and a tool must be a function"),
        (divide, {}, r"Tool\('divide', level=SAFE\) is already a tool. Use it directly"),
        (functools.partial(divide, 1), {}, r"partial\(Tool\('divide', level=SAFE\), 1\) is already a tool"),
        (lambda: 1, {}, "'<lambda>' is not a name that providers accept"),
        (mixed, {"name": ""}, "'' is not a name that providers accept"),
        (mixed, {"name": "two words"}, "is not a name that providers accept"),
        (mixed, {"name": "x" * 65}, "is not a name that providers accept"),
        (mixed, {"name": "math.factorial"}, r"a-z A-Z 0-9 _ -\. For example, 'math_factorial'"),
        (mixed, {"name": "tên"}, "is not a name that providers accept"),
        (mixed, {"name": "line\n"}, "is not a name that providers accept"),
        (mixed, {"name": 5}, "5 is not a name that providers accept"),
        (mixed, {"description": 5}, "description= takes text, not 5"),
        (mixed, {"level": "dangerous"}, "'dangerous' is not a safety level"),
        (mixed, {"labels": "private"}, "labels= takes a list of 'untrusted', 'private'; not 'private'"),
        (mixed, {"labels": ["secret"]}, r"labels= takes a list of .*; not \['secret'\]"),
        (mixed, {"labels": [["private"]]}, "labels= takes a list"),
        (mixed, {"labels": 5}, "labels= takes a list"),
        (mixed, {"timeout_seconds": 0}, "timeout_seconds= takes a positive number of seconds, or None"),
        (mixed, {"timeout_seconds": -1}, "timeout_seconds= takes"),
        (mixed, {"timeout_seconds": float("inf")}, "timeout_seconds= takes"),
        (mixed, {"timeout_seconds": True}, "timeout_seconds= takes"),
        (mixed, {"timeout_seconds": "60"}, "timeout_seconds= takes"),
        (mixed, {"max_chars": 99}, "max_chars= takes a whole number of at least 100; not 99"),
        (mixed, {"max_chars": 1e6}, "max_chars= takes"),
        (mixed, {"max_chars": True}, "max_chars= takes"),
        (mixed, {"judge": ALLOW}, "judge= takes a function from arguments to a Decision"),
        (max, {}, "'max' has no readable signature"),
    ],
)
def test_invalid_tool_is_rejected(function: Any, options: dict[str, Any], message: str) -> None:
    """An invalid tool raises an error when it is created."""
    with pytest.raises(ConfigError, match=message):
        Tool(function, **options)
    with pytest.raises(ConfigError, match=message):
        tool(**options)(function)


def test_tool_with_a_given_schema() -> None:
    """A tool can be created from a name, a description and a JSON schema; its function receives keywords."""
    schema = {
        "type": "object",
        "properties": {"file-name": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["file-name"],
        "additionalProperties": False,
    }
    received: list[dict[str, Any]] = []

    def forward(**arguments: Any) -> dict[str, Any]:
        received.append(arguments)
        return arguments

    foreign = Tool.from_schema("read", "Read a file.", schema, forward, level="system", max_chars=500)
    assert (foreign.name, foreign.description, foreign.parameters) == ("read", "Read a file.", schema)
    assert (foreign.level, foreign.max_chars, foreign.timeout_seconds) == (SafetyLevel.SYSTEM, 500, 60.0)
    assert foreign.invoke({"file-name": "a", "count": "3"}).value == {"file-name": "a", "count": 3}
    assert foreign.invoke({"count": 1}).error == "Argument 'file-name' is missing; it should be text."
    assert foreign(**{"file-name": "b"}) == {"file-name": "b"}
    assert len(received) == 2
    assert foreign.spec.strict_parameters is not None


def test_judge_of_a_tool_with_a_given_schema() -> None:
    """The judge of a tool with a given schema is applied as for any other tool."""

    def forward(**arguments: Any) -> Any:
        return arguments

    schema = {"properties": {"path": {"type": "string"}}, "required": ["path"]}
    foreign = Tool.from_schema("read", "Read.", schema, forward, judge=no_etc)
    assert foreign(path="/home") == {"path": "/home"}
    with pytest.raises(Blocked):
        foreign(path="/etc/passwd")
    assert foreign.invoke({"path": "/etc/passwd"}).status == "denied"
    with pytest.raises(ConfigError, match="its schema must be of type 'object'"):
        Tool.from_schema("read", "Read.", {"type": "string"}, forward)
    with pytest.raises(ConfigError, match="'two words' is not a name"):
        Tool.from_schema("two words", "Read.", schema, forward)


def test_async_function_of_a_tool_with_a_given_schema() -> None:
    """The function of a tool with a given schema may be async or a method."""

    class Server:
        """A class whose method runs tools."""

        async def call(self, **arguments: Any) -> Any:
            """Serve."""
            return arguments

    foreign = Tool.from_schema("serve", "Serve.", {"type": "object"}, Server().call)
    assert foreign.invoke({"a": 1}).value == {"a": 1}
    assert asyncio.run(foreign.ainvoke({"a": 1})).value == {"a": 1}


@pytest.mark.parametrize("rich", [False, True])
@pytest.mark.parametrize(
    "echo", [lambda func, self, schema, copy, json, _x, cls, name, arguments, decision, args, kwargs: [*locals()]]
)
def test_any_parameter_name_is_supported(echo: Any, *, rich: bool) -> None:
    """Parameter names such as `self` or `json` work in checks, judges, direct calls and runs."""
    names = list(inspect.signature(echo).parameters)
    echo.__annotations__.update(dict.fromkeys(names, Annotated[int, Field()] if rich else int))
    made = Tool(echo, "echo", judge=lambda _: ALLOW)
    given = dict.fromkeys(names, 7)
    assert made(**given) == names
    assert made.invoke(json.dumps(given)).value == names
    assert made.judge(given) == ALLOW


def test_direct_call_costs_microseconds() -> None:
    """Calling a tool directly takes only microseconds longer than its function."""
    calls = 20_000
    started = time.process_time()
    for _ in range(calls):
        divide(6)
    assert (time.process_time() - started) / calls < 50e-6


def test_invoke_returns_a_tool_result() -> None:
    """`invoke` returns a ToolResult."""
    assert isinstance(divide.invoke({"a": 1}), ToolResult)
