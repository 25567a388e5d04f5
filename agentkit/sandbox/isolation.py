"""Isolation boundaries: their mechanisms, and whether they suffice."""

from __future__ import annotations

from typing import Literal, get_args

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError, SandboxError

Isolation = Literal["auto", "required", "off"]
"""`auto`: the best there is, stated in the result. `required`: a strong boundary, or nothing is run. `off`: limits."""

HOST_NAME = "sandbox"
"""What the machine is called inside, lest its own name be told."""

NAMESPACES = ("user", "pid", "net", "ipc", "uts", "mount")
BUBBLEWRAP, LANDLOCK, SECCOMP, RESOURCE_LIMITS = "bubblewrap", "landlock", "seccomp", "rlimits"
MECHANISMS = frozenset({*NAMESPACES, BUBBLEWRAP, LANDLOCK, SECCOMP})
"""What boundaries are made of; resource limits there always are."""

PYTHON_NEEDS = frozenset({"user", "pid", "net", LANDLOCK, SECCOMP})
COMMAND_NEEDS = frozenset({"user", "pid", "net", "mount", SECCOMP})
"""What keeps files, processes, network and kernel from a program. Commands need a root of their own: only there can
secrets be hidden in folders that must be readable."""

_WORDS = {BUBBLEWRAP: "bubblewrap", LANDLOCK: "Landlock", SECCOMP: "seccomp", RESOURCE_LIMITS: "resource limits"}


@dataclass(frozen=True, slots=True)
class Boundary:
    """What isolated a program from its host: the mechanisms active before it began, and those that were required."""

    mechanisms: frozenset[str]
    needs: frozenset[str]

    @property
    def missing(self) -> tuple[str, ...]:
        """What a strong boundary has and this one has not."""
        return tuple(sorted(self.needs - self.mechanisms))

    @property
    def is_strong(self) -> bool:
        """Whether the kernel keeps files, processes, the network and itself from the program."""
        return not self.missing

    def describe(self) -> str:
        """The boundary as a phrase, such as "user, pid and net namespaces, Landlock, seccomp, resource limits"."""
        namespaces = [name for name in NAMESPACES if name in self.mechanisms]
        parts = [f"{_enumerated(namespaces)} namespaces"] if namespaces else []
        parts += [word for name, word in _WORDS.items() if name in self.mechanisms]
        return ", ".join(parts) or "a process of its own"

    def require(self, isolation: str) -> None:
        """Raise SandboxError when a strong boundary is required and this is none."""
        if isolation == "required" and not self.is_strong:
            raise SandboxError(
                f"The isolation that is required cannot be had on this machine: no {_enumerated([*self.missing])}. "
                f"What can be had is {self.describe()}."
            )


def _enumerated(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def check_isolation(word: str) -> None:
    """Raise ConfigError for what is no word of `Isolation`."""
    if word not in get_args(Isolation):
        raise ConfigError(f'{word!r} is no isolation; use "auto", "required" or "off".')
