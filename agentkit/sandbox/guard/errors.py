"""Errors of guarded code and the outcome of its run."""

from typing import NamedTuple


class GuardedOutcome(NamedTuple):
    """The outcome of a run.

    `kind` is "ok", "syntax" (invalid Python), "refused" (stopped by the guard) or "raised" (an error of the code).
    `value` is the repr of a final expression statement, or None; it is not printed. `message`, `line` (from 1),
    `source` (that line) and `hint` (what to write instead) describe an error; `trace` lists the lines of the code that
    led to it, innermost last.
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
        """Whether the code completed."""
        return self.kind == "ok"

    def text(self) -> str:
        """Render the error as a few lines for a model; empty on success."""
        if self.ok:
            return ""
        where = f"line {self.line}: `{self.source}`" if self.line else ""
        lines = [*self.trace, where, self.message, self.hint]
        return "\n".join(line for line in lines if line)


class Refused(Exception):
    """The guard refuses the operation; `hint` suggests an alternative."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class RefusedAttribute(Refused, AttributeError):
    """Guarded code must not access this attribute."""


class RefusedImport(Refused, ModuleNotFoundError):
    """Guarded code must not import this module or name."""


class RefusedCall(Refused, PermissionError):
    """Guarded code must not call this function."""


FILE = "<code>"
"""The file name of a program."""


def program_file(number: int) -> str:
    """The file name of one of several pieces of code."""
    return f"<code {number}>"


def own_lines(error: BaseException) -> tuple[str, ...]:
    """The program's lines in the traceback of an error, outermost first."""
    return tuple(f"line {line}{_piece(file)}, in {function}" for line, function, file in own_frames(error))


def _piece(file: str) -> str:
    return "" if file == FILE else f" of call {file[:-1].rpartition(' ')[2]}"


def own_frames(error: BaseException) -> list[tuple[int, str, str]]:
    """Line, function and file of each of the program's own frames in the traceback, outermost first."""
    frames = []
    step = error.__traceback__
    while step:
        code = step.tb_frame.f_code
        if code.co_filename.startswith("<code"):
            frames.append((step.tb_lineno, code.co_name, code.co_filename))
        step = step.tb_next
    return frames
