"""What does the judge know at one point of a command: words, variables, the current folder? (vocabulary)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agentkit.decisions import Decision, Verdict
from agentkit.levels import SafetyLevel

UNKNOWN = "\x00"
"""Stands in a text for what cannot be told before the command runs."""
TAME = "\x01"
"""Stands in a text for a number, a date or a name found inside the workspace: no leading dash, slash or dots."""
HOME = "/home/~"
"""Stands for the home folder, whoever's it is."""


@dataclass(frozen=True, slots=True)
class Value:
    """A text as far as it is known, and what kind of commands it came from: "fetch", "decode"."""

    text: str
    origins: frozenset[str] = frozenset()

    @property
    def known(self) -> bool:
        """Whether nothing of the text is left open."""
        return UNKNOWN not in self.text and TAME not in self.text

    @classmethod
    def joined(cls, values: list[Value]) -> Value:
        """One text after the other."""
        return cls("".join(v.text for v in values), frozenset().union(*(v.origins for v in values)))


NOTHING = Value("")
ANYTHING = Value(UNKNOWN)
A_NAME = Value(TAME)


@dataclass(frozen=True, slots=True)
class Word:
    """One argument after all expansions: its text, the source it was written as, and whether a glob is open in it."""

    text: str
    source: str
    glob: bool = False
    origins: frozenset[str] = frozenset()

    @property
    def known(self) -> bool:
        """Whether the argument is told by its text alone."""
        return not self.glob and UNKNOWN not in self.text and TAME not in self.text


@dataclass(frozen=True, slots=True)
class Script:
    """A text that a command hands to a shell; judged as if typed."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Command:
    """The words of a command that another command starts; judged as if typed."""

    words: list[Word]


Finding = Decision | Script | Command


@dataclass(slots=True)
class Scope:
    """One shell at one moment; `fork` is what a subshell gets."""

    workspace: str
    cwd: str | None
    contained: bool = True
    network: bool = False
    variables: dict[str, Value] = field(default_factory=dict)
    functions: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    pipes: dict[str, Value] = field(default_factory=dict)
    stdin: Value | None = None

    def fork(self) -> Scope:
        """A copy whose changes stay inside."""
        return replace(self, variables=dict(self.variables))


def deny(
    rule: str, evidence: str, why: str, remedy: str = "Do it in the workspace, or leave it to a person."
) -> Decision:
    """Nobody may: `why` continues the sentence "Command blocked for safety: "."""
    return Decision(Verdict.DENY, f"shell.{rule}", f"Command blocked for safety: {why}", evidence, remedy)


def ask(
    rule: str,
    evidence: str,
    why: str,
    remedy: str = "Use a plainer command, or ask for approval.",
    *,
    egress: bool = False,
) -> Decision:
    """A person must say yes; `why` is a sentence."""
    return Decision(Verdict.ASK, f"shell.{rule}", why, evidence, remedy, SafetyLevel.SYSTEM, egress)


def reads(evidence: str) -> Decision:
    """Fine: it changes nothing."""
    return Decision(Verdict.ALLOW, "shell.reads", "It only reads.", evidence, level=SafetyLevel.NETWORK)


def writes(evidence: str) -> Decision:
    """Fine: what it changes lies in the workspace."""
    return Decision(
        Verdict.ALLOW, "shell.writes", "It writes inside the workspace.", evidence, level=SafetyLevel.SYSTEM
    )


def runs(evidence: str, scope: Scope) -> Decision:
    """Fine inside a sandbox: it runs the workspace's own code."""
    if scope.contained:
        why = "It runs the workspace's own code inside the sandbox."
        return Decision(Verdict.ALLOW, "shell.runs", why, evidence, level=SafetyLevel.SYSTEM)
    return ask("uncontained", evidence, "It runs code of the workspace, and no sandbox would confine it.")


def connects(evidence: str, scope: Scope) -> Decision:
    """Fine when the network was granted; it could carry data out all the same."""
    if scope.network:
        why = "It uses the network, which was granted."
        return Decision(Verdict.ALLOW, "shell.network", why, evidence, level=SafetyLevel.SYSTEM, egress=True)
    remedy = "Grant the network for this command, or fetch pages with the web tools."
    return ask("network", evidence, "It needs the network, which the sandbox does not have.", remedy, egress=True)
