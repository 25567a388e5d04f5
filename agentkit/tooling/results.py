"""Rendering of Python values as bounded text or JSON for models."""

from __future__ import annotations

import base64
import codecs
import contextlib
import dataclasses
import enum
import json
import math
import numbers
import re
import sys
import types
from collections import UserString
from collections.abc import Callable, Iterable, Mapping, Sequence, Set, ValuesView
from dataclasses import replace
from itertools import islice
from typing import Any, get_args

from agentkit.content import File, Image, files_in, images_in, worded
from agentkit.decisions import Decision, Label
from agentkit.errors import Blocked, Postponed, ToolError, ToolTimeout
from agentkit.messages import READ_MORE, Status, ToolResult, failure_content, reading_call, well_formed
from agentkit.redaction import redact, redact_value, redactor

_DEEPEST, _RECORD_KEYS = 60, 32
_MOST_SORTED, _MOST_BITS = 10_000, 14_000
_NOTE_CHARS, _MARK_CHARS, _NODE_CHARS = 60, 30, 20
_SPARE_CHARS = _LONG_CHARS = 50_000
_MOST_SHOWN, _MOST_LOOKED_AT = {"image": 20, "file": 5}, 100
_CUT = "…"
_NOTE = re.compile(r"\n\[… [\d,]+ of ([\d,]+) characters left out …\]\n")


def rendered(
    value: Any, max_chars: int, most_values: int = sys.maxsize, clean: Callable[[str], str] | None = None
) -> tuple[str, bool, tuple[Image | File, ...]]:
    """The value as text without secrets of at most `max_chars` characters, whether it was cut, and what it shows.

    Text stays as it is; everything else becomes JSON. Where something is left out, the text says how much. JSON
    stays JSON: a dictionary gets the key `truncated`, anything else becomes `{"truncated": true, "value": …}`.
    NaN and infinities are written as text, bytes as UTF-8 text or base64; where a picture or a PDF stands, it says
    `[image 1: image/png, 12 kB]`, or why that is not shown. The work is bounded by `max_chars` too, and by
    `most_values`: of so many values within the value something is told. `clean` is a `redactor` that is at hand.
    """
    clean = clean or redactor()
    value = worded(value) if isinstance(value, File) else value
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        text, was_cut = _bounded(str(value), max_chars, clean)
        return well_formed(text), was_cut, ()
    whole = _Renderer(clean, most_values, fair=False)
    tree = whole.tree(value, max_chars)
    text = well_formed(tree if isinstance(value, Image | File) else _json(tree))
    if not whole.was_cut and len(text) <= max_chars:
        return text, False, tuple(whole.shown)
    room = max_chars - _MARK_CHARS
    while True:
        fair = _Renderer(clean, most_values, fair=True)
        tree = fair.tree(value, room)
        marked = {**tree, "truncated": True} if isinstance(tree, dict) else {"truncated": True, "value": tree}
        text = well_formed(_json(marked))
        if len(text) <= max_chars:
            return text, True, tuple(fair.shown)
        room = room * max_chars // (len(text) + _MARK_CHARS)


