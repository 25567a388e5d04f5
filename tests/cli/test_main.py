"""Tests for the `agentkit` command: questions and commands, output streams, and exit codes."""

import inspect
import signal
import time
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest

from agentkit.__main__ import main
from agentkit.cli.main import COMMANDS, cli, run
from agentkit.cli.options import CODE
from agentkit.testing import FakeServer, call, fail, slow
from agentkit.tools.catalog import collections


def test_text_is_sent_as_a_question(command):
    """`agentkit "text"` sends the text as a question and prints only the answer to stdout."""
    with FakeServer("Hanoi.") as server:
        assert command("What is the capital of Vietnam?", server=server) == ("Hanoi.\n", "", 0)
    assert server.requests[0].json["messages"][-1] == {"role": "user", "content": "What is the capital of Vietnam?"}


def test_ask_may_be_omitted_before_its_options(command):
    """A command line that begins with an option of `ask` is a question."""
    with FakeServer("Bonjour.") as server:
        assert command("-s", "Answer in French.", "hi", server=server)[0] == "Bonjour.\n"
    assert server.requests[0].json["messages"][0] == {"role": "system", "content": "Answer in French."}


def test_missing_key_is_a_usage_error(command):
    """A missing provider is a usage error (exit code 2) that names what to set, store or use instead."""
    out, err, code = command("hi")
    assert (out, code) == ("", 2)
    assert err.startswith("Error: No API key found.")
    for word in ("OPENAI_API_KEY", "agentkit keys set openai", "-m ollama:MODEL", "agentkit --offline"):
        assert word in err


def test_interrupted_command_exits_with_130(spawn):
    """Ctrl-C ends the command quietly, without a traceback."""
    with FakeServer(slow("too late", before_seconds=5)) as server:
        process = spawn("hi", server=server)
        deadline = time.monotonic() + 30
        while not server.requests and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("Interrupted.\n")


def test_closed_stdout_pipe_causes_no_traceback(spawn):
    """A closed stdout pipe, as in `agentkit ... | head`, causes no traceback."""
    process = spawn("tools", "list", "--json")
    process.stdout.close()
    process.wait(timeout=60)
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], ["tools", "--help"], ["ask", "--help"]])
def test_help_and_version_exit_with_0(arguments, capsys):
    """Help and version are printed to stdout with exit code 0."""
    assert run(arguments) == 0
    assert "agentkit" in capsys.readouterr().out


@pytest.mark.parametrize("columns", [30, 51, 52, 80])
def test_help_fits_the_terminal(columns, process, monkeypatch):
    """Help is wrapped between words at the terminal's width, including narrow terminals."""
    monkeypatch.setenv("COLUMNS", f"{columns}")
    lines = process("eval", "--help")[0].partition("Examples:")[0].splitlines()
    assert max(map(len, lines)) < columns


def test_piped_text_is_the_question(process):
    """Without arguments, piped text is the question; without piped text, the usage is shown."""
    with FakeServer("It is 4.") as server:
        assert process(server=server, piped="How much is 2 + 2?")[0] == "It is 4.\n"
        assert server.requests[0].json["messages"][-1]["content"] == "How much is 2 + 2?"
    out, err, code = process()
    assert (out, err.startswith("Usage: "), code) == ("", True, 2)


def _options(command, path=()):
    """Return every option of a command and its subcommands, with the words of the command."""
    for option in command.params:
        if isinstance(option, click.Option):
            yield path, option
    for name in command.list_commands(None) if isinstance(command, click.Group) else ():
        yield from _options(command.get_command(None, name), (*path, name))


def _commands(name, command):
    yield name, command
    for inner, each in getattr(command, "commands", {}).items():
        yield from _commands(f"{name} {inner}", each)


def test_options_of_each_command_are_parameters_of_its_function():
    """The function of every command accepts the options and arguments that click passes to it."""
    for top in COMMANDS:
        for name, command in _commands(top, cli.get_command(None, top)):
            accepted = inspect.signature(inspect.unwrap(command.callback)).parameters
            passed = {each.name for each in command.params if each.expose_value}
            has_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in accepted.values())
            assert has_any or passed <= {*accepted}, (name, passed - {*accepted})


