"""The `agentkit "question"` and `agentkit run` commands: session, agent, approvals, output and exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

from agentkit.agents.budget import RESUME_HINT, UNKNOWN_PRICE
from agentkit.agents.result import RunFinished, RunResult
from agentkit.atomic_write import write_whole
from agentkit.cli.approvals import StoredApprovals, one_shot_approver
from agentkit.cli.ask_options import RECORD, AskOptions, conversation_options, read_question, text_of, with_options
from agentkit.cli.conversations import (
    continuation_text,
    is_temporary,
    make_permanent,
    new_session,
    select_session,
    temporary_session,
)
from agentkit.cli.display import call_line, fallback_line, json_line, run_document, started_line, was_refused
from agentkit.cli.options import FILE
from agentkit.cli.settings import Settings
from agentkit.cli.terminal import (
    ANSWERED,
    INTERRUPTED,
    LIMIT,
    REFUSED,
    StatusLine,
    clean,
    json_text,
    print_error,
    print_note,
    quote_word,
    resume_hint,
    wrap_lines,
)
from agentkit.decisions import Verdict
from agentkit.errors import AgentKitError, LimitExceeded
from agentkit.event_rendering import plan_text
from agentkit.events import (
    AnswerGiven,
    Event,
    RequestStarted,
    ResponseReceived,
    StoredEvent,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from agentkit.recording import OpenQuestion, Question, Recording, active
from agentkit.safety.approval import Approver
from agentkit.sessions.codec import encode_entry
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionEntry
from agentkit.settings import is_terminal

if TYPE_CHECKING:
    from agentkit.agents.agent import Agent
    from agentkit.agents.result import Resumption
    from agentkit.cli.ask_options import AskOptions
    from agentkit.llm.client import LLM
    from agentkit.messages import Content, FailedModel
    from agentkit.sessions.cassettes.recorder import Recorder
    from agentkit.tooling.output_types import OutputType

_EXAMPLES = """\b
Examples:
  agentkit "How much is 1250 * 0.17?"
  git diff | agentkit "Write a commit message."
  agentkit "What is in this picture?" @photo.png
  agentkit --schema "shop, total number, day date" @receipt.png
  agentkit -c "And in words?"                 continue the last session
  agentkit -t core,web --limit cost=0.10 "Who won, and by how much?"

\b
Exit codes: 0 answered, 1 failed, 2 usage or configuration, 3 a limit,
            4 every tool call was refused, 130 interrupted.
"""


_OUTPUT = (
    click.option(
        "--schema", metavar="FIELDS", help="Answer with JSON of these fields, 'name, age int', or of FILE.py:CLASS."
    ),
    click.option("-o", "--output", type=FILE, metavar="FILE", help="Write the answer to a file."),
    RECORD,
    click.option("--no-stream", is_flag=True, help="Show the answer only when it is complete."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document: answer, tool calls and usage."),
    click.option("--jsonl", "as_jsonl", is_flag=True, help="Print events as they happen, a JSON object a line."),
    click.option("-q", "--quiet", is_flag=True, help="Do not show tool calls."),
    click.option("-v", "--verbose", is_flag=True, help="End with a line of tokens, cost and duration."),
)


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select the form of the answer."""
    return with_options(_OUTPUT, command)


@click.command(short_help="Ask a question (this is the default).", epilog=_EXAMPLES)
@click.argument("question", nargs=-1, metavar="[QUESTION | @FILE | -]...")
@conversation_options
@output_options
def ask(**options: Any) -> int:
    """Answer QUESTION.

    Piped text is appended to it, or replaces -; @FILE is the text, image, PDF or recording in a file. At a terminal you
    are asked to approve calls. -c continues the last conversation of this folder; without a question, it resumes an
    unfinished run.
    """
    from agentkit.cli.ask_options import AskOptions

    return answer(AskOptions(**options))


_SESSION_FORMAT = 1


OFFLINE_NAME = "offline model"


def model_name(llm: LLM) -> str:
    """The model's name in a status line."""
    return OFFLINE_NAME if llm.provider == "offline" else llm.model


