"""Which tools touch files? Reading, writing, editing, listing and searching in one workspace, each call judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentkit.errors import Blocked, MissingExtra, ToolError
from agentkit.levels import SafetyLevel
from agentkit.reading import text_of
from agentkit.tooling.arguments import read_arguments
from agentkit.tooling.schema import Arguments
from agentkit.tooling.tool import Tool, Within
from agentkit.tools.denial import told_with
from agentkit.tools.file_access import FileJudge, checking, hiding, refuse_moved
from agentkit.workspace.searching.search import Query
from agentkit.workspace.workspace import Workspace, Written

MOST_LISTED = 1_000
"""How many entries of a folder are listed."""

_READ_CHARS = 300_000
_MOST_MATCHES = 200
_SEARCH_SECONDS = 5.0
_OF_DOCUMENT = "This is what stands in the document; it cannot be edited as text."

Result = dict[str, Any]


class FileTool(Tool[..., Result]):
    """A tool whose argument `path` may also be given as `file_path`."""

    def _called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, confirmed: bool) -> Result:
        return super()._called(args, _respelled(kwargs), confirmed=confirmed)

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """The keyword arguments ready to call, defaults included. Raises BadArguments."""
        is_plain = isinstance(arguments, Mapping) and "file_path" not in arguments
        return super().check(arguments if is_plain else _respelled(read_arguments(arguments)))


def _file_tool(
    function: Callable[..., Result], judge: FileJudge, within: Within, *told_when_denied: str, **limits: Any
) -> FileTool:
    denied = told_with(*told_when_denied, **({"success": False} if judge.access == "write" else {}))
    limits = {"level": SafetyLevel.SYSTEM, "timeout_seconds": None, **limits}
    return FileTool(function, judge=judge, within=within, when_denied=denied, paths=("path",), **limits)


def read_file_in(workspace: Workspace) -> FileTool:
    """The tool that reads text files of a workspace."""

    def read_file(path: str, offset: int | None = None, limit: int | None = None) -> Result:
        """Read a file in the workspace: a text, or what stands in a PDF, Word, Excel, PowerPoint or OpenDocument file.

        A long file comes in parts: call again with offset=next_offset.

        Args:
            path: The file, relative to the workspace, for example "src/app.py".
            offset: The first line to read, counted from 1; leave it out to begin at the top.
            limit: How many lines to read; leave it out to read to the end, up to 256 kB.

        Returns:
            path, content, total_lines and bytes (of the whole file); next_offset when there is more, encoding when
            it is not UTF-8; or path and error.
        """
        try:
            reading = workspace.read(path, offset, limit, check=checking(workspace, path, "read"), words=text_of)
        except (ToolError, MissingExtra) as error:
            return {"path": path, **_failure(error)}
        lines = reading.lines
        is_cut = bool(lines.note) or (lines.next_offset is not None and limit is None)
        return _without_blanks(
            {
                "path": path,
                "content": lines.content,
                "total_lines": lines.total_lines,
                "bytes": reading.size,
                "next_offset": lines.next_offset,
                "encoding": None if reading.encoding == "utf-8" else reading.encoding,
                "note": " ".join(filter(None, (lines.note, "" if reading.is_text else _OF_DOCUMENT))) or None,
                "status": "truncated" if is_cut else None,
            }
        )

    return _file_tool(read_file, FileJudge(workspace, "read"), read_file_in, "path", max_chars=_READ_CHARS)


def write_file_in(workspace: Workspace) -> FileTool:
    """The tool that writes text files in a workspace."""

    def write_file(path: str, content: str) -> Result:
        """Write a text file in the workspace, with the folders it needs; an old file of that name is replaced.

        To change a part of a file, edit_file is better.

        Args:
            path: The file, relative to the workspace, for example "notes/today.md".
            content: The whole new content, at most 10 MB; it is written as UTF-8.

        Returns:
            path, success (true), bytes_written and created (whether the file is new); or path, success (false) and
            error, and then the file is as it was.
        """
        try:
            written = workspace.write(path, content, check=checking(workspace, path, "write"))
        except ToolError as error:
            return {"path": path, "success": False, **_failure(error)}
        created = written.before.kind == "absent"
        return {"path": path, "success": True, "bytes_written": written.size, "created": created, **_remarks(written)}

    return _file_tool(write_file, FileJudge(workspace, "write"), write_file_in, "path")


def edit_file_in(workspace: Workspace) -> FileTool:
    """The tool that replaces a piece of a text file in a workspace."""

    def edit_file(path: str, old_text: str, new_text: str) -> Result:
        """Replace a piece of a text file in the workspace.

        Args:
            path: The file, relative to the workspace.
            old_text: The piece to replace, exactly as it stands in the file, blanks and line breaks included. It
                must stand there once: give enough of the lines around it.
            new_text: What is to stand there instead.

        Returns:
            path, success (true) and changes (what changed, as a unified diff); or path, success (false) and error,
            which says how often old_text stands in the file or which lines are close to it.
        """
        try:
            written = workspace.edit(path, old_text, new_text, check=checking(workspace, path, "write"))
        except ToolError as error:
            return {"path": path, "success": False, **_failure(error)}
        return {"path": path, "success": True, "changes": written.diff, **_remarks(written)}

    return _file_tool(edit_file, FileJudge(workspace, "write"), edit_file_in, "path")


def list_directory_in(workspace: Workspace) -> FileTool:
    """The tool that lists folders of a workspace."""

    def list_directory(path: str = ".") -> Result:
        """List what is in a folder of the workspace.

        Args:
            path: The folder, relative to the workspace; "." is the workspace itself.

        Returns:
            path, directories and files (their names in alphabetical order, at most 1,000 in all; status "truncated"
            when there are more); or path and error.
        """
        try:
            entries = workspace.list(path, check=checking(workspace, path, "read"))
        except ToolError as error:
            return {"path": path, **_failure(error)}
        listed = entries[:MOST_LISTED]
        result: Result = {
            "path": path,
            "directories": [entry.name for entry in listed if entry.kind == "folder"],
            "files": [entry.name for entry in listed if entry.kind != "folder"],
        }
        if len(entries) > MOST_LISTED:
            note = f"These are {MOST_LISTED:,} of {len(entries):,} entries; search_files finds names by glob."
            result |= {"total_entries": len(entries), "note": note, "status": "truncated"}
        return result

    return _file_tool(list_directory, FileJudge(workspace, "read"), list_directory_in, "path")


def search_files_in(workspace: Workspace) -> FileTool:
    """The tool that searches the text files of a workspace."""

    def search_files(pattern: str, path: str = ".", glob: str | None = None) -> Result:
        """Find the lines in text files of the workspace that match a regular expression.

        Args:
            pattern: A regular expression of Python, matched against each line, for example "(?i)todo|fixme".
            path: The folder or file to search, relative to the workspace.
            glob: Which files: "*.py" by name, "src/**/*.{js,ts}" by path; leave it out for all.

        Returns:
            pattern, path, matches (path, line and text of each, at most 200) and files_searched, with note and a
            status when that is not all; or pattern, path and error.
        """
        query = Query(pattern, path, glob, _MOST_MATCHES, seconds=_SEARCH_SECONDS, skips=hiding(workspace))
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


def _respelled(arguments: Mapping[str, Any]) -> dict[str, Any]:
    if "file_path" not in arguments or "path" in arguments:
        return dict(arguments)
    return {"path" if name == "file_path" else name: value for name, value in arguments.items()}


def _failure(error: ToolError | MissingExtra) -> Result:
    return {"error": str(error), "status": "denied" if isinstance(error, Blocked) else "failed"}


def _remarks(written: Written) -> Result:
    others = written.before.links - 1
    notes = [f"The file had {others:,} more name(s) as a hard link; there it is as it was."] if others > 0 else []
    notes += [written.note] if written.note else []
    return {"note": " ".join(notes)} if notes else {}


def _without_blanks(result: Result) -> Result:
    return {key: value for key, value in result.items() if value is not None}


_HERE = Workspace.for_direct_calls()

read_file_tool = read_file_in(_HERE)
write_file_tool = write_file_in(_HERE)
edit_file_tool = edit_file_in(_HERE)
list_directory_tool = list_directory_in(_HERE)
search_files_tool = search_files_in(_HERE)
