"""The loop of `agentkit chat`: dispatch of chat input, and interruption by Ctrl-C.

It imports little, so that the first prompt appears quickly; the rest is imported while the person types.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache, partial
from itertools import chain
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from agentkit.agents.result import Resumption, RunResult
from agentkit.cli.ask import (
    AUTO_APPROVAL_WARNING,
    UNKNOWN_PRICE_ADVICE,
    exit_code,
    is_unpriced,
    limit_error,
    model_name,
)
from agentkit.cli.ask_options import RECORD, conversation_options, with_files
from agentkit.cli.chat.commands import EXIT_WORDS, OFFLINE, parse_command, print_session, run_command, unescape_prompt
from agentkit.cli.chat.conversation import ChatState
from agentkit.cli.chat.screen import Frontend
from agentkit.cli.options import CODE
from agentkit.cli.settings import Settings
from agentkit.cli.terminal import ANSWERED, FAILED, INTERRUPTED, LIMIT, print_error, print_note, quote_word
from agentkit.errors import AgentKitError
from agentkit.llm.pricing import cost_of
from agentkit.sessions.session import Session
from agentkit.settings import has_colour, is_terminal, state_folder

if TYPE_CHECKING:
    from agentkit.cli.approvals import StoredApprovals
    from agentkit.cli.ask_options import AskOptions
    from agentkit.llm.client import LLM


_EXAMPLES = """\b
Examples:
  agentkit chat
  agentkit chat "Plan a trip to Hue."  begin with a prompt
  agentkit chat -c                     continue the last conversation
  agentkit chat -m ollama:qwen3 -t core,files --limit cost=0.10
  printf 'What is 6*7?\\nAnd in words?\\n' | agentkit chat

\b
Exit codes: 0 answered, or exited by the user; for piped prompts, see
            agentkit ask --help
"""


@click.command(short_help="Chat at a terminal or through a pipe.", epilog=_EXAMPLES)
@click.argument("question", nargs=-1, metavar="[PROMPT]...")
@conversation_options
@RECORD
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document a line for each prompt.")
def chat(**options: Any) -> int:
    """Chat with a model that has tools; PROMPT is the first prompt, and /help lists the commands.

    You are asked about calls that need approval. The conversation is stored, and -c continues it. Each line of piped
    input is a prompt; the answers go to stdout as plain text.
    """
    from agentkit.cli.ask_options import AskOptions

    return run_chat(AskOptions(**options))


_CODE_EXAMPLES = """\b
Examples:
  agentkit code                          work on the files of this folder
  agentkit code "Fix the failing test."  begin with a prompt
"""


@click.command(short_help="Work with an agent on the code in this folder.", epilog=_CODE_EXAMPLES)
@click.argument("question", nargs=-1, metavar="[PROMPT]...")
@conversation_options
@RECORD
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document a line for each prompt.")
def code(**options: Any) -> int:
    """Work with an agent on the files of this folder: it plans, edits, runs commands, and gives parts to workers.

    The same as agentkit chat --tools code. AGENTS.md and skills of the folder need: agentkit config trust
    """
    from agentkit.cli.ask_options import AskOptions

    return run_chat(AskOptions(**{**options, "tools": options["tools"] or (CODE,)}))


@contextmanager
def interruptible() -> Iterator[None]:
    """Stop the run at the first Ctrl-C; ignore the second, so that the partial answer is stored; raise after that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    presses = 0

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses != 2:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_STOPPED = "Stopped. The answer so far is stored; /retry repeats the prompt."


