"""What does a run report while it happens?"""

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields

from markdown import code, described, joined, table

from agentkit import RunFinished, events
from agentkit.events import Event, StoredEvent

_OPENING = """\
`Agent.stream`, `Agent.on` and `listeners=` tell events; each is frozen data. They are in `agentkit.events`, and
`RunFinished` is in `agentkit`."""


def page() -> str:
    """The whole page."""
    kinds = [*_defined(), RunFinished]
    recorded = [kind for kind in kinds if issubclass(kind, StoredEvent)]
    others = [kind for kind in kinds if not issubclass(kind, StoredEvent)]
    return joined([
        "# Reference: events",
        _OPENING,
        "## Stored events",
        "What a run has done, and what stays done: sessions and cassettes keep these.",
        *map(_entry, recorded),
        "## The others",
        "Pieces of what is to come, and the end. Nothing keeps them.",
        *map(_entry, others),
    ])  # fmt: skip


def _defined() -> Iterator[type[Event]]:
    """The events of the module, in its order."""
    for value in vars(events).values():
        if isinstance(value, type) and issubclass(value, Event) and value not in (Event, StoredEvent):
            yield value


def _entry(kind: type[Event]) -> str:
    rows = [(code(each.name), code(each.type), _default(each)) for each in fields(kind)]
    return joined([f"### {kind.__name__}", described(kind), table(("field", "type", "by default"), rows)])


def _default(each: "Field[object]") -> str:
    if each.default is not MISSING:
        return code(repr(each.default))
    return "must be given" if each.default_factory is MISSING else code(f"{each.type}()")
