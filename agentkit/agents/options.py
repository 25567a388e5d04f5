"""Validation and defaults of the arguments of `Agent`, including its rules."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any, Generic, Literal, TypedDict, TypeVar

from agentkit.agents.guardrails import AnswerValidator, GuardrailFunction, MiddlewareFunction, middleware_from
from agentkit.agents.human_approval import answer_later, is_approver
from agentkit.agents.result import GivenApprover
from agentkit.agents.run_config import HandoffTarget, Instruction
from agentkit.content import File, Image, load_part
from agentkit.decisions import Label, Level, SafetyLevel
from agentkit.errors import ConfigError
from agentkit.event_rendering import suggestion
from agentkit.llm.client import LLM
from agentkit.llm.detection import PROVIDERS
from agentkit.llm.protocols.chat_format import typed_messages
from agentkit.messages import (
    READ_MORE,
    AssistantMessage,
    Content,
    Message,
    SystemMessage,
    ToolMessage,
    calls_in,
    without_extra,
)
from agentkit.safety.policy import Policy
from agentkit.safety.rules import Rule, plain
from agentkit.sessions.context_window import Window
from agentkit.sessions.session import Session
from agentkit.suggestions import closest
from agentkit.tooling.json_schema import close_schema
from agentkit.tooling.run_context import ContextType, accepts_run_context
from agentkit.tooling.tool import Tool, names_in_use
from agentkit.tooling.toolset import AnyTool, Toolset
from agentkit.tracing.listeners import Listener
from agentkit.usage import Limits, is_whole
from agentkit.workspace.journal import Journal
from agentkit.workspace.workspace import Workspace

Prompt = str | Image | File | Path | Sequence[str | Image | File | Path]
"""A prompt: a text, or texts, images and files in order; a path is replaced by the contents of the file."""


Unlabelled = Literal["allow", "ask"]
"""What happens to calls of tools without a safety level."""


class AgentOptions(TypedDict, Generic[ContextType], total=False):
    """The keyword arguments of Agent except `output_type`, which determines the type parameter."""

    llm: LLM | None
    model: str | None
    safety: Level
    policy: Policy | None
    rules: Iterable[Rule | Mapping[str, Any]]
    unlabelled: Unlabelled
    approve: GivenApprover[ContextType] | Literal["later"] | None
    description: str | None
    remember: bool
    session: str | Session | None
    limits: Limits | None
    window: Window | int | None
    handoffs: Iterable[HandoffTarget]
    workspace: str | Path | Workspace | None
    guardrails: Iterable[GuardrailFunction[ContextType]]
    middleware: Iterable[MiddlewareFunction]
    tool_calling: Literal["text"] | None
    dry_run: bool
    context: ContextType | None
    listeners: Iterable[Listener]


_Value = TypeVar("_Value")

_ITERABLES = (tuple, list, Iterable)
"""Iterable types; the common ones come first, because an isinstance check of an abstract class is slow."""

_VALID: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str) and bool(value.strip()), "a string that is not blank"),
    "instruction": (
        lambda value: isinstance(value, str) or accepts_run_context(value),
        "a string, or a function (sync or async) without parameters or with a RunContext that returns one; to join "
        "lines, use '\\n'.join(...)",
    ),
    "max_iterations": (lambda value: is_whole(value, 1), "a whole number of at least 1"),
    "listeners": (lambda value: isinstance(value, _ITERABLES), "a list of functions of an event"),
    "dry_run": (lambda value: isinstance(value, bool), "True or False"),
    "remember": (lambda value: isinstance(value, bool), "True or False"),
    "tool_calling": (lambda value: value == "text", "'text'"),
    "unlabelled": (lambda value: value in ("allow", "ask"), "'allow' or 'ask'"),
    "description": (lambda value: isinstance(value, str), "a string that describes the purpose of the agent"),
    "llm": (lambda value: isinstance(value, LLM), "an LLM; a model's name goes into model="),
    "model": (lambda value: isinstance(value, str), "a model's name; an LLM goes into llm="),
    "policy": (
        lambda value: isinstance(value, Policy),
        "a Policy, as in Policy(rules=[...]); a level goes into safety=",
    ),
    "approve": (
        is_approver,
        "a function from an ApprovalRequest, and maybe a RunContext, to True or False, e.g. approve=lambda request: "
        "True, or 'later'; to allow calls without approval, use safety= or policy=",
    ),
    "limits": (lambda value: isinstance(value, Limits), "Limits(...)"),
    "session": (lambda value: isinstance(value, str | Session) and value != "", "the name of a session, or a Session"),
    "workspace": (lambda value: isinstance(value, str | Path | Workspace), "the path of a folder, or a Workspace"),
}
"""The valid values of each argument of Agent, as a test and a description."""


DEFAULT_INSTRUCTION = "You are a helpful assistant."

_PARTS = (str, Image, File, Path)
_RULES = AnswerValidator()
"""The immutable default, shared by all agents."""


def refuse_unknown(function: str, names: Iterable[str], accepted: Sequence[str]) -> None:
    """Raise TypeError for an unknown argument of Agent or of one of its methods, with a suggestion."""
    unknown = [name for name in names if name not in accepted]
    if unknown:
        from agentkit.suggestions import arguments_of, raise_unknown_argument

        def hint(name: str) -> str:
            of_llm = closest(name, arguments_of(LLM), _ALIKE)
            return f"It is an argument of LLM: llm=LLM({of_llm}=...)." if of_llm else ""

        raise_unknown_argument(function, unknown, accepted, hint)


def validate(name: str, value: _Value) -> _Value:
    """Validate the value of an argument. Raises ConfigError."""
    fits, expected = _VALID[name]
    if not fits(value):
        raise ConfigError(f"{name}= takes {expected}. Got {value!r:.200}.")
    return value


def validate_optional(name: str, value: _Value) -> _Value:
    """Validate a value unless it is None. Raises ConfigError."""
    return value if value is None else validate(name, value)


def workspace_from(value: str | Path | Workspace | None) -> Workspace | None:
    """Convert to a workspace with this machine's journal; None if the agent creates its own."""
    if value is None or isinstance(value, Workspace):
        return value
    return Workspace(validate("workspace", value), journal=Journal.of_this_machine())


