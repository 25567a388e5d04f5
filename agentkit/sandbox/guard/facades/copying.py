"""How are objects copied without asking them how? Python's own copy calls what their `__reduce__` names."""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from enum import Enum
from types import MemberDescriptorType, SimpleNamespace
from typing import Any

from agentkit.sandbox.guard.attributes import Guard
from agentkit.sandbox.guard.ending import RefusedCall
from agentkit.sandbox.guard.names import words

Part = Callable[[Any], Any]
# Objects of these modules never change, or are shared by Python's own copy too.
UNCHANGING = words("builtins datetime decimal enum fractions functools re types typing uuid zoneinfo")


class Copier:
    """`copy` and `deepcopy` of one run."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def copy(self, value: Any) -> Any:
        """A shallow copy."""
        if self._is_shared(value):
            return value
        if self._has_own(value, "__copy__"):
            return value.__copy__()
        return self._filled(value, lambda part: part, lambda _: None)

    def deepcopy(self, value: Any, memo: dict[int, Any] | None = None) -> Any:
        """A copy of the value and of all that it holds."""
        seen: dict[int, Any] = {} if memo is None else memo
        if self._is_shared(value):
            return value
        if id(value) in seen:
            return seen[id(value)]
        if self._has_own(value, "__deepcopy__"):
            new = value.__deepcopy__(seen)
        else:
            self._check_inner(value)
            new = self._filled(
                value, lambda part: self.deepcopy(part, seen), lambda empty: seen.__setitem__(id(value), empty)
            )
        return seen.setdefault(id(value), new)

    def _check_inner(self, value: Any) -> None:
        """Refuse what keeps objects for itself: the program holds the memo, where their copies would be seen."""
        inner = self._guard.privacy.names(type(value))
        parts = [(name.__name__, found) for name, found in _slots(value)] if inner else []
        parts += [*vars(value).items()] if inner and hasattr(value, "__dict__") else []
        if not all(self._is_shared(found) for name, found in parts if name in inner):
            raise RefusedCall(f"a {type(value).__name__!r} cannot be copied deeply here", "make a new one")

    def _has_own(self, value: Any, method: str) -> bool:
        return self._guard.is_own_class(type(value)) and hasattr(type(value), method)

    def _is_shared(self, value: Any) -> bool:
        kind = type(value)
        if issubclass(kind, type | Enum):
            return True
        changing = (list, dict, set, frozenset, tuple, deque, bytearray, SimpleNamespace, BaseException)
        if self._guard.is_own_class(kind) or issubclass(kind, changing):
            return False
        if kind.__module__ in UNCHANGING or self._guard.is_own_function(value):
            return True
        raise RefusedCall(f"a {kind.__name__!r} cannot be copied here", "make a new one")

    def _filled(self, value: Any, part: Part, seen: Callable[[Any], object]) -> Any:
        """A new object of the same class; `seen` hears of it before its parts are copied, as they may hold it."""
        kind = type(value)
        base: Any = next((base for base in (tuple, frozenset) if issubclass(kind, base)), None)
        if base:
            new = base.__new__(kind, [part(item) for item in base.__iter__(value)])
        else:
            base = next(base for base in FILLS if issubclass(kind, base))
            maker = SimpleNamespace if issubclass(kind, SimpleNamespace) else base
            new = maker.__new__(kind)
            seen(new)
            FILLS[base](new, value, part)
        for name, found in _slots(value):
            name.__set__(new, part(found))
        if hasattr(value, "__dict__"):
            vars(new).update((name, part(found)) for name, found in vars(value).items())
        return new


def _fill_ordered(new: Any, value: Any, part: Part) -> None:
    for key in OrderedDict.__iter__(value):
        OrderedDict.__setitem__(new, part(key), part(dict.__getitem__(value, key)))


def _fill_dict(new: Any, value: Any, part: Part) -> None:
    if issubclass(type(new), defaultdict):
        new.default_factory = value.default_factory
    dict.update(new, {part(key): part(item) for key, item in dict.items(value)})


def _fill_deque(new: Any, value: Any, part: Part) -> None:
    deque.__init__(new, [part(item) for item in deque.__iter__(value)], value.maxlen)


def _fill_exception(new: Any, value: Any, part: Part) -> None:
    new.args = part(value.args)


# The built-in classes that objects are made of, each with the way to copy what it holds.
FILLS: dict[Any, Callable[[Any, Any, Part], None]] = {
    OrderedDict: _fill_ordered,
    dict: _fill_dict,
    list: lambda new, value, part: list.extend(new, [part(item) for item in list.__iter__(value)]),
    set: lambda new, value, part: set.update(new, [part(item) for item in set.__iter__(value)]),
    deque: _fill_deque,
    bytearray: lambda new, value, _: bytearray.extend(new, value),
    BaseException: _fill_exception,
    object: lambda *_: None,
}


def _slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """The slots of an object that are filled: descriptor and value."""
    for kind in type(value).__mro__:
        for found in vars(kind).values():
            if type(found) is MemberDescriptorType and kind.__module__ not in {"builtins", "types"}:
                try:
                    yield found, found.__get__(value, kind)
                except AttributeError:
                    continue
