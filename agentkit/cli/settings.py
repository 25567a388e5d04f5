"""Layered settings of the command line: flags, agent file, environment, project, user, defaults."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentkit._dataclass import dataclass
from agentkit.atomic_write import store
from agentkit.cli.options import CODE, checked_options
from agentkit.decisions import SafetyLevel
from agentkit.errors import ConfigError, NoProvider, UnknownTool
from agentkit.event_rendering import suggestion
from agentkit.settings import environment, settings_file, state_folder
from agentkit.text_encoding import split_lines
from agentkit.usage import Limits, is_whole

if TYPE_CHECKING:
    from agentkit.agents.agent import Agent
    from agentkit.agents.coding import ProjectFiles
    from agentkit.llm.client import LLM
    from agentkit.safety.approval import Approver
    from agentkit.sessions.session import Session
    from agentkit.tooling.toolset import Toolset
    from agentkit.tracing.listeners import Listener


LIMIT_NAMES = ("iterations", *(each.name for each in fields(Limits)))
"""The names of the limits of a run."""

_LIMIT_EXAMPLE = "--limit cost=0.10"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"takes a string that is not blank. Got {value!r:.200}.")
    return value.strip()


def _tools(value: object) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise ConfigError(f'takes names, such as ["core", "web"]. Got {value!r:.200}.')
    return split_names(given)


def _session(value: object) -> str:
    """Validate a session name; empty if nothing is to be stored."""
    if value is False:
        return ""
    if value is True:
        raise ConfigError("takes a session's name, or false to store nothing. Got true.")
    return _text(value)


def _limits(value: object) -> dict[str, Any]:
    given = dict(map(parse_limit, value.split(","))) if isinstance(value, str) else value
    if not isinstance(given, dict):
        raise ConfigError(f"takes a table, such as {{ cost = 0.10, seconds = 60 }}. Got {value!r:.200}.")
    for name in given:
        if name not in LIMIT_NAMES:
            raise ConfigError(unknown_name("limit", name, LIMIT_NAMES))
    limits: dict[str, Any] = {name: None if each is False else each for name, each in given.items()}
    _check_limits(limits)
    return limits


def _check_limits(limits: Mapping[str, Any]) -> None:
    """Raise ConfigError for values that are not limits, in the words of the command line."""
    iterations = limits.get("iterations", 1)
    if iterations is not None and not is_whole(iterations, 1):
        raise ConfigError(f"The limit iterations takes a whole number of at least 1. Got {iterations!r:.200}.")
    try:
        Limits(**{name: value for name, value in limits.items() if name != "iterations"})
    except ConfigError as error:
        text = re.sub(r"Limits\((\w+)=\) takes", r"The limit \1 takes", str(error)).replace(
            "or None for", "or none for"
        )
        raise ConfigError(text) from None


def _options(value: object) -> dict[str, Any]:
    given = _pairs(value) if isinstance(value, str) else value
    if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
        raise ConfigError(f"takes a table, such as {{ temperature = 0.2 }}. Got {value!r:.200}.")
    return checked_options(given)


def _pairs(text: str) -> dict[str, Any]:
    """Parse model options written as `temperature=0.2,seed=1`. Raises ConfigError."""
    words = [(word, *map(str.strip, word.partition("="))) for word in text.split(",")]
    for word, name, equals, _ in words:
        if not name or not equals:
            raise ConfigError(f"takes options such as temperature=0.2. Got {word!r:.80}.")
    return {name: option_value(value) for _, name, _, value in words}


def option_value(text: str) -> Any:
    """The value of a model option: JSON if the text is valid JSON, otherwise the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _aliases(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) and each.strip() for each in value.values()):
        raise ConfigError(f'takes a table of names, such as {{ fast = "gpt-5.4-mini" }}. Got {value!r:.200}.')
    return {name: model.strip() for name, model in value.items()}


def _plugin_levels(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f'takes a table of levels, such as {{ weather = "network" }}. Got {value!r:.200}.')
    return {name: SafetyLevel.of(level).name.lower() for name, level in value.items()}