class ChatDispatcher:
    """A chat and its front end. Only a person can use commands, and only a person sees hints."""

    def __init__(
        self, options: AskOptions, settings: Settings, llm: LLM, frontend: Frontend, *, is_person: bool
    ) -> None:
        self._frontend, self._is_person = frontend, is_person
        self.conversation = ChatState(options, settings, llm, frontend.approve)
        if options.yes:
            frontend.print(AUTO_APPROVAL_WARNING, "yellow")
        if is_person and llm.provider == "offline":
            frontend.print(OFFLINE, "yellow")
        if is_person and (self.conversation.messages or self.conversation.has_unfinished_run):
            print_session(self.conversation, frontend)

    @property
    def bar(self) -> str:
        """Model, safety level, approved changes and cost, on one line."""
        conversation = self.conversation
        level = conversation.settings.of("safety").name.lower()
        if self._frontend.approvals.folders:
            level += " + workspace changes"
        parts = [model_name(conversation.llm), level]
        cost = cost_of(conversation.usage)
        parts += [str(cost).partition(" (")[0]] if cost is not None and cost.dollars else []
        return " · ".join([*parts, "/help"])

    def execute(self, line: str) -> int:
        """Execute an input line and return its exit code. Raises AgentKitError, and EOFError to leave."""
        if self._is_person and line.strip().lower() in EXIT_WORDS:
            raise EOFError
        command = parse_command(line) if self._is_person else None
        if command is None:
            return self._run(unescape_prompt(line) if self._is_person else line)
        prompt = run_command(*command, self.conversation, self._frontend)
        return ANSWERED if prompt is None else self._run(prompt)

    def leave(self) -> None:
        """Print how to continue the conversation later."""
        name = self.conversation.name
        if self._is_person and name and self.conversation.messages:
            command = f"agentkit chat --session {quote_word(name)}"
            self._frontend.print(f"Continue with: agentkit chat -c   (later: {command})", "dim")

    def _run(self, prompt: str | Resumption) -> int:
        frontend, conversation = self._frontend, self.conversation
        content = with_files(prompt) if self._is_person and isinstance(prompt, str) else None
        frontend.model = model_name(conversation.llm)
        frontend.begin()
        try:
            with interruptible(), closing(conversation.stream(prompt, content)) as events:
                for event in events:
                    frontend.render(event)
        except KeyboardInterrupt:
            frontend.end_output()
            if not self._is_person:
                raise
            conversation.interrupt(frontend.text)
            frontend.print(_STOPPED, "yellow")
        finally:
            frontend.end_output()
        changes = self.conversation.changes()
        if changes:
            self._frontend.diff(changes)
        if changes and self._is_person:
            is_dry = self.conversation.options.dry_run
            self._frontend.print("No changes were made: --dry-run." if is_dry else "To undo this: /undo", "dim")
        if conversation.result is None:
            return INTERRUPTED
        return self._finish(conversation.result, conversation.session or Session())

    def _finish(self, result: RunResult[str], session: Session) -> int:
        if not self._is_person:
            return exit_code(result, session)
        if result.status == "paused":
            pending_tools = ", ".join(dict.fromkeys(pending.tool for pending in result.pending))
            self._frontend.print(
                f"The run waits for your answer about {pending_tools}. Continue with: /resume", "yellow"
            )
            return INTERRUPTED
        if result.error is None:
            return ANSWERED
        if result.status != "limit":
            print_error(result.error, in_chat=True)
            return FAILED
        print_error(limit_error(result), UNKNOWN_PRICE_ADVICE if is_unpriced(result) else "Continue with: /resume")
        return LIMIT


HISTORY = "chat-history"
"""The file in the state folder that stores the input history."""


_EXIT_HINT = "To exit, press Ctrl-C once more, or Ctrl-D."


def run_chat(options: AskOptions) -> int:
    """Chat until the input ends and return the exit code. Raises AgentKitError before the first prompt."""
    settings = options.settings
    for note in settings.notes:
        print_note(note, "yellow")
    if options.tools or options.agent:
        _ = settings.tools
    llm = settings.llm()
    can_draw = is_terminal(sys.stdin) and is_terminal(sys.stdout) and not options.as_json
    with ExitStack() as recording:
        if options.record is not None:
            from agentkit.testing.scripted_llm import record

            recording.enter_context(record(options.record))
        return (_chat_at_terminal if can_draw else _chat_by_line)(options, settings, llm)


def _approval_store(options: AskOptions) -> StoredApprovals | None:
    """The store of approvals; None if nothing of this chat is stored."""
    from agentkit.cli.approvals import StoredApprovals

    return None if options.no_session else StoredApprovals()


