"""Rendering of Python values as bounded text or JSON for models."""

from __future__ import annotations

import base64
import codecs
import contextlib
import dataclasses
import enum
import io
import json
import math
import numbers
import re
import sys
import types
from collections import UserString
from collections.abc import Callable, Iterable, Mapping, Sequence, Set, ValuesView
from dataclasses import field, replace
from itertools import islice
from typing import Any, get_args

from agentkit._dataclass import dataclass
from agentkit.content import File, Image, files_in, images_in, load_part
from agentkit.decisions import Decision, Label
from agentkit.errors import Blocked, Postponed, ToolError, ToolTimeout
from agentkit.messages import READ_MORE, Status, ToolResult, failure_content, read_more_call, well_formed
from agentkit.redaction import redact, redact_value, redactor
from agentkit.safety.approval import CANNOT_SUCCEED
from agentkit.text_encoding import as_sentence

_MAX_DEPTH, _RECORD_KEYS = 60, 32
_MAX_SORTED, _MAX_BITS = 10_000, 14_000
_NOTE_CHARS, _MARK_CHARS, _NODE_CHARS = 60, 30, 20
_SPARE_CHARS = _LONG_CHARS = 50_000
_MAX_ATTACHED, _MAX_INSPECTED = {"image": 20, "file": 5}, 100
_CUT = "…"
_NOTE = re.compile(r"\n\[… [\d,]+ of ([\d,]+) characters left out …\]\n")


def render(
    value: Any, max_chars: int, max_values: int = sys.maxsize, clean: Callable[[str], str] | None = None
) -> tuple[str, bool, tuple[Image | File, ...]]:
    """Render a value as text without secrets; return the text, whether it was cut, and the images and files shown.

    The text has at most `max_chars` characters. Text stays as it is; everything else becomes JSON, and a cut states how
    much is left out. Cut JSON remains valid: a dictionary gets the key `truncated`, anything else becomes
    `{"truncated": true, "value": …}`. NaN and infinities are rendered as text, bytes as UTF-8 text or base64; an image
    or PDF becomes `[image 1: image/png, 12 kB]`, or the reason why it is not shown. The work is bounded by `max_chars`
    and by `max_values`, the number of nested values rendered. `clean` is a `redactor` to reuse.
    """
    clean = clean or redactor()
    value = load_part(value) if isinstance(value, File) else value
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        text, was_cut = _redact_and_cut(str(value), max_chars, clean)
        return well_formed(text), was_cut, ()
    renderer = _Renderer(clean, max_values)
    tree = renderer.tree(value, max_chars)[0]
    text = well_formed(
        tree if isinstance(tree, str) and (isinstance(value, Image | File) or _is_pillow(value)) else _json(tree)
    )
    if not renderer.was_cut and len(text) <= max_chars:
        return text, False, tuple(renderer.attachments)
    chars_left = max_chars - _MARK_CHARS
    while True:
        fair_renderer = _Renderer(clean, max_values, is_fair=True)
        tree = fair_renderer.tree(value, chars_left)[0]
        with_mark = {**tree, "truncated": True} if isinstance(tree, dict) else {"truncated": True, "value": tree}
        text = well_formed(_json(with_mark))
        if len(text) <= max_chars:
            return text, True, tuple(fair_renderer.attachments)
        chars_left = chars_left * max_chars // (len(text) + _MARK_CHARS)


