"""The `agentkit` command: which command was meant, what goes where, which exit code."""

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


def test_a_text_that_names_no_command_is_a_question(command):
    """`agentkit "text"` asks, and the answer alone is on stdout."""
    with FakeServer("Hanoi.") as server:
        assert command("What is the capital of Vietnam?", server=server) == ("Hanoi.\n", "", 0)
    assert server.requests[0].json["messages"][-1] == {"role": "user", "content": "What is the capital of Vietnam?"}


def test_options_of_ask_need_no_ask(command):
    """A line that begins with an option of `ask` is a question too."""
    with FakeServer("Bonjour.") as server:
        assert command("-s", "Answer in French.", "hi", server=server)[0] == "Bonjour.\n"
    assert server.requests[0].json["messages"][0] == {"role": "system", "content": "Answer in French."}


def test_without_a_key_the_command_says_what_to_do(command):
    """No provider is a usage error (exit code 2) that names what to set, store or use instead."""
    out, err, code = command("hi")
    assert (out, code) == ("", 2)
    assert err.startswith("Error: No API key found.")
    for word in ("OPENAI_API_KEY", "agentkit keys set openai", "-m ollama:MODEL", "agentkit --offline"):
        assert word in err


def test_an_interrupted_command_exits_with_130(spawn):
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


def test_a_reader_that_leaves_early_is_no_fault(spawn):
    """`agentkit … | head` ends without a traceback."""
    process = spawn("tools", "list", "--json")
    process.stdout.close()
    process.wait(timeout=60)
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], ["tools", "--help"], ["ask", "--help"]])
def test_help_and_version_exit_with_0(arguments, capsys):
    """Help and version are answers."""
    assert run(arguments) == 0
    assert "agentkit" in capsys.readouterr().out


@pytest.mark.parametrize("columns", [30, 51, 52, 80])
def test_help_fits_the_terminal(columns, process, monkeypatch):
    """Help is broken between words at the terminal's width, also where that is narrow."""
    monkeypatch.setenv("COLUMNS", f"{columns}")
    lines = process("eval", "--help")[0].partition("Examples:")[0].splitlines()
    assert max(map(len, lines)) < columns


def test_what_is_piped_in_is_asked(process):
    """Without words, a pipe is read for the question; where nothing is piped in, the help is shown."""
    with FakeServer("It is 4.") as server:
        assert process(server=server, piped="How much is 2 + 2?")[0] == "It is 4.\n"
        assert server.requests[0].json["messages"][-1]["content"] == "How much is 2 + 2?"
    out, err, code = process()
    assert (out, err.startswith("Usage: "), code) == ("", True, 2)


def _options(command, path=()):
    """Every option of a command and of those below it, with the words that lead there."""
    for option in command.params:
        if isinstance(option, click.Option):
            yield path, option
    for name in command.list_commands(None) if isinstance(command, click.Group) else ():
        yield from _options(command.get_command(None, name), (*path, name))


def test_help_of_each_command_is_that_in_the_list():
    """The list of commands says of each what its own help says first."""
    told = {name: line for name, (_, _, line) in COMMANDS.items()}
    assert told == {name: cli.get_command(None, name).get_short_help_str(200) for name in told}


def test_numbers_are_called_so():
    """No help and no error calls a number an integer range, a float range or a float."""
    kinds = {(*path, option.name, option.type.name) for path, option in _options(cli)}
    assert [kind for kind in kinds if "range" in kind[-1] or kind[-1] == "float"] == []


@pytest.mark.parametrize(
    "group", [[], *([name] for name in cli.list_commands() if isinstance(cli.get_command(None, name), click.Group))]
)
def test_commands_are_listed_in_whole_sentences(group, capsys):
    """No line of a list of commands is cut off."""
    assert run([*group, "--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:")[2].partition("Examples:")[0]
    assert (bool(listed), "..." in listed) == (True, False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Usage:"),
        (["tools", "run"], "Missing argument 'NAME'"),
        (["tools", "lisst"], "No such command 'lisst'"),
        (["mcp", "nosuch"], "agentkit mcp has: login, logout, serve, tools."),
        (["--nonsense", "x"], "No such option"),
        (["--modle", "x"], ".\nDid you mean --model or --offline?"),
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
def test_a_wrong_line_is_explained_and_exits_with_2(arguments, said, capsys):
    """A mistake in the command line says what is wrong on stderr."""
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-t", "webb", "--offline", "x"], "No tool is named 'webb'"),
        (["--offline", "-m", "gpt-5.4-mini", "x"], "Use --offline or --model, not both"),
        (["--no-tools", "-t", "calculator", "x"], "Use --tools or --no-tools, not both"),
        (["-m", "ollama:", "x"], "ollama needs a model's name"),
        (["ask", ""], "The question is missing"),
        (["  \t\n "], "The question is missing"),
    ],
)
def test_a_wrong_question_is_explained_and_exits_with_2(arguments, said, command):
    """So does a mistake in a question's options."""
    out, err, code = command(*arguments)
    assert said in err
    assert (out, code) == ("", 2)


