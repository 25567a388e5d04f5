"""What does a program's own `warnings` do? It filters by class, keeps what it should record, and writes the rest."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from agentkit.sandbox.guard.ending import RefusedCall
from agentkit.sandbox.guard.names import words

ACTIONS = words("always default error ignore module once")
HINT = "the code's own warnings are filtered by their class only"


class Warnings:
    """The warnings of one run. Python's own are filtered by Python, and not seen here."""

    __slots__ = ("_filters", "_record", "_show")

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._filters: list[tuple[str, Any]] = []
        self._record: list[Any] | None = None

    def names(self) -> dict[str, Any]:
        """What the module hands out."""
        return {
            "catch_warnings": self.catch_warnings,
            "filterwarnings": self.filterwarnings,
            "resetwarnings": self.resetwarnings,
            "simplefilter": self.simplefilter,
            "warn": self.warn,
        }

    def warn(self, message: Any, category: Any = None, *_: object, **__: object) -> None:
        """Warn: a text of a class of warnings, or a warning itself."""
        kind = type(message) if isinstance(message, Warning) else category or UserWarning
        if not issubclass(type(kind), type) or not issubclass(kind, Warning):
            raise TypeError(f"category must be a Warning subclass, not {category!r}")
        warning = message if isinstance(message, Warning) else kind(message)
        action = next((action for action, filtered in self._filters if issubclass(kind, filtered)), "default")
        if action == "error":
            raise warning
        if action != "ignore" and self._record is not None:
            self._record.append(SimpleNamespace(message=warning, category=kind))
        elif action != "ignore":
            self._show(f"{kind.__name__}: {warning}\n")

    def simplefilter(self, action: str, category: Any = Warning, *_: object, append: bool = False) -> None:
        """Say what becomes of the warnings of a class."""
        if action not in ACTIONS:
            raise AssertionError(f"invalid action: {action!r}")
        self._filters.insert(len(self._filters) if append else 0, (action, category))

    def filterwarnings(self, action: str, message: str = "", category: Any = Warning, module: str = "") -> None:
        """The same; texts and modules are not looked at."""
        if message or module:
            raise RefusedCall("warnings cannot be filtered by their text or module here", HINT)
        self.simplefilter(action, category)

    def resetwarnings(self) -> None:
        """Forget all filters."""
        self._filters.clear()

    def catch_warnings(self, *, record: bool = False) -> Any:
        """Keep filters to a `with` block; with `record` it gives the list of what is warned of meanwhile."""
        return Catching(self, record=record)

    def exchange(self, state: tuple[list[tuple[str, Any]], list[Any] | None]) -> Any:
        """Set filters and record; what they were."""
        before = self._filters, self._record
        self._filters, self._record = state
        return before


class Catching:
    """What `catch_warnings` gives."""

    __slots__ = ("_before", "_wants_record", "_warnings")

    def __init__(self, warnings: Warnings, *, record: bool) -> None:
        self._warnings = warnings
        self._wants_record = record
        self._before: list[Any] = []

    def __enter__(self) -> list[Any] | None:
        filters, record = state = self._warnings.exchange(([], None))
        self._before.append(state)
        recorded: list[Any] | None = [] if self._wants_record else None
        self._warnings.exchange((list(filters), record if recorded is None else recorded))
        return recorded

    def __exit__(self, *_: object) -> None:
        self._warnings.exchange(self._before.pop())
