"""How is an agent given many prompts at once?"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Generic, Never, TypeVar

from agentkit.agents.result import RunResult
from agentkit.agents.runner import Runner
from agentkit.agents.settings import Prompt
from agentkit.usage import Limits

if TYPE_CHECKING:
    from agentkit.agents.many.mapping import OnProgress

T = TypeVar("T")


class Mapped(Runner, Generic[T]):
    """An agent that answers each of many prompts in a conversation of its own."""

    def map(
        self,
        prompts: Iterable[Prompt],
        concurrency: int = 8,
        *,
        limits: Limits | None = None,
        progress: OnProgress | None = None,
        executor: Executor | None = None,
        **unknown: Never,
    ) -> list[RunResult[T]]:
        """Run each prompt in a session of its own, so many at the same time; the results in the order of the prompts.

        A failure is a result, and the others go on. `limits` are for all runs together; once they are used up, the
        rest are results with the status `limit` that cost nothing. `progress` is called in this thread with how many
        prompts are done, how many there are (None when nobody knows) and the newest result. A lazy iterable is asked
        for a prompt when there is room for it.

        With a stored session `trip` the runs are the sessions `trip/0000`, `trip/0001`, …: mapped again, a prompt that
        has its answer costs nothing, and one that was cut off goes on. Ctrl-C begins no more runs and ends the others
        at their next event.

        `executor` runs them instead of own threads: a ThreadPoolExecutor, a ProcessPoolExecutor, Dask's
        `client.get_executor()`. Other processes get a copy of the agent; its listeners hear of a run, and `limits`
        count it, when its result comes back. Raises ConfigError and NoProvider before anything runs.
        """
        _refuse("map", unknown)
        from agentkit.agents.many.mapping import Many

        return Many(self, prompts, concurrency, limits=limits, progress=progress, executor=executor).run()

    async def amap(
        self,
        prompts: Iterable[Prompt],
        concurrency: int = 8,
        *,
        limits: Limits | None = None,
        progress: OnProgress | None = None,
        executor: Executor | None = None,
        **unknown: Never,
    ) -> list[RunResult[T]]:
        """Like `map`, awaiting: without an executor the runs are tasks of this event loop, cancelled with this one."""
        _refuse("amap", unknown)
        from agentkit.agents.many.mapping import Many

        return await Many(self, prompts, concurrency, limits=limits, progress=progress, executor=executor).arun()


def _refuse(function: str, given: Iterable[str]) -> None:
    """Raise TypeError for an argument that is not taken, with what was probably meant."""
    if given:
        from agentkit.naming import arguments_of, refuse
        from agentkit.naming.foreign import MAPPING

        refuse(f"Agent.{function}", given, arguments_of(Mapped.map), MAPPING)
