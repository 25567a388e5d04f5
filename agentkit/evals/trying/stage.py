"""What does one trial have for itself until it is done? The agent, its folder, its cassette, its conversation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agentkit.evals.keeping.cassettes import Cassettes
from agentkit.evals.order import Order, Wanted
from agentkit.evals.trying.conversing import Talk, given_by
from agentkit.evals.variants import own_folder
from agentkit.memory.session import Session


class Stage:
    """What no two trials share: agent, session, folder, recording and clock; `ids` are those of its tool calls."""

    def __init__(self, wanted: Wanted, order: Order, cassettes: Cassettes) -> None:
        make = order.suite.context
        context = None if make is None else given_by(make, wanted.case, "The context of the trial")
        self.seconds = 0.0
        self.talk, self.session = Talk(wanted.case, wanted.seed), Session()
        self.ids: set[str] = set()
        self._resources = ExitStack()
        self.tape = cassettes.tape(wanted.key)
        folder = own_folder(wanted.variant, wanted.case.workspace or order.suite.workspace)
        self.folder = self._resources.enter_context(folder)
        self.agent = wanted.variant.apart(self.folder, wanted.seed)
        self.agent.context = self.agent.context if context is None else context

    def close(self, *, keep: bool) -> None:
        """End it; a recording is kept or not. Raises SessionError."""
        with self._resources:
            if self.tape is not None:
                self.tape.finish(keep=keep)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the seconds of the block: those of the recording when it is replayed."""
        now = time.perf_counter if self.tape is None else self.tape.now
        began = now()
        try:
            yield
        finally:
            self.seconds += now() - began
