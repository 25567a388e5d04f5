"""Options and argument types that commands share, and their shell completion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agentkit.errors import AgentKitError, ConfigError
from agentkit.messages import REASONING_EFFORTS
from agentkit.suggestions import closest

Command = TypeVar("Command", bound=Callable[..., Any])

COLLECTIONS = "core, web, system, files, default, code"
"""The collections of tools, for help texts, which are built before the catalog is loaded."""


CODE = "code"
"""The collection for work on the files of a folder; it contains agents, and so is not in the catalog."""


FILE = click.Path(path_type=Path)
"""The type of options and arguments that name a file."""

JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def tool_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete tools and collections; after a comma, the next name."""
    from agentkit.tools import catalog

    before, comma, prefix = incomplete.rpartition(",")
    names = [*catalog.collections, CODE, *catalog.all_tools.names]
    return [f"{before}{comma}{name}" for name in names if name.startswith(prefix)]


def session_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete session names; empty if the sessions cannot be read."""
    from agentkit.sessions.session import Session

    try:
        summaries = Session.summaries(context.params.get("store"))
    except AgentKitError:
        return []
    return [summary.name for summary in summaries if summary.name.startswith(incomplete)]


def safety_levels(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete safety levels."""
    from agentkit.decisions import SafetyLevel

    return [level.name.lower() for level in SafetyLevel if level.name.lower().startswith(incomplete.lower())]


def limit_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete limit names, each with its `=`."""
    from dataclasses import fields

    from agentkit.usage import Limits

    return [f"{each.name}=" for each in fields(Limits) if each.name.startswith(incomplete)]


_PEER_OPTIONS = {
    **dict.fromkeys(("--yolo", "--yes-always", "--auto-approve", "--dangerously-skip-permissions"), "Use -y."),
    **dict.fromkeys(("--system-prompt", "--append-system-prompt", "--instruction"), "Use -s TEXT."),
    **dict.fromkeys(("-a", "-f", "--attachment", "--file", "--fragment", "--input", "--read"), "Write @FILE."),
    **dict.fromkeys(("--resume", "-r"), "Use -c, or --session NAME."),
    **dict.fromkeys(("--print", "-p"), "Leave it out: the answer is printed."),
    **dict.fromkeys(("--effort", "--reasoning-effort"), "Use --reasoning EFFORT."),
    **dict.fromkeys(("--tool", "--allowed-tools", "--allowedTools", "--functions"), "Use -t NAME, or -t FILE.py."),
    **dict.fromkeys(("--max-turns", "--chain-limit"), "Use --limit iterations=NUMBER."),
    **dict.fromkeys(("--api-key", "--key"), "Store it with: agentkit keys set PROVIDER"),
    "--base-url": "Set AGENTKIT_BASE_URL=URL.",
    "--debug": "Use -v.",
    "--log": "Use --trace FILE.",
    "--max-budget-usd": "Use --limit cost=DOLLARS.",
    "--no-log": "Use --no-session.",
    "--output-format": "Use --json, or --jsonl.",
    "--permission-mode": "Use --safety LEVEL.",
    "--provider": "Use -m PROVIDER:MODEL.",
    "--timeout": "Use --limit seconds=NUMBER.",
}
"""Options of llm, aider, Claude Code and other programs, and what agentkit has instead."""


def option_hint(error: click.NoSuchOption, known: list[str]) -> str:
    """What to write instead of an unknown option: that of another program, an option of the model, or a similar one."""
    name = error.option_name
    if name in _PEER_OPTIONS:
        return f" {_PEER_OPTIONS[name]}"
    if (setting := name.removeprefix("--").replace("-", "_")) in _OF_MODELS:
        return f" Options of the model are set with -O: -O {setting} VALUE"
    near = closest(name, known, _NEAR_OPTION)
    return f" Did you mean {near}?" if near else ""


class DefaultGroup(click.Group):
    """A group whose command `list`, or `show`, is the default."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command if there are no arguments."""
        default = "list" if "list" in self.commands else "show"
        return super().parse_args(ctx, args or ([] if ctx.resilient_parsing else [default]))


