"""How is a run that is over shown on a page? One HTML file that needs no script, no network and nothing beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentkit.cli.runs.cards import card
from agentkit.cli.runs.words import kind_of, money
from agentkit.events import ResponseReceived
from agentkit.lines import split_lines
from agentkit.memory.narration.story import CallStory, Moment, RunStory
from agentkit.memory.narration.words import day_text, figures, outer, title, usage_of
from agentkit.safety import markup
from agentkit.safety.markup import Markup, element
from agentkit.wording import content_text, seconds_text, tokens_text

_STYLE = Path(__file__).with_name("page.css")
_LANES = {"model": 3, "tool": 17, "person": 31, "note": 31}
_CHART_WIDTH, _CHART_HEIGHT, _BAR_HEIGHT, _SHORTEST_BAR = 1_000, 44, 10, 4


def page(name: str, header: Mapping[str, Any], runs: Sequence[RunStory]) -> str:
    """The page of a cassette or an exported session called `name`."""
    sections = [_run(number, run) for number, run in enumerate(runs, 1)]
    if not sections:
        sections = [element("p", "Nothing was asked in it.", class_="empty")]
    parts = (_top(name, header, runs), element("main", sections), _foot(header))
    return markup.page(f"{name} - agentkit", _STYLE.read_text("utf-8"), *parts)


def _top(name: str, header: Mapping[str, Any], runs: Sequence[RunStory]) -> Markup:
    facts = [element("div", element("dt", term), element("dd", value)) for term, value in _facts(runs)]
    links = [
        element("li", element("a", element("span", title(run)), " ", _status(run), href=f"#run-{number}"))
        for number, run in enumerate(runs, 1)
    ]
    return element(
        "header",
        element("p", kind_of(header), class_="kind"),
        element("h1", name),
        element("dl", facts, class_="facts"),
        element("nav", element("ol", links), aria_label="Runs") if len(links) > 1 else None,
        class_="top",
    )


def _facts(runs: Sequence[RunStory]) -> Iterator[tuple[str, str]]:
    if runs:
        yield "Recorded", day_text(min(run.began for run in runs))
    requests = sum(len(run.responses) for run in runs)
    yield "Runs", f"{sum(bool(run.id) for run in runs):,}"
    yield "Requests", f"{requests:,}"
    yield "Tool calls", f"{sum(len(run.tool_calls) for run in runs):,}"
    if requests:
        usage = usage_of(outer(runs))
        yield "Tokens", tokens_text(usage)
        yield "Money", money(usage)


def _foot(header: Mapping[str, Any]) -> Markup:
    by = f" by agentkit {header['agentkit']}" if "agentkit" in header else ""
    return element("footer", element("p", f"Recorded{by}. Secrets were redacted when it was written."))


def _run(number: int, run: RunStory) -> Markup:
    """One run as a section: prompt, chart, steps, changes, how it ended."""
    seconds = run.ended - run.began
    return element(
        "section",
        element(
            "div",
            element("h2", title(run), id=f"heading-{number}"),
            _status(run),
            element("p", " · ".join([seconds_text(seconds), *figures([run], [run], money)]), class_="figures"),
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


def _status(run: RunStory) -> Markup | None:
    return element("span", run.status, class_=f"chip {run.status}") if run.status else None


def _step(run: RunStory, step: Moment | CallStory) -> Markup:
    offset = seconds_text(max(0.0, step.began - run.began))
    return element("li", element("p", offset, class_="at"), card(step, run.answer), class_=f"step {_kind(step)}")


def _end(run: RunStory) -> Iterator[Markup]:
    """What the run came to."""
    if run.end is None:
        return
    if run.end.error:
        yield element("div", element("h3", "Why it ended"), element("p", run.end.error), class_="outcome failed")
    if run.end.output and run.end.output not in [response.text for response in run.responses]:
        yield element("div", element("h3", "Answer"), element("p", run.end.output, class_="said"), class_="outcome")
    if run.end.changes:
        lines = [_difference(line) for line in split_lines(run.end.changes)]
        shown = element("pre", element("code", lines), class_="diff", tabindex="0")
        yield element("div", element("h3", "Changed in the workspace"), shown, class_="outcome changes")


def _difference(line: str) -> Markup:
    if line.startswith(("+++", "---", "diff ")):
        return element("span", line, class_="file")
    if line.startswith("@@"):
        return element("span", line, class_="hunk")
    return element({"+": "ins", "-": "del"}.get(line[:1], "span"), line or " ")


def _chart(run: RunStory) -> Markup:
    """When the model thought, tools ran and people were waited for, as bars one below the other."""
    bars = [_bar(run, _kind(step), step.began, step.seconds) for step in run.steps]
    waits = [story.waited for story in run.tool_calls if story.waited is not None]
    bars += [_bar(run, "person", at - seconds, seconds) for at, seconds in waits]
    drawing = element(
        "svg",
        bars,
        viewBox=f"0 0 {_CHART_WIDTH} {_CHART_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label="When the model was asked and tools ran; the steps below say the same in words",
    )
    words = [("model", "model"), ("tool", "tools"), *([("person", "waiting for a person")] if waits else [])]
    key = [element("li", word, class_=kind) for kind, word in words]
    return element("figure", drawing, element("ul", key, class_="key"), class_="chart")


def _bar(run: RunStory, kind: str, began: float, seconds: float) -> Markup:
    scale = _CHART_WIDTH / (run.ended - run.began)
    width = min(_CHART_WIDTH, max(_SHORTEST_BAR, seconds * scale))
    left = min(max(0.0, (began - run.began) * scale), _CHART_WIDTH - width)
    place = {"x": round(left, 1), "y": _LANES[kind], "width": round(width, 1)}
    return element("rect", **place, height=_BAR_HEIGHT, rx=2, class_=kind)


def _kind(step: Moment | CallStory) -> str:
    if isinstance(step, CallStory):
        return "tool"
    return "model" if isinstance(step.milestone, ResponseReceived) else "note"