def instruction_from(value: Instruction | None) -> Instruction:
    """Validate the instruction, or return the default."""
    return DEFAULT_INSTRUCTION if value is None else validate("instruction", value)


def tools_from(value: Iterable[Any] | Callable[..., Any] | None) -> Toolset:
    """Convert to a toolset. Raises ConfigError for an invalid tool."""
    return value if isinstance(value, Toolset) else Toolset(() if value is None else value)


def listeners_from(value: Iterable[_Value]) -> list[_Value]:
    """Copy the listeners to a new list. Raises ConfigError for an invalid one."""
    return [validate_listener(listener) for listener in validate("listeners", value)]


def llm_from(llm: LLM | None, model: str | None, name: str = "") -> LLM | None:
    """Validate the client. Raises ConfigError if a model is given too, or in place of the agent's name."""
    if validate_optional("llm", llm) is not None and model is not None:
        raise ConfigError("Give llm= or model=, not both: an LLM already has its model.")
    if llm is None and model is None and ":" in name and name.partition(":")[0] in PROVIDERS:
        raise ConfigError(f"The first argument is the agent's name. Write Agent(model={name!r}).")
    return llm


def window_from(value: Window | int) -> Window:
    """Convert to a Window. Raises ConfigError."""
    return value if isinstance(value, Window) else Window(tokens=value)


def limits_from(value: Limits | None) -> Limits:
    """Validate the limits, or return the default."""
    return Limits() if value is None else validate("limits", value)


_policy_of = cache(Policy)


def policy_from(level: SafetyLevel, policy: Policy | None, rules: Iterable[Rule | Mapping[str, Any]]) -> Policy:
    """The agent's policy. Raises ConfigError if `safety` contradicts the level of the policy, or if both have rules."""
    if policy is None:
        return Policy(level, rules)
    if rules != ():
        raise ConfigError("Give the rules once: policy=Policy(rules=[...]), without rules=.")
    if level not in (SafetyLevel.NETWORK, validate("policy", policy).level):
        raise ConfigError(f"Give the level once: policy=Policy(level=SafetyLevel.{level.name}, ...), without safety=.")
    return policy


def approver_from(value: GivenApprover | Literal["later"] | None) -> GivenApprover | None:
    """The approver; "later" is one that pauses the run. Raises ConfigError for an invalid one."""
    if value is None or value == "later":
        return value and answer_later
    return validate("approve", value)


def validate_listener(listener: _Value) -> _Value:
    """Validate a listener. Raises ConfigError if it is not callable or async."""
    if not callable(listener) or inspect.iscoroutinefunction(listener):
        raise ConfigError(f"A listener is a plain function of an event, not async. Got {listener!r:.200}.")
    return listener