KEYS: Mapping[str, Callable[[object], Any]] = {
    "model": _text,
    "provider": _text,
    "base_url": _text,
    "tools": _tools,
    "safety": lambda value: SafetyLevel.of(value if isinstance(value, str) else repr(value)),
    "session": _session,
    "limits": _limits,
    "instruction": _text,
    "trace": _text,
    "options": _options,
    "aliases": _aliases,
    "plugins": _plugin_levels,
}
"""Each setting with its parser for values from files and variables. Parsers raise ConfigError."""


def parse_limit(word: str) -> tuple[str, Any]:
    """Parse a limit written as `cost=0.10`; the value `none` removes it. Raises ConfigError."""
    name, equals, value = (part.strip() for part in word.partition("="))
    if name not in LIMIT_NAMES:
        raise ConfigError(unknown_name("limit", name, LIMIT_NAMES))
    if not equals or not value:
        raise ConfigError(f"The limit {name} has no value. Write it as {name}=NUMBER, or {name}=none for no limit.")
    number = _number(name, value)
    _check_limits({name: number})
    return name, number


def split_names(words: Iterable[str]) -> tuple[str, ...]:
    """Split comma-separated names."""
    return tuple(name.strip() for word in words for name in word.split(",") if name.strip())


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The error text for an unknown name."""
    known = list(known)
    return f"No {kind} is named {name!r:.80}.{suggestion(name, known)} Known: {', '.join(known)}."


def _number(name: str, value: str) -> Any:
    if name == "unknown_price":
        return value
    if value.lower() == "none":
        return None
    for kind in (int, float):
        with suppress(ValueError):
            return kind(value)
    raise ConfigError(f"The limit {name} takes a number, or none for no limit: {_LIMIT_EXAMPLE}. Got {value!r:.80}.")


PROJECT_FILE = "agentkit.toml"
_PYPROJECT = "pyproject.toml"
_TABLE = "tool.agentkit"
_SECRET = re.compile("key|token|secret|password", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file: its path, its validated values, and its content, from which the fingerprint is computed."""

    path: Path
    values: dict[str, Any]
    content: bytes = field(default=b"", repr=False)


def current_folder() -> Path:
    """The working directory. Raises ConfigError if it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigError("The current folder no longer exists. Change to an existing folder.") from None


def user_file(path: Path) -> SettingsFile:
    """Load the user's settings file; empty if it does not exist. Raises ConfigError."""
    return _read(path) or SettingsFile(path, {})


def project_file(folder: Path) -> SettingsFile | None:
    """The nearest `agentkit.toml`, or `pyproject.toml` with `[tool.agentkit]`, in a folder or its parents.

    A file of another user is ignored: whoever can write to a parent such as /tmp must not decide anything here.
    Raises ConfigError.
    """
    for parent in (folder, *folder.parents):
        for name in (PROJECT_FILE, _PYPROJECT):
            path = parent / name
            if has_trusted_owner(path) and (found := _read(path)):
                return found
    return None


def has_trusted_owner(path: Path) -> bool:
    """Whether it is a file of this user or of the administrator."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return path.is_file() and (not hasattr(os, "getuid") or owner in {0, os.getuid()})


def _read(path: Path) -> SettingsFile | None:
    """Parse a settings file; None if the file or its [tool.agentkit] table is missing. Raises ConfigError."""
    import tomllib

    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):  # the home of a service can be /dev/null
        return None
    except OSError as error:
        raise ConfigError(
            f"The settings in {path} cannot be read: {error.strerror}. Correct or move the file."
        ) from None
    if path.name == _PYPROJECT and _TABLE.encode() not in content:
        return None
    try:
        text = content.decode()
        data: Any = tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}. Correct the file.") from None
    if path.name == _PYPROJECT:
        tables: Any = data.get("tool")
        data = tables.get("agentkit") if isinstance(tables, dict) else None
    if not isinstance(data, dict):
        return None
    return SettingsFile(path, {name: parse_setting(path, text, name, value) for name, value in data.items()}, content)


def parse_setting(path: Path, text: str, name: str, value: object) -> Any:
    """Validate a setting's value. Raises ConfigError with file and line."""
    if name not in KEYS:
        message = unknown_name("setting", name, KEYS)
        if _SECRET.search(name):
            message = f"{name!r:.80} is not a setting. Store a key with: agentkit keys set openai"
        raise ConfigError(f"{_location(path, text, name)}: {message}")
    try:
        return KEYS[name](value)
    except ConfigError as error:
        message = str(error)
        message = f"{name} {message}" if message.startswith("takes ") else message
        keys = value if isinstance(value, dict) else ()
        mentioned_key = next((key for key in keys if re.search(rf"\b{re.escape(key)}\b", message)), name)
        raise ConfigError(f"{_location(path, text, mentioned_key)}: {message}") from None