def is_long(value: object) -> bool:
    """Whether rendering the value takes milliseconds, estimated from a look into plain containers."""
    chars, values = 0, [value]
    for each in values:
        chars += len(each) if isinstance(each, str | bytes | bytearray) else _NODE_CHARS
        if isinstance(each, dict | list | tuple | set | frozenset):
            values.extend(islice(each.values() if isinstance(each, dict) else each, _LONG_CHARS // _NODE_CHARS))
        if chars > _LONG_CHARS or hasattr(type(each), "__array_interface__"):
            return True
    return False


def cut_text(text: str, max_chars: int, more_chars: int = 0, handle: str = "") -> str:
    """Cut a text to its head and tail (80 to 20) around a note of how much was left out.

    `more_chars` is the number of characters already missing from its middle. With a `handle`, the note explains how to
    read on.
    """
    total = len(text) + more_chars
    if total <= max_chars:
        return text
    note = _cut_note(total - max_chars, total, handle, max_chars)
    chars_left = max_chars - len(note)
    if chars_left < len(note):
        return text[: max(max_chars - 1, 0)] + _CUT
    tail = chars_left // 5
    note = _cut_note(total - max_chars, total, handle, chars_left - tail)
    return f"{text[: chars_left - tail]}{note}{text[len(text) - tail :]}"


def with_read_more(text: str, handle: str) -> str:
    """Add the `read_more` call for this handle to a cut text: in its note, as a JSON key, or on a line after it."""
    read_call = read_more_call(handle)
    for note in _NOTE.finditer(text):
        length = len(text) - len(note[0])
        # The text can quote such notes: this one is at the cut.
        if note.start() == length - length // 5 and length > 4 * len(read_call):
            missing = int(note[1].replace(",", "")) - length
            return cut_text(text[: note.start()] + text[note.end() :], len(text), missing, handle)
    if _is_json_object(text):
        return f'{text[:-1]}, "{READ_MORE}": {json.dumps(read_call, ensure_ascii=False)}}}'
    return f"{text}\n[{read_call} reads the whole]"


def _cut_note(missing: int, whole: int, handle: str, start: int) -> str:
    read_call = f"; {read_more_call(handle, start)} reads on" if handle else ""
    return f"\n[… {missing:,} of {whole:,} characters left out{read_call} …]\n"


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def text_of(value: object) -> str:
    """Return `str(value)`, or a placeholder if that raises."""
    try:
        return str(value)
    except Exception as error:
        return f"({type(value).__name__}: its text representation failed with {type(error).__name__})"


def _redact_and_cut(text: str, budget: int, clean: Callable[[str], str]) -> tuple[str, bool]:
    """Redact and cut a text, in this order: a cut could disguise a secret. Return whether it was cut."""
    kept_chars = budget + _SPARE_CHARS
    ends = text if len(text) <= 2 * kept_chars else text[:kept_chars] + text[-kept_chars:]
    cleaned, missing = clean(ends), len(text) - len(ends)
    return cut_text(cleaned, budget, missing), len(cleaned) + missing > budget


@dataclass(slots=True, eq=False, repr=False)
class _Renderer:
    """Converts a value to a tree of JSON types, with work proportional to the budget of characters.

    With `is_fair`, entries of a record share a scarce budget, and long lists keep head and tail. Without it, the budget
    is spent in order, which shows whether everything fits.
    """

    clean: Callable[[str], str]
    values_left: int
    is_fair: bool = False
    was_cut: bool = False
    attachments: list[Image | File] = field(default_factory=list)
    open_ids: set[int] = field(default_factory=set)

    def tree(self, value: Any, budget: int) -> tuple[Any, int]:
        """The value as None, bool, int, float, str, list or dict, and its approximate length.

        The length is the whole budget once `max_values` is exceeded.
        """
        self.values_left -= 1
        if self.values_left < 0:
            self.was_cut = True
            return _CUT, max(budget, 3)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(value, budget)
        value = _from_library(value) if hasattr(type(value), "__array_interface__") else value
        simple = _simplify(value)
        if isinstance(simple, str):
            return self._text(simple, max(budget, 0))
        if simple is None or isinstance(simple, int | float):
            return simple, len(str(simple))
        return self._container(value, simple, budget)

    def _container(self, value: Any, simple: Any, budget: int) -> tuple[Any, int]:
        """Convert a container, given as itself and simplified to a mapping or sequence."""
        if id(value) in self.open_ids:
            return "(this value contains itself)", 30
        if budget <= 2 or len(self.open_ids) >= _MAX_DEPTH:
            self.was_cut = True
            return _CUT, 3
        if isinstance(value, Image | File):
            return self._placeholder(value, budget)
        self.open_ids.add(id(value))
        try:
            return self._dict(simple, budget) if isinstance(simple, Mapping) else self._list(simple, budget)
        finally:
            self.open_ids.remove(id(value))

    def _placeholder(self, part: Image | File, budget: int) -> tuple[str, int]:
        """Return the placeholder of an image or file; the part itself is attached if the placeholder fits."""
        kind, label = type(part).__name__.lower(), str(part)[1:-1]
        number = 1 + sum(type(each) is type(part) for each in self.attachments)
        placeholder = f"[{kind} {number}: {label}]"
        if len(placeholder) > budget:
            self.was_cut = True
            return _CUT, 3
        is_secret = not part.url.startswith("data:") and self.clean(part.url) != part.url
        too_many = f"more than {_MAX_ATTACHED[kind]} were returned" if number > _MAX_ATTACHED[kind] else ""
        problem = "its URL contains a secret" if is_secret else too_many
        try:
            self.attachments += [] if problem else [part.validated()]
        except ValueError as error:
            problem = str(error)
        return self._text(f"[{label}: not shown, {problem}]" if problem else placeholder, budget)

    def _text(self, text: str, budget: int) -> tuple[str, int]:
        text, was_cut = _redact_and_cut(text, budget, self.clean)
        self.was_cut |= was_cut
        return text, len(text) + 2

    def _bytes(self, value: bytes | bytearray | memoryview, budget: int) -> tuple[str, int]:
        if len(value) <= budget:
            return self._text(_bytes_as_text(bytes(value)), budget)
        self.was_cut = True
        kept_bytes = max(budget - _NOTE_CHARS, 0)
        text = self.clean(_bytes_as_text(bytes(value[: kept_bytes + _SPARE_CHARS])))[:kept_bytes]
        text = f"{text}… {len(value) - kept_bytes:,} of {len(value):,} bytes left out"
        return text, len(text) + 2

    def _list(self, items: Sequence[Any], budget: int) -> tuple[list[Any], int]:
        head, tail, used = self._render_ends(items, reversed(items), len(items), budget, self.tree)
        left_out = len(items) - len(head) - len(tail)
        return [*head, *([f"… {left_out:,} of {len(items):,} items left out …"] if left_out else []), *tail], used

    def _dict(self, mapping: Mapping[Any, Any], budget: int) -> tuple[dict[str, Any], int]:
        if self.is_fair and len(mapping) <= _RECORD_KEYS:
            return self._render_record(mapping, budget)
        backwards = reversed(mapping.items()) if isinstance(mapping, dict) else ()
        head, tail, used = self._render_ends(mapping.items(), backwards, len(mapping), budget, self._render_entry)
        left_out = len(mapping) - len(head) - len(tail)
        note = {_CUT: f"{left_out:,} of {len(mapping):,} entries left out"} if left_out else {}
        return {**dict(head), **note, **dict(tail)}, used

    def _render_entry(self, entry: tuple[Any, Any], budget: int) -> tuple[tuple[str, Any], int]:
        key, _ = self.tree(_key_text(entry[0]), budget)
        value, used = self.tree(entry[1], budget - len(key) - 4)
        return (key, value), used + len(key) + 4

    def _render_record(self, mapping: Mapping[Any, Any], budget: int) -> tuple[dict[str, Any], int]:
        """Render a small mapping: small entries get what they need, large ones share the rest of the budget."""
        entries = list(mapping.items())
        by_size = sorted(range(len(entries)), key=lambda place: _rough_size(entries[place][1]))
        rendered: dict[int, tuple[str, Any]] = {}
        chars_left = budget
        for place in by_size:
            rendered[place], used = self._render_entry(entries[place], chars_left // (len(entries) - len(rendered)))
            chars_left -= used
        return dict(rendered[place] for place in range(len(entries))), budget - chars_left

    def _render_ends(
        self, entries: Iterable[Any], backwards: Iterable[Any], count: int, budget: int, render: _Render
    ) -> tuple[list[Any], list[Any], int]:
        """Render entries from the head into 80 % of the budget, then from the tail; return both and the length used."""
        head, used = _render_until_full(entries, count, 0, budget * 4 // 5 if self.is_fair else budget, budget, render)
        tail, used = _render_until_full(backwards, count - len(head), used, budget, budget, render)
        self.was_cut |= len(head) + len(tail) < count
        return head, tail[::-1], used


_Render = Callable[[Any, int], tuple[Any, int]]


def _render_until_full(
    entries: Iterable[Any], limit: int, used: int, target: int, budget: int, render: _Render
) -> tuple[list[Any], int]:
    rendered: list[Any] = []
    for entry in islice(entries, limit):
        if used >= target:
            break
        rendered_entry, cost = render(entry, budget - used)
        rendered.append(rendered_entry)
        used += cost + 2
    return rendered, used


def _simplify(value: Any) -> Any:
    """Simplify the value to None, bool, int, float, str, sequence or mapping; nested values stay as they are."""
    if value is None or type(value) in (bool, str) or (type(value) is int and value.bit_length() <= _MAX_BITS):
        return value
    for kind, simplify in _SIMPLIFICATIONS:
        if isinstance(value, kind):
            return simplify(value)
    return _object_as_data(value)


def _number(value: Any) -> int | str:
    number = int(value)
    if number.bit_length() > _MAX_BITS:
        return f"(a whole number of {number.bit_length():,} bits)"
    return number


def _real(value: Any) -> float | str:
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _as_list(members: Set[Any]) -> list[Any]:
    if len(members) <= _MAX_SORTED:
        with contextlib.suppress(TypeError):
            return sorted(members)
    return list(members)


def _bytes_as_text(value: bytes) -> str:
    """Decode UTF-8, ignoring an incomplete last character, or encode as base64."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(value)
    except UnicodeDecodeError:
        return base64.b64encode(value).decode("ascii")


def _object_as_data(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    kind = type(value)  # the class, because instances can fake attributes
    if hasattr(kind, "isoformat"):
        return str(value.isoformat())
    if hasattr(kind, "model_dump"):
        return _simplify(_dump_model(value))
    if hasattr(kind, "__array_interface__") and getattr(value, "shape", None):
        return value  # its own text leaves out the middle
    has_text = any("__str__" in vars(base) or "__repr__" in vars(base) for base in kind.__mro__[:-1])
    return text_of(value) if has_text and kind is not types.SimpleNamespace else _attributes(value) or text_of(value)


def _from_library(value: Any) -> Any:
    """An array scalar as a Python value, and a Pillow image as an Image; anything else is returned as it is."""
    if _is_pillow(value):
        # A Pillow image as PNG, or a text if it cannot be encoded
        buffer = io.BytesIO()
        try:
            picture = value if value.mode in _PNG_MODES else value.convert("RGB")
            picture.save(buffer, "PNG")
            return Image.read(buffer.getvalue())
        except (OSError, ValueError) as error:
            return f"(an image of {value.size} pixels, not shown: {text_of(error)})"
    return value.item() if hasattr(value, "item") and not getattr(value, "shape", (1,)) else value


def _is_pillow(value: Any) -> bool:
    return any(each.__module__ == "PIL.Image" for each in type(value).__mro__)


_PNG_MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"})
"""Pillow's image modes that PNG can store."""


def _attributes(value: Any) -> dict[str, Any]:
    """Return the public attributes of an object whose text is only its address."""
    return {name: inner for name, inner in getattr(value, "__dict__", {}).items() if not name.startswith("_")}


def _dump_model(model: Any) -> Any:
    """Dump a pydantic model to JSON data, or else to Python values; images and files stay as they are."""
    attachments = {name: value for name, value in getattr(model, "__dict__", {}).items() if _contains_attachment(value)}
    if "root" in attachments:  # only a root model can have this field
        return attachments["root"]
    excluded = {"exclude": set(attachments)} if attachments else {}
    try:
        data = model.model_dump(mode="json", **excluded)
    except ValueError:
        data = model.model_dump(**excluded)
    return {**data, **attachments} if attachments else data


def _contains_attachment(value: Any, levels: int = 8) -> bool:
    """Whether the value contains an image or file, within the first entries and levels."""
    if isinstance(value, str | int | float | Image | File | None) or not levels:
        return isinstance(value, Image | File)
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple | set):
        inner = getattr(value, "__dict__", {}).values()
    return any(_contains_attachment(each, levels - 1) for each in islice(inner, _MAX_INSPECTED))


def _key_text(key: Any) -> str:
    simple = _simplify(key)
    return (
        simple
        if isinstance(simple, str)
        else json.dumps(simple)
        if isinstance(simple, int | float | None)
        else text_of(key)
    )


def _rough_size(value: Any) -> int:
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    return 20 * len(value) if isinstance(value, Mapping | list | tuple | Set) else 10


_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


_SIMPLIFICATIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (enum.Enum, lambda member: _simplify(member.value)),
    (str | UserString, str),
    (numbers.Integral, _number),
    (numbers.Real, _real),
    (Mapping, lambda mapping: mapping),
    (
        tuple,
        lambda row: (
            dict(zip(row.__match_args__, row, strict=True))
            if (0 < len(getattr(row, "__match_args__", ())) == len(row))
            else row
        ),
    ),
    (bytes | bytearray | memoryview, lambda value: _bytes_as_text(bytes(value))),
    (Sequence, lambda items: items),
    (Set, _as_list),
    (BaseException, lambda error: f"{type(error).__name__}: {text_of(error)}"),
    *((ValuesView, list), (File, load_part)),
)


_STATUSES: dict[object, Status] = {word: word for word in get_args(Status)}
_SUCCESS_STATUSES: frozenset[Status | None] = frozenset({"ok", "empty", "truncated"})
_RUN_STATUSES = frozenset({"waiting", "interrupted"})
"""Statuses that only a run can set."""

BAD_ARGUMENTS, UNKNOWN_TOOL = "bad-arguments", "unknown-tool"
"""The rules of decisions on calls that could not be parsed."""

_FAILED_RULES = {BAD_ARGUMENTS, UNKNOWN_TOOL, CANNOT_SUCCEED}
_MAX_NAME_CHARS = 64
_MAX_ERROR_CHARS = 2_000
_MAX_WHOLE_CHARS, _MAX_WHOLE_VALUES = 1_000_000, 40_000
_ERROR_STATUSES: tuple[tuple[type[BaseException], Status], ...] = (
    (ToolTimeout, "timed_out"),
    (Blocked, "denied"),
    (Postponed, "waiting"),
)


def success(
    tool_name: str,
    value: Any,
    max_chars: int,
    decision: Decision | None = None,
    seconds: float = 0.0,
    labels: frozenset[Label] = frozenset(),
) -> ToolResult:
    """Build the result of a function that returned after `seconds`: redacted, at most `max_chars` characters.

    Images and files are attached regardless of length. A dictionary determines the status: by its `error`, with a
    status word as its `status`, or by the status "empty" or "truncated". If the text was cut, `whole` is the redacted
    text of up to 1,000,000 characters and 40,000 values.
    """
    clean = redactor()
    value = redact_value(value, clean)
    status, error = _stated_status(value) if isinstance(value, dict) else ("ok", None)
    if type(value) is str:
        content, was_cut, attachments = render(value, max_chars, clean=str)
    else:
        content, was_cut, attachments = render(value, max_chars, clean=clean)
        content = clean(content)
    status = "truncated" if was_cut and status == "ok" else status
    whole = _render_whole(value, clean) if was_cut and max_chars < _MAX_WHOLE_CHARS else None
    public_decision = _without_secrets(decision, clean)
    result = ToolResult(tool_name, status, content, value, error, public_decision, seconds, labels, whole)
    return replace(result, images=images_in(attachments), files=files_in(attachments)) if attachments else result


def with_handle(result: ToolResult, handle: str) -> ToolResult:
    """Add a note to a cut result that explains how to read the rest: `read_more(handle=…)`.

    Text keeps its length; JSON grows by the length of the note.
    """
    if result.full_content is None:
        return result
    return replace(result, content=with_read_more(result.content, handle))


def failure(tool_name: str, error: str, status: Status, decision: Decision | None = None) -> ToolResult:
    """Build the result of a failed call, with the JSON text `{"error": …, "tool": …}`."""
    error = well_formed(cut_text(redact(error), _MAX_ERROR_CHARS))
    content = failure_content(well_formed(tool_name[:_MAX_NAME_CHARS]), error)
    return ToolResult(tool_name, status, content, error=error, decision=_without_secrets(decision))


def exception_result(
    tool_name: str,
    error: Exception,
    decision: Decision | None = None,
    seconds: float = 0.0,
    labels: frozenset[Label] = frozenset(),
) -> ToolResult:
    """Build the result of a call that raised: `TypeName: message`, or only the message of a ToolError."""
    status: Status = next((status for kind, status in _ERROR_STATUSES if isinstance(error, kind)), "failed")
    return replace(failure(tool_name, error_message(error), status, decision), seconds=seconds, labels=labels)


def denial(tool_name: str, decision: Decision) -> ToolResult:
    """Build the result of a denied call: the reason, and what would be allowed.

    A call that could not be parsed, or could not succeed, counts as failed, not as denied.
    """
    status: Status = "failed" if decision.rule in _FAILED_RULES else "denied"
    return failure(tool_name, denial_text(decision), status, decision)


def denial_text(decision: Decision) -> str:
    """Join reason and remedy of a decision."""
    return f"{as_sentence(decision.reason)} {decision.remedy}".strip() if decision.remedy else decision.reason


def error_message(error: Exception) -> str:
    """Describe an exception without traceback."""
    message = text_of(error)
    if isinstance(error, ToolError) and message:
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _render_whole(value: Any, clean: Callable[[str], str]) -> str:
    """Render a value that is too long for the model, up to the storage limit. A str is already redacted."""
    if type(value) is str:
        return well_formed(cut_text(value, _MAX_WHOLE_CHARS))
    return clean(render(value, _MAX_WHOLE_CHARS, _MAX_WHOLE_VALUES, clean)[0])


def _without_secrets(decision: Decision | None, clean: Callable[[str], str] | None = None) -> Decision | None:
    """Redact a decision: its evidence quotes model output."""
    if decision is None:
        return None
    clean = clean or redactor()
    texts = decision.reason, decision.evidence, decision.remedy
    reason, evidence, remedy = redacted = clean(texts[0]), clean(texts[1]), clean(texts[2])
    return decision if redacted == texts else replace(decision, reason=reason, evidence=evidence, remedy=remedy)


def _stated_status(value: Mapping[str, Any]) -> tuple[Status, str | None]:
    """Return the status and error that a dictionary states; a status without an error can be that of an order."""
    error = well_formed(cut_text(redact(text_of(value["error"])), _MAX_ERROR_CHARS)) if value.get("error") else None
    stated = value.get("status")
    status = _STATUSES.get(stated) if isinstance(stated, str) and stated not in _RUN_STATUSES else None
    if error is None and _has_exit_code(value):
        return "failed", None
    if error is None and status not in _SUCCESS_STATUSES:
        return "ok", None
    return status or "failed", error


def _has_exit_code(value: Mapping[str, Any]) -> bool:
    """Whether this is the result of a command with a non-zero exit code, such as a failed test run."""
    code = value.get("return_code")
    return "command" in value and isinstance(code, int) and code != 0
