"""Reference page of the events of a run."""

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields

from markdown import code, described, joined, table

from agentkit import RunFinished, events
from agentkit.events import Event, StoredEvent

_OPENING = """\
`Agent.stream`, `Agent.on` and `listeners=` return events, which are frozen dataclasses. They are in `agentkit.events`;
`RunFinished` can also be imported from `agentkit`."""


def page() -> str:
    """Render the page."""
    kinds = [*_defined(), RunFinished]
    recorded = [kind for kind in kinds if issubclass(kind, StoredEvent)]
    others = [kind for kind in kinds if not issubclass(kind, StoredEvent)]
    return joined([
        "# Reference: events",
        _OPENING,
        "## Stored events",
        "Completed steps of a run, which sessions and cassettes store.",
        *map(_entry, recorded),
        "## Other events",
        "Partial results, and the end of a run. They are not stored.",
        *map(_entry, others),
    ])  # fmt: skip


def _defined() -> Iterator[type[Event]]:
    """The events in source order."""
    for value in vars(events).values():
        if isinstance(value, type) and issubclass(value, Event) and value not in (Event, StoredEvent):
            yield value


def _entry(kind: type[Event]) -> str:
    rows = [(code(each.name), code(each.type), _default(each)) for each in fields(kind)]
    return joined([f"### {kind.__name__}", described(kind), table(("field", "type", "default"), rows)])


def _default(each: "Field[object]") -> str:
    if each.default is not MISSING:
        return code(repr(each.default))
    return "required" if each.default_factory is MISSING else code(f"{each.type}()")
