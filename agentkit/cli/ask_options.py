"""Options, input, session and output type of a command-line question."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import make_dataclass
from datetime import date, datetime
from functools import reduce
from itertools import groupby
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Literal

import click

from agentkit._dataclass import dataclass
from agentkit.cli.config import find_template, template_names
from agentkit.cli.loaders import run_file, split_target
from agentkit.cli.options import (
    COLLECTIONS,
    FILE,
    STORE,
    WholeNumber,
    checked_options,
    limits_option,
    safety_levels,
    session_names,
    tool_names,
)
from agentkit.cli.settings import (
    Settings,
    load_settings,
    option_value,
    parse_limit,
    split_names,
)
from agentkit.cli.terminal import print_note
from agentkit.content import File, Image, quoted_file, read_part
from agentkit.decisions import SafetyLevel
from agentkit.event_rendering import suggestion
from agentkit.messages import Content
from agentkit.text_encoding import decode_text, split_lines

Command = Callable[..., Any]

_MODEL_OPTIONS = (
    click.option("-m", "--model", metavar="NAME", help="The model, such as gpt-5.4-mini or ollama:qwen3."),
    click.option("--offline", is_flag=True, help="Ask the model in the offline extra: no key, no network."),
    click.option(
        "--agent",
        type=FILE,
        metavar="FILE",
        help="The agent of a text file, of FILE.py or FILE.py:NAME; flags override its settings.",
    ),
    click.option("-s", "--system", metavar="TEXT", help="The instruction for the model."),
    click.option(
        "-t",
        "--tools",
        multiple=True,
        metavar="NAME,...",
        shell_complete=tool_names,
        help=f"Tools, collections ({COLLECTIONS}), FILE.py, or a file of MCP servers; separate with commas or repeat. "
        "Default: the twelve tools.",
    ),
    click.option("--no-tools", is_flag=True, help="Give the model no tools."),
    click.option(
        "-O",
        "--option",
        "options",
        nargs=2,
        multiple=True,
        metavar="NAME VALUE",
        help="An option of the model, such as: -O temperature 0.2. Repeatable.",
    ),
    click.option("--reasoning", metavar="EFFORT", help="The reasoning effort: none, low, medium, high, ..."),
    click.option("--max-tokens", type=WholeNumber(1), metavar="N", help="The maximum length of a response."),
    click.option(
        "--safety",
        metavar="LEVEL",
        shell_complete=safety_levels,
        help="What runs without approval: safe, network (default), system.",
    ),
    limits_option(
        "The limits of a run: cost (US dollars), seconds, iterations, tool_calls, calls_per_response, "
        "input_tokens, output_tokens, total_tokens, repeated_calls. Repeatable; none removes a limit."
    ),
)

_CONVERSATION_OPTIONS = (
    click.option("-T", "--template", metavar="NAME", shell_complete=template_names, help="A template of the question."),
    click.option(
        "-P",
        "--param",
        "parameters",
        nargs=2,
        multiple=True,
        metavar="NAME VALUE",
        help="A parameter of the template. Repeatable.",
    ),
    click.option("-y", "--yes", is_flag=True, help="Approve every call without asking. Denied calls stay denied."),
    click.option("--dry-run", is_flag=True, help="Change nothing, and show what would be changed."),
    click.option("-c", "--continue", "continue_last", is_flag=True, help="Continue the last session."),
    click.option("--session", metavar="NAME", shell_complete=session_names, help="Use the session of that name."),
    click.option("--no-session", is_flag=True, help="Do not store this conversation."),
    click.option("--trace", metavar="FILE", help="Write the events of runs to a file, a line each, without texts."),
    STORE,
)

RECORD = click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Record what happens in a cassette, to show or replay it.",
)


def model_options(command: Command) -> Command:
    """Add the options that select the model, its tools and the limits of a run."""
    return with_options(_MODEL_OPTIONS, command)


def conversation_options(command: Command) -> Command:
    """Add the options of `model_options` and those for approval, dry runs, sessions and traces."""
    return with_options((*_MODEL_OPTIONS, *_CONVERSATION_OPTIONS), command)


def with_options(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    """Add options to a command, in this order."""
    return reduce(lambda done, option: option(done), reversed(options), command)


_EXCLUSIVE = (
    ("offline", "model", "--offline selects the offline model"),
    ("tools", "no_tools", "the second gives the model no tools"),
    ("continue_last", "session", "the first continues the last session, the second the named one"),
    ("no_session", "session", "the first stores nothing"),
    ("no_session", "continue_last", "the first stores nothing"),
    ("as_json", "as_jsonl", "the first prints one document, the second one line per event"),
    ("quiet", "verbose", "they are opposites"),
)
_FLAGS = {"continue_last": "--continue", "as_json": "--json", "as_jsonl": "--jsonl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOptions:
    """The options of `ask` as given on the command line. Raises UsageError if two of them contradict."""

    question: tuple[str, ...] = ()
    offline: bool = False
    model: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    reasoning: str | None = None
    max_tokens: int | None = None
    template: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    system: str | None = None
    schema: str | None = None
    agent: Path | None = None
    tools: tuple[str, ...] = ()
    no_tools: bool = False
    safety: str | None = None
    yes: bool = False
    limits: tuple[str, ...] = ()
    continue_last: bool = False
    session: str | None = None
    no_session: bool = False
    store: str | None = None
    dry_run: bool = False
    output: Path | None = None
    record: Path | None = None
    trace: str | None = None
    no_stream: bool = False
    as_json: bool = False
    as_jsonl: bool = False
    quiet: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        for one, other, reason in _EXCLUSIVE:
            if getattr(self, one) and getattr(self, other):
                raise click.UsageError(f"Use {_flag(one)} or {_flag(other)}, not both: {reason}.")

        if self.record is not None and not self.record.parent.is_dir():
            raise click.UsageError(f"The folder {str(self.record.parent)!r} does not exist. Create it, then --record.")
        if self.parameters and self.template is None:
            raise click.UsageError("-P sets a parameter of a template. Name the template: -T NAME")
        if self.tools and not split_names(self.tools):
            raise click.UsageError("--tools is empty. For no tools, use --no-tools.")
        if self.session is not None and not self.session.strip():
            raise click.UsageError("--session takes a name. To store nothing, use --no-session.")

    @property
    def settings(self) -> Settings:
        """The settings resolved from these flags and the agent file. Raises ConfigError."""
        template = None if self.template is None else find_template(self.template).file
        return load_settings(self.flags, self.agent, template)

    @property
    def answer_schema(self) -> str | None:
        """The schema of the answer, given by a flag or by the template."""
        return self.schema if self.schema or self.template is None else find_template(self.template).schema

    @property
    def flags(self) -> dict[str, Any]:
        """The settings given by flags; None for each flag that is not given. Raises ConfigError."""
        return {
            "provider": "offline" if self.offline else None,
            "model": self.model if self.model is None else _model_name(self.model),
            "instruction": self.system,
            "tools": () if self.no_tools else split_names(self.tools) or None,
            "safety": None if self.safety is None else SafetyLevel.of(self.safety),
            "session": "" if self.no_session else self.session,
            "limits": dict(map(parse_limit, self.limits)) or None,
            "trace": self.trace,
            "options": self._options or None,
        }

    @property
    def _options(self) -> dict[str, Any]:
        """The options of the model that flags give."""
        given = {name: option_value(value) for name, value in self.options}
        named = {"reasoning_effort": self.reasoning, "max_tokens": self.max_tokens}
        return checked_options(given | {name: value for name, value in named.items() if value is not None})

    def prompt(self, question: Content) -> Content:
        """The question in the prompt of the template, if one is chosen. Raises UsageError."""
        if self.template is None:
            return question
        template = find_template(self.template)
        text = template.render(text_of(question), dict(self.parameters))
        if isinstance(question, str):
            return text
        return (text, *(part for part in question if not isinstance(part, str)))


def _model_name(text: str) -> str:
    """The name of a model. Raises UsageError if it is blank."""
    if not text.strip():
        raise click.UsageError("--model takes a name. To see the model in use: agentkit models")
    return text


def _flag(name: str) -> str:
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


_PIPED = "-"
_FILE_ENDING = re.compile(r"[\w-]\.[A-Za-z]\w{0,4}$")
_FILE_MENTION = re.compile(r"(?<!\S)@(?P<escape>@?)(?P<name>[^\s@]\S*?)(?=[.,;:!?)]*(?:\s|\Z))")
"""A word that can name a file, without trailing punctuation."""

NO_TEXT = "The piped input is not text. Pipe text, or name a file: @photo.png, @report.pdf"


def read_question(words: tuple[str, ...]) -> Content:
    """The question; an empty string if it is missing.

    `@FILE` is replaced by the text, image, PDF or recording in the file; `-` by piped input, which is otherwise
    appended. `@@` escapes a leading @. Raises UsageError for a file that cannot be read.
    """
    is_piped = sys.stdin is not None and not sys.stdin.isatty()
    if is_piped and _PIPED not in words:
        words = (*words, _PIPED)
    parts: list[str | Image | File] = []
    for is_plain, some in groupby(words, key=_is_plain):
        group = list(some)
        parts += [" ".join(map(_unescape, group))] if is_plain else map(_read_word, group)
    parts = [part for part in parts if not isinstance(part, str) or part.strip()]
    if all(isinstance(part, str) for part in parts):
        return "\n\n".join(str(part) for part in parts)
    return tuple(parts)


def with_files(prompt: str) -> Content:
    """Replace `@FILE` in a typed prompt by the content of the file, and `@@FILE` by `@FILE`.

    A word that names no existing file stays as it is, with a note if it looks like one. Raises UsageError for a file
    that cannot be read by a model.
    """
    parts: list[str | Image | File] = []
    end = 0
    for mention in _FILE_MENTION.finditer(prompt):
        if _is_file(mention["name"]):
            parts += [
                prompt[end : mention.start()],
                f"@{mention['name']}" if mention["escape"] else _read_file(mention["name"]),
            ]
            end = mention.end()
        elif not mention["escape"] and _FILE_ENDING.search(mention["name"]):
            print_note(f"No file {mention['name']!r} exists, so @{mention['name']} is sent as text.", "yellow")
    parts.append(prompt[end:])
    if all(isinstance(part, str) for part in parts):
        return "".join(map(str, parts))
    return tuple(part for part in parts if not isinstance(part, str) or part.strip())


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # the name is too long, or the folder is not readable
        return False


def _read_file(name: str) -> str | Image | File:
    advice = f"To write @{name} as text: @@{name}"
    try:
        return read_part(Path(name))
    except OSError as error:
        raise click.UsageError(f"The file {name!r} cannot be read: {error.strerror}. {advice}") from None
    except ValueError as error:  # neither UTF-8 nor a file that models read
        return quoted_file(Path(name).name, decode_input(Path(name).read_bytes(), f"{error}. {advice}"))


def text_of(question: Content) -> str:
    """The text of a question, without its images and files."""
    return question if isinstance(question, str) else " ".join(part for part in question if isinstance(part, str))


def _is_plain(word: str) -> bool:
    """Whether a word is plain text; `@ada what?` in one argument is text that begins with a name."""
    names_file = word.startswith("@") and len(word) > 1 and not word.startswith("@@")
    return word != _PIPED and not (names_file and (" " not in word or Path(word[1:]).is_file()))


def _unescape(word: str) -> str:
    return word[1:] if word.startswith("@@") else word


def _read_word(word: str) -> str | Image | File:
    is_piped = word == _PIPED
    try:
        data = (b"" if sys.stdin is None else sys.stdin.buffer.read()) if is_piped else Path(word[1:]).read_bytes()
        part = read_part(data if is_piped else Path(word[1:]))
    except OSError as error:
        raise click.UsageError(
            f"The file {word[1:]!r} cannot be read: {error.strerror}.{_near_file(word[1:])} "
            f"To write {word} as text: @{word}"
        ) from None
    except ValueError as error:  # neither UTF-8 nor a file that models read
        return decode_input(data, NO_TEXT if is_piped else f"{error}.")
    return decode_input(data, NO_TEXT) if isinstance(part, str) else part


def _near_file(name: str) -> str:
    """A suggestion of the file in the same folder with the closest name."""
    folder = Path(name).parent
    try:
        names = [str(folder / each.name) for each in folder.iterdir() if each.is_file()]
    except OSError:
        return ""
    return suggestion(name, names, 0.6)


def decode_input(data: bytes, error_text: str) -> str:
    """Decode text and strip surrounding whitespace; a note on its encoding goes to stderr.

    Raises UsageError with the complaint for binary data.
    """
    text = decode_text(data)
    if text is None:
        raise click.UsageError(error_text)
    if text.note:
        click.echo(f"Note on the input: {text.note}", err=True)
    return text.text.replace("\r\n", "\n").strip()


EXAMPLE = "name, age int, mood happy|sad, tags list[text]"
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("", "text", "str", "string"), str),
    **dict.fromkeys(("int", "integer"), int),
    **dict.fromkeys(("number", "float"), float),
    **dict.fromkeys(("bool", "boolean"), bool),
    "date": date,
    "datetime": datetime,
}
_FIELD = re.compile(r"(?P<name>\w+)\s*(?P<kind>[^:]*?)\s*(?::\s*(?P<about>.*))?", re.DOTALL)
_LIST_TYPE = re.compile(r"(?:list)?\[(.*)\]", re.DOTALL)
_COMMA = re.compile(r",(?![^\[]*\])")
_OPTIONAL = re.compile(r"\s*(?:\?|\|\s*None)$")
_CHOICE = re.compile(r"[\w.+-]+(?:\s*\|\s*[\w.+-]+)+")


def parse_answer_type(text: str) -> Any:
    """The type in `FILE.py:NAME`, or a dataclass of fields `NAME KIND: description, …`; in brackets a list of it.

    Raises UsageError for other text, and ConfigError for a program that cannot be run.
    """
    file, name = split_target(text)
    if name or file.suffix == ".py":
        names = run_file(file)
        if name in names:
            return names[name]
        classes = [
            each for each, value in names.items() if isinstance(value, type) and value.__module__ == names["__name__"]
        ]
        problem = f"There is no {name!r} in {file}." if name else f"{file} has several classes."
        raise click.UsageError(
            f"{problem} Name one: --schema {file}:NAME. Its classes: {', '.join(classes) or 'none'}."
        )
    if text.lstrip().startswith("{") or file.suffix == ".json":
        raise click.UsageError(
            f"--schema takes fields, or a class as FILE.py:NAME, not a JSON schema. Write: {EXAMPLE!r}"
        )
    list_type = _LIST_TYPE.fullmatch(text.strip())
    fields = list(_parse_fields(list_type[1] if list_type else text))
    if not fields:
        raise click.UsageError(f"--schema names no field. Example: --schema {EXAMPLE!r}")
    try:
        kind = make_dataclass("Answer", fields)
    except TypeError as error:  # duplicate field names
        raise click.UsageError(f"--schema cannot be used: {error}.") from None
    return GenericAlias(list, kind) if list_type else kind


def _parse_fields(text: str) -> Iterator[tuple[str, Any]]:
    """Yield field names and types. Multi-line text has one field per line; otherwise commas separate the fields."""
    text = text.strip()
    for line in split_lines(text) if "\n" in text else _COMMA.split(text):
        field = _FIELD.fullmatch(line.strip())
        if line.strip() and (field is None or not _is_name(field["name"])):
            raise click.UsageError(f"--schema has the field {line.strip()!r}, which has no name. Write: {EXAMPLE!r}")
        if field is not None:
            yield field["name"], _annotate(field["kind"], (field["about"] or "").strip(), line.strip())


def _annotate(word: str, about: str, field_text: str) -> Any:
    """A field's type with its description. Without a kind, the text after the colon is the type if it parses as one."""
    if not word and _is_type(about):
        word, about = about, ""
    kind = _parse_type(word, field_text)
    return Annotated[kind, about] if about else kind


def _is_name(word: str) -> bool:
    return word.isidentifier() and not keyword.iskeyword(word)


def _is_type(word: str) -> bool:
    type_name = _OPTIONAL.sub("", word)
    return type_name.lower() in _TYPES or bool(_LIST_TYPE.fullmatch(type_name) or _CHOICE.fullmatch(type_name))


def _parse_type(word: str, field_text: str) -> Any:
    """Parse a field's type; `?` or Python's `| None` at the end makes it optional. Raises UsageError."""
    word = word.strip()
    if _OPTIONAL.search(word):
        return _parse_type(_OPTIONAL.sub("", word), field_text) | None
    if word.lower() in _TYPES:
        return _TYPES[word.lower()]
    if list_type := _LIST_TYPE.fullmatch(word):
        return GenericAlias(list, _parse_type(list_type[1], field_text))
    if _CHOICE.fullmatch(word):
        return Literal[tuple(choice.strip() for choice in word.split("|"))]
    known = ", ".join(sorted(filter(None, _TYPES)))
    raise click.UsageError(
        f"--schema has the field {field_text!r}, whose type is unknown. "
        f"Known: {known}, list[TYPE], one|other, and TYPE? for an optional field."
    )
