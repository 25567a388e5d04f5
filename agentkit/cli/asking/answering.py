"""How is an order carried out? Settings, session, agent, run, and what its end means."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from agentkit.agents.result import RunFinished, RunResult
from agentkit.agents.running.budget import GO_ON, UNKNOWN_PRICE
from agentkit.cli.asking.approving import approver
from agentkit.cli.asking.keeping import chosen_session, new_session
from agentkit.cli.asking.question import question_of, text_of
from agentkit.cli.asking.status import StatusLine
from agentkit.cli.asking.writing import Lines, Output, Screen, closing_line, error_stream
from agentkit.cli.display import clean, json_text, run_document, was_refused
from agentkit.cli.exit_codes import ANSWERED, INTERRUPTED, LIMIT, REFUSED
from agentkit.cli.settings.layers import Settings
from agentkit.cli.terminal import go_on, shown_word, tell, tell_error
from agentkit.errors import AgentKitError, LimitExceeded
from agentkit.memory.session import Session
from agentkit.tape import active

if TYPE_CHECKING:
    from agentkit.agents.agent import Agent
    from agentkit.agents.result import Resumption
    from agentkit.cli.asking.order import Order
    from agentkit.messages import Content
    from agentkit.safety.approval import Approver
    from agentkit.tooling.output import OutputType

_FOR_PROGRAMS = GO_ON.partition(";")[0]
APPROVED = "Warning: -y approves every call that would be asked about, unseen. What a judge denies stays denied."
IGNORE_PRICE = "To ask it all the same: --limit unknown_price=free. To see what is known of it: agentkit models"


def answer(order: Order) -> int:
    """Ask, show what happens, and give the exit code. Raises what the run failed with."""
    settings, wanted = order.settings, _wanted(order)
    for note in settings.notes if not order.quiet else ():
        tell(note, "yellow")
    question = question_of(order.question)
    session = _session(order, settings, question)
    prompt = question or _left(session)
    output = Output(order.output)
    with error_stream() as status:
        approve = approver(status, yes=order.yes, can_wait=session.store is not None)
        agent = agent_of(order, settings, session, approve, wanted and wanted.kind)
        if order.yes:
            tell(APPROVED, "yellow")
        began = time.monotonic()
        result = _run(order, agent, prompt, wanted, output, status)
    if result is None:
        return _interrupted(session)
    if order.verbose:
        tell(closing_line(result, agent.llm, time.monotonic() - began, kept_name(session)), faint=True)
    return ended(result, session)


def _session(order: Order, settings: Settings, question: Content) -> Session:
    """The session that is meant; one that is not kept has no store. Raises UsageError when a new one has no name."""
    chosen = chosen_session(order, settings)
    if chosen is None and not question:
        raise click.UsageError('There is no question. Ask one: agentkit "How much is 17% of 2400?"')
    return new_session(order.place, text_of(question)) if chosen is None else chosen


def _left(session: Session) -> Resumption:
    """The run of a session that was left, when there is no question. Raises UsageError when there is none."""
    from agentkit.agents.result import Resumption

    if not session.unfinished:
        raise click.UsageError(
            f"There is no question, and no run in the session {session.name!r} waits. "
            f'Ask something: agentkit --session {shown_word(session.name)} "..."'
        )
    return Resumption()


def agent_of(
    order: Order, settings: Settings, session: Session, approve: Approver | None, kind: Any = None
) -> Agent[Any]:
    """The agent that was ordered, in that session, whose answers are of that kind."""
    agent = settings.agent(session=session, dry_run=order.dry_run, approve=approve, output_type=kind)
    if order.yes:  # which comes before whom a program's agent would ask
        agent.approve = approve
    return agent


def _wanted(order: Order) -> OutputType[Any] | None:
    """What the answer must be; None for a text. Raises UsageError and ConfigError."""
    if order.schema is None:
        return None
    from agentkit.cli.asking.typed import answer_type
    from agentkit.tooling.output import OutputType

    return OutputType.of(answer_type(order.schema))


def _told(value: Any, wanted: OutputType[Any] | None) -> str:
    """An answer as it is shown: a text, or what JSON has; nothing where there is none."""
    if value is None:
        return ""
    return clean(value) if wanted is None else json_text(wanted.plain(value))


def _run(
    order: Order,
    agent: Agent[Any],
    prompt: Content | Resumption,
    wanted: OutputType[Any] | None,
    output: Output,
    status: StatusLine,
) -> RunResult[Any] | None:
    """Run to the end and write what came of it; None when a person interrupted it."""
    wanted = wanted or agent.answer_rules.output
    is_told = not (order.as_json or order.as_jsonl)
    streams = is_told and order.output is None and not order.no_stream and not agent.holds_back
    screen = Screen(status, agent.llm.model, shows_text=streams, shows_calls=is_told and not order.quiet)
    try:
        with _taped(order, agent, screen, output):
            result = _result(agent, prompt, screen, streaming=streams)
    except KeyboardInterrupt:
        screen.end_line()
        return None
    if order.as_json:
        output.write(json_text(run_document(result, wanted.plain if wanted else str)))
    elif is_told and not streams and (text := _told(result.value, wanted)):
        output.write(text)
    output.finish()
    if is_told and not order.quiet and result.changes:
        tell(result.changes)
        if order.dry_run:
            tell("Nothing of this was done: --dry-run.", faint=True)
    return result


def _result(agent: Agent[Any], prompt: Content | Resumption, screen: Screen, *, streaming: bool) -> RunResult[Any]:
    """The run's result; the screen hears of all on the way."""
    if not streaming:
        agent.listeners.append(screen.hear)
        return agent.run(prompt)
    with closing(agent.stream(prompt)) as events:
        for event in events:
            screen.hear(event)
            if isinstance(event, RunFinished):
                result: RunResult[Any] = event.result
    return result


