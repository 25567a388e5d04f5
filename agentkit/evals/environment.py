"""The isolated environment of one trial: agent, folder, session and cassette."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from agentkit.agents.agent import Agent
from agentkit.agents.result import RunResult
from agentkit.errors import AgentKitError, ConfigError, RunError, SessionError
from agentkit.evals.case import Case
from agentkit.evals.run_config import PlannedTrial, SuiteConfig, own_folder, seeded
from agentkit.evals.simulated_user import SimulatedUser, UserTurn
from agentkit.evals.trial import answer_of, prompt_of, result_from_state
from agentkit.event_rendering import content_text
from agentkit.messages import Content
from agentkit.recording import Recording, active, is_replaying
from agentkit.sessions.cassettes.playback import Player
from agentkit.sessions.cassettes.recorder import Recorder
from agentkit.sessions.session import Session
from agentkit.sessions.state import RunState
from agentkit.tooling.execution import call
from agentkit.tooling.results import text_of
from agentkit.usage import NO_USAGE, Usage

_MAX_NAME_CHARS = 80


class Cassettes:
    """The cassettes of a suite's trials: written when recording, read when replaying, otherwise unused.

    Raises ConfigError if the folder to replay does not exist, or the one to record in is a file.
    """

    def __init__(self, record: str | None, replay: str | None) -> None:
        self._record = None if record is None else Path(record)
        self._replay = None if replay is None else Path(replay)
        if self._replay is not None and not self._replay.is_dir():
            raise ConfigError(f"The folder {str(self._replay)!r} of cassettes does not exist. Record it first.")
        if self._record is not None and self._record.exists() and not self._record.is_dir():
            raise ConfigError(f"{str(self._record)!r} is a file. Name a folder to record the cassettes in.")

    def tape(self, key: tuple[str, str, int]) -> Recorder | Player | None:
        """The recorder or player of one trial, or None. Raises SessionError if the trial was not recorded."""
        if self._record is not None:
            return Recorder(self._record / file_name(key))
        if self._replay is None:
            return None
        path = self._replay / file_name(key)
        if not path.exists():
            raise SessionError(f"No cassette in {self._replay} contains this trial. Record it first.")
        # Unused answers belong to other scorers: a recording can be scored again with different ones.
        return Player(path, partial=True)

    @contextmanager
    def without_provider(self) -> Iterator[None]:
        """In a replay, allow the block to run without a provider."""
        with nullcontext() if self._replay is None else active(_Replaying()):
            yield


class _Replaying(Recording):
    """Reports that answers come from recordings."""

    is_replaying = True


def file_name(key: tuple[str, str, int]) -> str:
    """The file name of a trial's cassette: readable, and unique for any names of case and agent."""
    case, agent, repeat = key
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{case}.{agent}")[:_MAX_NAME_CHARS].strip("-")
    digest = hashlib.sha256(repr(key).encode("utf-8", "replace")).hexdigest()[:8]
    return f"{readable}-{repeat}-{digest}.cassette"


_FIRST = "The conversation begins. Write the first message."


class TrialConversation:
    """The prompts of one trial, in order, and the results of those answered.

    `prompt` is the newest, None before the first; `usage` is the usage of a simulated user.
    """

    def __init__(self, case: Case, seed: int | None) -> None:
        self.runs: list[RunResult[Any]] = []
        self.prompt: Content | None = None
        self.usage: Usage = NO_USAGE
        self._case, self._seed, self._asked = case, seed, 0
        self._simulated: Agent[UserTurn] | None = None

    def advance(self) -> bool:
        """Fetch the next prompt, unless the newest is unanswered; return whether there is one. Raises AgentKitError."""
        if self._asked == len(self.runs):
            self.prompt = self._next()
            self._asked += 1
        return self.prompt is not None

    @property
    def history(self) -> list[dict[str, str]]:
        """The conversation so far: prompts and answers, as plain dictionaries."""
        parts: list[dict[str, str]] = []
        for run in self.runs:
            parts.append({"role": "user", "content": content_text(prompt_of(run))})
            parts.append({"role": "assistant", "content": answer_of(run)})
        return parts

    def _next(self) -> Content | None:
        user, index = self._case.user, len(self.runs)
        if user is None:
            return self._case.turns[index].content if index < len(self._case.turns) else None
        prompt = self._ask_user(user) if index < user.max_prompts else None
        if prompt is None and not index:
            raise RunError("The simulated user returned an empty message.")
        return prompt

    def _ask_user(self, user: SimulatedUser) -> Content | None:
        """Ask the simulated user for the next prompt; None ends the conversation."""
        if user.function is None:
            return self._ask_simulated_user(user)
        answer = call_user_function(user.function, self.history, "The simulated user")
        if not isinstance(answer, str | None):
            raise ConfigError(f"The function of a simulated user must return a string or None. Got {answer!r:.200}.")
        return answer

    def _ask_simulated_user(self, user: SimulatedUser) -> str | None:
        if self._simulated is None:
            # A client created for a replay sends no requests, so it is not stored for later.
            llm = Agent("user").llm if is_replaying() and user.player.configured_llm is None else user.player.llm
            self._simulated = user.player.within(Session())
            self._simulated.llm = seeded(llm, self._seed)
        text = f"The agent says:\n{answer_of(self.runs[-1])}" if self.runs else _FIRST
        result = self._simulated.run(text)
        self.usage += result.usage
        answer = result.raise_for_status().output
        return None if answer.is_done or not answer.message.strip() else answer.message


def call_user_function(function: Callable[[Any], Any], argument: Any, what: str) -> Any:
    """Call a function of the suite's author, awaiting it if necessary. Raises RunError if it raises."""
    try:
        return call(partial(function, argument), None)
    except AgentKitError:
        raise
    except Exception as error:
        raise RunError(f"{what} failed ({type(error).__name__}): {text_of(error)}") from error


def join_runs(runs: Sequence[RunResult[Any]]) -> RunResult[Any]:
    """Join the runs of a conversation: all messages, tool calls and usage, and the end of the last run."""
    last = runs[-1]
    if len(runs) == 1:
        return last
    joined = result_from_state(RunState.of(event for run in runs for event in run.events), last.run_id)
    names = ("value", "error", "record", "pending", "last_agent", "context")
    return replace(joined, **{name: getattr(last, name) for name in names})


class TrialEnvironment:
    """The resources of one trial: agent, session, folder, recording and clock. `ids` are those of its tool calls."""

    def __init__(self, trial: PlannedTrial, config: SuiteConfig, cassettes: Cassettes) -> None:
        make = config.suite.context
        context = None if make is None else call_user_function(make, trial.case, "The context of the trial")
        self.seconds = 0.0
        self.conversation, self.session = TrialConversation(trial.case, trial.seed), Session()
        self.ids: set[str] = set()
        self._resources = ExitStack()
        self.tape = cassettes.tape(trial.key)
        folder = own_folder(trial.variant, trial.case.workspace or config.suite.workspace)
        self.folder = self._resources.enter_context(folder)
        self.agent = trial.variant.for_trial(self.folder, trial.seed)
        self.agent.context = self.agent.context if context is None else context

    def close(self, *, keep: bool) -> None:
        """Release the resources; `keep` stores the recording. Raises SessionError."""
        with self._resources:
            if self.tape is not None:
                self.tape.finish(keep=keep)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure the seconds of the block, by the recording's clock in a replay."""
        now = time.perf_counter if self.tape is None else self.tape.now
        began = now()
        try:
            yield
        finally:
            self.seconds += now() - began
