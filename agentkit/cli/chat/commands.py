"""The slash commands of the chat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentkit._dataclass import dataclass
from agentkit.agents.result import Resumption
from agentkit.cli.chat.conversation import ChatState
from agentkit.cli.conversations import configured_session
from agentkit.cli.export import save, summary_line
from agentkit.cli.options import CODE
from agentkit.cli.sessions import undo_text
from agentkit.cli.terminal import line_text
from agentkit.decisions import SafetyLevel
from agentkit.errors import AgentKitError, ConfigError, SessionError
from agentkit.event_rendering import count_text, suggestion, tokens_text
from agentkit.messages import AssistantMessage, UserMessage
from agentkit.redaction import redact
from agentkit.sessions.session import Session
from agentkit.usage import format_cost

if TYPE_CHECKING:
    from agentkit.cli.chat.screen import Frontend

_COMMAND = re.compile(r"/([a-z?]\w*)(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)
_MAX_SHOWN_CHARS = 300
_NOT_STORED = "This conversation is not stored, so it has no name. To keep its text: /save FILE"
_KEYS = """\
Enter sends, Alt-Enter or Ctrl-J begins a new line, Tab completes, Up recalls earlier input.
Ctrl-C stops an answer; twice at an empty prompt, or Ctrl-D, leaves. Begin a prompt with / by typing //."""

NextPrompt = str | Resumption | None
"""The prompt or resumption to run after a command; None if nothing is to be run."""


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """The handler of a command, its argument and its help text."""

    run: Callable[[ChatState, Frontend, str], NextPrompt]
    argument: str
    help: str


def parse_command(line: str) -> tuple[str, str] | None:
    """Parse a line into command name and argument; None for a prompt, such as one that begins with a path."""
    found = _COMMAND.fullmatch(line.strip())
    return None if found is None else (found[1].lower(), (found[2] or "").strip())


def unescape_prompt(line: str) -> str:
    """The text of a prompt, in which a leading // escapes a /."""
    return line[1:] if line.startswith("//") else line


EXIT_WORDS = ("exit", "quit")
"""Lines that leave the chat without a slash."""

_QUIT_NAMES = ("bye", "q", "leave", "stop")
"""Names of `/quit` in other programs."""


def run_command(name: str, argument: str, conversation: ChatState, frontend: Frontend) -> NextPrompt:
    """Execute a command and return what to run next. Raises AgentKitError, and EOFError to leave."""
    command = COMMANDS.get(name)
    if command is None:
        canonical = "quit" if name in _QUIT_NAMES else name
        hint = suggestion(f"/{canonical}", (f"/{known}" for known in COMMANDS), 0.7)
        raise ConfigError(
            f"The command /{name} does not exist.{hint} All commands: /help   To send it to the model: //{name}"
        )
    return command.run(conversation, frontend, argument)


def completions(typed: str, store: str | None) -> Iterator[tuple[str, str]]:
    """Complete the typed text with commands and their arguments."""
    name, separator, argument = typed.partition(" ")
    if not typed.startswith("/") or "\n" in typed or " " in argument:
        return
    if not separator:
        yield from ((f"/{each}", command.help) for each, command in COMMANDS.items() if f"/{each}".startswith(name))
        return
    for word, description in _arguments(name[1:], store):
        if word.startswith(argument):
            yield word, description


def _arguments(name: str, store: str | None) -> Iterator[tuple[str, str]]:
    match name:
        case "safety":
            yield from ((level.name.lower(), _LEVELS[level]) for level in SafetyLevel)
        case "tools":
            from agentkit.tools.catalog import all_tools, collections

            yield from ((each, "collection") for each in (*collections, CODE))
            yield from ((tool.name, tool.level.name) for tool in all_tools)
        case "session":
            yield from (("new", "begin another"), ("rename", "rename this one"))
            try:
                yield from ((each.name, count_text(each.runs, "run")) for each in Session.summaries(store))
            except AgentKitError:
                return


_LEVELS: Mapping[SafetyLevel, str] = {
    SafetyLevel.SAFE: "only computing runs without approval",
    SafetyLevel.NETWORK: "computing and reading the web run without approval",
    SafetyLevel.SYSTEM: "changes to this machine run without approval too",
}


def _help(_conversation: ChatState, frontend: Frontend, _argument: str) -> NextPrompt:
    width = max(len(_usage(name)) for name in COMMANDS)
    lines = [f"{_usage(name):<{width}}  {command.help}" for name, command in COMMANDS.items()]
    frontend.print("\n".join([*lines, "", _KEYS]))
    return None


