"""`agentkit config`, `init` and `templates`: settings in effect, a first settings file, and templates of questions."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentkit._dataclass import dataclass
from agentkit.cli.options import COLLECTIONS, JSON, DefaultGroup
from agentkit.cli.settings import (
    SettingsFile,
    check_project,
    current_folder,
    has_trusted_owner,
    parse_setting,
    templates_folder,
)
from agentkit.cli.terminal import clean, document_text, print_error, print_note
from agentkit.errors import ConfigError
from agentkit.settings import settings_file

if TYPE_CHECKING:
    from agentkit.cli.settings import Setting, Settings, SettingsFile

_EXAMPLE = """\
# Settings of the agentkit command. Flags and variables AGENTKIT_... take precedence.
# Keys are not settings; store them with: agentkit keys set openai
{where}
# tools = ["core", "web"]          # tools and collections: {collections}
# safety = "network"               # what runs without approval: safe, network{system}
# session = "work"                 # always use this session; false stores nothing
# instruction = "Answer briefly."  # the instruction for the model
# trace = "trace.jsonl"            # write the events of runs to this file, one per line

# [limits]                         # limits of one run; false removes a limit
# cost = 0.10                      # US dollars
# seconds = 600
# iterations = 10
# tool_calls = 100
"""
_USER_EXAMPLE = """
# model = "gpt-5.4-mini"           # or "ollama:qwen3", which includes the provider
# provider = "openai"              # openai, azure, offline, or a service: agentkit models
# base_url = "http://127.0.0.1:8000/v1\""""
_PROJECT_EXAMPLE = """
# In a project, this file may come from somebody else: it can narrow tools, safety and limits; its other settings
# apply after you run: agentkit config trust. It can never set provider or base_url.

# model = "gpt-5.4-mini\""""


@click.group(cls=DefaultGroup, short_help="Show and set the settings, with their sources and files.")
def config() -> None:
    """Show the settings: flag, then environment, then project file, then your own file, then default."""


@config.command("path")
def show_paths() -> None:
    """Show the paths of the settings files."""
    from agentkit.cli.settings import current_folder, project_file

    own = settings_file()
    click.echo(clean(f"yours    {own}{'' if own.is_file() else '  (does not exist; agentkit init writes it)'}"))
    project = project_file(current_folder())
    text = "none" if project is None else f"{project.path}{_trust_text(project)}"
    click.echo(clean(f"project  {text}"))


@config.command("show")
@JSON
def show_settings(*, as_json: bool) -> None:
    """Show each setting with the source of its value. Secrets are not shown."""
    from agentkit.cli.settings import load_settings

    settings = load_settings()
    named = settings.values["model"]
    rows = [_effective_model(settings) if each is named else each for each in settings.values.values()]
    shown = [(each.key, _display_value(each.key, each.value), each.source) for each in rows]
    if as_json:
        values = {key: {"value": value, "source": source} for key, value, source in shown}
        click.echo(document_text(settings=values, notes=settings.notes))
        return
    texts = [(key, _format_value(value), source) for key, value, source in shown]
    widths = [max(len(row[column]) for row in texts) for column in (0, 1)]
    for key, text, source in texts:
        click.echo(clean(f"{key:<{widths[0]}}  {text:<{min(40, widths[1])}}  {source}"))
    for note in settings.notes:
        print_note(note, "yellow")


@config.command("set", short_help="Set a value in your user file.", context_settings={"ignore_unknown_options": True})
@click.argument("key")
@click.argument("value")
def set_value(*, key: str, value: str) -> None:
    """Set KEY to VALUE in your own file: model, tools, limits.cost, options.temperature, aliases.fast, ..."""
    from agentkit.cli.settings import set_in_file

    path = settings_file()
    set_in_file(path, key, value)
    print_note(f"Written: {key} in {path}")


@config.command("unset", short_help="Remove a value from your user file.")
@click.argument("key")
def unset_value(*, key: str) -> None:
    """Remove KEY from your own file, so that its default applies again."""
    from agentkit.cli.settings import set_in_file

    path = settings_file()
    set_in_file(path, key, None)
    print_note(f"Removed: {key} from {path}")


