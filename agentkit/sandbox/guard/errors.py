"""Errors of guarded code and the outcome of its run."""

from typing import NamedTuple


class GuardedOutcome(NamedTuple):
    """How a run ended.

    `kind` is "ok", "syntax" (the code is no Python), "refused" (the guard stopped it) or "raised" (its own error).
    `value` is the repr of a last expression statement, or None; it has not been written anywhere.
    `message`, `line` (from 1), `source` (that line) and `hint` (what to write instead) tell an error in plain words;
    `trace` names the lines of the code itself that led there, innermost last.
    """

    kind: str
    value: str | None = None
    message: str = ""
    line: int | None = None
    source: str = ""
    hint: str = ""
    trace: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the code ran to its end."""
        return self.kind == "ok"

    def text(self) -> str:
        """The error as a few lines for a model; empty when there is none."""
        if self.ok:
            return ""
        where = f"line {self.line}: `{self.source}`" if self.line else ""
        lines = [*self.trace, where, self.message, self.hint]
        return "\n".join(line for line in lines if line)


class Refused(Exception):
    """The guard does not let this be done; `hint` says what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class RefusedAttribute(Refused, AttributeError):
    """An attribute that guarded code may not touch."""


class RefusedImport(Refused, ModuleNotFoundError):
    """A module or a name in it that guarded code may not have."""


class RefusedCall(Refused, PermissionError):
    """A function that guarded code may not call."""


FILE = "<code>"


def own_lines(error: BaseException) -> tuple[str, ...]:
    """The lines of the program that led to an error, outermost first."""
    return tuple(f"line {line}, in {function}" for line, function in own_frames(error))


def own_frames(error: BaseException) -> list[tuple[int, str]]:
    """Line and function of each of the program's own frames in an error's traceback, outermost first."""
    frames = []
    step = error.__traceback__
    while step:
        code = step.tb_frame.f_code
        if code.co_filename == FILE:
            frames.append((step.tb_lineno, code.co_name))
        step = step.tb_next
    return frames
