"""`Agent.map`: run a batch of prompts in threads, tasks or the processes of an executor."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

from agentkit import recording
from agentkit._dataclass import dataclass
from agentkit.agents.budget import Budget, RequestPrice
from agentkit.agents.options import Prompt
from agentkit.agents.prompt_run import (
    Job,
    PromptOutcome,
    PromptRun,
    SharedBudget,
    answers_under,
    earlier_result,
    exhausted_limit,
    failed_result,
    job_session,
    price_function,
    rebuild_result,
    recreate_error,
    reserve_part,
)
from agentkit.agents.result import RunFinished, RunResult, read_saved, to_agentkit_error
from agentkit.agents.run_config import LINEAGE, ParentRun
from agentkit.agents.runner import Runner, emit_afterwards, spent_in, stored_name
from agentkit.content import File, Image
from agentkit.errors import AgentKitError, ConfigError, RunError
from agentkit.event_rendering import error_text
from agentkit.events import Event, RunEnded
from agentkit.installation import install_command
from agentkit.llm.client import LLM
from agentkit.messages import labels_of
from agentkit.sessions.session import Session
from agentkit.tooling.run_context import RunContext, accepts
from agentkit.tooling.signature import WITHOUT_MAIN
from agentkit.tracing.listeners import Origin
from agentkit.usage import UNLIMITED, Charge, Limits, is_whole

MAX_LOSSES = 2
"""Maximum number of attempts for a prompt whose executor workers die."""

OnProgress = Callable[[int, int | None, RunResult[Any]], object]
"""Called with the number of finished prompts, the total (None if unknown), and the newest result."""


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """The budget reserved for a run in another process; `is_all` if it is all that was left."""

    limits: Limits
    is_all: bool


class BatchRun:
    """The prompts of one map: pending jobs and results.

    Raises ConfigError for an invalid argument or an agent that cannot be pickled for the executor's processes,
    NoProvider and SessionError if no run could start.
    """

    def __init__(
        self,
        agent: Runner,
        prompts: Iterable[Prompt],
        concurrency: int,
        *,
        limits: Limits | None,
        progress: OnProgress | None,
        executor: Executor | None,
        options: Mapping[str, Any] | None = None,
        answers: Any = None,
    ) -> None:
        _check(prompts, concurrency, limits, progress, executor)
        self.agent, self.executor, self._price = (
            agent,
            executor,
            self._price_function(lambda: (options or {}).get("llm") or agent.llm),
        )
        self._threads = self._slots = concurrency
        self._progress = progress
        self._total = len(prompts) if isinstance(prompts, Sized) else None
        self._jobs = (
            Job(index, prompt, options=options or {}, answers=answers_under(answers, str(index)))
            for index, prompt in enumerate(prompts)
        )
        self._requeued: deque[Job] = deque()
        self._results: dict[int, RunResult[Any]] = {}
        self._parts: dict[int, BudgetShare] = {}
        self._budget = _budget(limits)
        self._is_stopping = threading.Event()
        self._is_stored = ((options or {}).get("session") or agent.session).store is not None
        is_here = executor is None or isinstance(executor, ThreadPoolExecutor)
        self._data = None if is_here else pickle_agent(agent)

    def run(self) -> list[RunResult[Any]]:
        """The results in the order of the prompts, blocking."""
        running: dict[Future[Any], Job] = {}
        pool = self.executor or ThreadPoolExecutor(self._threads, "agentkit-map")
        try:
            while True:
                for job in self._next(self._slots - len(running)):
                    running[self._submit(pool, job)] = job
                if not running:
                    return self._in_order()
                ended = wait(running, return_when=FIRST_COMPLETED).done
                for future in sorted(ended, key=lambda future: running[future].index):
                    self._collect(running.pop(future), future)
        finally:
            self._is_stopping.set()
            for future in running:
                future.cancel()
            if self._data is None:
                wait(running)
            if self.executor is None:
                pool.shutdown()

    async def arun(self) -> list[RunResult[Any]]:
        """Async version of `run`."""
        running: dict[asyncio.Future[Any], Job] = {}
        try:
            while True:
                for job in self._next(self._slots - len(running)):
                    running[self._start(job)] = job
                if not running:
                    return self._in_order()
                ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for future in sorted(ended, key=lambda future: running[future].index):
                    self._collect(running.pop(future), future)
        finally:
            self._is_stopping.set()
            for future in running:
                future.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _next(self, max_jobs: int) -> Iterator[Job]:
        """The jobs that can start now. The next prompt is only fetched when a slot is free."""
        for _ in range(max_jobs):
            job = self._requeued.popleft() if self._requeued else next(self._jobs, None)
            if job is None:
                return
            if self._data is not None and not self._has_part(job):
                self._requeued.appendleft(job)
                return
            yield replace(job, is_alone=self._slots == 1)

    def _has_part(self, job: Job) -> bool:
        """Reserve budget for a run in another process; returns whether it can start.

        It also starts if the budget is exhausted, to produce its `limit` result.
        """
        part, is_all = None, False
        if exhausted_limit(self._budget, self._price) is None:
            free = self._slots - len(self._parts)
            to_come = free if self._total is None else self._total - len(self._results) - len(self._parts)
            part = reserve_part(self._budget, max(min(free, to_come), 1))
            is_all = not self._parts and (part is None or self._slots == 1)
            part = reserve_part(self._budget, 1) if is_all and part is None else part
        if part is not None:
            self._parts[job.index] = BudgetShare(part, is_all)
        elif self._parts:  # the unspent budget of the others is returned
            self._slots = len(self._parts)
            return False
        return True

    def _price_function(self, llm: Callable[[], LLM]) -> Callable[[], RequestPrice]:
        return price_function(llm())

    def _in_order(self) -> list[RunResult[Any]]:
        return [self._results[index] for index in sorted(self._results)]

    def _prompt_run(self, job: Job) -> PromptRun:
        return PromptRun(
            self.agent, job, SharedBudget.of(self._budget, is_alone=job.is_alone), self._is_stopping.is_set
        )

    def _start(self, job: Job) -> asyncio.Future[Any]:
        """Start a run on the event loop or in the executor."""
        if self.executor is None:
            return asyncio.ensure_future(self._prompt_run(job).arun())
        return asyncio.wrap_future(self._submit(self.executor, job))

    def _submit(self, pool: Executor, job: Job) -> Future[Any]:
        """Submit a run to a thread or another process; without remaining budget its result is created here."""
        try:
            if self._data is None:
                return pool.submit(copy_context().run, self._prompt_run(job).run)
            if job.index in self._parts:
                sent = replace(job, earlier=None, saved=job.earlier.to_json()) if job.earlier else job
                return pool.submit(run_elsewhere, self._data, sent, self._parts[job.index].limits)
        except Exception as error:
            if job.index in self._parts:
                self._budget.reserve_part(self._parts.pop(job.index).limits, -1)
            return _done(error)
        return _done(copy_context().run(self._prompt_run(job).run))

    def _collect(self, job: Job, future: Future[Any] | asyncio.Future[Any]) -> None:
        """Store the outcome of a job, and report progress unless the job is retried."""
        part = self._parts.pop(
            job.index, None
        )  # the spending of a lost run is unknown, so its whole part stays charged
        error = RunError("The executor has cancelled the run.") if future.cancelled() else future.exception()
        if isinstance(error, Exception):
            result = self._lost_result(job, error)
        else:
            outcome = future.result()  # raises exceptions that end the whole map, such as SystemExit
            result = self._local_result(job, outcome) if part is None else self._remote_result(job, outcome, part)
        if result is not None:
            LINEAGE.get().add_labels(labels_of(result.messages))  # includes what an earlier map read
            self._results[job.index] = result
            if self._progress is not None:
                self._progress(len(self._results), self._total, result)

    def _local_result(self, job: Job, outcome: PromptOutcome) -> RunResult[Any] | None:
        """The result; None if the job must wait because other runs reserve all that is left."""
        if outcome.must_wait and not job.is_alone:
            self._requeue(job, outcome.result)
            return None
        return outcome.result

    def _remote_result(self, job: Job, report: RemoteOutcome, part: BudgetShare) -> RunResult[Any] | None:
        """The result of a run in another process: charges its spending and emits its stored events to the listeners.

        None if its part of the budget was too small, and it must wait for others to end.
        """
        self._budget.reserve_part(part.limits, -1)  # replace the reservation by the actual charge
        self._budget.charge(report.charge)
        try:
            run, progress, _ = read_saved(report.saved)
            error = recreate_error(report.kind, report.error) if report.kind else None
            result = rebuild_result(self.agent, job_session(self.agent, job), run, progress, error=error)
            known, new = result.events[: report.known], result.events[report.known :]
            for usage in filter(None, map(spent_in, new)):
                self._budget.record_usage(usage)
            events = [*new, RunFinished(result)] if new else []
            self._emit([event for event in events if not isinstance(event, RunEnded)], known, run, job)
        except Exception as failure:
            return failed_result(self.agent, job, to_agentkit_error(failure))
        if report.must_wait and not part.is_all:
            self._requeue(job, result)
            return None
        return result

    def _requeue(self, job: Job, result: RunResult[Any]) -> None:
        """Queue the job again with its progress, and reduce the concurrency."""
        self._slots = max(self._slots - 1, 1)
        self._requeued.append(replace(job, earlier=result if result.iterations and not self._is_stored else None))

    def _emit(self, new: Sequence[Event], known: Sequence[Event], run: str, job: Job) -> None:
        """Count the events of a run in another process, and emit those that are new to the listeners."""
        for event in new:
            self.agent.count(event)
        source = Origin(run, self.agent.name, LINEAGE.get().context.run, stored_name(job_session(self.agent, job)))
        emit_afterwards(self.agent.listeners, known, new, source)

    def _lost_result(self, job: Job, error: Exception) -> RunResult[Any] | None:
        """The result of a run whose worker was lost; None if it is retried."""
        try:
            earlier = earlier_result(self.agent, job_session(self.agent, job), job.prompt)
        except AgentKitError as failure:
            return failed_result(self.agent, job, failure)
        if earlier is not None and earlier.status == "done":
            return earlier
        # Without a stored session a retry would start over, and repeat the side effects of its tools.
        if self._is_stored and has_killed_workers(error) and job.failures + 1 < MAX_LOSSES:
            self._requeued.append(replace(job, failures=job.failures + 1))
            return None
        lost = RunError(_describe_loss(error, job.failures + 1, is_stored=self._is_stored))
        lost.__cause__ = error
        return failed_result(self.agent, job, lost, earlier)


def _done(outcome: PromptOutcome | Exception) -> Future[Any]:
    """A completed future."""
    future: Future[Any] = Future()
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
    return future


def _describe_loss(error: Exception, failures: int, *, is_stored: bool) -> str:
    text = error_text(error)
    if not isinstance(error, BrokenExecutor):
        times = "" if failures == 1 else f" {failures} times"
        return f"The executor returned no result{times} ({text})."
    stored = "finished prompts are stored, and the others continue where they were"
    rest = stored if is_stored else f"with a stored session=, {stored}"
    return (
        f"A worker process died, so the executor can no longer be used ({text}). Call map() again with a new one: "
        f"{rest}."
    )


def _budget(limits: Limits | None) -> Budget:
    """The shared budget of all runs, within that of the current run, if any."""
    return Budget(limits or UNLIMITED, LINEAGE.get().budget, recording.clock())


def _check(prompts: object, concurrency: object, limits: object, progress: object, executor: object) -> None:
    if isinstance(prompts, str | bytes | Image | File) or not isinstance(prompts, Iterable):
        raise ConfigError(f"map() takes a list or another iterable of prompts. Got {prompts!r:.200}.")
    if not is_whole(concurrency, 1):
        raise ConfigError(f"concurrency= takes a whole number of at least 1. Got {concurrency!r:.200}.")
    if not isinstance(limits, Limits | None):
        raise ConfigError(f"limits= takes Limits(...). Got {limits!r:.200}.")
    if progress is not None and not (callable(progress) and accepts(progress, 1, None, object())):
        raise ConfigError(f"progress= takes a function (done, total, result). Got {progress!r:.200}.")
    _check_executor(executor)


def _check_executor(executor: object) -> None:
    if not isinstance(executor, Executor | None):
        raise ConfigError(f"executor= takes a concurrent.futures.Executor. Got {executor!r:.200}.")
    if executor is not None and not isinstance(executor, ThreadPoolExecutor) and recording.TAPE.get() is not None:
        raise ConfigError(
            "record() and replay() do not reach other processes, which would call the real model. Inside them, call "
            "map() without executor=."
        )


_MAX_AGENTS = 4
"""Maximum number of unpickled agents, with their connections, that a worker process caches."""


@dataclass(frozen=True, slots=True)
class PickledAgent:
    """An agent and the lineage of the run that started it, without an approver."""

    agent: Runner
    lineage: ParentRun


@dataclass(frozen=True, slots=True)
class RemoteOutcome:
    """The outcome of a run in another process.

    `saved` is the serialised result; its first `known` stored events are older than the run. `kind` is the name of
    the error's class, or empty. `charge` is what the run spent of its part of the budget; `must_wait` is True if that
    part was too small.
    """

    saved: str
    known: int
    kind: str
    error: str
    charge: Charge = field(default_factory=Charge)
    must_wait: bool = False


def pickle_agent(agent: Runner) -> bytes:
    """Serialise the agent for another process. Raises ConfigError that names the part that cannot be pickled."""
    parent = LINEAGE.get()
    context = RunContext(parent.context.value, run=parent.context.run)
    lineage = replace(
        parent,
        budget=None,
        approve=None,
        collected_labels=None,
        context=context,
        config=None,
        workspace=None,
        attached=None,
    )
    # Without a store each run starts an empty session, so the current conversation is not sent.
    sent = agent if agent.session.store is not None else agent.within(Session())
    try:
        return _pickle(PickledAgent(sent, lineage))
    except Exception as error:
        raise ConfigError(
            f"{_culprit(sent)} cannot be sent to another process ({type(error).__name__}: {error}). Definitions at the "
            f"top level of a module can be sent; after {install_command('dask')}, any function can. Without executor= "
            "the runs use threads."
        ) from error


def run_elsewhere(data: bytes, job: Job, limits: Limits) -> RemoteOutcome:
    """Run a job of another process in this one. `limits` is the job's part of the remaining shared budget.

    The run gets a copy of the context, so that its lineage does not leak into later work of this thread.
    """
    return copy_context().run(_run_here, data, job, limits)


def _run_here(data: bytes, job: Job, limits: Limits) -> RemoteOutcome:
    pickled = _unpickle_agent(data)
    LINEAGE.set(pickled.lineage)
    single = PromptRun(pickled.agent, _restore_job(pickled.agent, job), SharedBudget(limits))
    result = single.run().result
    kind = "" if result.error is None else type(result.error).__name__
    must_wait = result.status == "limit" and single.share.was_too_small(result.limit or "")
    return RemoteOutcome(
        result.to_json(), single.known, kind, str(result.error or ""), single.share.charged, must_wait=must_wait
    )


def _restore_job(agent: Runner, job: Job) -> Job:
    """The job with its saved progress restored."""
    if not job.saved:
        return job
    run, progress, _ = read_saved(job.saved)
    return replace(job, earlier=rebuild_result(agent, job_session(agent, job), run, progress), saved="")


def has_killed_workers(error: Exception) -> bool:
    """Whether the error is Dask's KilledWorker, in which case a retry can succeed."""
    if type(error).__module__.partition(".")[0] != "distributed":
        return False
    from distributed.scheduler import KilledWorker

    return isinstance(error, KilledWorker)


