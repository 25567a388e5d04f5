"""The command-line entry point; text that names no command is a question."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

import agentkit
from agentkit.cli.terminal import FAILED, INTERRUPTED, LIMIT, USAGE, print_error, split_remedy, stdin_mode
from agentkit.errors import AgentKitError, ConfigError, LimitExceeded, ToolError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_MIN_COLUMNS = 51
_CODES: tuple[tuple[type[AgentKitError], int], ...] = (
    (ConfigError, USAGE),
    (LimitExceeded, LIMIT),
    (ToolError, USAGE),
    (AgentKitError, FAILED),
)


COMMANDS = {
    "ask": ("ask", "ask", "Ask a question (this is the default)."),
    "chat": ("chat.repl", "chat", "Chat at a terminal or through a pipe."),
    "code": ("chat.repl", "code", "Work with an agent on the code in this folder."),
    "serve": ("serve", "serve", "Serve an OpenAI-compatible endpoint and a chat page."),
    "acp": ("serve", "acp", "Serve an editor over standard input and output."),
    "mcp": ("mcp", "mcp", "Offer tools to MCP clients, and inspect MCP servers."),
    "sessions": ("sessions", "sessions", "List, search, show, fork and delete the stored sessions."),
    "undo": ("sessions", "undo", "Undo the changes of the last run in this folder."),
    "run": ("ask", "run", "Ask the agent in a Python or text file."),
    "keys": ("keys", "keys", "Store, list and remove API keys."),
    "templates": ("config", "templates", "List the templates for -T."),
    "plugins": ("loaders", "plugins", "List the installed plugins."),
    "approvals": ("approvals", "approvals", "List and revoke the stored approvals."),
    "tools": ("tools", "tools", "List the tools, and run one without a model."),
    "knowledge": ("knowledge", "knowledge", "Add documents, and search them for passages."),
    "eval": ("eval", "evaluation", "Evaluate an agent with a suite of cases."),
    "optimize": ("optimize", "optimize", "Improve an agent's instruction with its failures."),
    "explain": ("tools", "explain", "Show whether a tool call is allowed, and why."),
    "manifest": ("manifest", "manifest", "Show the permissions of an agent, and fail if there are more."),
    "models": ("doctor", "models", "Show the model in use, its price and its context window; list models."),
    "config": ("config", "config", "Show and set the settings, with their sources and files."),
    "init": ("config", "init", "Write a commented settings file."),
    "doctor": ("doctor", "doctor", "Check the installation, and name the next step."),
    "show": ("sessions", "show", "Show a recorded run or an exported session, or write a page."),
    "replay": ("sessions", "replay", "Replay a recorded run, or run a program on it."),
}
"""The commands, most frequent first: module below `agentkit.cli`, name in the module, and help line.