def _location(path: Path, text: str, name: str) -> str:
    """The file, and the line where the name is set, if it is found."""
    pattern = re.compile(rf"""^\s*\[?([\w.]+\.)?["']?{re.escape(name)}["']?\s*[=\].]""")
    inline = re.compile(rf"""[{{,]\s*["']?{re.escape(name)}["']?\s*=""")
    lines = split_lines(text)
    for search in (pattern.search, inline.search):
        number = next((number for number, line in enumerate(lines, 1) if search(line)), None)
        if number is not None:
            return f"{path}, line {number}"
    return str(path)


def templates_folder() -> Path:
    """The folder of the user's templates."""
    return settings_file().parent / "templates"


_TABLES = ("limits", "options", "aliases", "plugins")
_NAMED = ("options.NAME", "aliases.NAME", "plugins.NAME")
_NEW_FILE = "# Settings of the agentkit command. To see all of them: agentkit config show\n"


def set_in_file(path: Path, key: str, value: str | None) -> None:
    """Set a value in a settings file, or remove it if it is None; other lines and comments stay.

    Raises ConfigError for an invalid value, and for a value to remove that the file does not have.
    """
    table, _, name = key.rpartition(".")
    if (table or key) not in KEYS or (table and table not in _TABLES) or (key in _TABLES):
        message = unknown_name("setting", key, [*(each for each in KEYS if each not in _TABLES), *LIMIT_KEYS, *_NAMED])
        raise ConfigError(f"{key} is a table. Set one of its values: {key}.NAME" if key in _TABLES else message)
    try:
        before = path.read_text("utf-8") if path.exists() else _NEW_FILE
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}. Correct or move the file.") from None
    if value is not None:
        _check_names(table, key, value)
    text = _with_line(before, table, name, "" if value is None else f"{name} = {_to_toml(table, name, value)}")
    if value is None and text == before:
        raise ConfigError(f"{key} is not set in {path}. To see where it comes from: agentkit config show")
    file = path.with_name(f"{path.name}.new")
    try:
        store(file, text)
        _read(file)  # raises for a value that is not valid
        file.replace(path)
    except ConfigError as error:
        reason = re.sub(rf"^{re.escape(str(file))}(, line \d+)?: ", "", str(error))
        raise ConfigError(f"{key} was not set: {reason}") from None
    finally:
        file.unlink(missing_ok=True)


def _check_names(table: str, key: str, value: str) -> None:
    """Raise ConfigError for a provider, tool or model prefix that does not exist."""
    from agentkit.cli.loaders import is_user_defined, load_tools
    from agentkit.llm.detection import PROVIDERS
    from agentkit.tools.plugins import installed

    providers = (*PROVIDERS, *installed("providers"))
    if table == "plugins" and (plugin := key.partition(".")[2]) not in installed("tools"):
        raise ConfigError(f"{unknown_name('plugin', plugin, installed('tools'))} To list them: agentkit plugins")
    if key == "provider" and value.lower() not in providers:
        raise ConfigError(unknown_name("provider", value, providers))
    prefix, colon, _ = value.partition(":")
    is_prefix = bool(colon) and prefix.isidentifier() and suggestion(prefix, providers)
    if (key == "model" or table == "aliases") and is_prefix and prefix.lower() not in providers:
        raise ConfigError(unknown_name("provider", prefix, providers))
    if key == "tools":
        plugins = installed("tools")
        load_tools(
            name for name in split_names([value]) if not is_user_defined(name) and name.partition(":")[0] not in plugins
        )


LIMIT_KEYS = tuple(f"limits.{name}" for name in LIMIT_NAMES)


def _to_toml(table: str, name: str, value: str) -> str:
    """A value as TOML: a list of names, a number, true or false, or a text."""
    if not table and name == "tools":
        return json.dumps(list(split_names([value])))
    is_plain = table in ("limits", "options") or (name == "session" and value == "false")
    plain = option_value("false" if table == "limits" and value.lower() == "none" else value) if is_plain else value
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, str | bool | int | float) else json.dumps(value)


