"""File tools: read, write, edit, list and search, each call judged.

Paths outside the workspace are denied rather than put up for approval: an approval could not make them reachable,
another workspace can. Inside the workspace, secrets are denied; files that programs execute or obey later need approval
if named directly, and are denied if reached through a link.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision, SafetyLevel, Verdict
from agentkit.documents import text_of
from agentkit.errors import Blocked, MissingExtra, ToolError
from agentkit.event_rendering import count_text
from agentkit.redaction import MARK
from agentkit.safety import paths
from agentkit.safety.approval import NO_PREVIEW, CallPreview
from agentkit.settings import state_folder
from agentkit.tooling.arguments import read_arguments
from agentkit.tooling.schema import Arguments
from agentkit.tooling.tool import Tool, Within
from agentkit.tooling.toolset import Toolset
from agentkit.tools.core import denial_handler
from agentkit.workspace.root import EXPECTED, Check
from agentkit.workspace.safe_open import REMEDY, quote_path
from agentkit.workspace.search import Query
from agentkit.workspace.workspace import Workspace, WriteResult

Access = Literal["read", "write"]

_LEVELS = {"read": SafetyLevel.NETWORK, "write": SafetyLevel.SYSTEM}
_EVIDENCE_CHARS = 200
_MAX_REMEMBERED = 4_096
_HIDDEN_REMEDY = "Work without it, or ask the user for the one value that is needed."
_STATE_REASON = "agentkit's own records and keys"
_REDACTED_REASON = "It would overwrite a secret that you were not shown."
_REDACTED_REMEDY = "Use edit_file for the other lines."
_LINK_REMEDY = "Name the file itself, so that the user can be asked."

secret: Callable[[str], str | None] = lru_cache(_MAX_REMEMBERED)(paths.secret)
protected: Callable[[str], str | None] = lru_cache(_MAX_REMEMBERED)(paths.protected)


@dataclass(frozen=True, slots=True)
class FileJudge:
    """Judges the `path` of a call: reads in the workspace have the level NETWORK, writes the level SYSTEM."""

    workspace: Workspace
    access: Access

    def __call__(self, arguments: Mapping[str, Any]) -> Decision:
        """Return the decision on a call."""
        path = arguments["path"]
        verdict, rule, reason, remedy = self._judge_path(path)
        if verdict is not Verdict.DENY and self._overwrites_redacted(arguments):
            verdict, rule, reason, remedy = Verdict.DENY, "redacted", _REDACTED_REASON, _REDACTED_REMEDY
        return Decision(verdict, f"workspace.{rule}", reason, path[:_EVIDENCE_CHARS], remedy, _LEVELS[self.access])

    def canonical(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Normalise the path in the arguments for matching rules: relative to the workspace."""
        try:
            return {**arguments, "path": self.workspace.name(arguments["path"]) or "."}
        except ToolError:
            return arguments

    def touched(self, arguments: Mapping[str, Any]) -> tuple[Iterable[str], Iterable[str]]:
        """Return the paths in the arguments; none of them is a script."""
        return (arguments["path"],), ()

    def preview(self, arguments: Mapping[str, Any]) -> CallPreview:
        """Predict the effect of a call: the diff of a write or an edit, or the error with which it would fail."""
        if self.access == "read":
            return NO_PREVIEW
        path, new = arguments["path"], arguments.get("content")
        covers = frozenset(arguments.keys() - {"path"})
        try:
            if new is not None:
                planned = self.workspace.preview_write(path, new)
            else:
                planned = self.workspace.preview_edit(path, arguments["old_text"], arguments["new_text"])
        except ToolError as error:
            return CallPreview(covers=covers, failure=str(error), is_confined=True)
        effect = _describe_write(planned, is_edit=new is None)
        # The hunks of a diff of one file, without its headers
        _, found, hunks = planned.full_diff.partition("\n@@ ")
        return CallPreview((effect,), (f"@@ {hunks}" if found else planned.full_diff), covers, is_confined=True)

    def _judge_path(self, path: str) -> tuple[Verdict, str, str, str]:
        try:
            name, real_path = self.workspace.locate(path)
        except Blocked as error:
            return _outside(path, error)
        except ToolError as error:
            return Verdict.ALLOW, self.access, f"It cannot access any file: {error}", ""
        reason_for = secret_rule(self.workspace)
        hidden = reason_for(name) or reason_for(real_path)
        if hidden:
            return Verdict.DENY, "secret", _secret_reason(path, hidden), _HIDDEN_REMEDY
        later = protected(name) or protected(real_path) if self.access == "write" else None
        if not later:
            return Verdict.ALLOW, self.access, f"{quote_path(path)} is in the workspace.", ""
        if not protected(name):
            return Verdict.DENY, "protected", _link_reason(path, later), _LINK_REMEDY
        return Verdict.ASK, "protected", f"{quote_path(path)} is protected: {later}.", "Write another file."

    def _overwrites_redacted(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a redaction mark would be written in place of the secret that it represents."""
        new, old = (
            arguments.get(name) or "" for name in ("content" if "content" in arguments else "new_text", "old_text")
        )
        if self.access == "read" or MARK not in new:
            return False
        marks = {piece.partition("]")[0] for piece in new.split(MARK)[1:]}
        count_before = old.count if "old_text" in arguments else partial(self.workspace.count, arguments["path"])
        return any(new.count(MARK + mark) > count_before(MARK + mark) for mark in marks)


def _describe_write(planned: WriteResult, *, is_edit: bool) -> str:
    """Describe a planned write: "new file", "replaces a.py (50 lines)" or "changes a.py (50 lines)"."""
    before = planned.before
    if before.kind == "absent":
        return "new file"
    if planned.change.after.is_like(before):
        return f"leaves {planned.path} as it is"
    content = before.content or b""
    lines = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
    size = count_text(before.size, "byte") if b"\0" in content else count_text(lines, "line")
    return f"{'changes' if is_edit else 'replaces'} {planned.path} ({size})"


def secret_rule(workspace: Workspace) -> Callable[[str], str | None]:
    """Return a function that explains why a path is secret, or returns None.

    Paths are secret by name, or as part of agentkit's own state.
    """
    folder = workspace.folder
    own = {state_folder(), *filter(None, [workspace.journal.folder])}
    inner = {place for each in own for place in _relative_paths(folder, each)}

    def why(place: str) -> str | None:
        below = f"{place.casefold()}/" if place else ""
        if any(below.startswith(each) for each in inner):
            return _STATE_REASON
        return secret(place)

    return why


def _relative_paths(folder: str, own: Path) -> set[str]:
    """Return the paths of a folder relative to another, as spelled and resolved; "" if it is the same or a parent."""
    spellings = {os.path.normpath(own.absolute()), os.path.realpath(own)}
    base = f"{folder.rstrip('/')}/"
    inner = {f"{each}/"[len(base) :].casefold() for each in spellings if f"{each}/".startswith(base)}
    return inner | {"" for each in spellings if base.startswith(f"{each}/")}


def access_check(workspace: Workspace, path: str, access: Access) -> Check:
    """Return a check of the real path at the time of access, in case files were moved after the call was judged."""

    def check(place: str) -> None:
        refuse_moved(path, place)
        hidden = secret_rule(workspace)(place)
        if hidden:
            raise Blocked(f"{_secret_reason(path, hidden)} {_HIDDEN_REMEDY}")
        later = protected(place) if access == "write" else None
        if later and not protected(workspace.locate(path)[0]):
            raise Blocked(f"{_link_reason(path, later)} {_LINK_REMEDY}")

    return check


def refuse_moved(path: str, real_path: str) -> None:
    """Raise Blocked if a path leads elsewhere than when rules were matched against it."""
    if EXPECTED.get().get(path, real_path) != real_path:
        raise Blocked(f"{quote_path(path)} points to another file than when this call was judged. Make the call again.")


def _outside(path: str, error: Blocked) -> tuple[Verdict, str, str, str]:
    hidden = secret(path)
    if hidden:
        return Verdict.DENY, "secret", _secret_reason(path, hidden), _HIDDEN_REMEDY
    return Verdict.DENY, "outside", str(error).removesuffix(REMEDY).strip(), REMEDY


def _secret_reason(path: str, hidden: str) -> str:
    return f"{quote_path(path)} holds secrets ({hidden}), which no tool reads or changes."


def _link_reason(path: str, later: str) -> str:
    return f"{quote_path(path)} leads through a symbolic link to a protected path: {later}."


MAX_LISTED = 1_000
"""Maximum number of listed entries of a folder."""

_READ_CHARS = 300_000
_MAX_MATCHES = 200
_SEARCH_SECONDS = 5.0
_DOCUMENT_NOTE = "This is the extracted text of the document; the document cannot be edited as text."

Result = dict[str, Any]


class FileTool(Tool[..., Result]):
    """A tool whose argument `path` can also be given as `file_path`."""

    def _called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, confirmed: bool) -> Result:
        return super()._called(args, _rename_path_argument(kwargs), confirmed=confirmed)

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """Validate arguments into keyword arguments, defaults included. Raises BadArguments."""
        is_plain = isinstance(arguments, Mapping) and "file_path" not in arguments
        return super().check(arguments if is_plain else _rename_path_argument(read_arguments(arguments)))


def _file_tool(
    function: Callable[..., Result], judge: FileJudge, within: Within, *keys_when_denied: str, **limits: Any
) -> FileTool:
    """Create a file tool, which is SYSTEM in lists of tools because it reads files of this machine.

    Calls have the level that the judge decides: NETWORK for reads in the workspace, so that they need no approval by
    default.
    """
    denied = denial_handler(*keys_when_denied, **({"success": False} if judge.access == "write" else {}))
    limits = {"level": SafetyLevel.SYSTEM, "timeout_seconds": None, **limits}
    return FileTool(function, judge=judge, within=within, when_denied=denied, paths=("path",), **limits)


def read_file_in(workspace: Workspace) -> FileTool:
    """Create the tool that reads text files of a workspace."""

    def read_file(path: str, offset: int | None = None, limit: int | None = None, column: int | None = None) -> Result:
        """Read a file in the workspace: text, or the text of a PDF, office document, RTF, notebook or e-mail.

        A long file comes in parts: call again with offset=next_offset.

        Args:
            path: The file, relative to the workspace, for example "src/app.py".
            offset: The first line to read, counted from 1; leave it out to begin at the top.
            limit: How many lines to read; leave it out to read to the end, up to 256 kB.
            column: The character of the first line to begin at, counted from 1; only to read on in a very long line.

        Returns:
            path, content, total_lines and bytes (of the whole file, except when note says that it continues);
            next_offset when there are more lines, next_column when the last line is longer, encoding when it is not
            UTF-8; or path and error.
        """
        try:
            check = access_check(workspace, path, "read")
            reading = workspace.read(path, offset, limit, column=column, check=check, words=text_of)
        except (ToolError, MissingExtra) as error:
            return {"path": path, **_failure(error)}
        lines = reading.lines
        notes = (reading.note, lines.note, "" if reading.is_text else _DOCUMENT_NOTE)
        is_cut = bool(lines.note) or (lines.next_offset is not None and limit is None)
        result = {
            "path": path,
            "content": lines.content,
            "total_lines": lines.total_lines,
            "bytes": reading.size,
            "next_offset": lines.next_offset,
            "next_column": lines.next_column,
            "encoding": None if reading.encoding == "utf-8" else reading.encoding,
            "note": " ".join(filter(None, notes)) or None,
            "status": "truncated" if is_cut else None,
        }
        return {key: value for key, value in result.items() if value is not None}

    return _file_tool(read_file, FileJudge(workspace, "read"), read_file_in, "path", max_chars=_READ_CHARS)


def write_file_in(workspace: Workspace) -> FileTool:
    """Create the tool that writes text files in a workspace."""

    def write_file(path: str, content: str) -> Result:
        """Write a text file in the workspace, with the folders it needs; an old file of that name is replaced.

        Args:
            path: The file, relative to the workspace, for example "notes/today.md".
            content: The whole new content, at most 10 MB; it is written as UTF-8.

        Returns:
            path, success (true), bytes_written and created (whether the file is new); or path, success (false) and
            error, and then the file is as it was.
        """
        try:
            written = workspace.write(path, content, check=access_check(workspace, path, "write"))
        except ToolError as error:
            return {"path": path, "success": False, **_failure(error)}
        created = written.before.kind == "absent"
        return {
            "path": path,
            "success": True,
            "bytes_written": written.size,
            "created": created,
            **_write_notes(written),
        }

    return _file_tool(write_file, FileJudge(workspace, "write"), write_file_in, "path")


def edit_file_in(workspace: Workspace) -> FileTool:
    """Create the tool that replaces a part of a text file in a workspace."""

    def edit_file(path: str, old_text: str, new_text: str) -> Result:
        """Replace a part of a text file in the workspace.

        Args:
            path: The file, relative to the workspace.
            old_text: The text to replace, exactly as in the file, with its blanks and line breaks. It must occur once:
                include enough of the lines around it.
            new_text: The replacement.

        Returns:
            path, success (true) and changes (a unified diff); or path, success (false) and error, which says how often
            old_text occurs or which lines are similar.
        """
        try:
            written = workspace.edit(path, old_text, new_text, check=access_check(workspace, path, "write"))
        except ToolError as error:
            return {"path": path, "success": False, **_failure(error)}
        return {"path": path, "success": True, "changes": written.diff, **_write_notes(written)}

    return _file_tool(edit_file, FileJudge(workspace, "write"), edit_file_in, "path")


def list_directory_in(workspace: Workspace) -> FileTool:
    """Create the tool that lists folders of a workspace."""

    def list_directory(path: str = ".") -> Result:
        """List the files and folders in a folder of the workspace.

        Args:
            path: The folder, relative to the workspace; "." is the workspace itself.

        Returns:
            path, directories and files (their names in alphabetical order, at most 1,000 in all; status "truncated"
            when there are more); or path and error.
        """
        try:
            entries = workspace.list(path, check=access_check(workspace, path, "read"))
        except ToolError as error:
            return {"path": path, **_failure(error)}
        listed = entries[:MAX_LISTED]
        result: Result = {
            "path": path,
            "directories": [entry.name for entry in listed if entry.kind == "folder"],
            "files": [entry.name for entry in listed if entry.kind != "folder"],
        }
        if len(entries) > MAX_LISTED:
            note = f"These are {MAX_LISTED:,} of {len(entries):,} entries; search_files finds names by glob."
            result |= {"total_entries": len(entries), "note": note, "status": "truncated"}
        return result

    return _file_tool(list_directory, FileJudge(workspace, "read"), list_directory_in, "path")


def search_files_in(workspace: Workspace) -> FileTool:
    """Create the tool that searches the text files of a workspace."""

    def search_files(pattern: str, path: str = ".", glob: str | None = None) -> Result:
        """Find the lines in text files of the workspace that match a regular expression.

        Args:
            pattern: A regular expression of Python, matched against each line, for example "(?i)todo|fixme".
            path: The folder or file to search, relative to the workspace.
            glob: The files to search: "*.py" by name, "src/**/*.{js,ts}" by path; leave it out for all.

        Returns:
            pattern, path, matches (path, line and text of each, at most 200) and files_searched, with note and a
            status when that is not all; or pattern, path and error.
        """
        query = Query(pattern, path, glob, _MAX_MATCHES, seconds=_SEARCH_SECONDS, skips=secret_rule(workspace))
        try:
            refuse_moved(path, workspace.locate(path)[1])
            found = workspace.search(query)
        except ToolError as error:
            return {"pattern": pattern, "path": path, **_failure(error)}
        matches = [{"path": match.path, "line": match.line, "text": match.text} for match in found.matches]
        result: Result = {"pattern": pattern, "path": path, "matches": matches, "files_searched": found.files}
        if found.timed_out:
            return result | {"error": found.left_out, "status": "timed_out"}
        if found.left_out:
            return result | {"note": found.left_out, "status": "truncated"}
        return result if matches else result | {"status": "empty"}

    return _file_tool(
        search_files, FileJudge(workspace, "read"), search_files_in, "pattern", "path", timeout_seconds=30.0
    )


def _rename_path_argument(arguments: Mapping[str, Any]) -> dict[str, Any]:
    if "file_path" not in arguments or "path" in arguments:
        return dict(arguments)
    return {"path" if name == "file_path" else name: value for name, value in arguments.items()}


def _failure(error: ToolError | MissingExtra) -> Result:
    return {"error": str(error), "status": "denied" if isinstance(error, Blocked) else "failed"}


def _write_notes(written: WriteResult) -> Result:
    others = written.before.links - 1
    notes = (
        [f"The file had {others:,} more name(s) as hard links, which still have the old content."] if others > 0 else []
    )
    notes += [written.note] if written.note else []
    return {"note": " ".join(notes)} if notes else {}


_DIRECT_CALLS = Workspace.for_direct_calls()

read_file_tool = read_file_in(_DIRECT_CALLS)
write_file_tool = write_file_in(_DIRECT_CALLS)
edit_file_tool = edit_file_in(_DIRECT_CALLS)
list_directory_tool = list_directory_in(_DIRECT_CALLS)
search_files_tool = search_files_in(_DIRECT_CALLS)

file_tools = Toolset((read_file_tool, write_file_tool, list_directory_tool, edit_file_tool, search_files_tool))
"""The tools for agents that work on files."""
