"""File states before and after a change, and their diffs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from agentkit._dataclass import dataclass
from agentkit.errors import ToolError
from agentkit.workspace.text import decode, redact_text

Kind = Literal["absent", "file", "link", "folder", "other"]

MAX_DIFF_CHARS = 200_000
_MAX_TEXT_BYTES = 1_000_000
_MAX_LINES = 2_000
_CONTEXT = 3
_NO_NEWLINE = "\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class State:
    """The state of a path: absent, a file, a link (its target is the content), a folder, or something else.

    `content` is None if it was not stored; `mode` has the permission bits; `fingerprint` is a hash of the content, or
    another value that changes with it; `links` is the number of hard links.
    """

    kind: Kind = "absent"
    content: bytes | None = None
    mode: int = 0
    fingerprint: str = ""
    size: int = 0
    links: int = 1

    @classmethod
    def of(cls, kind: Kind, content: bytes, mode: int = 0, links: int = 1) -> State:
        """Create the state for this content, with its hash."""
        import hashlib

        return cls(kind, content, mode, hashlib.blake2b(content, digest_size=32).hexdigest(), len(content), links)

    def is_like(self, other: State) -> bool:
        """Whether kind and content are equal, regardless of permissions."""
        return (self.kind, self.fingerprint, self.size) == (other.kind, other.fingerprint, other.size)

    @property
    def was_read(self) -> bool:
        """Whether the fingerprint is a hash of the content, not a substitute for a file too large to read."""
        return " " not in self.fingerprint

    def to_dict(self) -> dict[str, str | int]:
        """Return everything except the content as JSON data."""
        return {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], content: bytes | None) -> State:
        """Restore a state from `to_dict` and its content. Raises ToolError for invalid values."""
        is_valid = set(values) == set(_FIELDS) and all(type(values[name]) is kind for name, kind in _FIELDS.items())
        if not is_valid or values["kind"] not in get_args(Kind):
            raise ToolError("The journal contains an invalid file state.")
        return cls(content=content, **values)


_FIELDS = {"kind": str, "mode": int, "fingerprint": str, "size": int, "links": int}

ABSENT = State()
FOLDER = State("folder", mode=0o755)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a path: `path` is relative to `root`; `tool` made it at `time` (seconds since 1970)."""

    root: str
    path: str
    before: State
    after: State
    tool: str = ""
    time: float = 0.0


def merge_changes(changes: Iterable[FileChange]) -> list[FileChange]:
    """Merge the changes of each path, from its first state to its last, in the order of their first change."""
    merged: dict[tuple[str, str], FileChange] = {}
    for change in changes:
        earlier = merged.get((change.root, change.path))
        merged[change.root, change.path] = replace(change, before=earlier.before) if earlier else change
    return list(merged.values())


def unified_diff(changes: Iterable[FileChange], max_chars: int = MAX_DIFF_CHARS) -> str:
    """Render the changes as one unified diff of at most `max_chars` characters, with a note of what is omitted."""
    parts: list[str] = []
    chars_left, omitted = max_chars, 0
    for change in changes:
        part = _diff(change)
        if len(part) > chars_left - 80:
            omitted += 1
            continue
        parts.append(part)
        chars_left -= len(part)
    if omitted:
        parts.append(f"The differences of {omitted:,} more files are too long to show.\n")
    return "".join(parts)


def _diff(change: FileChange) -> str:
    before, after = change.before, change.after
    if before.is_like(after):
        return _mode_change(change)
    if "folder" in (before.kind, after.kind) and {before.kind, after.kind} <= {"folder", "absent"}:
        return ""
    head = _headers(change)
    if "link" in (before.kind, after.kind) or "other" in (before.kind, after.kind):
        return f"{head[0]}{_describe(before)} became {_describe(after)}.\n"
    try:
        old, new = _text(before, change.path), _text(after, change.path)
    except ToolError:
        return f"{head[0]}Binary files differ: {_describe(before)} became {_describe(after)}.\n"
    if old is None or new is None:
        return f"{head[0]}Too large to show: {_describe(before)} became {_describe(after)}.\n"
    return "".join([*head, *_hunks(old, new)])


def _mode_change(change: FileChange) -> str:
    old, new = change.before.mode, change.after.mode
    if change.before.kind != "file" or old == new:
        return ""
    return f"{_headers(change)[0]}old mode 100{old:o}\nnew mode 100{new:o}\n"


def _headers(change: FileChange) -> list[str]:
    old, new = (_quote(f"{side}/{change.path}") for side in "ab")
    head = f"diff --git {old} {new}\n"
    if change.before.kind == "absent":
        head += f"new file mode 100{change.after.mode or 0o644:o}\n"
        old = "/dev/null"
    if change.after.kind == "absent":
        head += f"deleted file mode 100{change.before.mode or 0o644:o}\n"
        new = "/dev/null"
    tab = "\t" if " " in change.path else ""  # ends a name that contains blanks
    return [head, f"--- {old}{tab}\n", f"+++ {new}{tab}\n"]


def _quote(name: str) -> str:
    return name if name.isprintable() and not set('"\\') & set(name) else json.dumps(name)


def _describe(state: State) -> str:
    if state.kind == "file":
        return f"a file of {state.size:,} bytes"
    if state.kind == "link":
        return f"a link to {(state.content or b'?').decode('utf-8', 'replace')!r}"
    return {"absent": "nothing", "folder": "a folder"}.get(state.kind, "a special file")


def _text(state: State, name: str) -> str | None:
    """Return the redacted text; None if it is not stored or too long. Raises ToolError if it is binary."""
    if state.kind != "file":
        return ""
    if state.content is None or len(state.content) > _MAX_TEXT_BYTES:
        return None
    return redact_text(decode(state.content, name).text)


def _hunks(old: str, new: str) -> Iterator[str]:
    """Yield the hunks. Common lines at both ends are removed first, so that the work grows with the change."""
    before, after = _lines(old), _lines(new)
    head = max(_common_lines(before, after) - _CONTEXT, 0)
    before, after = before[head:], after[head:]
    tail = max(_common_lines(before[::-1], after[::-1]) - _CONTEXT, 0)
    context = before[len(before) - tail :][:_CONTEXT]
    before, after = before[: len(before) - tail], after[: len(after) - tail]
    groups: list[list[tuple[str, int, int, int, int]]] = [[("replace", 0, len(before), 0, len(after))]]
    if max(len(before), len(after)) <= _MAX_LINES:
        import difflib

        groups = [*map(list, difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT))]
    if groups and groups[-1][-1][0] != "equal":  # a hunk that ends with a change would mark the end of the file
        old_last, new_last = len(before), len(after)
        groups[-1].append(("equal", old_last, old_last + len(context), new_last, new_last + len(context)))
        before += context
    for group in groups:
        (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
        yield f"@@ -{_range(old_start + head, old_end + head)} +{_range(new_start + head, new_end + head)} @@\n"
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from _prefix_lines(" ", before[old_from:old_to])
                continue
            yield from _prefix_lines("-", before[old_from:old_to])
            yield from _prefix_lines("+", after[new_from:new_to])


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]


def _common_lines(before: list[str], after: list[str]) -> int:
    """Return the number of common lines at the beginning."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((index for index, (old, new) in pairs if old != new), min(len(before), len(after)))


def _prefix_lines(mark: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{_NO_NEWLINE}"


def _range(start: int, end: int) -> str:
    length = end - start
    beginning = start + bool(length)
    return str(beginning) if length == 1 else f"{beginning},{length}"
