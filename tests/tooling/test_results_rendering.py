"""Tests for the rendering of any Python value as bounded text."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import os
import pathlib
import time
import tracemalloc
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr

from agentkit.content import Image
from agentkit.tooling.results import cut_text, is_long, render, with_read_more

ROOM = 50_000


def parsed_rendering(value: Any) -> Any:
    """Render a value and parse the JSON text, which must be valid and complete."""
    text, was_cut, _ = render(value, ROOM)
    assert not was_cut
    return json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


class Color(enum.Enum):
    """An enum with values of several types."""

    RED = "red"
    PAIR = (1, 2)
    RAW = b"raw"


class Level(enum.IntEnum):
    """An enum of numbers."""

    LOW = 1


class Word(enum.StrEnum):
    """An enum of strings."""

    YES = "yes"


class Point(NamedTuple):
    """A named tuple."""

    x: int
    y: int


class Grid:
    """An array like numpy's, of any number of dimensions, whose text omits its middle."""

    __array_interface__: ClassVar = {"version": 3}

    def __init__(self, shape: tuple[int, ...], values: Any) -> None:
        self.shape, self.values = shape, values

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, place: int) -> Any:
        return self.values[place]

    def __repr__(self) -> str:
        return "[1 ... 4]"


@dataclasses.dataclass
class Node:
    """A dataclass that may contain itself."""

    name: str
    next: Any = None


class Person(BaseModel):
    """A pydantic model with a secret."""

    name: str = "An"
    secret: SecretStr = SecretStr("hidden")
    left_out: int = Field(3, exclude=True)
    born: datetime.date = datetime.date(2000, 1, 2)


class Holder(BaseModel):
    """A pydantic model that cannot always be serialized as JSON."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    thing: Any = None


class Unprintable:
    """An object without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Holding:
    """An object whose text is its address."""

    def __init__(self, text: object) -> None:
        self.kept, self._own = text, "its own"


