"""Durable functions as workflows of DBOS, which runs them on many machines; steps and runs of agents are its steps."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import asdict
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from agentkit.agents.durable import (
    DurableFunction,
    FunctionRun,
    ValueCodec,
    name_of,
    outside_of_run,
    pending_in,
    work_of,
)
from agentkit.agents.options import Prompt
from agentkit.agents.prompt_run import answers_under
from agentkit.agents.result import Pending, RunFinished, RunResult, final_result
from agentkit.agents.run_config import BatchScope
from agentkit.agents.runner import Runner
from agentkit.errors import ConfigError, MissingExtra, SessionError, StepFailed
from agentkit.event_rendering import error_text
from agentkit.events import Event
from agentkit.sessions.session import Session
from agentkit.sessions.stores import StoreLocation, store_at
from agentkit.tooling.signature import is_asynchronous

P = ParamSpec("P")
R = TypeVar("R")

PENDING, ANSWERS = "pending", "answers"
"""The event of a workflow that lists what waits for a person, and the topic of the messages that answer it."""

_RECEIVE_SECONDS = 30 * 24 * 3600
_MIN_SLEEP_SECONDS = 0.001

Work = Callable[[Any], Mapping[str, RunResult[Any]]]
"""Runs agents with the answers of a person; returns the results by the ids under which their calls wait."""


def dbos_workflow(function: DurableFunction[P, R], store: StoreLocation = None) -> Callable[P, R]:
    """Register a durable function as a DBOS workflow, to be called or started like any other.

    Call it before `DBOS.launch()`. Steps and runs of agents are steps of the workflow. The events of agents' runs are
    stored at `store`, as in `Session.open`, in sessions below the workflow's id, so that a run that was cut off
    continues where it was: every worker must reach that place. A workflow that waits for a person lists what waits in
    `DBOS.get_event(id, "pending")`, and continues after `DBOS.send(id, answers, "answers")`. Raises ConfigError for a
    coroutine function, MissingExtra without the package.
    """
    if is_asynchronous(function.function):
        raise ConfigError(f"{function.name} is a coroutine function. DBOS workflows of agentkit are plain functions.")
    engine, opened = _engine(), functools.cache(functools.partial(store_at, store))

    @functools.wraps(function.function)
    def workflow(*args: P.args, **kwargs: P.kwargs) -> R:
        run = DbosRun(function, Session(engine.workflow_id, opened()), opened())
        with run.within():
            return function.function(*args, **kwargs)

    registered: Callable[P, R] = engine.workflow(name=function.name)(workflow)
    return registered


def _engine() -> Any:
    try:
        from dbos import DBOS
    except ImportError as error:
        raise MissingExtra("dbos", "A DBOS workflow") from error
    return DBOS


class DbosRun(FunctionRun):
    """The execution of a durable function as a DBOS workflow, which stores its steps, messages and waits."""

    def step(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function as a step. Raises StepFailed."""
        return self._step(function, args, kwargs)

    def step_map(self, function: Callable[[Any], Any], items: Sequence[Any], concurrency: int) -> list[Any]:
        """A step for each item, in threads. DBOS numbers steps as they begin, so each begins after the one before."""
        started = [threading.Event() for _ in range(len(items) + 1)]
        started[0].set()

        def work(index: int) -> Any:
            started[index].wait()
            try:
                return self._step(function, (items[index],), {}, started[index + 1].set)
            finally:
                started[index + 1].set()

        with ThreadPoolExecutor(max(1, min(concurrency, len(items))), "agentkit-step") as pool:
            futures = [pool.submit(copy_context().run, work, place) for place in range(len(items))]
        return [future.result() for future in futures]

    def _step(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        on_start: Callable[[], object] = bool,
    ) -> Any:
        if is_asynchronous(function):
            raise ConfigError(f"{name_of(function)} is a coroutine function. A DBOS workflow takes plain functions.")
        codec, name = ValueCodec(function, "return"), name_of(function)

        def work() -> str:
            on_start()
            try:
                with outside_of_run():
                    value = function(*args, **kwargs)
            except Exception as error:
                raise StepFailed(f"{name} failed: {error_text(error)}") from error
            return codec.encode(value)

        return codec.decode(_engine().run_step({"name": name}, work))

    def ask(self, question: str) -> str:
        """The person's answer, for which the workflow waits."""
        number = str(self.next_number())
        waiting = [asdict(Pending(number, "ask_person", "{}", question, needs_answer=True))]
        answer = None
        while answer is None:
            answer = answers_under(self._answers_to(waiting), number)
        return str(answer)

    def wait(self, time_: datetime) -> None:
        """Sleep until a time, which is stored at the first call."""
        self.next_number()
        until = _engine().run_step({"name": "wait_until"}, lambda: time_.astimezone().isoformat())
        left = datetime.fromisoformat(until).timestamp() - time.time()
        _engine().sleep(max(left, _MIN_SLEEP_SECONDS))  # a sleep of no time would not be stored as a step

    def events(self, agent: Runner, prompt: Prompt, **arguments: Any) -> Generator[Event, None, None]:
        """The last event of a run of an agent, which is a step for each time that it waits for a person."""
        number = self.next_number()
        session, stored_result = self.conversation(number, agent, prompt)
        arguments["session"] = session

        def work(answers: Any) -> Mapping[str, RunResult[Any]]:
            known = stored_result()
            if known is None or known.status != "done":
                known = final_result(list(agent.events(work_of(prompt, known, answers), **arguments)))
            return {str(number): known}

        results = self._run_step(agent.name, number, work)
        result = stored_result() if results is None else results[str(number)]
        if result is None:
            raise SessionError(f"The workflow has run {agent.name}, but {session.name!r} is not at this place.")
        yield RunFinished(result)

    def aevents(self, agent: Runner, *_: Any, **__: Any) -> AsyncGenerator[Event, None]:
        """Refuse to run on an event loop. Raises ConfigError."""
        raise ConfigError(f"Call {agent.name}.run() in a DBOS workflow of agentkit, which is a plain function.")

    def map_runs(self, agent: Runner) -> BatchScope:
        """The session of a batch, which is a step for each time that runs of it wait for a person."""
        number, arguments = self.next_number(), list[Any]()

        def run(start: Callable[[], list[Any]]) -> list[Any]:
            def work(answers: Any) -> Mapping[str, RunResult[Any]]:
                arguments[:] = [answers]
                return {f"{number}/{index}": result for index, result in enumerate(start())}

            results = self._run_step(f"{agent.name}.map", number, work)
            return start() if results is None else list(results.values())

        return BatchScope(self.agent_session(number), lambda: arguments[0] if arguments else None, run)

    def _run_step(self, name: str, number: int, work: Work) -> Mapping[str, RunResult[Any]] | None:
        """Do the work as a step, again with the answers of a person while runs of agents wait for one.

        Returns None if the newest step was stored by an earlier execution of the workflow.
        """
        answers: Any = None
        while True:
            done: list[Mapping[str, RunResult[Any]]] = []

            waiting = json.loads(_engine().run_step({"name": name}, _attempt, work, answers, done))
            if not waiting:
                return done[0] if done else None
            answers = answers_under(self._answers_to(waiting), str(number))

    def _answers_to(self, waiting: Sequence[Mapping[str, Any]]) -> Any:
        """Publish what waits, and wait for a message with answers."""
        engine = _engine()
        engine.set_event(PENDING, list(waiting))
        answers = None
        while answers is None:
            answers = engine.recv(ANSWERS, _RECEIVE_SECONDS)
        engine.set_event(PENDING, [])
        return answers


def _attempt(work: Work, answers: Any, done: list[Mapping[str, RunResult[Any]]]) -> str:
    """Do the work, note its results, and return what waits for a person as JSON."""
    done.append(work(answers))
    return json.dumps([asdict(each) for each in pending_in(done[0])])
