"""Serialisation of agents and results for runs in other processes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextvars import copy_context
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.agents.prompt_run import Job, PromptRun, SharedBudget, rebuilt, session_of
from agentkit.agents.result import read_saved
from agentkit.agents.run_config import LINEAGE, ParentRun
from agentkit.agents.runner import Runner
from agentkit.errors import ConfigError
from agentkit.installation import install_command
from agentkit.sessions.session import Session
from agentkit.tooling.run_context import RunContext
from agentkit.tooling.signature import WITHOUT_MAIN
from agentkit.usage import Charge, Limits

_MOST_AGENTS = 4
"""Maximum number of unpickled agents, with their connections, that a worker process caches."""


@dataclass(frozen=True, slots=True)
class PickledAgent:
    """An agent and the lineage of the run that started it, without an approver."""

    agent: Runner
    lineage: ParentRun


@dataclass(frozen=True, slots=True)
class RemoteOutcome:
    """The outcome of a run in another process.

    `saved` is the serialised result; its first `known` milestones are older than the run. `kind` is the name of the
    error's class, or empty. `charge` is what the run spent of its part of the budget; `must_wait` is True if that part
    was too small.
    """

    saved: str
    known: int
    kind: str
    error: str
    charge: Charge = field(default_factory=Charge)
    must_wait: bool = False


def packed(agent: Runner) -> bytes:
    """Serialise the agent for another process. Raises ConfigError that names the part that cannot be pickled."""
    above = LINEAGE.get()
    context = RunContext(above.context.value, run=above.context.run)
    lineage = replace(
        above, budget=None, approve=None, found=None, context=context, plan=None, workspace=None, attached=None
    )
    # Without a store each run starts an empty session, so the current conversation is not sent.
    sent = agent if agent.session.store is not None else agent.within(Session())
    try:
        return _dumped(PickledAgent(sent, lineage))
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
    traveller = _unpacked(data)
    LINEAGE.set(traveller.lineage)
    single = PromptRun(traveller.agent, _unpacked_job(traveller.agent, job), SharedBudget(limits))
    result = single.run().result
    kind = "" if result.error is None else type(result.error).__name__
    must_wait = result.status == "limit" and single.share.is_too_little(result.limit or "")
    return RemoteOutcome(
        result.to_json(), single.known, kind, str(result.error or ""), single.share.charged, must_wait=must_wait
    )


def _unpacked_job(agent: Runner, job: Job) -> Job:
    """The job with its saved progress restored."""
    if not job.saved:
        return job
    run, progress, _ = read_saved(job.saved)
    return replace(job, earlier=rebuilt(agent, session_of(agent, job), run, progress), saved="")


def has_killed_workers(error: Exception) -> bool:
    """Whether the error is Dask's KilledWorker, in which case a retry can succeed."""
    if type(error).__module__.partition(".")[0] != "distributed":
        return False
    from distributed.scheduler import KilledWorker

    return isinstance(error, KilledWorker)


@lru_cache(maxsize=_MOST_AGENTS)
def _unpacked(data: bytes) -> PickledAgent:
    """Unpickle the agent, cached so that all its runs in this process share its connections."""
    traveller: PickledAgent = pickle.loads(data)
    return traveller


def _dumped(thing: object) -> bytes:
    """Pickle an object; cloudpickle, if installed, handles what pickle rejects and what is defined in `__main__`."""
    cloudpickle = _cloudpickle()
    try:
        data = pickle.dumps(thing)
        if cloudpickle is None or b"__main__" not in data:
            return data
    except Exception:
        if cloudpickle is None:
            raise
    token = WITHOUT_MAIN.set(True)
    try:
        return bytes(cloudpickle.dumps(thing))
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
    return next((name for name, part in _parts(agent) if not _can_be_sent(part)), f"The agent {agent.name!r}")


def _parts(agent: Runner) -> Iterator[tuple[str, Any]]:
    yield from ((f"The tool {tool.name!r}", tool) for tool in agent.tools)
    yield from (
        (f"The guardrail {guardrail.name!r}", guardrail.function) for guardrail in agent.answer_rules.guardrails
    )
    yield "approve=", agent.approve
    yield "llm=", agent.llm
    yield from ((f"The agent {lead.name!r}", lead) for lead in agent.leads.values())


def _can_be_sent(part: object) -> bool:
    try:
        _dumped(part)
    except Exception:
        return False
    return True