@contextmanager
def _taped(order: Order, agent: Agent[Any], screen: Screen, output: Output) -> Iterator[None]:
    """What happens in the block is recorded, and told line by line, as was ordered."""
    from agentkit.testing.cassettes import record

    def write(line: str) -> None:
        screen.end_line()
        output.write(line)

    with ExitStack() as stack:
        recorder = stack.enter_context(record(order.record)) if order.record is not None else None
        if order.as_jsonl:
            stack.enter_context(active(Lines(write, agent.session.name, recorder)))
        yield


def ended(result: RunResult[Any], session: Session) -> int:
    """The exit code of a run. Raises its error unless a limit was hit."""
    if result.status == "limit" and result.error is not None:
        tell_error(limit_error(result), _more(result, session))
        return LIMIT
    if result.status == "paused":
        waiting = ", ".join(dict.fromkeys(pending.tool for pending in result.pending))
        tell(f"The run waits for your answer about {waiting}.\n{go_on(result, kept_name(session))}")
        return INTERRUPTED
    result.raise_for_status()
    calls = result.tool_calls
    return REFUSED if calls and all(was_refused(used.result) for used in calls) else ANSWERED


def limit_error(result: RunResult[Any]) -> AgentKitError:
    """The error of a run that hit a limit, without what only a program can do."""
    what, _, _ = str(result.error).partition(_FOR_PROGRAMS)
    return LimitExceeded(f"{UNKNOWN_PRICE.partition(':')[0]}." if is_unpriced(result) else what.strip())


def is_unpriced(result: RunResult[Any]) -> bool:
    """Whether the limit is one of money for a model whose price nobody knows, so that going on would end the same."""
    return UNKNOWN_PRICE in str(result.error)


def _more(result: RunResult[Any], session: Session) -> str:
    if is_unpriced(result):
        return IGNORE_PRICE
    allow = f"Allow more with: --limit {result.limit}=NUMBER"
    return "\n".join(filter(None, (go_on(result, kept_name(session)), allow if result.limit else "")))


def _interrupted(session: Session) -> int:
    name = kept_name(session)
    tell("Interrupted.")
    if name and session.unfinished:
        tell("What was done is kept. Go on with: agentkit -c")
    return INTERRUPTED


def kept_name(session: Session) -> str:
    """The name under which a conversation is kept; empty when it is not."""
    return session.name if session.store is not None else ""
