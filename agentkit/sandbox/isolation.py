"""Isolation boundaries: their mechanisms, and whether they suffice."""

from __future__ import annotations

import os
from typing import Literal, get_args

from agentkit import settings
from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError, SandboxError

Isolation = Literal["auto", "required", "off"]
"""`auto`: the strongest available boundary, stated in the result. `required`: a strong boundary, otherwise nothing is
run. `off`: resource limits only."""

BACKENDS = ("kernel", "docker")
"""The sandbox backends: kernel mechanisms, and Docker containers."""

HOST_NAME = "sandbox"
"""The host name inside the sandbox, so that the real one is not disclosed."""

NAMESPACES = ("user", "pid", "net", "ipc", "uts", "mount")
BUBBLEWRAP, DOCKER, LANDLOCK, SECCOMP, RESOURCE_LIMITS = "bubblewrap", "docker", "landlock", "seccomp", "rlimits"
MECHANISMS = frozenset({*NAMESPACES, BUBBLEWRAP, LANDLOCK, SECCOMP})
"""All mechanisms; resource limits are always available."""

PYTHON_NEEDS = frozenset({"user", "pid", "net", LANDLOCK, SECCOMP})
COMMAND_NEEDS = frozenset({"user", "pid", "net", "mount", SECCOMP})
"""The mechanisms that protect files, processes, network and kernel. Commands need a private root: only there can
secrets be hidden in folders that must be readable."""

_DISPLAY_NAMES = {
    DOCKER: "Docker",
    BUBBLEWRAP: "bubblewrap",
    LANDLOCK: "Landlock",
    SECCOMP: "seccomp",
    RESOURCE_LIMITS: "resource limits",
}


@dataclass(frozen=True, slots=True)
class Boundary:
    """The isolation of a program: the mechanisms active before it started, and those required."""

    mechanisms: frozenset[str]
    required: frozenset[str]

    @property
    def missing(self) -> tuple[str, ...]:
        """The mechanisms missing for a strong boundary."""
        return tuple(sorted(self.required - self.mechanisms))

    @property
    def is_strong(self) -> bool:
        """Whether the kernel protects files, processes, the network and itself from the program."""
        return not self.missing

    def describe(self) -> str:
        """The boundary as a phrase, such as "user, pid and net namespaces, Landlock, seccomp, resource limits"."""
        namespaces = [name for name in NAMESPACES if name in self.mechanisms]
        parts = [f"{_join_names(namespaces)} namespaces"] if namespaces else []
        parts += [word for name, word in _DISPLAY_NAMES.items() if name in self.mechanisms]
        return ", ".join(parts) or "a separate process"

    def require(self, isolation: str) -> None:
        """Raise SandboxError if a strong boundary is required and this one is weak."""
        if isolation == "required" and not self.is_strong:
            raise SandboxError(
                f"The required isolation is not available on this machine: no {_join_names([*self.missing])}. "
                f"Available: {self.describe()}."
            )


def _join_names(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def check_platform() -> None:
    """Raise SandboxError on a platform without POSIX processes, such as Windows."""
    if not (hasattr(os, "fork") and hasattr(os, "killpg")):
        raise SandboxError("Commands and code are run on Linux and macOS only. File, web and core tools work here.")


def check_backend(name: str) -> None:
    """Raise ConfigError for an unknown sandbox backend."""
    if name not in BACKENDS:
        raise ConfigError(f'Unknown sandbox {name!r}; use "kernel" or "docker".')


def uses_docker(backend: str = "") -> bool:
    """Whether this backend, by default the one in `AGENTKIT_SANDBOX`, is Docker. Raises SandboxError."""
    chosen = backend or settings.sandbox_backend()
    if chosen not in BACKENDS:
        raise SandboxError(f'AGENTKIT_SANDBOX names the unknown sandbox {chosen!r}; use "kernel" or "docker".')
    return chosen == DOCKER


def check_isolation(value: str) -> None:
    """Raise ConfigError for a value that is not an `Isolation`."""
    if value not in get_args(Isolation):
        raise ConfigError(f'Unknown isolation {value!r}; use "auto", "required" or "off".')