def test_examples_fit_80_columns():
    """The examples in the help of every command, which are not wrapped, fit a terminal of 80 columns."""
    commands = [each for top in COMMANDS for _, each in _commands(top, cli.get_command(None, top))]
    epilogs = {command.epilog for command in [cli, *commands] if command.epilog}
    assert len(epilogs) > 15
    assert [line for epilog in epilogs for line in epilog.splitlines() if len(line) > 78] == []


def test_list_of_commands_has_the_help_texts():
    """The list of commands describes each command by the first sentence of its help."""
    fields = {name: line for name, (_, _, line) in COMMANDS.items()}
    assert fields == {name: cli.get_command(None, name).get_short_help_str(200) for name in fields}


def test_number_types_have_plain_names():
    """Help and errors do not contain "integer range", "float range" or "float"."""
    kinds = {(*path, option.name, option.type.name) for path, option in _options(cli)}
    assert [kind for kind in kinds if "range" in kind[-1] or kind[-1] == "float"] == []


@pytest.mark.parametrize(
    "group", [[], *([name] for name in cli.list_commands() if isinstance(cli.get_command(None, name), click.Group))]
)
def test_lists_of_commands_have_complete_lines(group, capsys):
    """No line in a list of commands is truncated."""
    assert run([*group, "--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:")[2].partition("Examples:")[0]
    assert (bool(listed), "..." in listed) == (True, False)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "Usage:"),
        (["tools", "run"], "Missing argument 'NAME'"),
        (["tools", "lisst"], "No such command 'lisst'"),
        (["mcp", "nosuch"], "agentkit mcp has: login, logout, serve, tools."),
        (["--nonsense", "x"], "No such option"),
        (["--modle", "x"], ".\nDid you mean --model?"),
        (["tools", "run", "calculator", "2+2", "3"], "calculator takes expression; '3' is unexpected."),
        (["tools", "run", "calculator", "expression=1", "expression=2"], "'expression' is given twice"),
        (
            ["tools", "run", "calculator", "expr=2+2"],
            "calculator has no parameter 'expr'.\nIts parameters are: expression",
        ),
        (["explain", "calculator", "expr=2+2"], "calculator has no parameter 'expr'"),
        (["tools", "run", "get_current_datetime", "x=1"], "get_current_datetime has no parameter 'x'"),
        (["--offline", "tools", "list"], "'tools' is a command and comes before its options"),
        (["-q", "ask", "hi"], "'ask' is a command and comes before its options"),
        (["tools", "run", "calculater"], "Did you mean 'calculator'?"),
        (["tools", "show", "calculater"], "Did you mean 'calculator'?"),
    ],
)
def test_usage_error_exits_with_2(arguments, expected, capsys):
    """A usage error is reported on stderr and exits with code 2."""
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert expected in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-t", "webb", "--offline", "x"], "No tool is named 'webb'"),
        (["--offline", "-m", "gpt-5.4-mini", "x"], "Use --offline or --model, not both"),
        (["--no-tools", "-t", "calculator", "x"], "Use --tools or --no-tools, not both"),
        (["-m", "ollama:", "x"], "ollama needs a model's name"),
        (["-m", "anthropic", "x"], "'anthropic' is a provider, not a model.\nUse -m anthropic:MODEL"),
        (["ask", ""], "The question is missing"),
        (["  \t\n "], "The question is missing"),
    ],
)
def test_invalid_question_option_exits_with_2(arguments, expected, command):
    """An invalid option of a question is reported on stderr and exits with code 2."""
    out, err, code = command(*arguments)
    assert expected in err
    assert (out, code) == ("", 2)


def test_provider_error_exits_with_1(command):
    """A provider error is reported on stderr with its message, and exits with code 1."""
    with FakeServer(fail(403, "not for you")) as server:
        out, err, code = command("hi", server=server)
    assert (out, code) == ("", 1)
    assert "not for you" in err