def is_long(value: object) -> bool:
    """Whether the value is so long that to tell it takes milliseconds, as far as a look into plain containers says."""
    chars, met = 0, [value]
    for each in met:
        chars += len(each) if isinstance(each, str | bytes | bytearray) else _NODE_CHARS
        if isinstance(each, dict | list | tuple | set | frozenset):
            met.extend(islice(each.values() if isinstance(each, dict) else each, _LONG_CHARS // _NODE_CHARS))
        if chars > _LONG_CHARS or hasattr(type(each), "__array_interface__"):
            return True
    return False


def cut_text(text: str, max_chars: int, more_chars: int = 0, handle: str = "") -> str:
    """The text, or its head and tail (80 to 20) around a note of how much was left out.

    `more_chars` says how many characters are missing from its middle already. With a `handle`, the note says how to
    read on.
    """
    whole = len(text) + more_chars
    if whole <= max_chars:
        return text
    note = _note(whole - max_chars, whole, handle, max_chars)
    room = max_chars - len(note)
    if room < len(note):
        return text[: max(max_chars - 1, 0)] + _CUT
    tail = room // 5
    note = _note(whole - max_chars, whole, handle, room - tail)
    return f"{text[: room - tail]}{note}{text[len(text) - tail :]}"


def naming_handle(text: str, handle: str) -> str:
    """A cut text whose note says that `read_more` takes this handle; JSON gets one more key, a short text one line."""
    reading = reading_call(handle)
    for note in _NOTE.finditer(text):
        kept = len(text) - len(note[0])
        # The text may quote such notes: ours stands where the cut is.
        if note.start() == kept - kept // 5 and kept > 4 * len(reading):
            missing = int(note[1].replace(",", "")) - kept
            return cut_text(text[: note.start()] + text[note.end() :], len(text), missing, handle)
    if _is_json_object(text):
        return f'{text[:-1]}, "{READ_MORE}": {json.dumps(reading, ensure_ascii=False)}}}'
    return f"{text}\n[{reading} reads the whole]"


def _note(missing: int, whole: int, handle: str, start: int) -> str:
    reading = f"; {reading_call(handle, start)} reads on" if handle else ""
    return f"\n[… {missing:,} of {whole:,} characters left out{reading} …]\n"


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def text_of(value: object) -> str:
    """`str(value)`; when that raises, a text that says so."""
    try:
        return str(value)
    except Exception as error:
        return f"({type(value).__name__}, whose text cannot be had: {type(error).__name__})"


def _bounded(text: str, room: int, clean: Callable[[str], str]) -> tuple[str, bool]:
    """The text in at most `room` characters, and whether it was cut: after its secrets, which a cut would disguise."""
    reach = room + _SPARE_CHARS
    ends = text if len(text) <= 2 * reach else text[:reach] + text[-reach:]
    cleaned, missing = clean(ends), len(text) - len(ends)
    return cut_text(cleaned, room, missing), len(cleaned) + missing > room


class _Renderer:
    """Turns a value into a tree that JSON can write, spending about as much work as there is room for characters.

    `fair` decides who gets the room when it is short: the entries of a record share it, long lists keep head and tail.
    Without it the room is spent in order, which tells whether everything fits.
    """

    def __init__(self, clean: Callable[[str], str], most_values: int, *, fair: bool) -> None:
        self.was_cut = False
        self.shown: list[Image | File] = []
        self._clean = clean
        self._values_left = most_values
        self._fair = fair
        self._open: set[int] = set()

    def tree(self, value: Any, room: int) -> Any:
        """The value as None, bool, int, float, str, list and dict."""
        return self._tree(value, room)[0]

    def _tree(self, value: Any, room: int) -> tuple[Any, int]:
        """The tree, and about how many characters it takes: all that there are when no more values may be told."""
        self._values_left -= 1
        if self._values_left < 0:
            self.was_cut = True
            return _CUT, max(room, 3)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(value, room)
        simple = _simplified(value)
        if isinstance(simple, str):
            return self._text(simple, max(room, 0))
        if _is_scalar(simple):
            return simple, len(str(simple))
        return self._container(value, simple, room)

    def _container(self, value: Any, simple: Any, room: int) -> tuple[Any, int]:
        """A value and what it is as a mapping or sequence."""
        if id(value) in self._open:
            return "(this value contains itself)", 30
        if room <= 2 or len(self._open) >= _DEEPEST:
            self.was_cut = True
            return _CUT, 3
        if isinstance(value, Image | File):
            return self._shown(value, room)
        self._open.add(id(value))
        try:
            return self._dict(simple, room) if isinstance(simple, Mapping) else self._list(simple, room)
        finally:
            self._open.remove(id(value))

    def _shown(self, part: Image | File, room: int) -> tuple[str, int]:
        """What stands for a picture or file, which is shown beside the text unless there is no room for these words."""
        kind, told = type(part).__name__.lower(), str(part)[1:-1]
        number = 1 + sum(type(each) is type(part) for each in self.shown)
        words = f"[{kind} {number}: {told}]"
        if len(words) > room:
            self.was_cut = True
            return _CUT, 3
        is_secret = not part.url.startswith("data:") and self._clean(part.url) != part.url
        too_many = f"it is one of more than {_MOST_SHOWN[kind]}" if number > _MOST_SHOWN[kind] else ""
        fault = "a secret is in its address" if is_secret else too_many
        try:
            self.shown += [] if fault else [part.checked()]
        except ValueError as error:
            fault = str(error)
        return self._text(f"[{told}: not shown, {fault}]" if fault else words, room)

    def _text(self, text: str, room: int) -> tuple[str, int]:
        text, was_cut = _bounded(text, room, self._clean)
        self.was_cut |= was_cut
        return text, len(text) + 2

    def _bytes(self, value: bytes | bytearray | memoryview, room: int) -> tuple[str, int]:
        if len(value) <= room:
            return self._text(_bytes_as_text(bytes(value)), room)
        self.was_cut = True
        kept = max(room - _NOTE_CHARS, 0)
        text = self._clean(_bytes_as_text(bytes(value[: kept + _SPARE_CHARS])))[:kept]
        text = f"{text}… {len(value) - kept:,} of {len(value):,} bytes left out"
        return text, len(text) + 2

    def _list(self, items: Sequence[Any], room: int) -> tuple[list[Any], int]:
        head, tail, used = self._ends(items, reversed(items), len(items), room, self._tree)
        left_out = len(items) - len(head) - len(tail)
        return [*head, *([f"… {left_out:,} of {len(items):,} items left out …"] if left_out else []), *tail], used

    def _dict(self, mapping: Mapping[Any, Any], room: int) -> tuple[dict[str, Any], int]:
        if self._fair and len(mapping) <= _RECORD_KEYS:
            return self._record(mapping, room)
        backwards = reversed(mapping.items()) if isinstance(mapping, dict) else ()
        head, tail, used = self._ends(mapping.items(), backwards, len(mapping), room, self._entry)
        left_out = len(mapping) - len(head) - len(tail)
        note = {_CUT: f"{left_out:,} of {len(mapping):,} entries left out"} if left_out else {}
        return {**dict(head), **note, **dict(tail)}, used

    def _entry(self, entry: tuple[Any, Any], room: int) -> tuple[tuple[str, Any], int]:
        key, _ = self._tree(_key(entry[0]), room)
        value, used = self._tree(entry[1], room - len(key) - 4)
        return (key, value), used + len(key) + 4

    def _record(self, mapping: Mapping[Any, Any], room: int) -> tuple[dict[str, Any], int]:
        """Few entries: the small ones get what they need, the large ones share the rest."""
        entries = list(mapping.items())
        by_size = sorted(range(len(entries)), key=lambda place: _rough_size(entries[place][1]))
        done: dict[int, tuple[str, Any]] = {}
        left = room
        for place in by_size:
            done[place], used = self._entry(entries[place], left // (len(entries) - len(done)))
            left -= used
        return dict(done[place] for place in range(len(entries))), room - left

    def _ends(
        self, entries: Iterable[Any], backwards: Iterable[Any], count: int, room: int, render: _Render
    ) -> tuple[list[Any], list[Any], int]:
        """As many entries from the head as 80 % of the room holds, then from the tail, and the characters used."""
        head, used = _filled(entries, count, 0, room * 4 // 5 if self._fair else room, room, render)
        tail, used = _filled(backwards, count - len(head), used, room, room, render)
        self.was_cut |= len(head) + len(tail) < count
        return head, tail[::-1], used


_Render = Callable[[Any, int], tuple[Any, int]]


def _filled(
    entries: Iterable[Any], most: int, used: int, enough: int, room: int, render: _Render
) -> tuple[list[Any], int]:
    kept: list[Any] = []
    for entry in islice(entries, most):
        if used >= enough:
            break
        rendered_entry, cost = render(entry, room - used)
        kept.append(rendered_entry)
        used += cost + 2
    return kept, used


def _simplified(value: Any) -> Any:
    """The value as None, bool, int, float, str, sequence or mapping; what these contain stays as it is."""
    if value is None or type(value) in (bool, str):
        return value
    for kind, simplify in _SIMPLIFICATIONS:
        if isinstance(value, kind):
            return simplify(value)
    return _object_as_data(value)


def _number(value: Any) -> int | str:
    number = int(value)
    if number.bit_length() > _MOST_BITS:
        return f"(a whole number of {number.bit_length():,} bits)"
    return number


def _real(value: Any) -> float | str:
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _as_list(members: Set[Any]) -> list[Any]:
    if len(members) <= _MOST_SORTED:
        with contextlib.suppress(TypeError):
            return sorted(members)
    return list(members)


def _bytes_as_text(value: bytes) -> str:
    """UTF-8 text, perhaps with its last character cut off; else base64."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(value)
    except UnicodeDecodeError:
        return base64.b64encode(value).decode("ascii")


def _object_as_data(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    kind = type(value)  # which has what an object may only pretend to have
    if hasattr(kind, "isoformat"):
        return str(value.isoformat())
    if hasattr(kind, "model_dump"):
        return _simplified(_dumped(value))
    if hasattr(kind, "__array_interface__") and value.shape:
        return value  # whose own text leaves out what is in its middle
    has_text = any("__str__" in vars(each) or "__repr__" in vars(each) for each in kind.__mro__[:-1])
    return text_of(value) if has_text and kind is not types.SimpleNamespace else _attributes(value) or text_of(value)


def _attributes(value: Any) -> dict[str, Any]:
    """The public attributes of an object, whose text says no more than its address."""
    return {name: inner for name, inner in getattr(value, "__dict__", {}).items() if not name.startswith("_")}


def _dumped(model: Any) -> Any:
    """A pydantic model as data: as it writes itself to JSON, or else as Python values. What it shows stays."""
    kept = {name: value for name, value in getattr(model, "__dict__", {}).items() if _is_shown(value)}
    if "root" in kept:  # which no other model can have
        return kept["root"]
    left_out = {"exclude": set(kept)} if kept else {}
    try:
        data = model.model_dump(mode="json", **left_out)
    except ValueError:
        data = model.model_dump(**left_out)
    return {**data, **kept} if kept else data


def _is_shown(value: Any, levels: int = 8) -> bool:
    """Whether there is a picture or file in the value, as far as a look into it says."""
    if isinstance(value, str | int | float | Image | File | None) or not levels:
        return isinstance(value, Image | File)
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple | set):
        inner = getattr(value, "__dict__", {}).values()
    return any(_is_shown(each, levels - 1) for each in islice(inner, _MOST_LOOKED_AT))


def _key(key: Any) -> str:
    simple = _simplified(key)
    return simple if isinstance(simple, str) else json.dumps(simple) if _is_scalar(simple) else text_of(key)


def _has_names(row: tuple[Any, ...]) -> bool:
    return 0 < len(getattr(row, "__match_args__", ())) == len(row)


def _is_scalar(simple: Any) -> bool:
    return simple is None or isinstance(simple, bool | int | float)


def _rough_size(value: Any) -> int:
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    return 20 * len(value) if isinstance(value, Mapping | list | tuple | Set) else 10


def _json(tree: Any) -> str:
    return json.dumps(tree, ensure_ascii=False, allow_nan=False)


_SIMPLIFICATIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (enum.Enum, lambda member: _simplified(member.value)),
    (str | UserString, str),
    (numbers.Integral, _number),
    (numbers.Real, _real),
    (Mapping, lambda mapping: mapping),
    (tuple, lambda row: dict(zip(row.__match_args__, row, strict=True)) if _has_names(row) else row),
    (bytes | bytearray | memoryview, lambda value: _bytes_as_text(bytes(value))),
    (Sequence, lambda items: items),
    (Set, _as_list),
    (BaseException, lambda error: f"{type(error).__name__}: {text_of(error)}"),
    *((ValuesView, list), (File, worded)),
)


_STATUSES: dict[object, Status] = {word: word for word in get_args(Status)}
_GOOD: frozenset[Status | None] = frozenset({"ok", "empty", "truncated"})
_OF_A_RUN = frozenset({"waiting", "interrupted"})
"""What only a run can say of a call."""

BAD_ARGUMENTS, UNKNOWN_TOOL = "bad-arguments", "unknown-tool"
"""The rules of decisions on calls that could not be understood."""

_NOT_UNDERSTOOD = {BAD_ARGUMENTS, UNKNOWN_TOOL}
_MOST_NAME_CHARS = 64
_MOST_ERROR_CHARS = 2_000
_MOST_WHOLE_CHARS, _MOST_WHOLE_VALUES = 1_000_000, 40_000
_STATUS_OF: tuple[tuple[type[BaseException], Status], ...] = (
    (ToolTimeout, "timed_out"),
    (Blocked, "denied"),
    (Postponed, "waiting"),
)


def returned(
    tool_name: str,
    value: Any,
    max_chars: int,
    decision: Decision | None = None,
    seconds: float = 0.0,
    labels: frozenset[Label] = frozenset(),
) -> ToolResult:
    """What a function returned after `seconds`, without secrets, told in at most `max_chars` characters.

    Pictures and files are shown beside the text, whatever its length. A dictionary speaks for itself: by its
    `error`, with a status word as its `status`, or by the status of something empty or truncated. When something was
    left out, `whole` is the text in at most 1,000,000 characters, of at most 40,000 values, without secrets too.
    """
    clean = redactor()
    value = redact_value(value, clean)
    status, error = _standing(value)
    if type(value) is str:
        content, was_cut, shown = rendered(value, max_chars, clean=str)
    else:
        content, was_cut, shown = rendered(value, max_chars, clean=clean)
        content = clean(content)
    status = "truncated" if was_cut and status == "ok" else status
    whole = _whole(value, clean) if was_cut and max_chars < _MOST_WHOLE_CHARS else None
    told = _without_secrets(decision, clean)
    result = ToolResult(tool_name, status, content, value, error, told, seconds, labels, whole)
    return replace(result, images=images_in(shown), files=files_in(shown)) if shown else result


def with_handle(result: ToolResult, handle: str) -> ToolResult:
    """The result, when it was cut, with a note that tells the model how to read the rest: `read_more(handle=…)`.

    Text stays as long as it was; JSON grows by the length of the note.
    """
    if result.whole is None:
        return result
    return replace(result, content=naming_handle(result.content, handle))


def failure(tool_name: str, error: str, status: Status, decision: Decision | None = None) -> ToolResult:
    """A call that came to nothing, told as the JSON text `{"error": …, "tool": …}`."""
    error = well_formed(cut_text(redact(error), _MOST_ERROR_CHARS))
    content = failure_content(well_formed(tool_name[:_MOST_NAME_CHARS]), error)
    return ToolResult(tool_name, status, content, error=error, decision=_without_secrets(decision))


def fault(
    tool_name: str,
    error: Exception,
    decision: Decision | None = None,
    seconds: float = 0.0,
    labels: frozenset[Label] = frozenset(),
) -> ToolResult:
    """A call that raised: `TypeName: message`, or only the message when it was raised to be told to a model."""
    status: Status = next((status for kind, status in _STATUS_OF if isinstance(error, kind)), "failed")
    return replace(failure(tool_name, told(error), status, decision), seconds=seconds, labels=labels)


def denial(tool_name: str, decision: Decision) -> ToolResult:
    """A call that was judged and may not happen: the reason, and what would be allowed.

    A call that could not be understood has failed, rather than been denied.
    """
    status: Status = "failed" if decision.rule in _NOT_UNDERSTOOD else "denied"
    return failure(tool_name, objection(decision), status, decision)


def objection(decision: Decision) -> str:
    """Reason and remedy of a decision as one text."""
    return f"{decision.reason} {decision.remedy}".strip()


def told(error: Exception) -> str:
    """An exception in words, without traceback."""
    message = text_of(error)
    if isinstance(error, ToolError) and message:
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _whole(value: Any, clean: Callable[[str], str]) -> str:
    """The text of a value that is too long for a model, as far as it is kept. A text is without secrets already."""
    if type(value) is str:
        return well_formed(cut_text(value, _MOST_WHOLE_CHARS))
    return clean(rendered(value, _MOST_WHOLE_CHARS, _MOST_WHOLE_VALUES, clean)[0])


def _without_secrets(decision: Decision | None, clean: Callable[[str], str] | None = None) -> Decision | None:
    """The decision as it may be shown: its evidence quotes what a model wrote."""
    if decision is None:
        return None
    clean = clean or redactor()
    texts = decision.reason, decision.evidence, decision.remedy
    reason, evidence, remedy = shown = clean(texts[0]), clean(texts[1]), clean(texts[2])
    return decision if shown == texts else replace(decision, reason=reason, evidence=evidence, remedy=remedy)


def _standing(value: Any) -> tuple[Status, str | None]:
    """The status and error that a dictionary tells of its call; a status without an error may be that of an order."""
    if not isinstance(value, dict):
        return "ok", None
    error = well_formed(cut_text(redact(text_of(value["error"])), _MOST_ERROR_CHARS)) if value.get("error") else None
    word = value.get("status")
    told = _STATUSES.get(word) if isinstance(word, str) and word not in _OF_A_RUN else None
    if error is None and told not in _GOOD:
        return "ok", None
    return told or "failed", error