class Screen:
    """Render a run: text on stdout as it streams, tool calls on stderr, and a status line while it waits."""

    def __init__(self, status: StatusLine, model: str, *, shows_text: bool, shows_calls: bool) -> None:
        self._status, self.model = status, model
        self._shows_text, self._shows_calls = shows_text, shows_calls
        self._is_at_line_start = True

    def render(self, event: Event) -> None:
        """Render an event, after the person has answered a question that another thread asks."""
        with self._status.turn:
            self._render(event)

    def _render(self, event: Event) -> None:
        match event:
            case RequestStarted():
                self._wait(f"asking {self.model}")
            case ResponseReceived(response) if self._shows_calls:
                self._print_fallbacks(response.missed)
            case TextDelta(text) if self._shows_text:
                self._write(clean(text))
            case ToolCallStarted(call, decision) if decision.allowed:
                self._wait(started_line(call))
            case ToolCallFinished():
                self._status.clear()
                self._print_call(event)
            case RunFinished():
                self.end_line()

    def end_line(self) -> None:
        """Start a new line on stdout, unless the cursor is at the start of one."""
        self._status.clear()
        if not self._is_at_line_start:
            click.echo()
        self._is_at_line_start = True

    def _wait(self, text: str) -> None:
        self.end_line()
        self._status.show(text)

    def _write(self, text: str) -> None:
        if text:
            self._status.clear()
            self._is_at_line_start = text.endswith("\n")  # set first: an interrupt can arrive during the write
            click.echo(text, nl=False)

    def _print_fallbacks(self, missed: Sequence[FailedModel]) -> None:
        for each in missed:
            if each.was_tried:  # report a model when it fails, not again at each later request that skips it
                self.end_line()
                print_note(f"  {fallback_line(each)}", faint=True)

    def _print_call(self, used: ToolCallFinished) -> None:
        if self._shows_calls:
            self.end_line()
            if used.result.ok and (plan := plan_text(used.call)):
                print_note(clean(indent(plan, "  ")))
                return
            decision = used.result.decision
            is_denied = decision is not None and decision.verdict is Verdict.DENY
            line = wrap_lines(f"  {call_line(used)}", sys.stderr, 4)
            print_note(line, "red" if is_denied else None, faint=not is_denied)


class JSONLinesOutput(Recording):
    """Write each stored event as a line in the session export format, and forward it to the recorder `inner`."""

    def __init__(self, write: Callable[[str], object], name: str, inner: Recorder | None) -> None:
        self._write, self._inner = write, inner
        self._write(json_line({"session": _SESSION_FORMAT, "name": name or "unnamed"}))

    def open_question(self, question: Question, /) -> OpenQuestion:
        """Forward the question to the inner recorder, if any."""
        return super().open_question(question) if self._inner is None else self._inner.open_question(question)

    def record_event(self, run: str, event: StoredEvent, /) -> None:
        """Write a stored event, and forward it to the inner recorder."""
        if self._inner is not None:
            self._inner.record_event(run, event)
        self._write(json_line(encode_entry(SessionEntry(run, self.now(), event))))