class Evasive:
    """An object whose attributes cannot be read."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"nothing is called {name}")


class Name(str):
    """A subclass of str."""

    __slots__ = ()


class Squares(collections.abc.Mapping[int, int]):
    """A mapping that is not a dictionary and counts its lookups."""

    def __init__(self, size: int) -> None:
        self.size, self.asked = size, 0

    def __getitem__(self, key: int) -> int:
        self.asked += 1
        return key * key

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.size))

    def __len__(self) -> int:
        return self.size


@pytest.mark.for_each(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (1.5, 1.5),
        ([1, [2]], [1, [2]]),
        ((1, 2), [1, 2]),
        ({"a": {"b": None}}, {"a": {"b": None}}),
        (float("nan"), "NaN"),
        ({"x": float("inf")}, {"x": "Infinity"}),
        ([float("-inf")], ["-Infinity"]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ([{1, "a"}], lambda found: sorted(found[0], key=str) == [1, "a"]),
        (b"caf\xc3\xa9", "café"),
        (b"\xff\xfe", "//4="),
        (bytearray(b"ab"), "ab"),
        (memoryview(b"ab"), "ab"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.time(3, 4), "03:04:00"),
        (datetime.timedelta(hours=1), "1:00:00"),
        (decimal.Decimal("1.10"), "1.10"),
        (fractions.Fraction(1, 4), 0.25),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (Color.RED, "red"),
        (Color.PAIR, [1, 2]),
        (Color.RAW, "raw"),
        (Level.LOW, 1),
        (Word.YES, "yes"),
        (Point(1, 2), {"x": 1, "y": 2}),
        (os.terminal_size((80, 24)), {"columns": 80, "lines": 24}),
        ([os.stat_result(range(10))], [list(range(10))]),
        ([time.gmtime(0)], lambda found: found[0]["tm_year"] == 1970),
        (Grid((2, 2), [Grid((2,), [1, 2]), Grid((2,), [3, 4])]), [[1, 2], [3, 4]]),
        ([Grid((), 1.5)], ["[1 ... 4]"]),
        (Node("a", Node("b")), {"name": "a", "next": {"name": "b", "next": None}}),
        (Person(), {"name": "An", "secret": "**********", "born": "2000-01-02"}),
        (RootModel[list[int]]([1]), [1]),
        (Holder(thing=object), {"thing": "<class 'object'>"}),
        (collections.deque([1, 2]), [1, 2]),
        (collections.OrderedDict(a=1), {"a": 1}),
        ({"a": 1}.keys(), ["a"]),
        ({"a": 1}.values(), [1]),
        ({"a": 1}.items(), [["a", 1]]),
        (range(3), [0, 1, 2]),
        ([Name("n")], ["n"]),
        (2**70, 2**70),
        ([2**20_000], ["(a whole number of 20,001 bits)"]),
        ([Unprintable()], ["(Unprintable: its text representation failed with RuntimeError)"]),
        ([ValueError("bad"), KeyError()], ["ValueError: bad", "KeyError: "]),
        ([types.SimpleNamespace(a=1, _b=2)], [{"a": 1}]),
        ([Holding(1)], [{"kept": 1}]),
        ([Evasive()], lambda found: "Evasive object" in found[0]),
        ([collections.UserString("text")], ["text"]),
        ([int], ["<class 'int'>"]),
        (["\ud800x", "\ud83d\ude00"], ["\ufffdx", "😀"]),
        ({1: 1, None: 2, 1.5: 4}, {"1": 1, "null": 2, "1.5": 4}),
        ({False: 1, (1, 2): 2, b"k": 3, Color.RED: 4}, {"false": 1, "(1, 2)": 2, "k": 3, "red": 4}),
        ({datetime.date(2026, 1, 2): 1}, {"2026-01-02": 1}),
        ({"\ud800": 1}, {"\ufffd": 1}),
    ],
)
def test_every_value_becomes_valid_json(value: Any, expected: Any) -> None:
    """Any return value is rendered as valid JSON without NaN, Infinity or lone surrogates."""
    found = parsed_rendering(value)
    assert expected(found) if callable(expected) else found == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("a" * 60_000, True), ([["a"]] * 3_000, True), ([1, "a"], False), ({"a": Grid((1,), [1])}, True), (None, False)],
)
def test_is_long(value: Any, *, expected: bool) -> None:
    """Long strings, large collections and arrays are slow to render."""
    assert is_long(value) is expected


def test_text_is_rendered_without_quotes() -> None:
    """A string is rendered unchanged and without quotes, except for lone surrogates."""
    assert render("Xin chào\n", ROOM) == ("Xin chào\n", False, ())
    assert render("a\ud800b", ROOM) == ("a\ufffdb", False, ())


def test_non_ascii_letters_are_not_escaped() -> None:
    """Non-ASCII letters are not escaped, which takes fewer tokens."""
    assert render({"city": "Hà Nội"}, ROOM)[0] == '{"city": "Hà Nội"}'


def test_recursive_value_is_marked() -> None:
    """A reference from a value to itself is replaced by a note."""
    loop: dict[str, Any] = {"x": 1}
    loop["me"] = loop
    assert parsed_rendering(loop) == {"x": 1, "me": "(this value contains itself)"}
    node = Node("a")
    node.next = node
    assert parsed_rendering(node)["next"] == "(this value contains itself)"
    shared = [1]
    assert parsed_rendering([shared, shared]) == [[1], [1]]


def test_deeply_nested_value_is_truncated() -> None:
    """A deeply nested value is truncated with an ellipsis instead of raising an error."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    text, was_cut, _ = render(deep, ROOM)
    assert was_cut
    assert "…" in text
    assert json.loads(text)["truncated"] is True


def test_long_text_keeps_head_and_tail() -> None:
    """A long string keeps its beginning and end at 80 to 20, with a count of omitted characters."""
    text, was_cut, _ = render("a" * 5_000 + "z" * 5_000, 1_000)
    assert was_cut
    assert len(text) == 1_000
    head, note, tail = text.split("\n")
    assert set(head) == {"a"}
    assert set(tail) == {"z"}
    assert note == "[… 9,000 of 10,000 characters left out …]"
    assert len(head) == pytest.approx(4 * len(tail), abs=5)


@pytest.mark.parametrize("max_chars", [0, 1, 10, 50])
def test_text_is_truncated_to_any_length(max_chars: int) -> None:
    """A string without room for the note is truncated with an ellipsis."""
    assert len(cut_text("x" * 100, max_chars)) <= max(max_chars, 1)
    assert cut_text("x" * 100, max_chars).endswith("…")


def test_truncated_dictionary_keeps_keys_and_small_values() -> None:
    """A long dictionary keeps all keys and short values, and its long values share the space."""
    value = {"command": "ls", "output": "o" * 10**6, "stdout": "s" * 10**6, "stderr": "", "return_code": 0}
    text, was_cut, _ = render(value, 10_000)
    found = json.loads(text)
    assert was_cut
    assert list(found) == ["command", "output", "stdout", "stderr", "return_code", "truncated"]
    assert (found["command"], found["stderr"], found["return_code"], found["truncated"]) == ("ls", "", 0, True)
    assert "of 1,000,000 characters left out" in found["output"]
    assert len(found["output"]) == pytest.approx(len(found["stdout"]), rel=0.1)
    assert 9_000 < len(text) <= 10_000