def test_a_provider_that_fails_exits_with_1(command):
    """An error of the provider is told on stderr, with what it said."""
    with FakeServer(fail(403, "not for you")) as server:
        out, err, code = command("hi", server=server)
    assert (out, code) == ("", 1)
    assert "not for you" in err


def test_what_a_provider_says_of_its_failure_cannot_trick_the_terminal(command):
    """Escape sequences in a provider's error are taken out."""
    with FakeServer(fail(403, "\x1b]0;owned\x07not\x1b[2J for\x9b you\u061c")) as server:
        _, err, code = command("hi", server=server)
    assert code == 1
    assert "not for you" in err
    assert err.replace("\n", "").isprintable()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full device is Linux's")
def test_a_full_disk_is_told(spawn):
    """An answer that cannot be written is an error (exit code 1), told with what to do."""
    with Path("/dev/full").open("w") as full:
        process = spawn("tools", "list", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.splitlines()[0] == "Error: No space left on device."
    assert len(err.splitlines()) == 2


def test_a_question_that_begins_with_a_command_can_be_asked(command):
    """After `ask` every word belongs to the question, a command's name too."""
    with FakeServer("Hammers.") as server:
        assert command("ask", "tools", "are", "what?", server=server)[0] == "Hammers.\n"
    assert server.requests[0].json["messages"][-1]["content"] == "tools are what?"


def test_help_names_every_collection(capsys):
    """The help of `--tools` names the collections that there are."""
    run(["ask", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    told = "Name the collections of the catalog in COLLECTIONS, in agentkit/cli/options.py"
    assert f"collections ({', '.join([*collections, CODE])})" in shown, told


def test_the_installed_command_is_the_module():
    """`agentkit` and `python -m agentkit` are the same."""
    (script,) = entry_points(group="console_scripts", name="agentkit")
    assert script.load() is main


@pytest.mark.parametrize(
    ("words", "meant"),
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
def test_a_misspelt_command_is_no_question(words, meant, capsys):
    """A first word that is nearly a command is not paid for as a question; the error says how to ask it anyway."""
    assert run(words) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"Error: '{words[0]}' is not a command.\nDid you mean '{meant}'? To ask it")


def test_a_place_that_keeps_no_sessions_is_refused(typed_line):
    """The URL of another database is no file's name, for questions, for `sessions` and for `serve`."""
    for arguments in (["hi"], ["sessions", "list"], ["serve"]):
        _, err, code = typed_line(*arguments, "--place", "mysql://x/y")
        assert (code, "mysql:// cannot store sessions.\nUse a file, or postgresql://" in err) == (2, True)
    assert not list(Path.cwd().iterdir())


def test_a_tool_that_there_is_not_names_the_collections(typed_line):
    """Who misspells a tool or a collection is told both lists."""
    _, err, code = typed_line("--offline", "-t", "cor", "hi")
    assert code == 2
    assert f"The collections are: {', '.join([*collections, CODE])}." in err


def test_a_run_that_the_journal_has_not_says_where_ids_stand(typed_line):
    """`undo` of an unknown id names the command that lists them; so it does when there is nothing to undo."""
    assert typed_line("undo", "nope")[1].endswith("that made changes: agentkit undo --list\n")
    _, err, code = typed_line("undo")
    assert (code, err.endswith("that made changes: agentkit undo --list\n")) == (1, True)


def test_a_file_that_is_no_recording_says_which_are(typed_line):
    """`show` and `replay` of another file say which files they read."""
    Path("notes").write_text("Buy dice.", "utf-8")
    for command in ("show", "replay"):
        _, err, code = typed_line(command, "notes")
        assert (code, "--record, --jsonl or agentkit sessions export" in err) == (1, True)


def test_a_limit_of_iterations_says_what_a_person_can_do(typed_line):
    """Of a limit that was hit, the command line says how to go on, and not what a program would call."""
    with FakeServer(call("calculator", expression="6*7"), "It is 42.") as server:
        _, err, code = typed_line("--limit", "iterations=1", "6 * 7?", server=server)
    assert code == 3
    assert "Error: Max tool iterations reached (1).\nContinue with: agentkit -c" in err
    assert "--limit iterations=NUMBER" in err