class Output:
    """The destination of the answer: stdout, or a file that is written in one piece once the answer is complete."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._lines = path, list[str]()
        if path is not None and not path.parent.is_dir():
            raise click.UsageError(
                f"The folder {str(path.parent)!r} does not exist. Create it, or name another file with -o."
            )
        if path is not None and path.is_dir():
            raise click.UsageError(f"{str(path)!r} is a folder. Name a file in it with -o.")

    def write(self, line: str) -> None:
        """Add a line."""
        if self._path is None:
            click.echo(line)
        else:
            self._lines.append(line)

    def finish(self) -> None:
        """Write the file if lines were added; otherwise leave an existing file untouched."""
        if self._path is not None and self._lines:
            write_whole(self._path, "".join(f"{line}\n" for line in self._lines), 0o666)


def usage_line(result: RunResult[str], llm: LLM, seconds: float, session: str) -> str:
    """Model, tokens, cost and duration of a run, and its session."""
    from agentkit.event_rendering import seconds_text, tokens_text
    from agentkit.usage import format_cost

    cost = format_cost(result.cost)
    parts = [_answering_models(result, llm), tokens_text(result.usage), f"cost {cost}", seconds_text(seconds)]
    return " · ".join([*parts, f"session {session}"] if session else parts)


def _answering_models(result: RunResult[str], llm: LLM) -> str:
    """The models that answered if fallbacks are configured, otherwise the configured model."""
    tariffs = [each.response.tariff for each in result.events if isinstance(each, ResponseReceived)]
    paid = {(tariff.provider, tariff.model) for tariff in tariffs if tariff is not None}
    known = [each.name for each in llm.members() if (each.tariff.provider, each.tariff.model) in paid]
    return ", ".join(known if llm.fallbacks else ()) or f"{llm.provider}:{llm.model}"


def error_stream() -> StatusLine:
    """The status line of this process, drawn on stderr if that is a terminal."""
    return StatusLine(sys.stderr if is_terminal(sys.stderr) else None)


_FOR_PROGRAMS = RESUME_HINT.partition(";")[0]
AUTO_APPROVAL_WARNING = "Warning: -y approves every call without showing it. Calls that the policy denies stay denied."
UNKNOWN_PRICE_ADVICE = (
    "To run without a cost limit: --limit unknown_price=free. To see the known prices: agentkit models"
)


def answer(options: AskOptions) -> int:
    """Run the question, render its events and return the exit code. Raises the error of a failed run."""
    settings, output_type = options.settings, _output_type(options)
    for note in settings.notes if not options.quiet else ():
        print_note(note, "yellow")
    _ = settings.limits  # invalid limits are an error also without a question
    question = options.prompt(read_question(options.question))
    session = _session(options, settings, question)
    if options.continue_last and not options.quiet:
        print_note(continuation_text(session), faint=True)
    prompt = question or _unfinished_run(session)
    output = Output(options.output)
    stored = None if options.no_session else StoredApprovals()
    with (
        error_stream() as status,
        one_shot_approver(status, yes=options.yes, can_wait=session.store is not None, stored=stored) as approve,
    ):
        agent = build_agent(options, settings, session, approve, output_type and output_type.kind)
        if options.yes:
            print_note(AUTO_APPROVAL_WARNING, "yellow")
        if size := size_warning(question, agent.llm):
            print_note(size, "yellow")
        began = time.monotonic()
        result = _run(options, agent, prompt, output_type, output, status)
    if is_temporary(session) and (session.unfinished or (result is not None and result.status in _RESUMABLE)):
        session = make_permanent(session, options.store)
    if result is None:
        return _interrupted(session)
    if options.verbose:
        print_note(usage_line(result, agent.llm, time.monotonic() - began, stored_name(session)), faint=True)
    return exit_code(result, session)


_RESUMABLE = ("paused", "limit")
_LARGE_TOKENS = 50_000


def size_warning(question: Content, llm: LLM) -> str:
    """A warning with tokens and price for a large question; empty for others."""
    from agentkit.llm.pricing import context_window, price_under
    from agentkit.messages import UserMessage
    from agentkit.sessions.token_estimates import tokens_of

    if not question or (isinstance(question, str) and len(question) < _LARGE_TOKENS):
        return ""
    tokens = tokens_of(UserMessage(question))
    if tokens < _LARGE_TOKENS:
        return ""
    price, window = price_under(llm.tariff), context_window(llm.tariff.provider, llm.tariff.model)
    cost = "" if price is None else f", about ${price.worst(tokens).dollars(tokens, 0):,.2f} for each request"
    parts = [f"The question has about {tokens:,} tokens{cost}."]
    if window and tokens > window:
        parts.append(f"The context window of {llm.model} has {window:,} tokens.")
    return " ".join(parts)


def _session(options: AskOptions, settings: Settings, question: Content) -> Session:
    """The chosen session or a new one; without a store if nothing is stored. Raises UsageError without a question."""
    chosen = select_session(options, settings)
    if not question and (chosen is None or chosen.store is None):
        raise click.UsageError('The question is missing. Example: agentkit "How much is 17% of 2400?"')
    if chosen is not None:
        return chosen
    return (
        temporary_session(text_of(question)) if options.store is None else new_session(options.store, text_of(question))
    )


def _unfinished_run(session: Session) -> Resumption:
    """Resume the session's unfinished run. Raises UsageError if every run is finished."""
    from agentkit.agents.result import Resumption

    if not session.unfinished:
        raise click.UsageError(
            f"The question is missing, and no run in the session {session.name!r} waits. "
            f'Example: agentkit --session {quote_word(session.name)} "..."'
        )
    return Resumption()


def build_agent(
    options: AskOptions, settings: Settings, session: Session, approve: Approver | None, kind: Any = None
) -> Agent[Any]:
    """Build the configured agent for the session, with answers of type `kind`."""
    agent = settings.agent(session=session, dry_run=options.dry_run, approve=approve, output_type=kind)
    if options.yes:  # takes precedence over the approval handler of an agent that a program defines
        agent.approve = approve
    return agent


def _output_type(options: AskOptions) -> OutputType[Any] | None:
    """The output type; None for text. Raises UsageError and ConfigError."""
    schema = options.answer_schema
    if schema is None:
        return None
    from agentkit.cli.ask_options import parse_answer_type
    from agentkit.tooling.output_types import OutputType

    return OutputType.of(parse_answer_type(schema))


def _format_answer(value: Any, output_type: OutputType[Any] | None) -> str:
    """Render an answer: text, JSON for other output types, an empty string for None."""
    if value is None:
        return ""
    return clean(value) if output_type is None else json_text(output_type.plain(value))