@config.command("trust", short_help="Trust the project's settings and instructions.")
def trust_project() -> None:
    """Trust the settings in the project file here, and the AGENTS.md and skills of this folder for `agentkit code`.

    The file can then set model, session, instruction, trace, and wider tools and limits, until it is changed.
    """
    from agentkit.agents.coding import ProjectFiles
    from agentkit.cli.settings import as_settings_file, current_folder, project_file, trust

    folder = current_folder()
    project, instructions = project_file(folder), ProjectFiles.of(folder)
    if project is not None:
        trust(project)
        print_note(f"Trusted until it changes: {project.path}")
    if instructions is not None:
        trust(as_settings_file(instructions))
        print_note(f"Trusted until they change: {instructions.summary} of {folder}")
    if project is None and instructions is None:
        raise ConfigError(
            "This folder has no project file (here or above), no AGENTS.md and no skills. To create a project file: "
            "agentkit init --project"
        )


@click.command(short_help="Write a commented settings file.")
@click.option("--project", is_flag=True, help="Write agentkit.toml in this folder instead of your user file.")
def init(*, project: bool) -> None:
    """Write a commented settings file: your own, or this project's. An existing file is not changed."""
    from agentkit.cli.settings import PROJECT_FILE, current_folder

    path = current_folder() / PROJECT_FILE if project else settings_file()
    example, system = (_PROJECT_EXAMPLE, "") if project else (_USER_EXAMPLE, ", system")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as stream:
            stream.write(_EXAMPLE.format(collections=COLLECTIONS, where=example, system=system))
    except FileExistsError:
        raise ConfigError(f"{path} already exists. Edit it, or move it first.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Is its folder writable?") from None
    print_note(f"Written: {path}")


def _effective_model(settings: Settings) -> Setting:
    """The model that is in use, with the reason for it; the setting itself if no provider is configured."""
    from agentkit.cli.settings import Setting
    from agentkit.errors import AgentKitError

    named = settings.values["model"]
    try:
        about = settings.llm().describe()
    except AgentKitError:
        return named
    source = named.source if named.value else f"default of {about.provider} ({about.decided_by})"
    return Setting("model", about.model if named.value is None else named.value, source)


def _trust_text(project: SettingsFile) -> str:
    from agentkit.cli.settings import is_trusted

    return "  (trusted)" if is_trusted(project) else "  (not trusted; agentkit config trust)"


def _display_value(key: str, value: Any) -> Any:
    """A value as JSON data, without secrets."""
    from agentkit.decisions import SafetyLevel
    from agentkit.llm.endpoint import display_url
    from agentkit.redaction import redact

    if isinstance(value, SafetyLevel):
        return value.name.lower()
    if key == "base_url" and value:
        return display_url(value)
    if isinstance(value, tuple):
        return list(value)
    return redact(value) if isinstance(value, str) else value


def _format_value(value: Any) -> str:
    if value is None:
        return "-"
    return ", ".join(value) if isinstance(value, list) else f"{value}".replace("\n", " ")


PROJECT_FOLDER = Path(".agentkit/templates")
"""The folder of a project's templates, in the current folder or above it."""

_SUFFIX = ".toml"
_INPUT = "input"
_OWN_KEYS = ("prompt", "defaults", "description", "schema")


