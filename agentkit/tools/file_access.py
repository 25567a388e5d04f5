"""May a file of the workspace be read or written? Judged by its name and by where that really leads.

What lies outside the workspace is denied, not asked about: an approval could not make it reachable, another workspace
can. Inside, secrets are denied; what programs run or obey later is asked about when it is named, and denied when a link
leads there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from agentkit.config import state_folder
from agentkit.decisions import Decision, Verdict
from agentkit.errors import Blocked, ToolError
from agentkit.levels import SafetyLevel
from agentkit.redaction import MARK
from agentkit.safety import paths
from agentkit.slotted import dataclass
from agentkit.workspace.opening import REMEDY, shown
from agentkit.workspace.root import EXPECTED, Check
from agentkit.workspace.workspace import Workspace

Access = Literal["read", "write"]

_LEVELS = {"read": SafetyLevel.NETWORK, "write": SafetyLevel.SYSTEM}
_EVIDENCE_CHARS = 200
_MOST_REMEMBERED = 4_096
_KEEP_OUT = "Work without it, or ask the user for the one value that is needed."
_OWN = "agentkit's own records and keys"
_UNSEEN = "It would overwrite a secret that you were not shown."
_OTHER_LINES = "Use edit_file for the other lines."
_NAME_IT = "Name the file itself, so that the user can be asked."

secret: Callable[[str], str | None] = lru_cache(_MOST_REMEMBERED)(paths.secret)
protected: Callable[[str], str | None] = lru_cache(_MOST_REMEMBERED)(paths.protected)


@dataclass(frozen=True, slots=True)
class FileJudge:
    """Judges the `path` of a call: reading in the workspace is of level NETWORK, writing of level SYSTEM."""

    workspace: Workspace
    access: Access

    def __call__(self, arguments: Mapping[str, Any]) -> Decision:
        """The decision on a call."""
        path = arguments["path"]
        verdict, rule, reason, remedy = self._opinion(path)
        if verdict is not Verdict.DENY and self._overwrites_unseen(arguments):
            verdict, rule, reason, remedy = Verdict.DENY, "redacted", _UNSEEN, _OTHER_LINES
        return Decision(verdict, f"workspace.{rule}", reason, path[:_EVIDENCE_CHARS], remedy, _LEVELS[self.access])

    def canonical(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments with the path as rules know it: relative to the workspace, in one spelling."""
        try:
            return {**arguments, "path": self.workspace.name(arguments["path"]) or "."}
        except ToolError:
            return arguments

    def _opinion(self, path: str) -> tuple[Verdict, str, str, str]:
        try:
            name, place = self.workspace.locate(path)
        except Blocked as error:
            return _outside(path, error)
        except ToolError as error:
            return Verdict.ALLOW, self.access, f"Nothing can be touched by it: {error}", ""
        why = hiding(self.workspace)
        hidden = why(name) or why(place)
        if hidden:
            return Verdict.DENY, "secret", _secrecy(path, hidden), _KEEP_OUT
        later = protected(name) or protected(place) if self.access == "write" else None
        if not later:
            return Verdict.ALLOW, self.access, f"{shown(path)} is in the workspace.", ""
        if not protected(name):
            return Verdict.DENY, "protected", _led_astray(path, later), _NAME_IT
        return Verdict.ASK, "protected", f"{shown(path)} is protected: {later}.", "Write another file."

    def _overwrites_unseen(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a mark that stands for a secret would be written where the secret itself stands."""
        new, old = (
            arguments.get(name) or "" for name in ("content" if "content" in arguments else "new_text", "old_text")
        )
        if self.access == "read" or MARK not in new:
            return False
        marks = {piece.partition("]")[0] for piece in new.split(MARK)[1:]}
        stood = old.count if "old_text" in arguments else partial(self.workspace.count, arguments["path"])
        return any(new.count(MARK + mark) > stood(MARK + mark) for mark in marks)


def hiding(workspace: Workspace) -> Callable[[str], str | None]:
    """Tells why a place in a workspace is secret, by its name or as a part of what agentkit itself keeps; else None."""
    folder = workspace.folder
    kept = {state_folder(), *filter(None, [workspace.journal.folder])}
    inner = {place for each in kept for place in _below(folder, each)}

    def why(place: str) -> str | None:
        below = f"{place.casefold()}/" if place else ""
        if any(below.startswith(each) for each in inner):
            return _OWN
        return secret(place)

    return why


def _below(folder: str, kept: Path) -> set[str]:
    """Where a folder lies below another, as it is spelled and as it really is; "" when it is that one or around it."""
    spellings = {os.path.normpath(kept.absolute()), os.path.realpath(kept)}
    base = f"{folder.rstrip('/')}/"
    inner = {f"{each}/"[len(base) :].casefold() for each in spellings if f"{each}/".startswith(base)}
    return inner | {"" for each in spellings if base.startswith(f"{each}/")}


def checking(workspace: Workspace, path: str, access: Access) -> Check:
    """What must hold of the real place when it is touched, whatever was moved about since the call was judged."""

    def check(place: str) -> None:
        refuse_moved(path, place)
        hidden = hiding(workspace)(place)
        if hidden:
            raise Blocked(f"{_secrecy(path, hidden)} {_KEEP_OUT}")
        later = protected(place) if access == "write" else None
        if later and not protected(workspace.locate(path)[0]):
            raise Blocked(f"{_led_astray(path, later)} {_NAME_IT}")

    return check


def refuse_moved(path: str, place: str) -> None:
    """Raise Blocked where a path leads to another place than when rules were matched against it."""
    if EXPECTED.get().get(path, place) != place:
        raise Blocked(f"{shown(path)} leads elsewhere now than when this call was judged. Make the call again.")


def _outside(path: str, error: Blocked) -> tuple[Verdict, str, str, str]:
    hidden = secret(path)
    if hidden:
        return Verdict.DENY, "secret", _secrecy(path, hidden), _KEEP_OUT
    return Verdict.DENY, "outside", str(error).removesuffix(REMEDY).strip(), REMEDY


def _secrecy(path: str, hidden: str) -> str:
    return f"{shown(path)} holds secrets ({hidden}), which no tool reads or changes."


def _led_astray(path: str, later: str) -> str:
    return f"{shown(path)} leads through a link to a protected place: {later}."
