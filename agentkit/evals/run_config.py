"""Configuration of a suite run: agents, models, trials, seeds, limits and storage."""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypedDict, TypeGuard

from agentkit._dataclass import dataclass
from agentkit.agents.agent import Agent
from agentkit.errors import ConfigError
from agentkit.evals.case import Case, plain
from agentkit.evals.scorers import Scorer
from agentkit.evals.trial import Trial
from agentkit.llm.client import LLM
from agentkit.sessions.session import Session
from agentkit.usage import Limits
from agentkit.workspace.workspace import Workspace

Target = Agent[Any] | Callable[..., Any]
"""The subject of a suite: an agent, or any function, sync or async."""

Agents = Target | Mapping[str, Target] | Iterable[Target]
"""One subject, several under the names used in the report, or several under their own names."""

MAX_COPIED_FILES, MAX_COPIED_BYTES = 10_000, 200_000_000
"""The limits of a workspace that is copied for each trial."""


@dataclass(frozen=True, slots=True)
class Variant:
    """An agent as the suite runs it, with its name in the report and its model.

    For a function, `agent` only provides the name in the results and sends no requests; its model is unknown.
    """

    name: str
    agent: Agent[Any]
    llm: LLM | None
    function: Callable[..., Any] | None = None

    @property
    def model(self) -> str:
        """The model's name; empty for a function."""
        return "" if self.llm is None else self.llm.model

    @property
    def digest(self) -> str:
        """A hash of the variant's definition: instruction, tools, model, limits, and handoff targets.

        For a function, a hash of its source, without the functions it calls.
        """
        text = _definition(self.agent, self.llm, set()) if self.function is None else _source(self.function)
        return hashlib.sha256(json.dumps(text).encode("utf-8", "replace")).hexdigest()

    def for_trial(self, folder: str | None, seed: int | None) -> Agent[Any]:
        """Copy the agent for one trial: without history or grants, and in the given folder."""
        return _copy_for_trial(
            self.agent, _TrialCopies(folder, None if self.llm is None else seeded(self.llm, seed), {})
        )


@dataclass(frozen=True, slots=True)
class _TrialCopies:
    """The resources of one trial's agents; `done` maps agents to their copies, since handoffs can be circular."""

    folder: str | None
    llm: LLM | None
    done: dict[int, Agent[Any]]


def _copy_for_trial(agent: Agent[Any], copies: _TrialCopies) -> Agent[Any]:
    if id(agent) in copies.done:
        return copies.done[id(agent)]
    other = agent.within(Session())
    if not copies.done and copies.llm is not None:
        other.llm = copies.llm
    copies.done[id(agent)] = other
    if copies.folder is not None:
        other.workspace = Workspace(copies.folder, dry_run=agent.workspace.dry_run)
    other.handoff_targets = {
        name: _copy_for_trial(lead, copies) if isinstance(lead, Agent) else lead
        for name, lead in agent.handoff_targets.items()
    }
    return other


def instruction_key(agent: Agent[Any]) -> str:
    """Identify the agent's instruction: its text, or the name of the function that writes it."""
    instruction = agent.instruction
    return (
        instruction
        if isinstance(instruction, str)
        else f"written by {getattr(instruction, '__qualname__', type(instruction).__qualname__)}"
    )


def _definition(agent: Agent[Any], llm: LLM | None, seen: set[str]) -> list[Any]:
    if agent.name in seen:
        return [agent.name]
    seen.add(agent.name)
    tools = [[tool.name, tool.description, plain(tool.parameters), tool.level.name] for tool in agent.tools]
    schema = agent.answer_validator.schema
    parts = [
        agent.name,
        instruction_key(agent),
        agent.max_iterations,
        repr(agent.limits),
        agent.policy.level.name,
        tools,
    ]
    model_key = None if llm is None else [llm.provider, llm.model, plain(llm.settings)]
    handoffs = [_definition(lead, None, seen) for lead in agent.handoff_targets.values() if isinstance(lead, Agent)]
    return [*parts, model_key, None if schema is None else plain(schema.schema), handoffs]


def _source(function: Callable[..., Any]) -> list[str]:
    """Identify a function by its name and, if available, its source."""
    definition = inspect.unwrap(function) if hasattr(function, "__name__") else type(function)
    try:
        source = inspect.getsource(definition)
    except (OSError, TypeError):  # functions written in C or entered interactively
        source = ""
    return [name_of(function), getattr(definition, "__module__", None) or "", source]


def is_target(value: object) -> TypeGuard[Target]:
    """Whether a suite can run the value: an agent, or a function."""
    return callable(value) and not isinstance(value, type)


def name_of(function: object) -> str:
    """The name of an agent or a function, or of its class."""
    if isinstance(function, Agent):
        return function.name
    return str(getattr(function, "__name__", None) or type(function).__name__)


