"""Execution of trusted modules on untrusted data in an isolated worker."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Literal, NamedTuple

from agentkit.sandbox import protocol
from agentkit.sandbox.isolation import MECHANISMS
from agentkit.sandbox.python import WorkerPool, WorkerSpec
from agentkit.sandbox.watchdog import ProcessLimits, attend

_CPU_SIGNAL, _KILL_SIGNAL = -24, -9

Status = Literal["ok", "timed_out", "memory", "flood", "failed"]


class ModuleOutcome(NamedTuple):
    """The outcome of a module's function: its frames, `status`, and an `error` for `failed`.

    `frames` are complete only when the status is `ok`.
    """

    status: Status
    frames: list[dict[str, str]]
    error: str = ""


def run_module(
    module: str,
    request: Mapping[str, str],
    limits: ProcessLimits,
    *,
    packages: tuple[str, ...] = (),
    request_bytes: int = protocol.MAX_FRAME_BYTES,
    available: frozenset[str] = MECHANISMS,
) -> ModuleOutcome:
    """Call `work(request)` of a module of this package in a process that serves one request.

    The process has the strongest isolation that this machine offers, without network and without the user's files; on
    a machine that offers none, it is a plain process with resource limits. `available` removes mechanisms, for tests.
    Raises SandboxError when no process can be started.
    """
    spec = WorkerSpec(limits, available, guard=False, module=module, packages=packages, request_bytes=request_bytes)
    worker, _ = MODULE_POOL.take(spec)
    report, written = bytearray(), bytearray()
    with contextlib.closing(worker):
        worker.send(request)
        MODULE_POOL.refill(spec)
        takers = {worker.report: report.extend, worker.stdout: written.extend, worker.stderr: _discard}
        stop = attend(worker.program, takers, limits)
    frames = protocol.split(bytes(written))
    if stop is not None:
        known: dict[str, Status] = {"timed_out": "timed_out", "memory": "memory", "flood": "flood"}
        return ModuleOutcome(known.get(stop.word, "failed"), frames, stop.sentence)
    return _ended(protocol.split(bytes(report)), frames)


def _ended(reports: list[dict[str, str]], frames: list[dict[str, str]]) -> ModuleOutcome:
    """The outcome of a process that ended by itself, from what its worker reports."""
    if not reports:
        return ModuleOutcome("failed", frames, "its process was killed")
    code = int(reports[-1]["code"])
    claims = protocol.split(reports[-1]["claim"].encode("utf-8", "surrogateescape"))
    claim = claims[0] if claims else {}
    if code == 0 and claim.get("kind") == "ok":
        return ModuleOutcome("ok", frames)
    failure = claim.get("failure", f"its process ended with code {code}")
    if code == _CPU_SIGNAL:
        return ModuleOutcome("timed_out", frames)
    if code == _KILL_SIGNAL or failure.startswith("MemoryError"):
        return ModuleOutcome("memory", frames)
    return ModuleOutcome("failed", frames, failure)


def _discard(_: bytes) -> None:
    """Discard warnings that libraries print."""


MODULE_POOL = WorkerPool()
"""Keeps one process ready for the next request of the same kind, separate from the pool for Python code."""