def _chat_at_terminal(options: AskOptions, settings: Settings, llm: LLM) -> int:
    """Chat with a person at a terminal that can redraw its output."""
    from agentkit.cli.chat.keyboard import Keyboard, typed_lines, typing

    @cache
    def dispatcher() -> ChatDispatcher:
        from agentkit.cli.chat.screen import TerminalFrontend

        frontend = TerminalFrontend(keyboard, yes=options.yes, stored=_approval_store(options))
        return ChatDispatcher(options, settings, llm, frontend, is_person=True)

    start = f"{model_name(llm)} · {settings.of('safety').name.lower()} · /help"
    typed = typed_lines()
    with typing(is_seen=False):
        keyboard = Keyboard(
            None if settings.of("session") == "" else state_folder() / HISTORY,
            partial(_completions, options.store),
            lambda: dispatcher().bar if dispatcher.cache_info().currsize else start,
            has_colour=has_colour(sys.stdout),
        )
        if options.continue_last or settings.of("session") or options.yes or llm.provider == "offline":
            dispatcher()  # it prints a notice before the first prompt
        loading = threading.Thread(target=_preload, args=(llm,), daemon=True)
        read = _with_first_prompt(options, partial(keyboard.prompt, cache(loading.start)), keyboard.show, typed)
        return _loop(read, dispatcher)


def _chat_by_line(options: AskOptions, settings: Settings, llm: LLM) -> int:
    """Answer piped prompts, one per line; or chat with a person whose terminal can only print."""
    from agentkit.cli.chat.screen import PlainFrontend

    is_person = sys.stdin is not None and sys.stdin.isatty()
    frontend = PlainFrontend(as_json=options.as_json, yes=options.yes, stored=_approval_store(options))
    dispatcher = ChatDispatcher(options, settings, llm, frontend, is_person=is_person)
    if is_person:
        return _loop(_with_first_prompt(options, _read_line, _echo), lambda: dispatcher)
    code = ANSWERED
    for line in chain(
        filter(None, [_first_prompt(options)]), _piped_lines()
    ):  # piped lines are answered as they arrive
        code = dispatcher.execute(line) or code
    return code


def _loop(read: Callable[[], str], dispatcher: Callable[[], ChatDispatcher]) -> int:
    """Read and execute input lines until the person leaves."""
    presses = 0
    while presses < 2:
        try:
            line = read()
            presses = 0
            if line.strip():
                dispatcher().execute(line)
        except EOFError:
            break
        except KeyboardInterrupt:
            presses += 1
            if presses < 2:
                print_note(_EXIT_HINT, faint=True)
        except (AgentKitError, OSError, click.ClickException) as error:
            print_error(error, in_chat=True)
    dispatcher().leave()
    return ANSWERED


def _with_first_prompt(
    options: AskOptions, read: Callable[[], str], show: Callable[[str], object], typed: Iterable[str] = ()
) -> Callable[[], str]:
    """A function that returns the first prompt of the command line, the `typed` lines, and then what `read` returns."""
    pending = deque(filter(None, [_first_prompt(options), *typed]))

    def next_line() -> str:
        if not pending:
            return read()
        show(pending[0])
        return pending.popleft()

    return next_line


def _first_prompt(options: AskOptions) -> str:
    prompt = options.prompt(" ".join(options.question)) if options.question or options.template else ""
    return prompt if isinstance(prompt, str) else ""


def _echo(prompt: str) -> None:
    click.echo(f"> {prompt}", err=True)


def _read_line() -> str:
    """Read a line at a terminal that cannot redraw. Raises EOFError at the end of the input."""
    click.echo("> ", nl=False, err=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def _piped_lines() -> Iterator[str]:
    """Yield the lines of stdin that are not blank. Raises UsageError for input that is not text."""
    from agentkit.cli.ask_options import NO_TEXT, decode_input

    for line in sys.stdin.buffer if sys.stdin is not None else ():
        text = decode_input(line, NO_TEXT)
        if text:
            yield text


def _completions(store: str | None, typed: str) -> Iterable[tuple[str, str]]:
    """Complete a command; other input has no completions."""
    if not typed.startswith("/"):
        return ()
    from agentkit.cli.chat.commands import completions

    return completions(typed, store)


def _preload(llm: LLM) -> None:
    """Import what the first answer needs, while the person types."""
    from agentkit.cli.chat import screen
    from agentkit.cli.chat.markdown import load

    _ = screen
    load()
    llm.prepare()
