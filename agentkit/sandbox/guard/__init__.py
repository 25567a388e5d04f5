"""The restricted Python language for model-written code, enforced in the worker process.

It is only the first layer of defence: the security boundary is the child process and the operating system.
"""

import gc
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from agentkit.sandbox.guard.errors import FILE, GuardedOutcome, Refused, own_frames, own_lines, program_file

if TYPE_CHECKING:
    from agentkit.sandbox.guard.transformer import GuardTransformer

SHOWN_LINES, SHOWN_FUNCTIONS = 8, 30
_WITHOUT_AWAIT = "call functions without await, and without asyncio: each gives its value at once"
_OUTSIDE_ASYNC = "write `async def main():` around it, and call asyncio.run(main())"
_NOT_PYTHON = (
    (r"[!%$]*\s*(python3? -m )?(pip3?|conda|mamba|uv|apt(-get)?)\s+\S", "packages cannot be installed here"),
    (r"(\w+\s*=\s*)?!|\$ |%%?(sx|sh|bash|script|cd|ls|cat)\b", "commands are run with the run_shell tool"),
    (r"%%?time(it)?\b", "measure with time.perf_counter()"),
    (r"%", "leave out IPython magics: only Python runs here"),
    (r">>> ?", "leave out the prompt >>> and what the code prints"),
    (r"```|~~~", "write the Python code alone, in one block or without a fence"),
)
"""Patterns of lines that are not Python, and what to write instead."""

_AWAITED = ("a coroutine was expected", "in 'await' expression", "a coroutine or an awaitable is required")
"""Python's messages for awaiting a value that is not awaitable."""


_NOTHING: Mapping[str, Any] = {}


class PersistentNamespace:
    """The variables of programs that run one after another. Their prints go to `write`."""

    def __init__(self, write: Callable[[str, str], object]) -> None:
        self.shown: list[str] = []
        self.globals = new_namespace(write, self.shown)
        self._programs = 0

    def run(self, code: str) -> GuardedOutcome:
        """Run a program that sees the variables of the earlier ones, also after one has failed."""
        self._programs += 1
        self.shown.clear()
        file = program_file(self._programs)
        program = compile_program(code, file)
        return program if isinstance(program, GuardedOutcome) else run_compiled(program, code, self.globals, self.shown)


def run(code: str, write: Callable[[str, str], object], names: Mapping[str, Any] = _NOTHING) -> GuardedOutcome:
    """Run the code; `write(stream, text)` receives each printed chunk, where stream is "stdout" or "stderr".

    `names` are functions and classes added to the built-in ones. Never raises for anything that the code does. The
    value of a final expression statement is only in the outcome.
    """
    program = compile_program(code)
    ending = program if isinstance(program, GuardedOutcome) else execute(program, code, write, names)
    functions = [name for name, given in names.items() if not isinstance(given, type)]
    is_awaited = not ending.hint and any(message in ending.message for message in _AWAITED)
    if functions and (is_awaited or ending.hint == _OUTSIDE_ASYNC):
        return ending._replace(hint=_WITHOUT_AWAIT)
    if functions and not ending.hint and "string indices must be integers" in ending.message:
        return ending._replace(hint="the value is text; parse JSON with json.loads(text)")
    is_module = ending.message.startswith("module ") and ending.message.endswith(" is not available here")
    is_hinted = bool(ending.hint) and not ending.hint.startswith("available: ")
    if not functions or is_hinted or not (is_module or ending.message.startswith("NameError: name ")):
        return ending
    shown = ", ".join(functions[:SHOWN_FUNCTIONS]) + (" and others" if len(functions) > SHOWN_FUNCTIONS else "")
    there = f"these functions are available by name, without import: {shown}"
    return ending._replace(hint=f"{there}; {ending.hint}" if ending.hint else there)


def compile_program(code: str, file: str = FILE) -> CodeType | GuardedOutcome:
    """Compile the program with its guards; returns the outcome if that fails."""
    import ast

    visitor = language()()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = visitor.visit(ast.parse(code, file))
            if not visitor.refusals:
                return compile(tree, file, "exec", dont_inherit=True)
        except SyntaxError as error:
            line, message = error.lineno or 1, f"SyntaxError: {error.msg}"
            text = source_line(code, line)
            return GuardedOutcome("syntax", None, message, line, text, _syntax_hint(message, text))
        except (RecursionError, MemoryError):
            return GuardedOutcome(
                "syntax", None, "the code is nested too deeply", hint="split it into shorter statements"
            )
        except ValueError as error:
            return GuardedOutcome("syntax", None, f"the code is not text that Python reads: {error}")
    first = min(visitor.refusals)
    return GuardedOutcome("refused", None, first.message, first.line, source_line(code, first.line), first.hint)


def _syntax_hint(message: str, line: str) -> str:
    """A hint for a line that is not Python, such as a shell command of a notebook."""
    if "outside" in message and ("await" in message or "async" in message):
        return _OUTSIDE_ASYNC
    return next((hint for pattern, hint in _NOT_PYTHON if re.match(pattern, line)), "")


