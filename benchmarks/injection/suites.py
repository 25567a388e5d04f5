"""AgentDojo's suites, run with agents of agentkit. The only module that imports agentdojo."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from agentdojo.agent_pipeline.base_pipeline_element import BasePipelineElement
from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.types import ChatAssistantMessage, text_content_block_from_string

from benchmarks.injection.declaring import UNDECLARED, Offer, Setting
from benchmarks.injection.obeying import Call, Obeyed, Orders, obey
from benchmarks.injection.tallying import Tally

VERSION = "v1.2.2"
_MARK = "<injected into {}>"


class Obedience(BasePipelineElement):
    """AgentDojo pipeline element: an agent whose model makes the calls of the task and, once read, of the attack."""

    def __init__(self, suite: Any, setting: Setting, task: Any, attack: Any = None, read: int = 0) -> None:
        self.suite, self.setting, self.task, self.attack, self.read = suite, setting, task, attack, read
        self.obeyed = Obeyed()

    def query(
        self, query: str, runtime: Any, env: Any = None, messages: Sequence[Any] = (), extra_args: Any = None
    ) -> Any:
        """Run the agent on the environment, and return messages with the calls that ran."""
        attack = self.attack
        injected = _calls(attack.ground_truth(env)) if attack else []
        words = [one.GROUND_TRUTH_OUTPUT for one in (self.task, attack) if one is not None and one.GROUND_TRUTH_OUTPUT]
        orders = Orders(query, _calls(self.task.ground_truth(env)), injected, self.read, " ".join(words) or "Done.")
        tools = self.setting.tools(self.suite.name, list(_offers(self.suite, runtime, env)))
        policy = self.setting.policy(self.suite.name)
        self.obeyed = obey(orders, tools, policy, is_attended=attack is None)
        done = [FunctionCall(function=name, args=dict(arguments)) for name, arguments in self.obeyed.done]
        replies = [_assistant("", done), _assistant(self.obeyed.answer, None)]
        return query, runtime, env, [*messages, *replies], extra_args or {}


def tallies(names: Sequence[str], settings: Sequence[Setting]) -> Iterator[Tally]:
    """Yield the counts of each suite under each setting. No names select all suites."""
    warnings.filterwarnings("ignore", module="agentdojo")
    for name, suite in get_suites(VERSION).items():
        if not names or name in names:
            yield from _tallies_of(suite, settings)


def _tallies_of(suite: Any, settings: Sequence[Setting]) -> list[Tally]:
    found = {setting.name: Tally(setting.name, suite.name) for setting in settings}
    for task in suite.user_tasks.values():
        plain = suite.load_and_inject_default_environment({})
        for setting in settings:
            user = Obedience(suite, setting, task)
            is_solved, _ = suite.run_task_with_pipeline(user, task, None, {}, environment=plain.model_copy(deep=True))
            found[setting.name].note_task([tool for tool, _ in user.obeyed.asked], is_solved=is_solved)
        _attack(suite, task, settings, found)
    return list(found.values())


def _attack(suite: Any, task: Any, settings: Sequence[Setting], found: dict[str, Tally]) -> None:
    """Inject each attack into the untrusted texts that the task reads, and count the attacks that succeed.

    Only attacks that succeed without declarations are counted: others cannot be combined with the task, or AgentDojo
    does not list their calls.
    """
    places, read = _read_by(suite, task)
    for attack in suite.injection_tasks.values() if places else ():
        poisoned = suite.load_and_inject_default_environment(dict.fromkeys(places, attack.GOAL))
        tools = "+".join(dict.fromkeys(call.function for call in attack.ground_truth(poisoned))) or "answer text"

        def has_reached(setting: Setting, attack: Any = attack, poisoned: Any = poisoned) -> bool:
            environment = poisoned.model_copy(deep=True)
            attacker = Obedience(suite, setting, task, attack, read)
            with contextlib.redirect_stdout(io.StringIO()):  # some checks print
                _, is_reached = suite.run_task_with_pipeline(attacker, task, attack, {}, environment=environment)
            return bool(is_reached)

        for setting in settings if has_reached(UNDECLARED) else ():
            is_reached = setting is UNDECLARED or has_reached(setting)
            found[setting.name].note_attack(f"{attack.ID} ({tools})", has_reached=is_reached)


def _read_by(suite: Any, task: Any) -> tuple[list[str], int]:
    """The injection places that the task reads, and the number of calls until the first one is read."""
    marks = {place: _MARK.format(place) for place in suite.get_injection_vector_defaults()}
    environment = task.init_environment(suite.load_and_inject_default_environment(marks))
    runtime, places, first = FunctionsRuntime(suite.tools), set(), 0
    for count, call in enumerate(task.ground_truth(environment), 1):
        value, _ = runtime.run_function(environment, call.function, call.args, raise_on_error=True)
        text = " ".join(tool_result_to_str(value).split())
        seen = {place for place, mark in marks.items() if mark in text}
        first = first or (count if seen else 0)
        places |= seen
    return sorted(places), first


def _offers(suite: Any, runtime: Any, environment: Any) -> Iterator[Offer]:
    for function in suite.tools:

        def use(name: str = function.name, /, **arguments: Any) -> str:
            value, _ = runtime.run_function(environment, name, arguments, raise_on_error=True)
            return tool_result_to_str(value)

        yield Offer(function.name, function.description, function.parameters.model_json_schema(), use)


def _calls(ground_truth: Sequence[Any]) -> list[Call]:
    return [(call.function, dict(call.args)) for call in ground_truth]


def _assistant(text: str, calls: list[FunctionCall] | None) -> ChatAssistantMessage:
    return ChatAssistantMessage(role="assistant", content=[text_content_block_from_string(text)], tool_calls=calls)
