"""Tests that agentkit's dataclasses behave like those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
import threading
from dataclasses import FrozenInstanceError, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

import pytest
from pydantic import TypeAdapter, ValidationError

from agentkit import Usage, _dataclass

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
OURS, STANDARD = _dataclass.dataclass, dataclasses.dataclass
USERS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "agentkit").rglob("*.py")
    if "from agentkit._dataclass import dataclass" in path.read_text("utf-8")
)


def pair_of(make):
    """Return the class created by our decorator and the one of the standard library."""
    return make(OURS), make(STANDARD)


def point(dataclass):
    """Return a class with two fields, one with a default."""

    @dataclass(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: int = 2

    return Point


def order(dataclass):
    """Return a class with all kinds of field options."""

    @dataclass(frozen=True, slots=True)
    class Order:
        """An order."""

        name: str
        lines: list[str] = field(default_factory=list)
        secret: str = field(default="none", repr=False)
        note: str = field(default="", compare=False)
        place: int = field(default=0, hash=False)
        total: int = field(init=False, default=7)
        made: list[int] = field(init=False, default_factory=list)
        by: str = field(default="me", kw_only=True)

    return Order


def wishes(dataclass):
    """Return a class with keyword-only fields."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Wishes:
        """Wishes."""

        heat: float
        words: tuple[str, ...] = ()

    return Wishes


def checked(dataclass):
    """Return a dataclass with a validating `__post_init__` and a custom repr."""

    @dataclass(frozen=True, slots=True)
    class Checked:  # noqa: PLW1641 - the decorator gives the hash
        """A non-negative number."""

        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("negative")
            object.__setattr__(self, "number", self.number * 10)

        def __repr__(self) -> str:
            return f"<{self.number}>"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.number % 3 == other.number % 3

    return Checked


def boxed(dataclass):
    """Return a generic class derived from one without fields."""

    class Thing:
        """A base class without fields."""

        __slots__ = ()

    @dataclass(frozen=True, slots=True)
    class Box(Thing, Generic[T]):
        """A box."""

        content: T

    return Box


def empty(dataclass):
    """Return a class without fields."""

    @dataclass(frozen=True, slots=True)
    class Empty:
        """Nothing."""

    return Empty


def hidden(dataclass):
    """Return a class without a repr."""

    @dataclass(frozen=True, slots=True, repr=False)
    class Hidden:
        """A class without a repr."""

        key: str

    return Hidden


def count(dataclass):
    """Return a mutable class without a hash."""

    @dataclass(slots=True)
    class Count:
        """A count."""

        number: int = 0
        steps: list[int] = field(default_factory=list)

    return Count


def watcher(dataclass):
    """Return a class compared by identity."""

    @dataclass(slots=True, eq=False)
    class Watcher:
        """A watcher."""

        name: str

    return Watcher


def stone(dataclass):
    """Return a frozen class compared by identity."""

    @dataclass(slots=True, frozen=True, eq=False)
    class Stone:
        """A stone."""

        name: str

    return Stone


MADE = {
    count: [((), {}), ((2,), {}), ((1,), {"steps": [1]})],
    watcher: [(("a",), {}), (("b",), {})],
    stone: [(("a",), {}), (("b",), {})],
    point: [((1,), {}), ((1, 3), {}), ((), {"y": 4, "x": 3})],
    order: [(("a",), {}), (("a", ["b"], "s", "n", 3), {"by": "you"}), (("b",), {"place": 2})],
    wishes: [((), {"heat": 0.5}), ((), {"heat": 1.0, "words": ("a",)})],
    checked: [((3,), {}), ((6,), {}), ((4,), {})],
    boxed: [((3,), {}), (("x",), {}), ((2.5,), {})],
    empty: [((), {})],
}
CASES = [(make, *given) for make, givens in MADE.items() for given in givens]
WRONG = [
    (point, (), {}),
    (point, (1, 2, 3), {}),
    (point, (1,), {"z": 3}),
    (point, (1,), {"x": 3}),
    (wishes, (0.5,), {}),
    (wishes, (), {}),
    (order, ("a",), {"total": 3}),
    (checked, (-1,), {}),
    (empty, (1,), {}),
]


