"""Skills: folders with a SKILL.md that a model loads on demand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from textwrap import dedent

from agentkit._dataclass import dataclass
from agentkit.decisions import Label
from agentkit.errors import Blocked, ConfigError, ToolError
from agentkit.text_encoding import split_lines
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.workspace.root import Root

FILE = "SKILL.md"
"""The file that makes a folder a skill."""

_MAX_BYTES = 1_000_000
_MAX_NAME_CHARS = 64
_MAX_DESCRIPTION_CHARS = 1_024
_MAX_LISTED = 100
_NOT_LISTED = (".git", "__pycache__", "node_modules")
_FIELD = re.compile(r"([A-Za-z][\w-]*):(?:[ \t]+(.*))?")
_BLOCK = re.compile(r"([|>])[-+0-9]*(?:[ \t]+#.*)?")
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill: when to use it, its instructions, and the folder of its other files.

    The instructions are read when the tools are created, so that later writes to the file cannot change them.
    """

    name: str
    description: str
    text: str
    root: Root

    def instructions(self) -> str:
        """Return the instructions, and a list of the skill's other files."""
        files = [each for each in self.root.files(skip=_NOT_LISTED) if each[0] != FILE]
        if not files:
            return self.text
        listed = ", ".join(f"{name} ({size:,} bytes)" for name, size in islice(files, _MAX_LISTED))
        more = f", and {len(files) - _MAX_LISTED:,} more" if len(files) > _MAX_LISTED else ""
        return f"{self.text}\n\n[Files of this skill, for read_skill_file: {listed}{more}.]"


def skill_tools(*folders: str | Path, labels: Iterable[Label | str] = ()) -> Toolset:
    """Create `load_skill` and `read_skill_file` for skills in these folders, each a skill or a parent of skills.

    A skill is a folder with a file SKILL.md: its `name` and `description` between two lines `---`, followed by
    instructions. The model sees names and descriptions, and reads the rest on demand. Nothing is executed: scripts are
    read, and run by other tools. The model follows a skill like an instruction: use only trusted ones.
    `labels` classify the results of the tools. Raises ConfigError if a folder contains no skill, names are duplicate,
    or a skill cannot be read.
    """
    skills: dict[str, Skill] = {}
    for folder in folders:
        for skill in _find_skills(Path(folder)):
            if skill.name in skills:
                raise ConfigError(f"Two skills are named {skill.name!r}: rename one of them in its {FILE}.")
            skills[skill.name] = skill
    if not skills:
        raise ConfigError("skill_tools() takes folders with skills, such as skill_tools('skills').")
    return Toolset(_SkillReader(skills, list(labels)).tools())


class _SkillReader:
    """The tools for a set of skills."""

    def __init__(self, skills: Mapping[str, Skill], labels: Sequence[Label | str]) -> None:
        self._skills, self._labels = skills, labels

    def tools(self) -> Iterator[Tool[..., str]]:
        """Yield the tool for the instructions, and the one for other files."""
        listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in self._skills.values())
        name = {"type": "string", "enum": list(self._skills), "description": f"The skill.\n{listed}"}
        yield Tool.from_schema(
            "load_skill",
            "Load the instructions of a skill before starting a task. When a task matches the description of a skill, "
            "load that skill first and follow its instructions; do not guess them.",
            {"type": "object", "properties": {"name": name}, "required": ["name"]},
            self.load_skill,
            labels=self._labels,
        )
        path = {"type": "string", "description": "The file, as load_skill names it, for example references/forms.md."}
        yield Tool.from_schema(
            "read_skill_file",
            "Read a file of a skill that its instructions refer to.",
            {
                "type": "object",
                "properties": {"name": {**name, "description": "The skill."}, "path": path},
                "required": ["name", "path"],
            },
            self.read_skill_file,
            labels=self._labels,
        )

    def load_skill(self, name: str) -> str:
        """Return the instructions of a skill."""
        return self._skills[name].instructions()

    def read_skill_file(self, name: str, path: str) -> str:
        """Return the text of a file in the skill's folder. Raises ToolError if it is not text, or outside."""
        return _read_text(self._skills[name].root, path)