def accepts_argument(function: Callable[..., Any], name: str, positional: Sequence[Any], **keywords: Any) -> bool:
    """Whether a function accepts a further argument of that name, as far as its signature is known."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind_partial(*positional, **keywords)
    except (TypeError, ValueError):  # functions in C may lack a signature; invalid arguments fail in the call itself
        return False
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameter = signature.parameters.get(name)
    return parameter is not None and parameter.kind in kinds and name not in bound.arguments


def variants_of(agents: Agents, models: Sequence[str | LLM] = ()) -> list[Variant]:
    """Build the variants: each agent with each of the models, if models are given.

    Raises ConfigError for an invalid agent or a duplicate name, NoProvider if no model is available.
    """
    variants: dict[str, Variant] = {}
    for name, agent in _named_agents(agents):
        for variant in _with_models(name, agent, models):
            if variant.name in variants:
                raise ConfigError(
                    f"Two agents are called {variant.name!r}; name them: suite.run({{'one': agent, 'two': other}})."
                )
            variants[variant.name] = variant
    if not variants:
        raise ConfigError("No agent was given. Write: suite.run(agent).")
    return list(variants.values())


def _named_agents(agents: Agents) -> Iterator[tuple[str, Target]]:
    if callable(agents):  # an agent is callable, too
        agents = [agents]
    if not isinstance(agents, Iterable):
        raise ConfigError(f"A suite runs an Agent or a function, a list of them, or them by name. Got {agents!r:.200}.")
    rows = agents.items() if isinstance(agents, Mapping) else ((name_of(each), each) for each in agents)
    for name, agent in rows:
        if not is_target(agent) or not isinstance(name, str):
            raise ConfigError(
                f"A suite runs agents and functions, each with a name. Got {name!r:.100}: {agent!r:.200}."
            )
        yield name, agent


def _with_models(name: str, agent: Target, models: Sequence[str | LLM]) -> Iterator[Variant]:
    if not isinstance(agent, Agent):
        if models:
            raise ConfigError(f"{name!r} is a function, which selects its own models: leave out models=.")
        yield Variant(name, Agent(name), None, agent)
        return
    agent_copy = copy.copy(agent)  # a copy, so that a client created for it is not assigned to the user's agent
    agent_copy.listeners = list(agent.listeners)
    if isinstance(models, str | LLM):
        models = (models,)
    if not models:
        yield Variant(name, agent_copy, agent_copy.llm)
    for model in models:
        llm = model if isinstance(model, LLM) else _with_model(agent, model)
        yield Variant(f"{name} on {llm.model}" if len(models) > 1 else name, agent_copy, llm)


def _with_model(agent: Agent[Any], model: str) -> LLM:
    """The agent's client for another model, without the price of the first one."""
    configured = agent.configured_llm
    return configured.with_model(model) if isinstance(configured, LLM) else LLM(model=model)


def seeded(llm: LLM, seed: int | None) -> LLM:
    """The client with a seed in its requests, over the same connections; unchanged if the API does not support seeds.

    OpenAI's Responses, Anthropic's Messages and the offline model do not.
    """
    if seed is None or llm.describe().protocol != "chat" or llm.provider == "offline":
        return llm
    return llm.with_settings(seed=seed)


@contextmanager
def own_folder(variant: Variant, given: str | PathLike[str] | None) -> Iterator[str | None]:
    """Create a folder for one trial: a copy of the given or the agent's own folder, or an empty one.

    Yields None for agents whose tools do not touch files, and for a function without a given folder. Raises ConfigError
    if the folder is too large to copy.
    """
    source = given or (variant.agent.workspace.folder if variant.agent.workspace.is_fixed else None)
    if source is None and not _touches_files(variant.agent, set()):
        yield None
        return
    with TemporaryDirectory(prefix="agentkit-trial-", ignore_cleanup_errors=True) as place:
        folder = Path(place, "workspace")
        if source is None:
            folder.mkdir()
        else:
            _copy(Path(source), folder)
        yield str(folder)


def _touches_files(agent: Agent[Any], seen: set[int]) -> bool:
    if id(agent) in seen:
        return False
    seen.add(id(agent))
    handoffs = (lead for lead in agent.handoff_targets.values() if isinstance(lead, Agent))
    return any(tool.is_in_workspace for tool in agent.tools) or any(_touches_files(lead, seen) for lead in handoffs)


def _copy(source: Path, folder: Path) -> None:
    max_files = MAX_COPIED_FILES
    found = islice((path for path in source.rglob("*") if path.is_file() and not path.is_symlink()), max_files + 1)
    sizes = [path.stat().st_size for path in found]
    if len(sizes) > max_files or sum(sizes) > MAX_COPIED_BYTES:
        raise ConfigError(
            f"{source} contains more than {max_files:,} files or {MAX_COPIED_BYTES // 1_000_000} MB, too much to "
            "copy for each trial. Give the suite a smaller folder: Suite(..., workspace=...)."
        )
    try:
        shutil.copytree(source, folder, symlinks=True)
    except (OSError, shutil.Error) as error:
        raise ConfigError(f"The workspace {source} cannot be copied for a trial: {error}") from error


