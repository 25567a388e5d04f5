"""Reference page of the command line: usage, options and exit codes of all commands."""

from collections.abc import Iterator

import click
from markdown import block, code, flowing, joined, table

from agentkit.cli.main import cli
from agentkit.cli.terminal import FAILED, INTERRUPTED, LIMIT, REFUSED, USAGE

_WIDTH = 100
_EXIT_CODES = {
    0: "success",
    FAILED: "failed",
    USAGE: "the command line or the configuration is wrong",
    LIMIT: "a limit was reached",
    REFUSED: "refused by the judge",
    INTERRUPTED: "interrupted, or paused with a pending question",
}


def page() -> str:
    """Render the page."""
    codes = table(("exit code", "meaning"), ((str(number), words) for number, words in _EXIT_CODES.items()))
    opening = "[The command line](../command-line.md) explains the commands."
    return joined(["# Reference: command line", opening, *_commands(cli, None), "## Exit codes", codes])


def _commands(command: click.Command, parent: click.Context | None) -> Iterator[str]:
    """Render a command and its subcommands."""
    context = click.Context(command, info_name=command.name if parent else "agentkit", parent=parent)
    context.max_content_width = context.terminal_width = _WIDTH
    if parent is not None:
        yield joined(_entry(command, context))
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        below = command.get_command(context, name)
        yield from _commands(below, context)


def _entry(command: click.Command, context: click.Context) -> list[str]:
    usage = command.get_usage(context).removeprefix("Usage: ")
    parts = f"{command.help or ''}\n\n{command.epilog or ''}".strip("\n").split("\n\n")
    paragraphs = [flowing(part) for part in parts if not part.startswith("\b")]
    examples = [part.removeprefix("\b").strip("\n") for part in parts if part.startswith("\b")]
    return [
        f"## {context.command_path}",
        block("text", usage),
        *paragraphs,
        *(block("text", example) for example in examples),
        table(("option", "meaning"), _options(command, context)),
    ]


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1] and "--help" not in parameter.opts:
            yield code(flowing(record[0])), record[1]