@dataclass(frozen=True, slots=True)
class Template:
    """A template: its prompt with `$input` and other parameters, their defaults, and settings."""

    name: str
    path: Path
    prompt: str
    file: SettingsFile
    defaults: Mapping[str, str]
    description: str = ""
    schema: str | None = None

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters in the prompt, in order, without `input`."""
        names = string.Template(self.prompt).get_identifiers()
        return [name for name in names if name != _INPUT]

    def render(self, question: str, arguments: Mapping[str, str]) -> str:
        """The prompt with its parameters. Raises UsageError for missing and unknown ones."""
        values = {**self.defaults, **arguments}
        unknown = arguments.keys() - {*self.parameters, *self.defaults}
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise click.UsageError(f"The template {self.name!r} has no parameter {min(unknown)!r}. Known: {known}.")
        missing = [name for name in self.parameters if name not in values]
        if missing:
            raise click.UsageError(
                f"The template {self.name!r} needs {missing[0]!r}. Set it with: -P {missing[0]} VALUE"
            )
        template = string.Template(self.prompt)
        if _INPUT not in template.get_identifiers():
            return "\n\n".join(filter(None, (template.substitute(values), question)))
        if not question and _INPUT not in values:
            raise click.UsageError(f"The template {self.name!r} needs a text. Write it after the options, or pipe it.")
        return template.substitute({_INPUT: question, **values} if not question else {**values, _INPUT: question})


def find_template(name: str) -> Template:
    """The template of that name, the project's first. Raises UsageError with the closest name."""
    known = {each.stem: each for each in reversed(list(_files()))}
    if name not in known:
        from agentkit.event_rendering import suggestion

        listed = f" Known: {', '.join(known)}." if known else f" Write one: {templates_folder() / f'{name}{_SUFFIX}'}"
        raise click.UsageError(f"No template is named {name!r}.{suggestion(name, known)}{listed}")
    return read_template(known[name])


def read_template(path: Path) -> Template:
    """Parse a template. Raises ConfigError with the file."""
    try:
        content = path.read_bytes()
        data: dict[str, Any] = tomllib.loads(content.decode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}. Correct the file.") from None
    own = {key: data.pop(key) for key in _OWN_KEYS if key in data}
    prompt, defaults = own.get("prompt", f"${_INPUT}"), own.get("defaults", {})
    if not isinstance(prompt, str) or not isinstance(defaults, dict):
        raise ConfigError(f"{path}: prompt takes a text, and defaults a table.")
    if not string.Template(prompt).is_valid():
        raise ConfigError(
            f"{path}: the prompt contains a $ that does not begin a parameter. Write $$ for a dollar sign."
        )
    settings = {name: parse_setting(path, content.decode(), name, value) for name, value in data.items()}
    file = SettingsFile(path, settings, content)
    if path.parent != templates_folder():
        check_project(file)
    texts = {name: str(value) for name, value in defaults.items()}
    return Template(path.stem, path, prompt, file, texts, str(own.get("description", "")), own.get("schema"))


def _files() -> Iterator[Path]:
    """Yield the files of templates, those of the nearest project first."""
    current = current_folder()
    project = next(
        (each / PROJECT_FOLDER for each in (current, *current.parents) if (each / PROJECT_FOLDER).is_dir()), None
    )
    for folder in (project, templates_folder()):
        if folder is not None and folder.is_dir():
            yield from (path for path in sorted(folder.glob(f"*{_SUFFIX}")) if has_trusted_owner(path))


@click.command(short_help="List the templates for -T.")
@click.argument("action", type=click.Choice(["list"]), required=False, metavar="[list]", expose_value=False)
@JSON
def templates(*, as_json: bool) -> None:
    """List the templates: name, parameters, description and file.

    A template is a file NAME.toml in .agentkit/templates of a project, or in the folder templates next to your
    settings. It contains a prompt with $input and other parameters, their [defaults], and settings such as model and
    tools.
    """
    found: list[Template] = []
    for path in {path.stem: path for path in reversed(list(_files()))}.values():
        try:
            found.append(read_template(path))
        except ConfigError as error:
            print_error(error)
    if as_json:
        rows = [
            {"name": each.name, "path": str(each.path), "parameters": each.parameters, "description": each.description}
            for each in found
        ]
        click.echo(document_text(templates=rows))
        return
    for each in found:
        needs = " ".join(f"-P {name} …" for name in each.parameters)
        click.echo(clean("  ".join(filter(None, (each.name, needs, each.description, str(each.path))))))
    if not found and not any(_files()):
        click.echo(f"No template exists. Write one: {templates_folder() / f'NAME{_SUFFIX}'}", err=True)


def template_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of templates."""
    return [path.stem for path in _files() if path.stem.startswith(incomplete)]
