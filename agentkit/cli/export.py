"""Export of runs: one HTML page without scripts or external resources, and Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentkit.cli.display import call_line
from agentkit.cli.terminal import clean
from agentkit.decisions import Decision
from agentkit.errors import SessionError
from agentkit.event_rendering import content_text, count_text, parse_arguments, seconds_text, tokens_text
from agentkit.events import (
    AnswerAmended,
    AnswerGiven,
    HistoryGiven,
    LimitReached,
    RequestFailed,
    ResponseReceived,
    RunResumed,
    StoredEvent,
    ToolCallFinished,
)
from agentkit.messages import (
    AssistantMessage,
    Message,
    Request,
    Response,
    SystemMessage,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentkit.portable_files import CLOEXEC
from agentkit.safety import html
from agentkit.safety.html import Child, Markup, element
from agentkit.sessions.session import Session
from agentkit.sessions.store import SessionEntry
from agentkit.sessions.transcript import (
    CallTranscript,
    RunTranscript,
    TranscriptStep,
    answers_text,
    content_of,
    day_text,
    figures,
    outer,
    readable,
    title,
    transcripts_of,
    usage_of,
    without_secrets,
)
from agentkit.text_encoding import split_lines

if TYPE_CHECKING:
    from agentkit.sessions.store import SessionSummary
    from agentkit.usage import Usage

_OPEN_CHARS, _GLIMPSE_CHARS = 600, 100
_VERDICTS = {"allow": "allowed", "ask": "needs approval", "deny": "denied"}
_ROLES = {SystemMessage: "order", AssistantMessage: "model", ToolMessage: "tool"}


def card(step: TranscriptStep | CallTranscript, answer: str = "") -> Markup:
    """Render a step: a model response (marked if it is the run's answer), a tool call or another stored event."""
    if isinstance(step, CallTranscript):
        return element("article", list(_call(step)), class_="card")
    if isinstance(step.event, ResponseReceived):
        response = step.event.response
        is_answer = bool(answer) and response.text == answer and not response.tool_calls
        return element("article", list(_response(step, response)), class_="card answer" if is_answer else "card")
    description = step.event.describe()
    text = element("p", description.text, class_="text") if description.text else None
    kind = "card bad" if description.severity == "error" else "card"
    return element("article", element("h3", description.title), text, class_=kind)


def _response(step: TranscriptStep, response: Response) -> Iterator[Markup]:
    figures = f"{seconds_text(step.seconds)} · {tokens_text(response.usage)}"
    yield element("h3", response.model or "model", element("small", figures))
    if response.text:
        yield element("p", response.text, class_="text")
    if response.finish_reason == "length":
        yield element("p", "The answer was cut off here.", class_="remark")
    if response.tool_calls:
        names = [element("code", call.name) for call in response.tool_calls]
        yield element("p", "calls ", _comma_separated(names), class_="requested")
    if response.message.reasoning:
        yield _collapsible("Reasoning", [element("p", response.message.reasoning, class_="text")])
    if step.request is not None:
        yield _collapsible(f"Request: {_request_summary(step)}", list(_request(step.request, step.new)))


def _comma_separated(parts: Sequence[Markup]) -> list[Child]:
    return [part if not place else [", ", part] for place, part in enumerate(parts)]


def _request_summary(step: TranscriptStep) -> str:
    request = step.request
    tools = f", {count_text(len(request.tools), 'tool')}" if request is not None and request.tools else ""
    return f"{count_text(len(step.new), 'new message')}{tools}"


def _request(request: Request, new: Sequence[Message]) -> Iterator[Markup]:
    facts = {
        "instruction": request.instruction,
        "tools": ", ".join(tool.name for tool in request.tools),
        "settings": ", ".join(f"{name} = {readable(value)}" for name, value in request.settings.items()),
        "answer must fit": readable(request.output_schema.schema) if request.output_schema else "",
    }
    if any(facts.values()):
        yield _fields({name: value for name, value in facts.items() if value})
    for message in new:
        role = _ROLES.get(type(message), "user")
        yield element("div", element("b", role), element("pre", _message_text(message)), class_=f"message {role}")


def _message_text(message: Message) -> str:
    match message:
        case SystemMessage(text):
            return text
        case AssistantMessage(text, calls):
            return "\n".join(filter(None, [text, *(f"{call.name}({call.arguments})" for call in calls)]))
        case ToolMessage(name=name, content=content):
            return f"{name}: {content}"
        case user:
            return content_text(user.content, "\n")


def _call(call: CallTranscript) -> Iterator[Markup]:
    """Render a tool call: arguments, decision with its reasons, approval and result."""
    decision = call.judgment
    verdict = _verdict(decision, call) if decision is not None else None
    yield element("h3", element("code", call.call.name), verdict, element("small", seconds_text(call.seconds)))
    fields = parse_arguments(call.call.arguments)
    if isinstance(fields, str):
        yield element("pre", fields)
    elif fields:
        yield _fields(fields)
    if decision is not None:
        yield element("div", list(_reasons(decision)), class_="decision")
    if answer := answers_text(call):
        yield element("p", answer, class_="person")
    if call.result is not None:
        yield _result(call.result)


def _verdict(decision: Decision, call: CallTranscript) -> Markup:
    verdict = str(decision.verdict)
    word = "allowed by a person" if verdict == "allow" and call.answers else _VERDICTS[verdict]
    return element("span", word, class_=f"chip {verdict}")


def _reasons(decision: Decision) -> Iterator[Child]:
    yield element("p", decision.reason, " ", element("span", f"rule: {decision.rule}", class_="rule"))
    if len(decision.evidence) > 1:
        yield element("p", "Because of ", element("code", decision.evidence))
    if decision.remedy:
        yield element("p", "Instead: ", decision.remedy)


def _result(result: ToolResult) -> Markup:
    """Render a result: in full if it is short, else folded behind its first words."""
    text = result.full_content or result.content
    content = content_of(text)
    word = "Result" if result.ok else f"Error ({result.status.replace('_', ' ')})"
    kind = "result" if result.ok else "result bad"
    shown = _fields(content) if isinstance(content, dict) else element("pre", content, tabindex="0")
    note = (
        element("p", "The model received its beginning and its end.", class_="remark") if result.full_content else None
    )
    if len(text) <= _OPEN_CHARS:
        return element("div", element("h4", word), shown, note, class_=kind)
    excerpt = " ".join(text[: 2 * _GLIMPSE_CHARS].split())[:_GLIMPSE_CHARS]
    size = f"{len(text):,} characters"
    return element(
        "div", _collapsible([f"{word}, {size} ", element("span", f"{excerpt}…")], [shown, note]), class_=kind
    )


def _fields(fields: Mapping[str, Any]) -> Markup:
    """Render names and values as a list."""
    pairs = [[element("dt", name), element("dd", readable(value), tabindex="0")] for name, value in fields.items()]
    return element("dl", pairs, class_="fields")


def _collapsible(summary: Child, content: Child) -> Markup:
    return element("details", element("summary", summary), content)


def summary_line(summary: SessionSummary, width: int) -> str:
    """A stored session on one line: its name padded to `width`, when it changed, and its number of runs."""
    return f"{summary.name:<{width}}  {day_text(summary.changed)}  {count_text(summary.runs, 'run')}"


def cost_text(usage: Usage) -> str:
    """The cost of the usage, or that it is unknown."""
    from agentkit.llm.pricing import cost_of
    from agentkit.usage import format_cost

    return format_cost(cost_of(usage))


def file_type(header: Mapping[str, Any]) -> str:
    """The type of a file, by its header."""
    return "Cassette" if "cassette" in header else "Session"


def heading(header: Mapping[str, Any]) -> str:
    """The type of a file, and when and by which version it was recorded, on one line."""
    recorded = f", recorded {header['recorded']}" if "recorded" in header else ""
    by = f" with agentkit {header['agentkit']}" if "agentkit" in header else ""
    return f"{file_type(header)}{recorded}{by}"


_STYLE = Path(__file__).with_name("page.css")
_LANES = {"model": 3, "tool": 17, "person": 31, "note": 31}
_CHART_WIDTH, _CHART_HEIGHT, _BAR_HEIGHT, _SHORTEST_BAR = 1_000, 44, 10, 4


def page(name: str, header: Mapping[str, Any], runs: Sequence[RunTranscript]) -> str:
    """Render the page of a cassette or an exported session called `name`."""
    sections = [_run(number, run) for number, run in enumerate(runs, 1)]
    if not sections:
        sections = [element("p", "It contains no prompts.", class_="empty")]
    parts = (_header(name, header, runs), element("main", sections), _footer(header))
    return html.page(f"{name} - agentkit", _STYLE.read_text("utf-8"), *parts)


def _header(name: str, header: Mapping[str, Any], runs: Sequence[RunTranscript]) -> Markup:
    facts = [element("div", element("dt", term), element("dd", value)) for term, value in _facts(runs)]
    links = [
        element("li", element("a", element("span", title(run)), " ", _status(run), href=f"#run-{number}"))
        for number, run in enumerate(runs, 1)
    ]
    return element(
        "header",
        element("p", file_type(header), class_="kind"),
        element("h1", name),
        element("dl", facts, class_="facts"),
        element("nav", element("ol", links), aria_label="Runs") if len(links) > 1 else None,
        class_="top",
    )


def _facts(runs: Sequence[RunTranscript]) -> Iterator[tuple[str, str]]:
    if runs:
        yield "Recorded", day_text(min(run.began for run in runs))
    requests = sum(len(run.responses) for run in runs)
    yield "Runs", f"{sum(bool(run.id) for run in runs):,}"
    yield "Requests", f"{requests:,}"
    yield "Tool calls", f"{sum(len(run.tool_calls) for run in runs):,}"
    if requests:
        usage = usage_of(outer(runs))
        yield "Tokens", tokens_text(usage)
        yield "Money", cost_text(usage)


def _footer(header: Mapping[str, Any]) -> Markup:
    by = f" by agentkit {header['agentkit']}" if "agentkit" in header else ""
    return element("footer", element("p", f"Recorded{by}. Secrets were redacted when it was written."))


def _run(number: int, run: RunTranscript) -> Markup:
    """Render one run as a section: prompt, chart, steps, outcome and changes."""
    seconds = run.ended - run.began
    return element(
        "section",
        element(
            "div",
            element("h2", title(run), id=f"heading-{number}"),
            _status(run),
            element("p", " · ".join([seconds_text(seconds), *figures([run], [run], cost_text)]), class_="figures"),
            class_="heading",
        ),
        None if run.prompt is None else element("blockquote", content_text(run.prompt, "\n"), class_="prompt"),
        _chart(run) if len(run.steps) > 1 and seconds > 0 else None,
        element("ol", (_step(run, step) for step in run.steps), class_="steps"),
        list(_end(run)),
        id=f"run-{number}",
        class_="run",
        aria_labelledby=f"heading-{number}",
    )


def _status(run: RunTranscript) -> Markup | None:
    return element("span", run.status, class_=f"chip {run.status}") if run.status else None


def _step(run: RunTranscript, step: TranscriptStep | CallTranscript) -> Markup:
    offset = seconds_text(max(0.0, step.began - run.began))
    return element("li", element("p", offset, class_="at"), card(step, run.answer), class_=f"step {_kind(step)}")


def _end(run: RunTranscript) -> Iterator[Markup]:
    """Render the outcome of a run: error, answer and changes."""
    if run.end is None:
        return
    if run.end.error:
        yield element("div", element("h3", "Reason for the end"), element("p", run.end.error), class_="outcome failed")
    if run.end.output and run.end.output not in [response.text for response in run.responses]:
        yield element("div", element("h3", "Answer"), element("p", run.end.output, class_="text"), class_="outcome")
    if run.end.changes:
        lines = [_diff_line(line) for line in split_lines(run.end.changes)]
        shown = element("pre", element("code", lines), class_="diff", tabindex="0")
        yield element("div", element("h3", "Changed in the workspace"), shown, class_="outcome changes")


def _diff_line(line: str) -> Markup:
    if line.startswith(("+++", "---", "diff ")):
        return element("span", line, class_="file")
    if line.startswith("@@"):
        return element("span", line, class_="hunk")
    return element({"+": "ins", "-": "del"}.get(line[:1], "span"), line or " ")


def _chart(run: RunTranscript) -> Markup:
    """Draw model requests, tool calls and waits for a person as bars on a time axis."""
    bars = [_bar(run, _kind(step), step.began, step.seconds) for step in run.steps]
    waits = [call.waited for call in run.tool_calls if call.waited is not None]
    bars += [_bar(run, "person", at - seconds, seconds) for at, seconds in waits]
    drawing = element(
        "svg",
        bars,
        viewBox=f"0 0 {_CHART_WIDTH} {_CHART_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label="Timeline of model requests and tool calls; the steps below contain the same information as text",
    )
    words = [("model", "model"), ("tool", "tools"), *([("person", "waiting for a person")] if waits else [])]
    key = [element("li", word, class_=kind) for kind, word in words]
    return element("figure", drawing, element("ul", key, class_="key"), class_="chart")


def _bar(run: RunTranscript, kind: str, began: float, seconds: float) -> Markup:
    scale = _CHART_WIDTH / (run.ended - run.began)
    width = min(_CHART_WIDTH, max(_SHORTEST_BAR, seconds * scale))
    left = min(max(0.0, (began - run.began) * scale), _CHART_WIDTH - width)
    position = {"x": round(left, 1), "y": _LANES[kind], "width": round(width, 1)}
    return element("rect", **position, height=_BAR_HEIGHT, rx=2, class_=kind)


def _kind(step: TranscriptStep | CallTranscript) -> str:
    if isinstance(step, CallTranscript):
        return "tool"
    return "model" if isinstance(step.event, ResponseReceived) else "note"


_JSON_LINES = (".jsonl", ".json")


def save(session: Session, path: Path) -> None:
    """Write a conversation to a new file for its owner only: JSON lines for `.jsonl` and `.json`, else Markdown.

    Raises SessionError if the file exists or cannot be written.
    """
    if path.suffix in _JSON_LINES:
        session.export(path)
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(markdown_of(session.name, session.entries))
    except FileExistsError:
        raise SessionError(f"The file {str(path)!r} already exists. Choose another name.") from None
    except OSError as error:
        raise SessionError(f"{str(path)!r} cannot be written: {error.strerror}.") from None


def markdown_of(name: str, entries: Iterable[SessionEntry]) -> str:
    """Render a conversation as Markdown: messages, tool calls, other stored events and changes.

    Secrets, and values that look like one, are left out, as in an export.
    """
    runs = transcripts_of(without_secrets(entries))
    parts = [f"# {name or 'Conversation'}", *(part for run in runs for part in _markdown_parts(run))]
    return clean("\n\n".join(parts)) + "\n"


def _markdown_parts(run: RunTranscript) -> Iterator[str]:
    """Yield the Markdown of a run: prompt, steps, error or interruption, changes."""
    if run.prompt is not None:
        yield from (_heading("You", day_text(run.began)), _quote(content_text(run.prompt, "\n")))
    for step in run.steps:
        yield from _markdown_call(step) if isinstance(step, CallTranscript) else _markdown_step(step.event)
    if run.end is not None and (run.end.error or run.status == "interrupted"):
        yield from _note(run.status, run.end.error)
    if run.end is not None and run.end.changes:
        yield _code("diff", run.end.changes)


def _markdown_call(call: CallTranscript) -> Iterator[str]:
    if call.result is not None:
        yield _code("", call_line(ToolCallFinished(call.call, call.result)))
    if answer := answers_text(call):
        yield from _note("", answer)


def _markdown_step(event: StoredEvent) -> Iterator[str]:
    match event:
        case ResponseReceived(response):
            yield from _markdown_text(response.text)
        case AnswerGiven(text) | AnswerAmended(text):
            yield from _markdown_text(text)
        case HistoryGiven(messages):
            for message in messages:
                yield from _markdown_message(message)
        case RunResumed(prompt) if prompt:
            yield from (_heading("You"), _quote(prompt))
        case RequestFailed() | LimitReached():
            pass  # the end of the run contains the same error
        case _:
            description = event.describe()
            yield from _note(description.title, description.text)


def _markdown_message(message: Message) -> Iterator[str]:
    match message:
        case UserMessage(content):
            yield from (_heading("You"), _quote(content_text(content, "\n")))
        case AssistantMessage(text):
            yield from _markdown_text(text)


def _markdown_text(text: str) -> Iterator[str]:
    if text:
        yield _heading("agentkit")
        yield _quote(text)


def _quote(text: str) -> str:
    """Quote a text, so that no line of it can pass for a heading, a call or a person's answer."""
    return "\n".join(f"> {line}".rstrip() for line in split_lines(text))


def _note(title: str, text: str) -> Iterator[str]:
    """Render a remark on one line, even if its words span several."""
    yield f"*{' '.join(': '.join(filter(None, [title, text])).split())}*"


def _heading(speaker: str, time_text: str = "") -> str:
    return f"## {speaker}{', ' if time_text else ''}{time_text}"


def _code(language: str, text: str) -> str:
    """A code block with a fence longer than any in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
