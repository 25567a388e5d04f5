"""Templates of questions: settings and a prompt with parameters, in the project's or the user's folder."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from agentkit._dataclass import dataclass
from agentkit.cli.settings import SettingsFile, check_project, current_folder, is_ours, parsed, templates_folder
from agentkit.errors import ConfigError

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

    def filled(self, question: str, given: Mapping[str, str]) -> str:
        """The prompt with its parameters. Raises UsageError for missing and unknown ones."""
        values = {**self.defaults, **given}
        unknown = given.keys() - {*self.parameters, *self.defaults}
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise click.UsageError(f"The template {self.name!r} has no parameter {min(unknown)!r}. Known: {known}.")
        missing = [name for name in self.parameters if name not in values]
        if missing:
            raise click.UsageError(
                f"The template {self.name!r} needs {missing[0]!r}. Give it with: -P {missing[0]} VALUE"
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
        raise ConfigError(f"{path} is not TOML: {error}. Correct that place of the file.") from None
    own = {key: data.pop(key) for key in _OWN_KEYS if key in data}
    prompt, defaults = own.get("prompt", f"${_INPUT}"), own.get("defaults", {})
    if not isinstance(prompt, str) or not isinstance(defaults, dict):
        raise ConfigError(f"{path}: prompt takes a text, and defaults a table.")
    if not string.Template(prompt).is_valid():
        raise ConfigError(f"{path}: the prompt contains a $ that begins no parameter. Write $$ for a dollar sign.")
    settings = {name: parsed(path, content.decode(), name, value) for name, value in data.items()}
    file = SettingsFile(path, settings, content)
    if path.parent != templates_folder():
        check_project(file)
    texts = {name: str(value) for name, value in defaults.items()}
    return Template(path.stem, path, prompt, file, texts, str(own.get("description", "")), own.get("schema"))


def _files() -> Iterator[Path]:
    """Yield the files of templates, those of the nearest project first."""
    here = current_folder()
    project = next((each / PROJECT_FOLDER for each in (here, *here.parents) if (each / PROJECT_FOLDER).is_dir()), None)
    for folder in (project, templates_folder()):
        if folder is not None and folder.is_dir():
            yield from (path for path in sorted(folder.glob(f"*{_SUFFIX}")) if is_ours(path))


@click.command(short_help="List the templates for -T.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def templates(*, as_json: bool) -> None:
    """List the templates: name, parameters, description and file.

    A template is a file NAME.toml in .agentkit/templates of a project, or in the folder templates beside your settings.
    It contains a prompt with $input and other parameters, their [defaults], and settings such as model and tools.
    """
    from agentkit.cli.display import clean, document_text

    found = list({path.stem: read_template(path) for path in reversed(list(_files()))}.values())
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
    if not found:
        click.echo(f"There are no templates. Write one: {templates_folder() / f'NAME{_SUFFIX}'}", err=True)


def template_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of templates."""
    return [path.stem for path in _files() if path.stem.startswith(incomplete)]