def _run(
    options: AskOptions,
    agent: Agent[Any],
    prompt: Content | Resumption,
    output_type: OutputType[Any] | None,
    output: Output,
    status: StatusLine,
) -> RunResult[Any] | None:
    """Run to the end and write the answer; None if a person interrupted the run."""
    output_type = output_type or agent.answer_validator.output
    prints_answer = not (options.as_json or options.as_jsonl)
    streams = prints_answer and options.output is None and not options.no_stream and not agent.withholds_text
    screen = Screen(status, model_name(agent.llm), shows_text=streams, shows_calls=prints_answer and not options.quiet)
    try:
        with _recording(options, agent, screen, output):
            result = _result(agent, prompt, screen, streaming=streams)
    except KeyboardInterrupt:
        screen.end_line()
        return None
    if options.as_json:
        output.write(json_text(run_document(result, output_type.plain if output_type else str)))
    elif (
        prints_answer and (not streams or _is_from_tool(result)) and (text := _format_answer(result.value, output_type))
    ):
        output.write(text)
    output.finish()
    if prints_answer and not options.quiet and result.changes:
        print_note(result.changes)
        if options.dry_run:
            print_note("No changes were made: --dry-run.", faint=True)
    return result


def _is_from_tool(result: RunResult[Any]) -> bool:
    """Whether a tool has provided the answer, so that a stream did not contain it."""
    return any(isinstance(event, AnswerGiven) for event in result.events[-2:])


def _result(agent: Agent[Any], prompt: Content | Resumption, screen: Screen, *, streaming: bool) -> RunResult[Any]:
    """Run the agent and return the result; the screen receives every event."""
    if not streaming:
        agent.listeners.append(screen.render)
        return agent.run(prompt)
    with closing(agent.stream(prompt)) as events:
        for event in events:
            screen.render(event)
            if isinstance(event, RunFinished):
                result: RunResult[Any] = event.result
    return result


@contextmanager
def _recording(options: AskOptions, agent: Agent[Any], screen: Screen, output: Output) -> Iterator[None]:
    """Record the block, and write its stored events as JSON lines, as the options say."""

    def write(line: str) -> None:
        screen.end_line()
        output.write(line)

    with ExitStack() as stack:
        recorder = None
        if options.record is not None:
            from agentkit.testing.scripted_llm import record

            recorder = stack.enter_context(record(options.record))
        if options.as_jsonl:
            stack.enter_context(active(JSONLinesOutput(write, agent.session.name, recorder)))
        yield


def exit_code(result: RunResult[Any], session: Session) -> int:
    """The exit code of a run. Raises the run's error unless it hit a limit."""
    if result.status == "limit" and result.error is not None:
        print_error(limit_error(result), _advice(result, session))
        return LIMIT
    if result.status == "paused":
        pending_tools = ", ".join(dict.fromkeys(pending.tool for pending in result.pending))
        print_note(f"The run waits for your answer about {pending_tools}.\n{resume_hint(result, stored_name(session))}")
        return INTERRUPTED
    result.raise_for_status()
    calls = result.tool_calls
    return REFUSED if calls and all(was_refused(used.result) for used in calls) else ANSWERED


def limit_error(result: RunResult[Any]) -> AgentKitError:
    """The error of a run that hit a limit, without the advice for programs."""
    text, _, _ = str(result.error).partition(_FOR_PROGRAMS)
    return LimitExceeded(f"{UNKNOWN_PRICE.partition(':')[0]}." if is_unpriced(result) else text.strip())


def is_unpriced(result: RunResult[Any]) -> bool:
    """Whether the run hit a cost limit because the model's price is unknown; resuming it would fail the same way."""
    return UNKNOWN_PRICE in str(result.error)


def _advice(result: RunResult[Any], session: Session) -> str:
    if is_unpriced(result):
        return UNKNOWN_PRICE_ADVICE
    allow = f"Allow more with: --limit {result.limit}=NUMBER"
    return "\n".join(filter(None, (resume_hint(result, stored_name(session)), allow if result.limit else "")))


def _interrupted(session: Session) -> int:
    name = stored_name(session)
    print_note("Interrupted.")
    if name and session.unfinished:
        print_note("The work so far is stored. Continue with: agentkit -c")
    return INTERRUPTED


def stored_name(session: Session) -> str:
    """The name under which a session is stored; empty if it is not stored."""
    return session.name if session.store is not None and not is_temporary(session) else ""


_RUN_EXAMPLES = """\b
Examples:
  agentkit run agent.py "Which invoices are due?"
  agentkit run agent.py:clerk "Have you any Borges?"
"""


@click.command(epilog=_RUN_EXAMPLES, short_help="Ask the agent in a Python or text file.")
@click.argument("file", type=FILE, metavar="FILE[:NAME]")
@click.argument("question", nargs=-1, metavar="[QUESTION | @FILE | -]...")
@conversation_options
@output_options
def run(*, file: Path, **options: Any) -> int:
    """Ask the agent in FILE: the one that a Python file defines, or that a text file describes.

    The same as: agentkit ask --agent FILE QUESTION.
    """
    if options["agent"] is not None:
        raise click.UsageError("The agent is the first argument. Leave out --agent.")
    return answer(AskOptions(**{**options, "agent": file}))