def _find_skills(folder: Path) -> Iterator[Skill]:
    """Yield the skill in the folder itself, or those directly below it, by name."""
    if not folder.is_dir():
        raise ConfigError(f"The skills folder {str(folder)!r} does not exist.")
    folders = [folder] if (folder / FILE).is_file() else [each.parent for each in sorted(folder.glob(f"*/{FILE}"))]
    if not folders:
        raise ConfigError(f"No folder in {str(folder)!r} has a {FILE}; a skill is a folder with such a file.")
    for skill_folder in folders:
        try:
            yield _read_skill(skill_folder)
        except ToolError as error:
            raise ConfigError(f"The skill in {str(skill_folder)!r} cannot be read: {error}") from error


def _read_skill(folder: Path) -> Skill:
    root = Root(folder)
    # Split a text into the fields between the first two lines `---` and the rest. Raises ToolError without
    # them.
    first, *lines = split_lines(_read_text(root, FILE)) or [""]
    end = next((number for number, line in enumerate(lines) if line.rstrip() in ("---", "...")), None)
    if first.rstrip() != "---" or end is None:
        raise ToolError(f"{FILE} begins with a line ---, its name and description, and another line ---.")
    fields, text = dict(_parse_fields(lines[:end])), "\n".join(lines[end + 1 :]).strip()
    description = " ".join(fields.get("description", "").split())
    if not description:
        raise ToolError("it has no description, which must state when to use it.")
    if len(description) > _MAX_DESCRIPTION_CHARS:
        raise ToolError(
            f"its description has {len(description):,} characters; at most {_MAX_DESCRIPTION_CHARS:,} are allowed."
        )
    name = " ".join(fields.get("name", "").split()) or folder.resolve().name
    if len(name) > _MAX_NAME_CHARS or not name.isprintable():
        raise ToolError(f"its name must have at most {_MAX_NAME_CHARS} characters, all visible: {name[:99]!r}")
    return Skill(name, description, text, root)


def _read_text(root: Root, path: str) -> str:
    """Read a file below the root as text. Raises ToolError if it is not text, too long, or outside."""
    try:
        found = root.read(path, _MAX_BYTES)
    except Blocked:
        raise ToolError(f"{path!r} is not in the skill's folder; name a file as load_skill lists it.") from None
    if found.size > _MAX_BYTES:
        raise ToolError(f"{path!r} has {found.size:,} bytes; no more than {_MAX_BYTES:,} are read.")
    try:
        return found.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ToolError(f"{path!r} is not UTF-8 text.") from None


def _parse_fields(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Parse the fields of a YAML mapping as texts; indented lines belong to the field above."""
    name, first, rest = "", "", list[str]()
    for number, line in enumerate(lines, start=2):
        field = _FIELD.fullmatch(line.rstrip())
        if field is not None:
            if name:
                yield name, _parse_scalar(first, rest)
            name, first, rest = field[1], field[2] or "", []
        elif not line.strip() or line.startswith((" ", "\t", "- ", "#")):
            rest.append(line)
        else:
            raise ToolError(f"line {number} of {FILE} is not of the form `name: value`: {line[:80]!r}")
    if name:
        yield name, _parse_scalar(first, rest)


def _parse_scalar(first: str, rest: Sequence[str]) -> str:
    """Parse a YAML scalar as text: a block, quoted, or plain over one or several lines."""
    block = _BLOCK.fullmatch(first)
    if block is not None:
        text = dedent("\n".join(rest)).strip()
        return text if block[1] == "|" else re.sub(r"(?<!\n)\n(?!\n)", " ", text)
    lines = [first, *(line for line in rest if not line.lstrip().startswith("#"))]
    text = " ".join(" ".join(lines).split())
    if not text.startswith(("'", '"')):
        return _COMMENT.sub("", text).strip()
    single = _SINGLE.match(text)
    if single is not None:
        return single[1].replace("''", "'")
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        raise ToolError(f"a quoted string has no closing quote, or contains an invalid escape: {text[:80]}") from None
    return str(value)