def _with_line(text: str, table: str, name: str, line: str) -> str:
    """The text of a file with this line in its table, in place of one for the same name; an empty line removes that."""
    lines = split_lines(text)
    heads = [at for at, each in enumerate(lines) if re.match(r"\s*\[", each)]
    start = next((at + 1 for at in heads if re.match(rf"\s*\[\s*{re.escape(table)}\s*\]", lines[at])), None)
    if not table:
        start = 0
    if start is None:
        if not line:
            return text
        return "\n".join([*lines, *([""] if lines and lines[-1].strip() else []), f"[{table}]", line]) + "\n"
    end = next((at for at in heads if at >= start), len(lines))
    same = re.compile(rf"""\s*["']?{re.escape(name)}["']?\s*=""")
    at = next((at for at in range(start, end) if same.match(lines[at])), None)
    if at is not None:
        lines[at : at + 1] = [line] if line else []
    elif not line:
        return text
    else:
        while end > start and not lines[end - 1].strip():
            end -= 1
        lines.insert(end, line)
    return "\n".join(lines) + "\n"


def is_trusted(file: SettingsFile) -> bool:
    """Whether the user trusts this file with its current content."""
    return _trusted_files().get(str(file.path)) == _fingerprint(file)


def trust(file: SettingsFile) -> None:
    """Store that the user trusts this file with its current content. Raises ConfigError if it cannot be written."""
    text = json.dumps({**_trusted_files(), str(file.path): _fingerprint(file)}, indent=2)
    store(_path(), text)