ProgressCallback = Callable[[int, int, Trial], object]
"""Called with the number of finished trials, the total, and the newest trial."""

_PathOrNone = str | PathLike[str] | None


class ScoredSuite(Protocol):
    """The part of a suite used here."""

    name: str
    cases: tuple[Case, ...]
    workspace: str | None
    context: Callable[[Case], Any] | None

    @property
    def digest(self) -> str:
        """A hash that identifies the suite."""
        ...

    def scorers_of(self, case: Case, /) -> list[Scorer]:
        """The scorers of a case."""
        ...

    def scorers_of_prompt(self, prompt: Case, /) -> list[Scorer]:
        """The scorers of a prompt of a conversation."""
        ...


class SuiteRunOptions(TypedDict, total=False):
    """The keyword arguments of `Suite.run`."""

    cases: Iterable[Case | str] | None
    models: Sequence[str | LLM]
    repeats: int
    seed: int | None
    concurrency: int
    limits: Limits | None
    resume: _PathOrNone
    record: _PathOrNone
    replay: _PathOrNone
    progress: ProgressCallback | None


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """A trial to run."""

    case: Case
    variant: Variant
    repeat: int
    seed: int | None

    @property
    def key(self) -> tuple[str, str, int]:
        """The key of the trial."""
        return self.case.id, self.variant.name, self.repeat


class SuiteConfig:
    """The validated options of `Suite.run`. Raises ConfigError and NoProvider."""

    def __init__(
        self,
        suite: ScoredSuite,
        cases: Sequence[Case],
        agents: Agents,
        *,
        models: Sequence[str | LLM] = (),
        repeats: int = 1,
        seed: int | None = None,
        concurrency: int = 8,
        limits: Limits | None = None,
        resume: _PathOrNone = None,
        record: _PathOrNone = None,
        replay: _PathOrNone = None,
        progress: ProgressCallback | None = None,
    ) -> None:
        _check_count("repeats", repeats)
        _check_count("concurrency", concurrency)
        if seed is not None and type(seed) is not int:
            raise ConfigError(f"seed= takes a whole number, or None. Got {seed!r:.200}.")
        if record is not None and replay is not None:
            raise ConfigError(
                "Give record= or replay=, not both: the first uses the real model, the second a recording."
            )
        self.suite, self.cases = suite, tuple(cases)
        self._agents, self._models = agents, models
        self.repeats, self.seed, self.concurrency, self.limits = repeats, seed, concurrency, limits
        self.progress = progress
        self.resume, self.record, self.replay = (
            None if place is None else fspath(place) for place in (resume, record, replay)
        )
        self._variants: list[Variant] = []

    @property
    def variants(self) -> list[Variant]:
        """The agents to run. Raises ConfigError and NoProvider."""
        if not self._variants:
            found = variants_of(self._agents, self._models)
            for variant in found:
                _check_cases(variant, self.cases)
            self._variants = found
        return self._variants

    @property
    def count(self) -> int:
        """The total number of trials."""
        return len(self.cases) * len(self.variants) * self.repeats

    def header(self) -> dict[str, Any]:
        """The data that must be unchanged when the suite is resumed."""
        return {
            "name": self.suite.name,
            "suite": self.suite.digest,
            "agents": {variant.name: variant.digest for variant in self.variants},
        }

    def planned(self) -> Iterator[PlannedTrial]:
        """Yield all trials, ordered by case: an interrupted suite has run the same cases for each agent."""
        for repeat in range(1, self.repeats + 1):
            seed = None if self.seed is None else self.seed + repeat - 1
            for case in self.cases:
                for variant in self.variants:
                    yield PlannedTrial(case, variant, repeat, seed)


def _check_count(name: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name}= takes a whole number of at least 1. Got {value!r:.200}.")


def _check_cases(variant: Variant, cases: Sequence[Case]) -> None:
    """Raise ConfigError for unsuitable cases: arguments for an agent, or a conversation for a stateless function."""
    for case in cases:
        if variant.function is None and case.arguments is not None:
            raise ConfigError(
                f"The case {case.id!r} has arguments=, which only functions accept; {variant.name!r} is an agent."
            )
        is_stateless = variant.function is not None and not accepts_argument(variant.function, "history", ("",))
        if is_stateless and case.is_conversation:
            raise ConfigError(
                f"The case {case.id!r} is a conversation, but the function {variant.name!r} has no parameter "
                "`history`. Add one: a list of dictionaries with role and content."
            )