def handoffs_from(agents: Iterable[HandoffTarget]) -> dict[str, HandoffTarget]:
    """Agents by name. Raises ConfigError for an invalid agent and for duplicate names."""
    targets: dict[str, HandoffTarget] = {}
    for agent in validate_agents("handoffs", agents):
        if agent.name in targets:
            raise ConfigError(f"Two handoff agents are named {agent.name!r}; give them distinct names.")
        targets[agent.name] = agent
    return targets


def validate_agents(argument: str, agents: Iterable[HandoffTarget]) -> list[HandoffTarget]:
    """Validate a list of agents. Raises ConfigError."""
    if agents == ():
        return []
    targets = list(agents) if isinstance(agents, _ITERABLES) else None
    if targets is None or not all(isinstance(agent, HandoffTarget) for agent in targets):
        raise ConfigError(f"{argument}= takes a list of agents. Got {agents!r:.200}.")
    return targets


def content_from(prompt: Prompt) -> Content:
    """Convert a prompt to message content. Raises ConfigError for an invalid prompt or an unreadable file."""
    if isinstance(prompt, str):
        if prompt.strip():
            return prompt
        raise ConfigError(f"The prompt is empty: {prompt!r}. Pass a text, an Image, a File or the Path of one.")
    parts = (prompt,) if isinstance(prompt, _PARTS) else prompt
    if not isinstance(parts, list | tuple) or not parts or not all(isinstance(part, _PARTS) for part in parts):
        is_conversation = isinstance(parts, Mapping) or (
            isinstance(parts, list | tuple) and any(isinstance(part, Mapping | Message) for part in parts)
        )
        hint = (
            " To set a conversation, assign agent.history = [...] and pass the last message as the prompt."
            if is_conversation
            else ""
        )
        raise ConfigError(
            f"A prompt is a text, an Image, a File, the Path of one, or a list of these.{hint} Got {prompt!r:.200}."
        )
    return tuple([_part(part) for part in parts])


def empty_prompt(session: Session) -> Content:
    """The empty prompt of a run that answers the last message of a conversation. Raises ConfigError."""
    last = session.messages[-1:]
    if not last or isinstance(last[0], AssistantMessage):
        raise ConfigError(
            "The run has no prompt, and the conversation has no message without an answer. A prompt is a text, an "
            "Image, a File, the Path of one, or a list of these."
        )
    return ()


def _part(part: str | Image | File | Path) -> str | Image | File:
    """Convert a part of a prompt; a text file becomes its text. Raises ConfigError."""
    try:
        return load_part(part)
    except OSError as error:
        raise ConfigError(f"The file {str(part)!r} of the prompt cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ConfigError(f"{error}.") from None


def conversation_from(messages: Iterable[Message | Mapping[str, Any]], tools: Toolset) -> list[Message]:
    """Convert a stored conversation to typed messages with labelled tool results. Raises ConfigError."""
    if isinstance(messages, str | Mapping):
        raise ConfigError(f"A history is a list of messages. Got {messages!r:.200}.")
    try:
        typed = typed_messages(messages)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"The history is invalid: {error}.") from error
    if any(isinstance(message, SystemMessage) for message in typed):
        raise ConfigError("A history cannot contain system messages. Remove them and set instruction=.")
    names = {call.id: call.name for call in calls_in(typed)}
    return [_with_tool_labels(message, names, tools) for message in typed]


def _with_tool_labels(message: Message, names: Mapping[str, str], tools: Toolset) -> Message:
    """The message without provider-specific data; a tool result with its tool's name and labels.

    The tool is the one that was called: a result under another name gets all labels.
    """
    if not isinstance(message, ToolMessage):
        return without_extra(message)
    name = names.get(message.call_id) or message.name
    is_clear = name in tools.names and message.name in ("", name)
    labels = message.labels or (tools.find(name).labels if is_clear else frozenset(Label))
    return replace(message, name=name, labels=labels)


def _explicit_policy(value: Policy | None) -> Policy:
    """Validate a replacement policy; None is refused, as the default can allow more than the current policy."""
    if value is None:
        raise ConfigError("An agent has a policy: set one, such as Policy('SAFE'). The level alone is policy.level.")
    return validate("policy", value)