def _usage(name: str) -> str:
    return f"/{name} {COMMANDS[name].argument}".rstrip()


def _tools(conversation: ChatState, frontend: Frontend, argument: str) -> NextPrompt:
    if argument:
        names = tuple(argument.replace(",", " ").split())
        selects_none = names == ("none",)
        conversation.change(tools=() if selects_none else names, no_tools=selects_none)
    tools, level = list(conversation.settings.tools), conversation.settings.of("safety")
    width = max((len(tool.name) for tool in tools), default=0)
    for tool in tools:
        asks = "may need approval" if tool.level > level else ""
        frontend.print(f"{tool.name:<{width}}  {tool.level.name:<7}  {asks}".rstrip())
    if not tools:
        frontend.print("The model has no tools. To add tools: /tools default")
    return None


def _model(conversation: ChatState, frontend: Frontend, argument: str) -> NextPrompt:
    if argument == "offline":
        conversation.change(model=None, offline=True)
    elif argument:
        conversation.change(model=argument, offline=False)
    about = conversation.llm.describe()
    frontend.print(f"{about.provider}:{about.model}  {about.endpoint}")
    for each in about.fallbacks:
        frontend.print(f"fallback  {each.line}")
    if about.provider == "offline":
        frontend.print(OFFLINE, "yellow")
    return None


OFFLINE = "The offline model calls tools for simple requests. It does not chat, and reads only your last message."


def _safety(conversation: ChatState, frontend: Frontend, argument: str) -> NextPrompt:
    if argument:
        conversation.change(safety=argument)
        frontend.approvals.revoke()
    level: SafetyLevel = conversation.settings.of("safety")
    frontend.print(f"{level.name}: {_LEVELS[level]}. Other calls need it, and denied calls stay denied.")
    for folder in frontend.approvals.folders:
        frontend.print(f"All changes in {folder} are approved. To revoke that: /safety {level.name.lower()}")
    return None


def _session(conversation: ChatState, frontend: Frontend, argument: str) -> NextPrompt:
    word, _, rest = argument.partition(" ")
    if word == "new":
        conversation.switch(Session.open(conversation.options.store, rest.strip()) if rest.strip() else None)
        frontend.print(f"Began {conversation.name!r}." if rest else "A new conversation begins with your next prompt.")
    elif word == "rename":
        name = rest.strip()
        if conversation.session is None:
            raise SessionError(
                "There is no conversation to rename yet. Send a prompt first, then: /session rename NAME"
            )
        if conversation.session.store is None:
            raise SessionError(_NOT_STORED)
        if not name:
            raise SessionError("/session rename takes a name: /session rename trip")
        conversation.session.rename(name)
        frontend.print(f"This session is now {conversation.session.name!r}.")
    elif argument:
        begin = f" To begin one: /session new {argument}"
        conversation.switch(configured_session(conversation.options.store, argument, begin))
        print_session(conversation, frontend)
    else:
        _list(conversation, frontend)
    return None


def _list(conversation: ChatState, frontend: Frontend) -> None:
    now = conversation.name
    is_stored = conversation.session is not None
    frontend.print(f"This session: {now}" if now else _NOT_STORED if is_stored else "This conversation has not begun.")
    latest = Session.summaries(conversation.options.store)[:20]
    width = max((len(each.name) for each in latest), default=0)
    for each in latest:
        mark = "*" if each.name == now else " "
        frontend.print(f"{mark} {summary_line(each, width)}", "dim")
    frontend.print("Switch: /session NAME   begin another: /session new [NAME]   rename: /session rename NAME", "dim")


def print_session(conversation: ChatState, frontend: Frontend) -> None:
    """Print the session's name and its last messages."""
    messages = conversation.messages
    frontend.print(f"Session {conversation.name or 'without a name'}, {count_text(len(messages), 'message')}.", "dim")
    last_prompt = next((each for each in reversed(messages) if isinstance(each, UserMessage)), None)
    answer = next((each for each in reversed(messages) if isinstance(each, AssistantMessage) and each.text), None)
    if last_prompt is not None:
        frontend.print(f"> {line_text(conversation.prompt, _MAX_SHOWN_CHARS)}", "dim")
    if answer is not None:
        frontend.markdown(answer.text)
    if conversation.has_unfinished_run:
        frontend.print("A run of this session did not end. To continue it: /resume", "yellow")