def test_truncated_list_keeps_whole_items() -> None:
    """A long list keeps its first and last items at 80 to 20, and counts the ones between."""
    rows = [{"id": number, "name": f"row {number}"} for number in range(10_000)]
    text, was_cut, _ = render(rows, 10_000)
    found = json.loads(text)
    items = found["value"]
    note = next(index for index, item in enumerate(items) if isinstance(item, str))
    assert was_cut
    assert found["truncated"] is True
    assert items[:note] == rows[:note]
    assert items[-5:] == rows[-5:]
    assert items[note] == f"… {10_001 - len(items):,} of 10,000 items left out …"
    assert note == pytest.approx(4 * (len(items) - note), rel=0.2)


def test_truncated_mapping_counts_omitted_entries() -> None:
    """A large dictionary keeps its first and last entries and counts the ones between."""
    text, _, _ = render({f"key {number}": number for number in range(10_000)}, 5_000)
    found = json.loads(text)
    assert next(iter(found)) == "key 0"
    assert list(found)[-2:] == ["key 9999", "truncated"]
    assert found["…"].endswith("of 10,000 entries left out")


def test_mapping_without_reverse_order_keeps_its_head() -> None:
    """A mapping other than a dictionary is read from its beginning, and only as far as needed."""
    squares = Squares(1_000_000)
    text, _, _ = render(squares, 5_000)
    assert json.loads(text)["3"] == 9
    assert squares.asked < 5_000


def test_truncated_bytes_state_the_omitted_number() -> None:
    """Long bytes are truncated before they are decoded."""
    for value in (b"a" * 10**6, b"\xff" * 10**6, "é".encode() * 10**6):
        text, was_cut, _ = render(value, 1_000)
        assert was_cut
        assert "bytes left out" in json.loads(text)["value"]


HUGE: dict[str, Callable[[], Any]] = {
    "text": lambda: "x" * 100_000_000,
    "text inside": lambda: {"output": "x" * 100_000_000, "return_code": 0},
    "bytes": lambda: b"x" * 100_000_000,
    "list": lambda: [0] * 3_000_000,
    "rows": lambda: [{"id": number} for number in range(50_000)],
    "dict": lambda: dict.fromkeys(range(300_000)),
    "set": lambda: set(range(300_000)),
    "range": lambda: range(10**12),
    "nested": lambda: [[[0] * 1_000] * 1_000] * 1_000,
    "escapes": lambda: {"a": "\x00" * 10_000_000},
    "long keys": lambda: {"k" * 1_000_000 + str(number): 1 for number in range(10)},
}


@pytest.mark.for_each("kind", HUGE)
def test_huge_value_uses_little_time_and_memory(kind: str) -> None:
    """Rendering a huge value takes bounded time and memory."""
    value = HUGE[kind]()
    started = time.process_time()
    tracemalloc.start()
    text, was_cut, _ = render(value, ROOM // 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert was_cut
    assert len(text) <= ROOM // 10
    assert peak < 60_000_000
    assert time.process_time() - started < 20


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=200)
    | st.binary(max_size=200)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=40)
        | st.dictionaries(st.text(max_size=20) | st.integers() | st.none(), inner, max_size=40)
        | st.tuples(inner, inner)
    ),
    max_leaves=60,
)


@settings(max_examples=150)
@given(values, st.integers(100, 2_000))
def test_any_value_fits_any_bound_as_valid_json(value: Any, max_chars: int) -> None:
    """Any value is rendered within any bound as valid JSON, and a truncated value is marked."""
    text, was_cut, _ = render(value, max_chars)
    assert len(text) <= max_chars
    text.encode()
    if not isinstance(value, str):
        found = json.loads(text, parse_constant=pytest.fail)
        assert not was_cut or found["truncated"] is True


TOKEN = "ghp_" + "Q7" * 18


