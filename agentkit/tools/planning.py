"""Tools for long tasks: a plan that the model keeps up to date, and notes in files of the workspace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.decisions import Decision, Label
from agentkit.errors import ToolError
from agentkit.messages import UPDATE_PLAN
from agentkit.safety.approval import CallPreview
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.tools.core import denial_handler
from agentkit.tools.files import FileJudge, read_file_in, write_file_in
from agentkit.workspace.workspace import Workspace

_NAME = re.compile(r"[\w-]{1,64}")
_MAX_STEPS = 50


_STEP = {
    "type": "object",
    "properties": {"step": {"type": "string"}, "status": {"type": "string", "enum": ["pending", "active", "done"]}},
    "required": ["step", "status"],
}
_STEPS = {"type": "array", "items": _STEP, "description": "All steps in order. At most one step is active at a time."}


def _update_plan(steps: list[dict[str, str]]) -> str:
    if not 1 <= len(steps) <= _MAX_STEPS or not all(each["step"].strip() for each in steps):
        raise ToolError(f"A plan has 1 to {_MAX_STEPS} steps, each with a text.")
    return f"{sum(each['status'] == 'done' for each in steps)} of {len(steps)} done"


planning_tools = Toolset(
    [
        Tool.from_schema(
            UPDATE_PLAN,
            "Write down or replace your plan: before work of three or more steps, and whenever a step is done.",
            {"type": "object", "properties": {"steps": _STEPS}, "required": ["steps"]},
            _update_plan,
        )
    ]
)
"""The tool `update_plan`. The plan is the newest call of it, so a session stores the plan, and a resumed run has it."""


@dataclass(frozen=True, slots=True)
class NoteJudge:
    """Judges a call about a note as the call of a file tool with the file of the note."""

    files: FileJudge
    folder: str

    def __call__(self, arguments: Mapping[str, Any]) -> Decision:
        """Return the decision on a call."""
        return self.files(self._as_file(arguments))

    def touched(self, arguments: Mapping[str, Any]) -> tuple[Iterable[str], Iterable[str]]:
        """Return the file of the note; it is not a script."""
        return self.files.touched(self._as_file(arguments))

    def preview(self, arguments: Mapping[str, Any]) -> CallPreview:
        """Predict the effect of a call: the diff of the note."""
        return replace(self.files.preview(self._as_file(arguments)), covers=frozenset({"about", "text"}))

    def _as_file(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name = arguments["name"]
        written = {"content": _note_content(**arguments)} if "text" in arguments else {}
        return {"path": self.folder if name is None else f"{self.folder}/{name}.md", **written}


def note_tools(folder: str = "notes") -> Toolset:
    """Create `write_note` and `read_notes` for Markdown files in a folder of the workspace.

    The first line of a note is its subject; `read_notes` without a name lists these lines. Notes are judged,
    shown as diffs and undone like other files. What they contain counts as private and untrusted.
    """
    here = Workspace.for_direct_calls()
    return Toolset([_write_note_in(folder, here), _read_notes_in(folder, here)])


def _write_note_in(folder: str, workspace: Workspace) -> Tool[..., Any]:
    def write_note(name: str, about: str, text: str) -> dict[str, Any]:
        """Write a note for later work in this folder: what took effort to find out. A note of that name is replaced.

        Args:
            name: Letters, digits, - and _, for example "build".
            about: One line that says when the note is of use.
            text: The note.
        """
        return write_file_in(workspace).function(_note_path(folder, name), _note_content(name, about, text))

    return _note_tool(write_note, partial(_write_note_in, folder), NoteJudge(FileJudge(workspace, "write"), folder))


def _read_notes_in(folder: str, workspace: Workspace) -> Tool[..., Any]:
    def read_notes(name: str | None = None) -> dict[str, Any]:
        """List the notes of earlier work in this folder, or read one.

        Args:
            name: The note to read; leave it out for the list of all notes.
        """
        if name is not None:
            return read_file_in(workspace).function(_note_path(folder, name))
        try:
            files = [entry.name for entry in workspace.list(folder) if entry.name.endswith(".md")]
        except ToolError:  # no note has been written
            return {"notes": {}}
        read = read_file_in(workspace).function
        first = {file: str(read(f"{folder}/{file}", limit=1).get("content", "")) for file in files}
        return {"notes": {file.removesuffix(".md"): line.lstrip("# ").strip() for file, line in first.items()}}

    return _note_tool(read_notes, partial(_read_notes_in, folder), NoteJudge(FileJudge(workspace, "read"), folder))


def _note_tool(function: Any, within: Any, judge: NoteJudge) -> Tool[..., Any]:
    denied = denial_handler("name")
    return Tool(function, level="system", judge=judge, within=within, when_denied=denied, labels=list(Label))


def _note_path(folder: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ToolError(f"A note's name has 1 to 64 letters, digits, - and _. Got {name!r:.100}.")
    return f"{folder}/{name}.md"


def _note_content(name: str, about: str, text: str) -> str:
    """The content of a note; its first line is its entry in the list of notes."""
    return f"# {' '.join(about.split()) or name}\n\n{text.strip()}\n"
