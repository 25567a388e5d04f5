"""Answers to the waiting tool calls of a paused run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agentkit.agents.human_approval import answer_later, told_of_run
from agentkit.agents.result import Answers
from agentkit.agents.run_config import CallingTool, RunConfig
from agentkit.agents.tool_policy import ToolPolicyContext
from agentkit.errors import BadArguments, ConfigError, UnknownTool
from agentkit.messages import ToolCall
from agentkit.safety.approval import WORDS, Approval, ApprovalRequest, Approver, ApproverAnswer, is_mistaken
from agentkit.sessions.run_state import Step
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset


def with_answers(plan: RunConfig, answers: Answers | None, waiting: Sequence[Step]) -> RunConfig:
    """The configuration for resuming with these answers; without an approver calls keep waiting.

    An answer applies once, to a call that waits now, not to later calls of the run or of nested runs: the agent's own
    approver is asked about those. Raises ConfigError for an invalid answer, and for the id of a call that does not
    wait.
    """
    plan = replace(plan, approve=plan.approve or answer_later)
    if answers is None:
        return plan
    if isinstance(answers, Mapping):
        _check_said(answers, waiting, plan.bench.tools)
        return replace(plan, said=_LaterAnswers(answers, waiting))
    if isinstance(answers, bool | str) and _is_clear(answers, waiting):
        of_all = {step.asked.id: answers for step in waiting if _is_answer(answers, step)}
        return replace(plan, said=_LaterAnswers(of_all, waiting))
    if callable(answers):
        return replace(plan, approve=told_of_run(answers, plan.context))
    raise _no_answer("", answers)


def _check_said(answers: Mapping[str, Any], waiting: Sequence[Step], tools: Toolset) -> None:
    """Raise ConfigError for an answer to an unknown call, and for one that does not fit its call."""
    ids = [step.asked.id for step in waiting]
    unknown = [str(each) for each in answers if each not in ids]
    if unknown:
        which = ", ".join(ids) or "none"
        other = f" To give it other arguments, write {{{ids[0]!r}: {{...}}}}." if len(ids) == 1 else ""
        raise ConfigError(f"No call with the id {', '.join(unknown)} waits for an answer. These do: {which}.{other}")
    for step in waiting:
        call_id = step.asked.id
        said = answers.get(call_id)
        if call_id in answers and not _can_be_said(said, step):
            raise _no_answer(f" the call {call_id!r}", said)
        if isinstance(said, Mapping) and not step.needs_words:
            _check_arguments(said, step, tools)


def _check_arguments(arguments: Mapping[str, Any], step: Step, tools: Toolset) -> None:
    """Raise ConfigError if the tool does not accept the arguments with which a person replaces those of the call."""
    if step.postponed is None or step.postponed.inner_run:  # the worker's own tools are not known here
        return
    tools = tools if step.inner is None else _tools_of(step.call.name, tools)
    try:
        tools.find(step.asked.name).check(arguments)
    except UnknownTool:
        return  # `check_waiting` reports it
    except BadArguments as error:
        raise ConfigError(
            f"The call {step.asked.id!r} cannot have these arguments: {error} Nothing was answered."
        ) from error


def check_waiting(steps: Iterable[Step], bench: ToolPolicyContext) -> None:
    """Raise ConfigError if a waiting call would differ here: its tool is missing, or its folder is another one."""
    for step in steps:
        postponed, tools = step.postponed, bench.tools
        if postponed is None or step.result is not None:
            continue
        if postponed.inner_run:  # the nested run checks its calls when it resumes
            _ = _tool_there(step.call.name, tools)
            continue
        if postponed.inner is not None:
            tools = _tools_of(step.call.name, tools)
        if postponed.decision is None:
            continue
        tool, here = _tool_there(postponed.asked.name, tools), bench.workspace.folder
        if tool.is_in_workspace and postponed.folder not in ("", here):
            raise ConfigError(
                f"The call of {tool.name!r} waits for approval in {postponed.folder!r}, but the workspace is {here!r}. "
                f"Set workspace={postponed.folder!r}. Nothing was answered."
            )


def _tool_there(name: str, tools: Toolset) -> Tool[..., Any]:
    """The tool of that name. Raises ConfigError if the agent does not have it."""
    if name in tools.names:
        return tools.find(name)
    which = ", ".join(tools.names) or "none"
    raise ConfigError(
        f"A call of {name!r} waits for approval, and this agent has no such tool ({which}). "
        "Nothing was answered; give the agent tools= with it."
    )


def _tools_of(name: str, tools: Toolset) -> Toolset:
    """The tools that a tool can call. Raises ConfigError if it is missing or makes no calls."""
    tool = _tool_there(name, tools)
    if isinstance(tool, CallingTool):
        return tool.tools
    raise ConfigError(
        f"A call waits that {name!r} makes, and the {name!r} of this agent makes none. Nothing was answered."
    )


def _no_answer(to: str, said: object) -> ConfigError:
    return ConfigError(
        "Waiting calls are answered with True, False, an Approval or words that say why not; or by a dictionary from "
        "the ids in result.pending to any of these, or to other arguments; or by a function of an ApprovalRequest. "
        f"Got {said!r:.200}{' for' if to else ''}{to}. Nothing was answered."
    )


def _can_be_said(said: object, step: Step) -> bool:
    """Whether the answer fits this call; a call that waits for a text takes any value."""
    if step.needs_words:
        return said is not None and not callable(said)
    return isinstance(said, bool | str | Approval | ApproverAnswer | Mapping) and not is_mistaken(said)


def _is_clear(said: object, waiting: Sequence[Step]) -> bool:
    """Whether one answer for all is unambiguous: a text that reads as a yes is not accepted as approval."""
    return not is_mistaken(said) or all(step.needs_words for step in waiting)


def _is_answer(said: object, step: Step) -> bool:
    """Whether one answer for all fits this call: a question needs a text."""
    return not (step.needs_words and isinstance(said, bool | Approval))


class _LaterAnswers:
    """Answers to waiting calls; each applies once, to the call with the same id, tool and arguments."""

    def __init__(self, said: Mapping[str, Any], waiting: Sequence[Step]) -> None:
        asked = (step.asked for step in waiting)
        self._said = {call.id: (call, said[call.id]) for call in asked if call.id in said}

    def __call__(self, call: ToolCall) -> Approver | None:
        """An approver for this call only; None if it was not answered."""
        asked, said = self._said.get(call.id, (None, None))
        if asked != call:
            return None
        del self._said[call.id]
        return partial(_as_said, said)


def _as_said(said: Any, request: ApprovalRequest) -> Any:
    is_word = isinstance(said, bool) and request.decision.rule == WORDS
    return ("yes" if said else "no") if is_word else said