SETTABLE: Mapping[str, Callable[[Any], Any]] = {
    **{name: partial(validate, name) for name in ("name", "max_iterations", "dry_run", "remember", "unlabelled")},
    "approve": approver_from,
    "description": partial(validate_optional, "description"),
    "instruction": instruction_from,
    "tools": tools_from,
    "policy": _explicit_policy,
    "limits": limits_from,
    "workspace": workspace_from,
    "listeners": listeners_from,
    **dict.fromkeys(("handoff_targets", "context"), lambda value: value),
}
"""The settable attributes of an agent, with their converters, which raise ConfigError."""

_ARGUMENTS: Mapping[str, tuple[str, object, object, Callable[[Any], Any]]] = {
    "tools": ("tools", (), Toolset(), tools_from),
    "instruction": ("instruction", DEFAULT_INSTRUCTION, DEFAULT_INSTRUCTION, instruction_from),
    "max_iterations": ("max_iterations", 10, 10, partial(validate, "max_iterations")),
    "approve": ("approve", None, None, approver_from),
    "limits": ("limits", None, Limits(), limits_from),
    "window": ("_window", None, Window(), window_from),
    "handoffs": ("handoff_targets", (), {}, handoffs_from),
    "workspace": ("_workspace", None, None, workspace_from),
    "middleware": ("_middleware", (), (), middleware_from),
    "session": ("_session", None, None, partial(validate, "session")),
    "model": ("_model", None, None, partial(validate, "model")),
    "tool_calling": ("_tool_calling", None, None, partial(validate, "tool_calling")),
    "description": ("description", None, None, partial(validate_optional, "description")),
    "remember": ("remember", True, True, partial(validate, "remember")),
    "unlabelled": ("unlabelled", "allow", "allow", partial(validate, "unlabelled")),
    "dry_run": ("dry_run", False, False, partial(validate, "dry_run")),
}
"""The arguments of Agent that set one attribute: its name, the default argument, its value, and the converter."""