def _trusted_files() -> dict[str, str]:
    """Fingerprints by path; empty if they cannot be read, so that nothing is trusted by mistake."""
    try:
        known = json.loads(_path().read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def _fingerprint(file: SettingsFile) -> str:
    return hashlib.sha256(file.content).hexdigest()


def _path() -> Path:
    return state_folder() / "trusted.json"


FLAG = "the command line"
DEFAULT = "default"
INSTRUCTION = "You are a helpful assistant."
MAX_ITERATIONS = 10

_DEFAULTS: Mapping[str, Any] = {
    "model": None,
    "provider": None,
    "base_url": None,
    "tools": ("default",),
    "safety": SafetyLevel.NETWORK,
    "session": None,
    "limits": {each.name: each.default for each in fields(Limits)} | {"iterations": MAX_ITERATIONS},
    "instruction": INSTRUCTION,
    "trace": None,
    "options": {},
    "aliases": {},
    "plugins": {},
}
_ENDPOINT_KEYS = ("provider", "base_url", "model")
_MERGED_KEYS = ("options", "aliases", "plugins")
_NARROWABLE_KEYS = ("safety", "limits", "tools")


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and its source. Each limit is a separate setting, such as `limits.cost`."""

    key: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Layer:
    """The settings of one source: command line, agent file, environment, settings file or defaults."""

    source: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def source_of(self, key: str) -> str:
        """The source of one value, as a person would look for it."""
        return f"AGENTKIT_{key.partition('.')[0].upper()}" if self.source == "environment" else self.source


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, each with its source; `notes` are warnings about ignored values, for stderr.

    `name` and `workspace` come from an agent's text file; `program_agent` is an agent defined by a program.
    `project` are the trusted instructions of the current folder, for a coding agent.
    """

    values: Mapping[str, Setting]
    notes: tuple[str, ...] = ()
    name: str = "agentkit"
    workspace: Path | None = None
    program_agent: Agent[Any] | None = None
    project: ProjectFiles | None = None

    def of(self, key: str) -> Any:
        """The value of a setting; None if no source sets it."""
        return self.values[key].value

    def is_flag(self, key: str) -> bool:
        """Whether the setting comes from the command line."""
        return self.values[key].source == FLAG

    @property
    def limits(self) -> Limits:
        """The limits of a run."""
        return Limits(**{each.name: self.of(f"limits.{each.name}") for each in fields(Limits)})

    @property
    def tools(self) -> Toolset:
        """The tools of the agent. Raises UnknownTool, and ConfigError for a file without tools."""
        from agentkit.cli.loaders import load_tools

        if self.program_agent is not None and not self.is_flag("tools"):
            return self.program_agent.tools
        try:
            found = load_tools(self.of("tools"), self.of("plugins"))
            return found if self.project is None else found + self.project.tools
        except UnknownTool as error:
            source = "" if self.is_flag("tools") else f"{self.values['tools'].source}: "
            raise UnknownTool(f"{source}{error}") from None

    def llm(self, model: str | None = None) -> LLM:
        """The configured client, optionally with another model. Raises NoProvider and ConfigError."""
        from agentkit.cli.keys import with_stored_key
        from agentkit.llm.client import LLM

        # The client reads the environment itself, in its documented order.
        chosen = {key: self.values[key] for key in _ENDPOINT_KEYS}
        agent, is_flagged = self.program_agent, any(map(self.is_flag, _ENDPOINT_KEYS))
        if agent is not None and agent.configured_llm is not None and model is None and not is_flagged:
            return self._with_options(agent.llm)
        aliases = self.of("aliases")
        arguments = {
            key: each.value
            for key, each in chosen.items()
            if not each.source.startswith("AGENTKIT_") or (key == "model" and each.value in aliases)
        }
        model = self._resolve_alias(model)
        named = model or (chosen["model"].value if chosen["provider"].value is None else None)
        _check_model(self._resolve_alias(named) or "", self.of("base_url"))
        if named is not None and (client := _plugin_client(self._resolve_alias(named) or "")):
            return self._with_options(client)
        if arguments.get("model"):
            arguments["model"] = self._resolve_alias(arguments["model"])
        if model is not None and _selects_endpoint({"model": model}):
            return self._with_options(LLM(**with_stored_key({"model": model})))
        if any(arguments.values()):  # fallbacks from a variable apply only if no argument is given
            arguments |= {"model": self._resolve_alias(self.of("model"))}
        if chosen["provider"].value == "offline" and (model or chosen["model"].source == FLAG):
            named, by = model or chosen["model"].value, chosen["provider"].source
            raise ConfigError(
                f"The model {named!r} cannot be used: {by} selects the offline model. "
                f"Write the provider before the model, as in openai:{named}."
            )
        first = _first_llm(arguments, model)
        return self._with_options(first if model is None else first.with_model(model))

    def _resolve_alias(self, model: str | None) -> str | None:
        """The model behind an alias; any other name unchanged."""
        aliases: Mapping[str, str] = self.of("aliases")
        return None if model is None else aliases.get(model, model)

    def _with_options(self, llm: LLM) -> LLM:
        """The client with the model options, such as temperature."""
        options: Mapping[str, Any] = self.of("options")
        return llm.with_settings(**options) if options else llm

    @property
    def listeners(self) -> list[Listener]:
        """The listeners of the trace setting, in addition to a program's own listeners."""
        if self.of("trace") is None:
            return []
        from agentkit.tracing.jsonl import JSONLines

        return [JSONLines(Path(self.of("trace")).expanduser())]

    def agent(self, **options: Any) -> Agent[Any]:
        """Build the configured agent with further arguments. Raises the errors of `llm`, `tools` and Agent."""
        if self.program_agent is not None:
            return self._configure(self.program_agent, **options)
        from agentkit.agents.agent import Agent

        tools = self.tools  # a misspelt tool is reported before a missing key
        data: dict[str, Any] = {name: self.of(name) for name in ("instruction", "safety")}
        if CODE in self.of("tools"):
            from agentkit.agents import coding

            own = data["instruction"] if self.values["instruction"].source != DEFAULT else coding.INSTRUCTION
            data["instruction"] = coding.coding_instruction(own, self.project)
        data |= {"llm": self.llm(), "limits": self.limits, "workspace": self.workspace, "listeners": self.listeners}
        data["max_iterations"] = self.of("limits.iterations")
        return Agent(self.name, tools, **data, **options)

    def _configure(
        self,
        agent_template: Agent[Any],
        session: Session | None = None,
        approve: Approver | None = None,
        output_type: Any = None,
        *,
        dry_run: bool = False,
    ) -> Agent[Any]:
        """Copy a program's agent and apply these settings. Raises ConfigError if an output type is given."""
        if output_type is not None:
            raise ConfigError(
                f"The type of the answers is part of {agent_template.name!r}: output_type=. Leave out --schema."
            )
        from agentkit.sessions.session import Session

        agent = agent_template.within(session or Session())
        agent.llm, agent.tools, agent.limits = self.llm(), self.tools, self.limits
        agent.max_iterations = self.of("limits.iterations")
        agent.policy = replace(agent_template.policy, level=self.of("safety"))
        if self.is_flag("instruction"):
            agent.instruction = self.of("instruction")
        agent.approve, agent.dry_run = agent_template.approve or approve, agent_template.dry_run or dry_run
        agent.listeners += self.listeners
        return agent


def _first_llm(given: Mapping[str, Any], model: str | None) -> LLM:
    """The client of the settings; without a provider, the error about the named model, if there is one."""
    from agentkit.cli.keys import with_stored_key
    from agentkit.llm.client import LLM

    try:
        return LLM(**with_stored_key(given))
    except NoProvider:
        if model is None or any(given.values()):
            raise
        return LLM(**with_stored_key({"model": model}))


def _check_model(model: str, base_url: str | None) -> None:
    """Raise ConfigError for a model that is the name of a provider. A custom server can have such a model."""
    from agentkit.llm.detection import PROVIDERS
    from agentkit.tools.plugins import installed

    name, has_server = model.removesuffix(":"), bool(base_url or environment().get("OPENAI_BASE_URL"))
    if (model in PROVIDERS and model != "offline" and not has_server) or name in installed("providers"):
        raise ConfigError(f"{model!r} is a provider, not a model. Use -m {name}:MODEL")


def _plugin_client(model: str) -> LLM | None:
    """The client of a plugin for `PLUGIN:MODEL`; None for the models of other providers. Raises ConfigError."""
    from agentkit.llm.detection import arguments_for_model

    if ":" not in model or "|" in model or arguments_for_model(model) is not None:
        return None
    from agentkit.cli.loaders import plugin_llm

    return plugin_llm(model)


def load_settings(
    flags: Mapping[str, Any] | None = None, agent_file: Path | None = None, template: SettingsFile | None = None
) -> Settings:
    """Resolve the settings in the current folder. Raises ConfigError.

    `flags` are the settings of the command line, `agent_file` is the agent file.
    """
    own = user_file(settings_file())
    project = project_file(current_folder())
    notes: list[str] = []
    lower_layers = [Layer(str(own.path), own.values), Layer(DEFAULT, _DEFAULTS)]
    if project is not None:
        values, notes = _project_values(project, lower_layers)
        lower_layers.insert(0, Layer(str(project.path), values))
    flag_values = {name: value for name, value in (flags or {}).items() if value is not None}
    layers = [Layer(FLAG, flag_values), Layer("environment", _environment_values()), *lower_layers]
    options: dict[str, Any] = {}
    if agent_file is not None:
        layer, options = _agent_file_layer(agent_file)
        layers.insert(1, layer)
    if template is not None:
        layers.insert(1, Layer(str(template.path), _template_values(template, layers[1:])))
    settings = [*_endpoint_settings(layers), *(_limit(name, layers) for name in LIMIT_NAMES)]
    settings += [_merge_tables(key, layers) for key in _MERGED_KEYS]
    settings += [_first(key, layers) for key in KEYS if key not in (*_ENDPOINT_KEYS, *_MERGED_KEYS, "limits")]
    values = {each.key: each for each in settings}
    if CODE in values["tools"].value and "program_agent" not in options:
        options["project"], unread = _coding_project(values)
        notes += unread
    return Settings(values, (*notes, *_offline_warnings(values, agent_file)), **options)


def _coding_project(values: dict[str, Setting]) -> tuple[ProjectFiles | None, list[str]]:
    """The trusted instructions of the current folder, or a note about them; also raises the default of iterations."""
    from agentkit.agents import coding

    limit = values["limits.iterations"]
    if limit.source == DEFAULT:
        values[limit.key] = replace(limit, value=coding.MAX_ITERATIONS)
    project = coding.ProjectFiles.of(current_folder())
    if project is None or is_trusted(as_settings_file(project)):
        return project, []
    note = f"{project.summary} of this folder are not trusted, so the model does not read them."
    return None, [f"{note}\nReview them, then run: agentkit config trust"]


def as_settings_file(project: ProjectFiles) -> SettingsFile:
    """The instructions of a folder in the form in which trust is stored."""
    return SettingsFile(project.folder.resolve() / "instructions", {}, project.content)


def _offline_warnings(values: Mapping[str, Setting], agent_file: Path | None) -> Iterator[str]:
    """Warn if the offline model answers, without a flag, in place of the model that an agent file names."""
    model, provider = values["model"], values["provider"]
    if model.source == str(agent_file) and provider.value == "offline" and provider.source != FLAG:
        yield f"{provider.source} selects the offline model instead of {model.value!r} from {agent_file}."


def _agent_file_layer(path: Path) -> tuple[Layer, dict[str, Any]]:
    """The settings in an agent file, and its other fields. The default session of a file is for programs only."""
    from agentkit.agents.agent_file import read_manifesto, session_name
    from agentkit.cli.loaders import agent_from_program, is_program

    if is_program(path):
        agent = agent_from_program(str(path))
        return Layer(str(path), _agent_values(agent)), {"name": agent.name, "program_agent": agent}
    parsed_file = read_manifesto(path)
    if parsed_file.tool_calling is not None:  # its tools have other names
        from agentkit.agents.agent import Agent

        agent = Agent.from_file(path)
        return Layer(str(path), _agent_values(agent)), {"name": agent.name, "program_agent": agent}
    data: dict[str, Any] = {"instruction": parsed_file.instruction, "tools": parsed_file.tools.names}
    data |= {key: getattr(parsed_file, key) for key in ("model", "safety") if getattr(parsed_file, key) is not None}
    data["limits"] = _changed_limits(parsed_file.limits or Limits())
    data["limits"] |= {} if parsed_file.max_iterations is None else {"iterations": parsed_file.max_iterations}
    if parsed_file.session != session_name(path):
        data["session"] = parsed_file.session or ""
    return Layer(str(path), data), {"name": parsed_file.name, "workspace": parsed_file.workspace}


def _agent_values(agent: Agent[Any]) -> dict[str, Any]:
    """The settings of a program's agent: they override environment and files, and flags override them."""
    data: dict[str, Any] = {"safety": agent.policy.level, "tools": agent.tools.names}
    data["limits"] = {"iterations": agent.max_iterations, **_changed_limits(agent.limits)}
    if isinstance(agent.configured_session, str):
        data["session"] = agent.configured_session
    return data


def _changed_limits(limits: Limits) -> dict[str, Any]:
    """The limits that differ from the defaults, by name."""
    return {each.name: value for each in fields(Limits) if (value := getattr(limits, each.name)) != each.default}


def _environment_values() -> dict[str, Any]:
    """The settings from environment variables such as `AGENTKIT_MODEL`. Raises ConfigError."""
    variables = environment()
    found = {}
    for key, read in KEYS.items():
        name = f"AGENTKIT_{key.upper()}"
        if name in variables:
            try:
                found[key] = read(variables[name])
            except ConfigError as error:
                raise ConfigError(f"{name} is invalid. {error}") from None
    return found


def _project_values(project: SettingsFile, lower_layers: list[Layer]) -> tuple[dict[str, Any], list[str]]:
    """The values of a project file that apply, and notes about the others. Raises ConfigError for forbidden values.

    Somebody else can have written the file: it can narrow what the user allows, and set the rest once it is trusted.
    """
    values = dict(project.values)
    check_project(project)
    if "safety" in values:
        values["safety"] = min(values["safety"], _first("safety", lower_layers).value)
    if is_trusted(project):
        return values, []
    ignored = [key for key in KEYS if key not in _NARROWABLE_KEYS and values.pop(key, None) is not None]
    if "limits" in values:
        values["limits"] = _narrow_limits(values["limits"], lower_layers)
    if "tools" in values:
        values["tools"] = _narrow_tools(values["tools"], _first("tools", lower_layers).value)
    notes = [f"{project.path} is not trusted, so that {' and '.join(ignored)} in it does not count."] if ignored else []
    return values, [f"{note}\nReview the file, then run: agentkit config trust" for note in notes]


def check_project(project: SettingsFile) -> None:
    """Raise ConfigError for values that no project may set: where questions and keys go, programs, wider safety."""
    from agentkit.cli.loaders import is_user_defined
    from agentkit.llm.client import split_model
    from agentkit.llm.detection import arguments_for_model

    values = project.values
    for key in ("provider", "base_url"):
        if key in values:
            raise ConfigError(
                f"{project.path}: a project file cannot set {key}, because your key and questions would be sent there. "
                f"Put it into your user file, {settings_file()}, or set AGENTKIT_{key.upper()}."
            )
    if values.get("plugins"):
        raise ConfigError(
            f"{project.path}: a project file cannot set the safety levels of plugins. Put them into your user file, "
            f"{settings_file()}."
        )
    own = next(filter(is_user_defined, values.get("tools", ())), None)
    if own is not None:
        raise ConfigError(
            f"{project.path}: a project file cannot use the program {own!r} as tools, because it would be executed. "
            f"Pass it on the command line: -t {own}"
        )
    models = [values.get("model"), *values.get("aliases", {}).values()]
    if any(
        _selects_endpoint({"model": each}) or any(map(arguments_for_model, split_model(each)[1])) for each in models
    ):
        raise ConfigError(
            f"{project.path}: a project file can set a model, but not a provider, because your questions would be sent "
            f"there. Leave out the part before the colon, or put the model into your user file, {settings_file()}."
        )
    if values.get("safety", SafetyLevel.SAFE) > SafetyLevel.NETWORK:
        raise ConfigError(
            f"{project.path}: a project file cannot raise the safety level above network. Set it yourself: --safety "
            "system, or AGENTKIT_SAFETY=system."
        )


def _narrow_limits(limits: Mapping[str, Any], lower_layers: list[Layer]) -> dict[str, Any]:
    """The limits that are stricter than those of the layers below."""
    lower = {name: _limit(name, lower_layers).value for name in limits if name != "unknown_price"}
    return {
        name: limits[name]
        for name, value in lower.items()
        if limits[name] is not None and (value is None or limits[name] < value)
    }


def _narrow_tools(names: tuple[str, ...], allowed: tuple[str, ...]) -> tuple[str, ...]:
    """The tools that are named and also allowed. Only the user can name programs."""
    from agentkit.cli.loaders import is_user_defined
    from agentkit.tools import catalog

    known = {*catalog.named(name for name in allowed if not is_user_defined(name) and name != CODE).names}
    known |= {*allowed}.intersection([CODE])
    found = *catalog.named(name for name in names if name != CODE).names, *(name for name in names if name == CODE)
    return tuple(name for name in found if name in known)


def _selects_endpoint(values: Mapping[str, Any]) -> bool:
    """Whether the values select a provider or endpoint, and not only a model name."""
    from agentkit.llm.client import split_model
    from agentkit.llm.detection import arguments_for_model

    return arguments_for_model(split_model(values.get("model"))[0] or "") is not None or any(
        values.get(key) for key in ("provider", "base_url")
    )


def _endpoint_settings(layers: list[Layer]) -> list[Setting]:
    """Model, provider and base URL. A layer that selects another provider or endpoint hides all layers below it."""
    found: dict[str, Setting] = {}
    for layer in layers:
        for key in _ENDPOINT_KEYS:
            if layer.values.get(key) and key not in found:
                found[key] = Setting(key, layer.values[key], layer.source_of(key))
        if _selects_endpoint(layer.values):
            break
    return [found.get(key) or Setting(key, None, DEFAULT) for key in _ENDPOINT_KEYS]


def _limit(name: str, layers: list[Layer]) -> Setting:
    layer = next(layer for layer in layers if name in layer.values.get("limits", {}))
    return Setting(f"limits.{name}", layer.values["limits"][name], layer.source_of("limits"))


def _merge_tables(key: str, layers: list[Layer]) -> Setting:
    """A table whose entries come from all layers; the source is that of the highest layer with an entry."""
    found = [layer for layer in layers if layer.values.get(key)]
    values = {name: value for layer in reversed(found) for name, value in layer.values[key].items()}
    return Setting(key, values, found[0].source_of(key) if found else DEFAULT)


def _template_values(template: SettingsFile, lower_layers: list[Layer]) -> dict[str, Any]:
    """The settings of a template; one of a project cannot raise the safety level or the limits."""
    values = dict(template.values)
    if template.path.parent != templates_folder():
        if "safety" in values:
            values["safety"] = min(values["safety"], _first("safety", lower_layers).value)
        if "limits" in values:
            values["limits"] = _narrow_limits(values["limits"], lower_layers)
    return values


def _first(key: str, layers: list[Layer]) -> Setting:
    layer = next(layer for layer in layers if key in layer.values)
    return Setting(key, layer.values[key], layer.source_of(key))