A command is imported on use, so that `agentkit --version` and the help import no agent and no model.
"""


_MAX_COMMAND_WORDS = 3
_PEER_COMMANDS = {
    **dict.fromkeys(("log", "logs", "history"), "agentkit sessions list, or agentkit sessions search WORDS"),
    **dict.fromkeys(("login", "auth"), "agentkit keys set PROVIDER"),
    "aliases": "agentkit config set aliases.NAME MODEL",
    "embed": "agentkit knowledge add FILE",
    "install": "pip install PACKAGE; agentkit plugins lists the installed plugins",
    "permissions": "agentkit approvals",
    "prompt": 'agentkit ask "..."',
    "resume": 'agentkit -c, or agentkit --session NAME "..."',
    "setup": "agentkit init, or agentkit keys set PROVIDER",
}
"""Commands of llm, aider, Claude Code and other programs, and those of agentkit for the same purpose."""


class QuestionOrCommand(click.Group):
    """A group whose default command is `ask`."""

    def list_commands(self, _context: click.Context | None = None) -> list[str]:
        """The names of the commands, most frequent first."""
        return list(COMMANDS)

    def get_command(self, _context: click.Context | None, cmd_name: str) -> click.Command | None:
        """The command of this name, imported on first use."""
        if cmd_name not in COMMANDS:
            from agentkit.cli.loaders import plugin_command

            return plugin_command(cmd_name)
        module, name, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"agentkit.cli.{module}"), name)
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])
        from agentkit.tools.plugins import installed

        if rows := [(name, f"A command of {plugin.package}.") for name, plugin in installed("commands").items()]:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the options of `ask`, too, since its name can be omitted."""
        completions = super().shell_complete(ctx, incomplete)
        if not incomplete.startswith("-"):
            return completions
        from agentkit.cli.ask import ask

        known = {each.value for each in completions}
        ask_options = ask.shell_complete(click.Context(ask, parent=ctx), incomplete)
        return [*completions, *(each for each in ask_options if each.value not in known)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `ask` before arguments that start with neither a command nor a group option, and for piped input."""
        if not args and _has_piped_input():
            args = ["ask"]
        group_options = {option for parameter in self.get_params(ctx) for option in parameter.opts}
        if args and args[0] not in COMMANDS and args[0] not in group_options and not _is_plugin(args[0]):
            self._refuse_misspelt_command(ctx, args)
            self._refuse_misplaced_command(ctx, args)
            args = ["ask", *args]
        return super().parse_args(ctx, args)

    def _refuse_misspelt_command(self, ctx: click.Context, args: Sequence[str]) -> None:
        """Raise UsageError if the first word is nearly a command, as in `tool list`, before a model is paid for it."""
        word, cutoff = args[0], 0.7 if len(args) < 3 else 0.8
        if not word.isalpha() or any(each.startswith("@") for each in args):  # a file belongs to a question
            return
        if word in _PEER_COMMANDS and len(args) <= _MAX_COMMAND_WORDS:
            raise click.UsageError(
                f"{word!r} is not a command. Use {_PEER_COMMANDS[word]}. To ask it as a question, begin with: agentkit "
                f"ask {word} ...",
                ctx,
            )
        from agentkit.event_rendering import suggestion
        from agentkit.tools.plugins import installed

        known = (*COMMANDS, *installed("commands"))
        swapped = [word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1)]
        candidates = [each for each in swapped if each in known] or [
            f"--{each}" for each in ("help", "version") if each in (word, *swapped)
        ]
        hint = suggestion(word, candidates, 0.5) or suggestion(word, known, cutoff)
        if hint:
            raise click.UsageError(
                f"{word!r} is not a command.{hint} To ask it as a question, begin with: agentkit ask {word} ...", ctx
            )

    def _refuse_misplaced_command(self, ctx: click.Context, args: list[str]) -> None:
        """Raise UsageError if the first word after options is a command, as in `--offline tools list`."""
        from agentkit.cli.ask import ask

        words = ask.make_context("ask", list(args), parent=ctx, resilient_parsing=True).params["question"]
        if words and words[0] in COMMANDS:
            raise click.UsageError(
                f"{words[0]!r} is a command and comes before its options: agentkit {words[0]} ... "
                "To ask it as a question, begin with: agentkit ask ...",
                ctx,
            )


def _is_plugin(word: str) -> bool:
    """Whether a plugin has a command of that name. Only single words are looked up, so that questions stay quick."""
    if not word.replace("-", "_").isidentifier():
        return False
    from agentkit.tools.plugins import installed

    return word in installed("commands")


def _has_piped_input() -> bool:
    """Whether stdin is a pipe or file, which can contain a question; not a terminal or the null device of a service."""
    mode = stdin_mode()
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


_EXAMPLES = """\b
Examples:
  agentkit "How much is 1250 * 0.17?"    ask; the same as: agentkit ask ...
  agentkit --offline "What time is it?"  no key, no network
  agentkit tools run calculator expression="2+2"
"""


@click.group(cls=QuestionOrCommand, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(agentkit.__version__, package_name="agentkit-tools", message="agentkit %(version)s")
def cli() -> None:
    """Ask a model that has tools, or use the tools directly."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit code. The answer goes to stdout, everything else to stderr."""
    try:
        return int(
            cli.main(args=arguments, prog_name="agentkit", standalone_mode=False, terminal_width=_help_width()) or 0
        )
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        _print_usage_error(error, sys.argv[1:] if arguments is None else arguments)
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return INTERRUPTED
    except OSError as error:
        # Output that failed to be written is still buffered, and would fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print_error(error)
        return FAILED
    except AgentKitError as error:
        print_error(error)
        return next(code for kind, code in _CODES if isinstance(error, kind))


def _help_width() -> int | None:
    """The width of help texts on a terminal narrower than click's minimum; None elsewhere."""
    from shutil import get_terminal_size

    columns = get_terminal_size().columns
    return columns - 1 if columns <= _MIN_COLUMNS else None


def _print_usage_error(error: click.ClickException, arguments: Sequence[str]) -> None:
    """Print a usage error, with a hint to the help if the error has no remedy."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = arguments[0] if arguments and arguments[0] in COMMANDS else "ask"
    text, command_path = error.format_message(), f"agentkit {command}" if context is None else context.command_path
    if isinstance(error, click.NoSuchOption) and context is not None:
        from agentkit.cli.options import option_hint

        groups = [context, *([context.parent] if context.parent else [])]
        known = [name for each in groups for option in each.command.get_params(each) for name in option.opts]
        text = f"{error.message.rstrip('.')}.{option_hint(error, known)}"
    group = None if context is None else context.command
    if context is not None and isinstance(group, click.Group) and re.fullmatch(r"No such command '.*'\.", text):
        text += f" {command_path} has: {', '.join(group.list_commands(context))}."
    _, remedy = split_remedy(text)
    print_error(click.ClickException(text), "" if remedy else f"For usage: {command_path} --help")