def test_escape_sequences_in_provider_errors_are_removed(command):
    """Escape sequences are removed from a provider's error message."""
    with FakeServer(fail(403, "\x1b]0;owned\x07not\x1b[2J for\x9b you\u061c")) as server:
        _, err, code = command("hi", server=server)
    assert code == 1
    assert "not for you" in err
    assert err.replace("\n", "").isprintable()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full device is Linux's")
def test_full_disk_is_reported(spawn):
    """Output that cannot be written is an error (exit code 1) with a remedy."""
    with Path("/dev/full").open("w") as full:
        process = spawn("tools", "list", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.splitlines()[0] == "Error: No space left on device."
    assert len(err.splitlines()) == 2


def test_question_may_begin_with_the_name_of_a_command(command):
    """All words after `ask` belong to the question, including the name of a command."""
    with FakeServer("Hammers.") as server:
        assert command("ask", "tools", "are", "what?", server=server)[0] == "Hammers.\n"
    assert server.requests[0].json["messages"][-1]["content"] == "tools are what?"


def test_help_names_every_collection(capsys):
    """The help of `--tools` names all collections."""
    run(["ask", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    text = "Name the collections of the catalog in COLLECTIONS, in agentkit/cli/options.py"
    assert f"collections ({', '.join([*collections, CODE])})" in shown, text


def test_module_is_the_installed_command():
    """`agentkit` and `python -m agentkit` give the same output."""
    (script,) = entry_points(group="console_scripts", name="agentkit")
    assert script.load() is main


@pytest.mark.parametrize(
    ("words", "intended"),
    [
        (["tool", "list"], "tools"),
        (["chats"], "chat"),
        (["help"], "--help"),
        (["hlep"], "--help"),
        (["version"], "--version"),
        (["Doctor"], "doctor"),
        (["chta"], "chat"),
        (["aks", "why?"], "ask"),
    ],
)
def test_misspelt_command_is_rejected(words, intended, capsys):
    """A misspelt command is rejected with a suggestion instead of being sent as a question."""
    assert run(words) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"Error: '{words[0]}' is not a command.\nDid you mean '{intended}'? To ask it")


def test_unsupported_database_url_is_rejected(typed_line):
    """--store rejects the URL of an unsupported database."""
    for arguments in (["hi"], ["sessions", "list"], ["serve"]):
        _, err, code = typed_line(*arguments, "--store", "mysql://x/y")
        assert (code, "mysql:// cannot store sessions.\nUse a file, or postgresql://" in err) == (2, True)
    assert not list(Path.cwd().iterdir())


def test_unknown_tool_lists_the_collections(typed_line):
    """An unknown tool raises an error that lists the collections."""
    _, err, code = typed_line("--offline", "-t", "cor", "hi")
    assert code == 2
    assert f"The collections are: {', '.join([*collections, CODE])}." in err


def test_undo_of_an_unknown_run_suggests_list(typed_line):
    """`undo` with an unknown run or without changes suggests `undo --list`."""
    assert typed_line("undo", "nope")[1].endswith("that made changes: agentkit undo --list\n")
    _, err, code = typed_line("undo")
    assert (code, err.endswith("that made changes: agentkit undo --list\n")) == (1, True)


def test_show_and_replay_reject_other_files(typed_line):
    """`show` and `replay` of an unsupported file report which files they read."""
    Path("notes").write_text("Buy dice.", "utf-8")
    for command in ("show", "replay"):
        _, err, code = typed_line(command, "notes")
        assert (code, "--record, --jsonl or agentkit sessions export" in err) == (1, True)


def test_iteration_limit_suggests_options(typed_line):
    """A reached limit suggests command-line options to continue."""
    with FakeServer(call("calculator", expression="6*7"), "It is 42.") as server:
        _, err, code = typed_line("--limit", "iterations=1", "6 * 7?", server=server)
    assert code == 3
    assert "Error: Max tool iterations reached (1).\nContinue with: agentkit -c" in err
    assert "--limit iterations=NUMBER" in err