def language() -> "type[GuardTransformer]":
    """Return the transformer class combined with the RestrictedPython engine, which is loaded here."""
    from agentkit.sandbox.guard.transformer import GuardTransformer

    engine = load_engine()

    return type("Guarded", (GuardTransformer, engine), {})


def load_engine() -> type:
    """Load RestrictedPython's transformer without its package, whose import takes a third of the child's start time."""
    spec = PathFinder.find_spec("RestrictedPython")
    bare = ModuleType("RestrictedPython")
    bare.__path__ = list(spec.submodule_search_locations or ()) if spec else []
    package = sys.modules.setdefault("RestrictedPython", bare)
    try:
        from RestrictedPython.transformer import RestrictingNodeTransformer
    finally:
        if package is bare:
            del sys.modules["RestrictedPython"]
    return RestrictingNodeTransformer


def execute(
    program: CodeType, code: str, write: Callable[[str, str], object], names: Mapping[str, Any] = _NOTHING
) -> GuardedOutcome:
    """Run a compiled program in a new namespace."""
    shown: list[str] = []
    namespace = new_namespace(write, shown, names)
    ending = run_compiled(program, code, namespace, shown)
    release(namespace)
    return ending


def run_compiled(program: CodeType, code: str, namespace: dict[str, Any], shown: list[str]) -> GuardedOutcome:
    """Run a compiled program in a namespace that notes the values of expression statements in `shown`."""
    try:
        exec(program, namespace)
        return GuardedOutcome("ok", shown[-1] if shown else None)
    except SystemExit as exit_error:
        return exit_outcome(exit_error)
    except BaseException as error:
        return failure_outcome(error, code, program.co_filename)


def release(namespace: dict[str, Any]) -> None:
    """Release the program's objects while its functions still work, as Python does on exit."""
    for name in [name for name in namespace if not name.startswith((".", "__"))]:
        namespace[name] = None
    gc.collect(1)  # collects reference cycles as well, but only young objects, since the host can have many
    namespace.clear()


def new_namespace(
    write: Callable[[str, str], object], shown: list[str], names: Mapping[str, Any] = _NOTHING
) -> dict[str, Any]:
    """Create the globals of a program: built-ins, `names`, and the guards, whose names are not valid identifiers."""
    from agentkit.sandbox.guard import transformer
    from agentkit.sandbox.guard.attributes import MAIN, Guard, matchable
    from agentkit.sandbox.guard.builtins import Streams, make_builtins
    from agentkit.sandbox.guard.module_facades import Importer
    from agentkit.sandbox.guard.proxies import Boxed, opaque
    from agentkit.sandbox.guard.replacements import substitutes, system_facade

    namespace: dict[str, Any] = {**names, "__name__": MAIN, "__doc__": None}
    guard = Guard(namespace)
    for given in names.values():
        guard.register(given)
    streams = Streams(write)
    importer = Importer(substitutes(guard, streams), guard.register, {"sys": system_facade(guard, streams)})

    def show(value: object) -> None:
        if value is not None:
            shown.append(repr(value))

    namespace["__builtins__"] = make_builtins(guard, streams)
    namespace[transformer.READ] = guard.read
    namespace[transformer.READ_OWN] = guard.read_own
    namespace[transformer.READ_PLAIN] = guard.read_plain
    namespace[transformer.WRITE] = guard.write
    namespace[transformer.IMPORT] = importer.import_module
    namespace[transformer.IMPORT_FROM] = importer.import_name
    namespace[transformer.SHOW] = show
    namespace[transformer.MATCHABLE] = matchable
    namespace[transformer.BOXED] = Boxed
    namespace[transformer.OPAQUE] = opaque
    return namespace


def exit_outcome(exit_error: SystemExit) -> GuardedOutcome:
    """The outcome of a program that called exit()."""
    if exit_error.code in (None, 0):
        return GuardedOutcome("ok")
    return GuardedOutcome("raised", None, f"the code called exit({exit_error.code!r})")


def failure_outcome(error: BaseException, code: str, file: str = FILE) -> GuardedOutcome:
    """The outcome of a program that raised an unhandled error."""
    lines = [*zip(own_frames(error), own_lines(error), strict=True)]
    place = max((number for number, (frame, _) in enumerate(lines) if frame[2] == file), default=None)
    line = None if place is None else lines[place][0][0]
    trace = tuple(text for number, (_, text) in enumerate(lines) if number != place)[-SHOWN_LINES:]
    try:
        text = str(error)
    except BaseException as failure:
        text = f"(its text cannot be shown: {type(failure).__name__})"
    refused = isinstance(error, Refused)
    message = text if refused else f"{type(error).__name__}: {text}" if text else type(error).__name__
    hint = error.hint if isinstance(error, Refused) else ""
    if type(error) is AttributeError and type(error.obj) is dict and type(error.name) is str:
        hint = f"read the value of a dictionary with [{error.name!r}]"
    kind = "refused" if refused else "raised"
    return GuardedOutcome(kind, None, message, line, source_line(code, line), hint, trace)


def source_line(code: str, line: int | None) -> str:
    """Return one line of the code."""
    lines = code.replace("\r\n", "\n").replace("\r", "\n").split("\n")  # form feeds and the like do not end a line
    return lines[line - 1].strip() if line and line <= len(lines) else ""