def limits_option(help_text: str) -> Callable[[Command], Command]:
    """The repeatable option `--limit NAME=NUMBER`."""
    return click.option(
        "--limit", "limits", multiple=True, metavar="NAME=NUMBER", shell_complete=limit_names, help=help_text
    )


def _check_store(_context: click.Context, _parameter: click.Parameter, store: str | None) -> str | None:
    """Return the place unchanged. Raises BadParameter for a URL that cannot store sessions."""
    from agentkit.sessions.stores import refuse_foreign

    try:
        refuse_foreign(store or "")
    except AgentKitError as error:
        raise click.BadParameter(str(error)) from error
    return store


STORE = click.option(
    "--store",
    metavar="FILE|URL",
    callback=_check_store,
    help="The store of the sessions: a file, or the URL of a PostgreSQL database.",
)


def _range_text(minimum: float | None, maximum: float | None, *, is_open: bool = False) -> str:
    """The bounds of a number, in words."""
    if minimum is not None and maximum is not None and not is_open:
        return f"from {minimum:,g} to {maximum:,g}"
    lower = "" if minimum is None else f"above {minimum:g}" if is_open else f"of at least {minimum:g}"
    return " and ".join(filter(None, (lower, "" if maximum is None else f"below {maximum:g}")))


class WholeNumber(click.IntRange):
    """A whole number within bounds, shown as NUMBER in help and errors."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the number. Raises BadParameter."""
        number = click.INT.convert(value, param, ctx)
        if (self.min is not None and number < self.min) or (self.max is not None and number > self.max):
            self.fail(f"It takes a whole number {_range_text(self.min, self.max)}. Got {value!s:.50}.", param, ctx)
        return number


class Fraction(click.FloatRange):
    """A number within bounds, shown as NUMBER in help and errors."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the number. Raises BadParameter."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if "range" not in error.message:
                raise
            self.fail(
                f"It takes a number {_range_text(self.min, self.max, is_open=self.min_open)}. Got {value!s:.50}.",
                param,
                ctx,
            )


def checked_options(given: dict[str, Any]) -> dict[str, Any]:
    """The options of a model, of which names that are not known are sent to it unchanged.

    Raises ConfigError for a name that is nearly that of a known option, for a text in the place of a number, and for a
    misspelt reasoning effort.
    """
    effort = str(given.get("reasoning_effort") or REASONING_EFFORTS[0])
    if effort not in REASONING_EFFORTS and (closest_effort := closest(effort.lower(), REASONING_EFFORTS, _NEAR_EFFORT)):
        raise ConfigError(f"No reasoning effort is named {effort!r:.80}. Did you mean {closest_effort!r}?")
    for name, value in given.items():
        if name not in _OF_MODELS and (closest_effort := closest(name.lower(), _OF_MODELS, _NEAR)):
            raise ConfigError(f"No option of a model is named {name!r:.80}. Did you mean {closest_effort!r}?")
        if name in _NUMERIC and (not isinstance(value, int | float | None) or isinstance(value, bool)):
            raise ConfigError(f"The option {name} takes a number. Got {value!r:.80}.")
    return given


_NUMBERS = """
    temperature top_p top_k min_p top_a typical_p seed n max_tokens min_tokens max_completion_tokens max_output_tokens
    max_new_tokens presence_penalty frequency_penalty repetition_penalty length_penalty repeat_penalty repeat_last_n
    top_logprobs best_of num_ctx num_predict num_beams thinking_budget
"""
_OTHERS = """
    stop stop_sequences reasoning reasoning_effort reasoning_summary thinking verbosity logit_bias logprobs user
    metadata store service_tier parallel_tool_calls tool_choice response_format prediction modalities safety_settings
    timeout safety_identifier prompt_cache_key prompt_cache_retention keep_alive truncation include extra_body stream
    provider models transforms route ignore_eos skip_special_tokens guided_json use_beam_search
"""
_NUMERIC = frozenset(_NUMBERS.split())
_OF_MODELS = _NUMERIC | frozenset(_OTHERS.split())
"""Options of models that providers and local servers document."""

_NEAR, _NEAR_EFFORT, _NEAR_OPTION = 0.8, 0.7, 0.7