@lru_cache(maxsize=_MAX_AGENTS)
def _unpickle_agent(data: bytes) -> PickledAgent:
    """Unpickle the agent, cached so that all its runs in this process share its connections."""
    pickled: PickledAgent = pickle.loads(data)
    return pickled


def _pickle(value: object) -> bytes:
    """Pickle an object; cloudpickle, if installed, handles what pickle rejects and what is defined in `__main__`."""
    cloudpickle = _cloudpickle()
    try:
        data = pickle.dumps(value)
        if cloudpickle is None or b"__main__" not in data:
            return data
    except Exception:
        if cloudpickle is None:
            raise
    token = WITHOUT_MAIN.set(True)
    try:
        return bytes(cloudpickle.dumps(value))
    finally:
        WITHOUT_MAIN.reset(token)


def _cloudpickle() -> Any:
    """The cloudpickle module, which pickles functions and classes by value; None if it is not installed."""
    try:
        import cloudpickle
    except ImportError:
        return None
    return cloudpickle


def _culprit(agent: Runner) -> str:
    """The name of the first part of the agent that cannot be pickled."""
    return next((name for name, part in _parts(agent) if not _can_be_pickled(part)), f"The agent {agent.name!r}")


def _parts(agent: Runner) -> Iterator[tuple[str, Any]]:
    yield from ((f"The tool {tool.name!r}", tool) for tool in agent.tools)
    yield from (
        (f"The guardrail {guardrail.name!r}", guardrail.function) for guardrail in agent.answer_validator.guardrails
    )
    yield "approve=", agent.approve
    yield "llm=", agent.llm
    yield from ((f"The agent {target.name!r}", target) for target in agent.handoff_targets.values())


def _can_be_pickled(part: object) -> bool:
    try:
        _pickle(part)
    except Exception:
        return False
    return True