def refusal_of(act):
    """Return the type and message of the error, or the value if there is none."""
    try:
        return act()
    except (TypeError, ValueError, NameError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.for_each("make", [*MADE, hidden])
def test_class_looks_the_same(make):
    """A dataclass has the same name, signature, fields and slots as one of the standard library."""
    looks = (
        lambda kind: (kind.__name__, kind.__qualname__, kind.__doc__, kind.__module__),
        lambda kind: str(inspect.signature(kind)),
        lambda kind: str(inspect.signature(kind.__init__)),
        lambda kind: [(known.name, known.type, known.init, known.repr) for known in dataclasses.fields(kind)],
        lambda kind: (kind.__slots__, kind.__match_args__),
        lambda kind: (kind.__dataclass_params__.frozen, kind.__init__.__qualname__, kind.__init__.__name__),
        lambda kind: refusal_of(partial(get_type_hints, kind.__init__, {"T": T})),
    )
    actual, reference = pair_of(make)
    assert [look(actual) for look in looks] == [look(reference) for look in looks]


@pytest.mark.for_each(("make", "words", "named"), CASES)
def test_objects_have_the_same_repr(make, words, named):
    """Both dataclasses create objects with the same repr and no `__dict__`."""
    actual, reference = (kind(*words, **named) for kind in pair_of(make))
    assert repr(actual) == repr(reference)
    assert repr(dataclasses.asdict(actual)) == repr(dataclasses.asdict(reference))
    assert not hasattr(actual, "__dict__")


@pytest.mark.for_each(("make", "words", "named"), WRONG)
def test_wrong_arguments_raise_the_same_error(make, words, named):
    """Wrong arguments raise the same error in both dataclasses."""
    actual, reference = (refusal_of(partial(kind, *words, **named)) for kind in pair_of(make))
    assert issubclass(actual[0], Exception)
    assert actual == reference


@pytest.mark.for_each("make", MADE)
def test_equality_and_hash_are_the_same(make):
    """Objects are equal and have equal hashes exactly if those of the standard library do."""
    actual, reference = ([kind(*words, **named) for words, named in MADE[make] * 2] for kind in pair_of(make))
    assert [[a == b for a in actual] for b in actual] == [[a == b for a in reference] for b in reference]
    assert actual[0] != reference[0]
    if make in {watcher, stone}:
        assert len({*actual}) == len(actual)
        return
    hashes = [[refusal_of(partial(hash, item)) for item in items] for items in (actual, reference)]
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("make", sorted(MADE.keys() - {count, watcher}, key=str))
def test_frozen_fields_cannot_be_changed(make):
    """Fields of a frozen dataclass cannot be set or deleted."""
    words, named = MADE[make][0]
    actual, reference = (kind(*words, **named) for kind in pair_of(make))
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'other'"):
        actual.other = 1
    for name in (known.name for known in dataclasses.fields(actual)):
        for act in (lambda item, name=name: setattr(item, name, 1), lambda item, name=name: delattr(item, name)):
            output = refusal_of(partial(act, actual))
            assert output == refusal_of(partial(act, reference))
            assert output[0] is FrozenInstanceError


def test_unfrozen_fields_can_be_changed():
    """Attributes of an unfrozen dataclass can be set and deleted, but unknown ones cannot be set."""
    item = count(OURS)()
    item.number += 1
    assert item == type(item)(1)
    del item.number
    assert not hasattr(item, "number")
    with pytest.raises(AttributeError):
        item.other = 1


def test_plain_subclass_can_set_new_attributes():
    """A plain subclass can set new attributes but not the frozen fields."""

    class Named(point(OURS)):
        """A point with a name."""

        def __init__(self, x: int) -> None:
            super().__init__(x, y=5)
            self.name = "here"

    here = Named(1)
    here.name = "there"
    del here.name
    assert (here.x, here.y) == (1, 5)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        here.x = 3
    assert here != point(OURS)(1, 5)


@pytest.mark.parametrize("decorator", [OURS, STANDARD], ids=["ours", "standard"])
@pytest.mark.parametrize("base", [OURS, STANDARD], ids=["agentkit", "standard library"])
def test_dataclass_derives_from_it(base, decorator):
    """Frozen dataclasses can inherit from each other, and an unfrozen subclass raises an error."""

    @decorator(frozen=True, slots=True)
    class Deep(point(base)):
        """A point with a depth."""

        z: int = 0

    assert (Deep(1, z=3).x, Deep(1, z=3).y, Deep(1, z=3).z) == (1, 2, 3)
    assert repr(Deep(1)).endswith("Deep(x=1, y=2, z=0)")
    with pytest.raises(TypeError, match="frozen"):
        decorator(slots=True)(type("Loose", (point(base),), {"__annotations__": {"z": int}}))


@pytest.mark.parametrize("how", [{}, {"frozen": True}, {"order": True}], ids=str)
def test_classes_without_slots_use_the_standard_library(how):
    """A dataclass without slots is created by the standard library."""
    plain = _dataclass.dataclass(**how)(type("Plain", (), {"__annotations__": {"x": int}}))
    assert plain(1) == plain(1)
    assert plain.__init__.__annotations__ == {"x": int, "return": None}
    assert hasattr(plain(1), "__dict__")


def test_replacing_copying_and_matching():
    """`replace`, `copy`, `deepcopy` and patterns work before and after the first object is created."""
    kind = order(OURS)
    item = kind("a", ["b"], by="you")
    assert dataclasses.replace(item, name="c") == kind("c", ["b"], by="you")
    assert copy.copy(item) == copy.deepcopy(item) == item
    assert copy.deepcopy(item).lines is not item.lines
    match item:
        case kind(name, [line]):
            assert (name, line) == ("a", "b")
        case _:
            pytest.fail("the pattern must match")


def test_pickling_preserves_all_fields():
    """Pickling preserves all fields, including those that are not compared."""
    usage = Usage(requests=1, input_tokens=2, parts=(Usage(output_tokens=3),))
    arrived = pickle.loads(pickle.dumps(usage))
    assert arrived == usage
    assert arrived.parts == usage.parts


def test_recursion_is_shown_as_dots():
    """The repr of a recursive object uses dots."""
    ring: list[Any] = []
    item = boxed(OURS)(ring)
    ring.append(item)
    assert repr(item).endswith("Box(content=[...])")


def test_threads_can_create_the_first_objects():
    """Concurrent threads can create the first objects of a class."""
    kind, made = order(OURS), []
    threads = [threading.Thread(target=lambda: made.append(kind("a"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [kind("a")] * 20


def test_validation_by_pydantic():
    """Pydantic validates a field with the dataclass and returns an object of its class."""
    kind = point(OURS)
    adapter = TypeAdapter(kind)
    assert adapter.validate_python({"x": "3"}) == kind(3)
    with pytest.raises(ValidationError):
        adapter.validate_python({"y": 3})


@pytest.mark.for_each("module", USERS)
def test_signatures_match_the_standard_library(module):
    """Each frozen dataclass has the signature that the standard library would give it."""
    home = import_module(module)
    kinds = [kind for kind in vars(home).values() if isinstance(kind, type) and kind.__module__ == module]
    actual = [kind for kind in kinds if dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen]
    for kind in actual:
        known = [(each.name, each.type, each) for each in dataclasses.fields(kind)]
        reference = dataclasses.make_dataclass(kind.__name__, known, frozen=True)
        text = str(inspect.signature(kind))
        assert text.replace(", **unknown", "") == str(inspect.signature(reference))
        assert ("**unknown" in text) == hasattr(kind, "_refuse_unknown")