def attributes_from(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the arguments of Agent to attributes. Raises ConfigError. Defaults, which are immutable, are shared."""
    attributes: dict[str, Any] = {"name": validate("name", arguments["name"]), "context": arguments["context"]}
    for name, (attribute, default, value, convert) in _ARGUMENTS.items():
        attributes[attribute] = value if arguments[name] is default else convert(arguments[name])
    attributes["listeners"] = [] if arguments["listeners"] == () else listeners_from(arguments["listeners"])
    attributes["_llm"] = llm_from(arguments["llm"], arguments["model"], arguments["name"])
    level, policy, rules = SafetyLevel.of(arguments["safety"]), arguments["policy"], arguments["rules"]
    has_policy = policy is not None or rules != ()
    attributes["policy"] = policy_from(level, policy, rules) if has_policy else _policy_of(level)
    output_type, guardrails = arguments["output_type"], arguments["guardrails"]
    has_rules = output_type is not None or guardrails != ()
    attributes["_answers"] = AnswerValidator.with_agent(output_type, guardrails) if has_rules else _RULES
    if attributes["policy"].rules:
        check_rules(attributes["policy"], attributes["tools"])
    return attributes


_ALIKE = 0.85
"""Similarity from which a tool name counts as a misspelling of another; `read_mail` and `read_file` are below it."""


def check_rules(policy: Policy, tools: Iterable[AnyTool]) -> None:
    """Raise ConfigError for a rule whose tool or argument name is a misspelling of one of the agent's tools.

    An unknown name that is not a misspelling is accepted, because several agents can share one policy. The name of any
    tool in this process and of any shipped tool is accepted as well.
    """
    own = {tool.name: tool for tool in _with_inner(tools)}
    for rule in policy.rules:
        _check_name(rule, own)
        _check_arguments(rule, own)


def _with_inner(tools: Iterable[AnyTool]) -> Iterable[AnyTool]:
    """The tools, including those that the programs of a tool can call."""
    for tool in tools:
        yield tool
        inner = getattr(tool, "tools", None)
        if isinstance(inner, Toolset):
            yield from inner


def _check_name(rule: Rule, own: Mapping[str, AnyTool]) -> None:
    if rule.is_pattern or rule.tool in own:
        return
    known_tools = _shipped_tools()
    if rule.tool in known_tools or rule.tool in names_in_use() or rule.tool == READ_MORE:
        return
    intended = _intended_name(rule.tool, [*own, *known_tools], own) or _exports().get(rule.tool, "")
    if intended:
        raise ConfigError(
            f"The rule {rule.label!r} would apply to nothing. No tool is named {rule.tool!r}. Did you "
            f"mean {intended!r}?"
        )


def _intended_name(name: str, known: Iterable[str], own: Iterable[str]) -> str:
    """The probable intended name: the same words, a close match, or a name of the agent that contains the words."""
    same = next((each for each in known if _words(each) == _words(name)), "")
    longer = next((each for each in own if _words(name) and _words(name) < _words(each)), "")
    return same or closest(name.lower(), known, _ALIKE) or longer


def _words(name: str) -> frozenset[str]:
    """The words of a name in lower case: `WriteFile` and `write_file` have the same words."""
    return frozenset(re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()))


def _check_arguments(rule: Rule, own: Mapping[str, AnyTool]) -> None:
    """Raise ConfigError for a rule about an argument that none of the matching tools has."""
    tools = [tool for name, tool in own.items() if rule.is_about(name)]
    tools = tools or [tool for name, tool in _shipped_tools().items() if name == rule.tool]
    if not tools or any(map(_is_open, tools)):
        return
    names = list(dict.fromkeys(name for tool in tools for name in tool.spec.parameters.get("properties", {})))
    unknown = next((name for name in rule.where if name not in names), None)
    if unknown is not None:
        accepted = f"its arguments are {', '.join(names)}" if names else "it takes no arguments"
        raise ConfigError(
            f"The rule {rule.label!r} would apply to nothing. {tools[0].name} has no argument {unknown!r}; {accepted}."
            f"{suggestion(unknown, names)}"
        )
    _check_types(rule, tools)


_TEST_TYPES: Mapping[str, tuple[str, frozenset[str]]] = {
    **dict.fromkeys(("at_most", "at_least"), ("a number", frozenset({"number", "integer"}))),
    **dict.fromkeys(("words", "host", "origin"), ("a text", frozenset({"string"}))),
    "below": ("a path or a list of paths", frozenset({"string", "array"})),
}
"""The types in JSON of the arguments that a test can fit."""


def _check_types(rule: Rule, tools: Iterable[AnyTool]) -> None:
    """Raise ConfigError for a test that no argument of these tools can pass, because it has another type."""
    for argument, test, operand in rule.tests:
        schemas = [tool.spec.parameters.get("properties", {}).get(argument) for tool in tools]
        types = [_types(schema) for schema in schemas if schema is not None]
        if test in ("equals", "one_of"):
            operands = operand if test == "one_of" else (operand,)
            expected = frozenset(name for each in operands for name in _types_of(plain(each)))
            problem = "another type than the values"
        elif test in _TEST_TYPES:
            problem, expected = f"not {_TEST_TYPES[test][0]}, as", _TEST_TYPES[test][1]
        else:
            continue
        if types and expected and all(known and known.isdisjoint(expected) for known in types):
            raise ConfigError(
                f"The rule {rule.label!r} would apply to nothing. The argument {argument!r} is of type "
                f"{' or '.join(sorted(types[0]))}: {problem} of the test {test!r}."
            )


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types in JSON that a schema allows; none when it does not say."""
    declared = schema.get("type")
    if declared:
        return frozenset([declared] if isinstance(declared, str) else declared)
    choices = schema.get("anyOf") or schema.get("oneOf") or ()
    inner = [_types(each) for each in choices]
    return frozenset().union(*inner) if inner and all(inner) else frozenset()


def _types_of(value: Any) -> tuple[str, ...]:
    """The types in JSON of the arguments that can equal a value of a rule; none for what may equal anything."""
    match value:
        case bool():
            return ("boolean",)
        case int() | float() | Decimal():
            return ("number", "integer", "string") if isinstance(value, Decimal) else ("number", "integer")
        case str():
            return ("string", "number") if value.strip()[:1].isdigit() else ("string",)
        case list():
            return ("array",)
        case dict():
            return ("object",)
    return tuple(_ALL_TYPES)


_ALL_TYPES = frozenset({"null", "boolean", "number", "integer", "string", "array", "object"})


def _is_open(tool: AnyTool) -> bool:
    """Whether a tool accepts arguments that its schema does not list."""
    return (
        tool.spec.hosted is not None
        or close_schema(dict(tool.spec.parameters)).get("additionalProperties") is not False
    )


def _shipped_tools() -> dict[str, AnyTool]:
    from agentkit.tools.catalog import all_tools

    return {tool.name: tool for tool in all_tools}


def _exports() -> dict[str, str]:
    """The names of the shipped tools by variable name: `shell_tool` is `run_shell`."""
    from agentkit.tools import catalog, core

    found = {**vars(core), **vars(catalog)}
    return {name: value.name for name, value in found.items() if isinstance(value, Tool)}