def _cost(conversation: ChatState, frontend: Frontend, _argument: str) -> NextPrompt:
    from agentkit.llm.pricing import cost_of

    rows = [("this chat", conversation.usage)]
    if conversation.result is not None:
        rows.append(("last answer", conversation.result.usage))
    if conversation.session is not None:
        rows.append(("this session", conversation.session.usage))
    for label, usage in rows:
        frontend.print(f"{label:<12}  {tokens_text(usage)}, cost {format_cost(cost_of(usage))}")
    return None


def _save(conversation: ChatState, frontend: Frontend, argument: str) -> NextPrompt:
    if not argument:
        raise ConfigError("/save takes a file: /save trip.md for Markdown, /save trip.jsonl for JSON lines.")
    if conversation.session is None or not conversation.messages:
        raise SessionError("The conversation is empty, so nothing was saved. Send a prompt first.")
    path = Path(argument).expanduser()
    save(conversation.session, path)
    frontend.print(f"Saved: {path}")
    return None


def _retry(conversation: ChatState, frontend: Frontend, _argument: str) -> NextPrompt:
    changed = conversation.last_record() is not None and bool(conversation.changes())
    prompt = conversation.retry()
    if changed:
        frontend.print("Changes made by the last answer remain; /undo reverts them.", "yellow")
    frontend.print(f"> {line_text(prompt, _MAX_SHOWN_CHARS)}", "dim")
    return prompt


def _resume(conversation: ChatState, _front: Frontend, _argument: str) -> NextPrompt:
    return conversation.resumption()


def _undo(conversation: ChatState, frontend: Frontend, argument: str) -> NextPrompt:
    record = conversation.last_record()
    if record is None:
        raise SessionError("There is nothing to undo in this conversation. To list all changes: agentkit undo --list")
    frontend.print(redact(undo_text(record)))
    if argument == "-y" or frontend.confirm("Undo this? [N] "):
        frontend.print(str(record.undo()))
    else:
        frontend.print("Nothing was undone.")
    return None


def _edit(_conversation: ChatState, frontend: Frontend, argument: str) -> NextPrompt:
    with frontend.suspend():
        try:
            written = click.edit(argument, extension=".md")
        except (click.ClickException, ValueError) as error:  # ValueError: quotes in $EDITOR that do not end
            text = error.message if isinstance(error, click.ClickException) else str(error)
            raise ConfigError(f"The editor failed: {text}. Set VISUAL or EDITOR to a working editor.") from None
    text = (written or "").strip()
    if not text:
        frontend.print("The prompt is empty, so nothing was sent.")
        return None
    frontend.print("\n".join(f"> {line}" for line in text.split("\n")), "dim")
    return text


def _clear(conversation: ChatState, frontend: Frontend, _argument: str) -> NextPrompt:
    name = conversation.name
    conversation.switch(None)
    frontend.clear()
    frontend.print(
        f"A new conversation. The old one is the session {name!r}." if name else "A new conversation.", "dim"
    )
    return None


def _quit(_conversation: ChatState, _front: Frontend, _argument: str) -> NextPrompt:
    raise EOFError


COMMANDS: Mapping[str, ChatCommand] = {
    "help": ChatCommand(_help, "", "list the commands"),
    "tools": ChatCommand(_tools, "[NAME ...]", "list the tools; with names, offer only these"),
    "model": ChatCommand(_model, "[NAME]", "show the model; with a name, change it"),
    "safety": ChatCommand(_safety, "[LEVEL]", "what runs without approval: safe, network or system"),
    "session": ChatCommand(_session, "[NAME]", "list the sessions, or open one; also: new, rename NAME"),
    "cost": ChatCommand(_cost, "", "show tokens and cost"),
    "undo": ChatCommand(_undo, "[-y]", "undo the changes of the last run"),
    "retry": ChatCommand(_retry, "", "repeat the last prompt, without its answer"),
    "resume": ChatCommand(_resume, "", "resume a run that was stopped or waits for you"),
    "edit": ChatCommand(_edit, "[TEXT]", "write a prompt in your editor"),
    "save": ChatCommand(_save, "FILE", "write the conversation: .md Markdown, .jsonl JSON lines"),
    "clear": ChatCommand(_clear, "", "begin a new conversation on an empty screen"),
    "quit": ChatCommand(_quit, "", "exit; exit and quit also work without a slash"),
    "exit": ChatCommand(_quit, "", "leave"),
}