@pytest.mark.for_each("max_chars", [150, 200, 240, 260, 300, 400, 5_000])
@pytest.mark.for_each(
    "value",
    [
        Node("x" * 90 + " " + TOKEN + " " + "y" * 5_000),
        Name("x" * 90 + " " + TOKEN + " " + "y" * 5_000),
        [("x" * 90 + " " + TOKEN + " " + "y" * 5_000).encode()],
        {"a": ("x" * 90 + " " + TOKEN).encode()},
        {TOKEN},
        {pathlib.PurePosixPath(TOKEN): TOKEN},
        ValueError(f"{'x' * 60} {TOKEN} {'y' * 5_000}"),
        Name("x" * 90 + " " + TOKEN + " " + "y" * 500_000 + " " + TOKEN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_secrets_are_removed_before_truncation(value: Any, max_chars: int) -> None:
    """Secrets are removed before a value is truncated, so that no part of them remains."""
    assert "ghp_Q" not in render(value, max_chars)[0]


def test_secret_is_redacted_before_json_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of a secret variable is redacted even if JSON would escape it."""
    monkeypatch.setenv("DB_PASSWORD", 'p@ss"w0rd\\xyz99\n')
    for value in (Node('is p@ss"w0rd\\xyz99'), {'p@ss"w0rd\\xyz99'}, {"a": b'p@ss"w0rd\\xyz99'}):
        assert "xyz99" not in render(value, ROOM)[0]


def test_all_omitted_characters_are_counted() -> None:
    """The note of a very long text counts all omitted characters, although only its ends were read."""
    assert "[… 999,800 of 1,000,000 characters left out …]" in render("x" * 10**6, 200)[0]


def test_note_names_the_handle_and_position() -> None:
    """The note in a truncated text names the handle and the next position without growing the text."""
    full_text = "".join(f"line {number}\n" for number in range(5_000))
    cut, _, _ = render(full_text, 1_000)
    text = with_read_more(cut, "call_1")
    head, note, tail = (
        text.partition("\n[… ")[0],
        text[text.index("[… ") : text.index(" …]")],
        text.partition(" …]\n")[2],
    )
    assert len(text) <= 1_000
    assert full_text.startswith(head)
    assert full_text.endswith(tail)
    assert note.endswith(f'characters left out; read_more(handle="call_1", start={len(head)}) reads on')


def test_note_quoted_in_the_text_is_unchanged() -> None:
    """The handle is added only to the note of the cut, not to a similar note in the text."""
    quoted = "\n[… 1 of 2 characters left out …]\n"
    text = with_read_more(render(quoted + "x" * 5_000 + quoted, 1_000)[0], "call_1")
    assert text.startswith(quoted)
    assert text.endswith(quoted)
    assert text.count("read_more") == 1
    assert text.count("characters left out") == 3


@pytest.mark.parametrize("value", [{"output": "x" * 5_000}, list(range(5_000))])
def test_json_with_a_handle_remains_valid(value: Any) -> None:
    """The handle is added to truncated JSON as a separate key."""
    text = with_read_more(render(value, 1_000)[0], "call_1")
    found = json.loads(text)
    assert (found["truncated"], found["read_more"]) == (True, 'read_more(handle="call_1")')
    assert len(text) < 1_100


@pytest.mark.parametrize("text", ["x" * 99 + "…", "[" * 100_000, "[1]", render("x" * 5_000, 120)[0]])
def test_handle_is_appended_without_a_note(text: str) -> None:
    """If the text contains no note, the handle is appended as the last line."""
    assert with_read_more(text, 'a"b') == f'{text}\n[read_more(handle="a\\"b") reads the whole]'


@pytest.mark.parametrize(
    "value", [list(range(5_000)), {"a": {"b": list(range(5_000))}}, [[number] for number in range(5_000)]]
)
def test_value_with_too_many_entries_is_truncated(value: Any) -> None:
    """A value with too many entries is truncated and marked as such in the JSON."""
    text, was_cut, _ = render(value, 1_000_000, 500)
    assert was_cut
    assert json.loads(text)["truncated"] is True
    assert 1_000 < len(text) < 5_000
    assert render(value, 1_000_000)[1] is False


@pytest.mark.parametrize("url", ["https://a.example/x.png?k=SECRET", "http://me:SECRET@a.example/x.png"])
def test_image_with_a_secret_in_its_url_is_omitted(url: str) -> None:
    """An image whose URL contains a secret is not sent."""
    parsed_rendering, _, images = render([Image(url), Image("https://a.example/x.png")], 500, clean=hiding)
    assert [image.url for image in images] == ["https://a.example/x.png"]
    assert "its URL contains a secret" in parsed_rendering
    assert "SECRET" not in parsed_rendering


def hiding(text: str) -> str:
    """Return the text with its secret redacted."""
    return text.replace("SECRET", "[redacted]")
