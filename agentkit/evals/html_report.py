"""HTML reports with plots, without scripts or external resources."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentkit.evals.metrics import OUTCOMES, Metrics, Reported
from agentkit.evals.text_reports import facts_of, failure_reason, row_of
from agentkit.evals.trial import Trial
from agentkit.event_rendering import one_line, redact_stored
from agentkit.safety import html
from agentkit.safety.html import Child, Markup, element

_WIDTH, _LEFT, _RIGHT, _ROW = 640, 8, 8, 44
_INNER = _WIDTH - _LEFT - _RIGHT
_TICKS = 5
_MAX_NAME_CHARS = 32


def rates(figures: Sequence[Metrics]) -> Markup:
    """Plot the success rate of each agent as a bar with its interval."""
    rows: list[Child] = []
    for index, each in enumerate(figures):
        top, rate = index * _ROW, each.rate
        rows += [
            _label(each.agent, str(rate) if rate.trials else "not done", top),
            element("rect", x=_LEFT, y=top + 20, width=_INNER, height=12, rx=2, class_="well"),
            element("rect", x=_LEFT, y=top + 20, width=_scaled(rate.value, 1.0), height=12, rx=2, class_="rate"),
            _line(_at(rate.low, 1.0), _at(rate.high, 1.0), top + 26),
            *(_line(_at(end, 1.0), _at(end, 1.0), top + 21, top + 31) for end in (rate.low, rate.high)),
        ]
    marks = [(share / 4, f"{25 * share} %") for share in range(5)]
    return _plot(
        rows, len(figures), marks, 1.0, "Success rates, with 95 % intervals; the table above contains the same figures"
    )


def latencies(figures: Sequence[Metrics]) -> Markup | None:
    """Plot the latency of each answer as a dot and the median as a line. None without answers."""
    longest = max((each.seconds[-1] for each in figures if each.seconds), default=0.0)
    if longest <= 0:
        return None
    step = _step(longest)
    maximum = step * math.ceil(longest / step)
    rows: list[Child] = []
    for index, each in enumerate(figures):
        top, median = index * _ROW, each.latency(0.5)
        rows += [
            _label(each.agent, f"median {median:.2f} s, 90 % within {each.latency(0.9):.2f} s", top),
            *(element("circle", cx=_at(seconds, maximum), cy=top + 28, r=4, class_="dot") for seconds in each.seconds),
            _line(_at(median, maximum), _at(median, maximum), top + 20, top + 36),
        ]
    marks = [(step * count, f"{step * count:g} s") for count in range(round(maximum / step) + 1)]
    return _plot(rows, len(figures), marks, maximum, "Seconds to each answer; the table above has median and 90 %")


def _plot(rows: list[Child], count: int, marks: list[tuple[float, str]], maximum: float, label: str) -> Markup:
    height = count * _ROW
    grid: list[Child] = []
    for value, word in marks:
        x = _at(value, maximum)
        anchor = "start" if value == 0 else "end" if value >= maximum else "middle"
        grid.append(element("line", x1=x, x2=x, y1=4, y2=height, class_="grid"))
        grid.append(element("text", word, x=x, y=height + 16, text_anchor=anchor, class_="tick"))
    return element("svg", grid, rows, viewBox=f"0 0 {_WIDTH} {height + 22}", role="img", aria_label=label)


def _label(name: str, figure: str, top: float) -> Child:
    return [
        element("text", one_line(name, _MAX_NAME_CHARS), x=_LEFT, y=top + 14),
        element("text", figure, x=_WIDTH - _RIGHT, y=top + 14, text_anchor="end", class_="figure"),
    ]


def _line(x1: float, x2: float, y1: float, y2: float | None = None) -> Markup:
    return element("line", x1=x1, x2=x2, y1=y1, y2=y1 if y2 is None else y2, class_="interval")


def _step(longest: float) -> float:
    """A round tick interval that results in only a few ticks."""
    rough = longest / _TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    return next(size * step for step in (1, 2, 5, 10) if size * step >= rough)


def _scaled(value: float, maximum: float) -> float:
    return round(_INNER * value / maximum, 1)


def _at(value: float, maximum: float) -> float:
    return round(_LEFT + _scaled(value, maximum), 1)


_STYLE = Path(__file__).with_name("page.css")
_MAX_TEXT_CHARS = 4_000
_MAX_FAILURES = 200
_SIGNS: Mapping[str, str] = {
    "passed": "✓",
    "failed": "✗",
    "refused": "⊘",
    "limit": "◷",
    "error": "!",
    "undone": "-",
}


def page(report: Reported) -> str:
    """Render the page of a report. Secrets in it are redacted."""
    figures = report.figures
    parts = [
        _header(report),
        element(
            "main", _figures(figures), _plots(figures), _decisions(figures), _cases(report), list(_failures(report))
        ),
        element("footer", element("p", "Made by agentkit. Secrets were redacted when it was written.")),
    ]
    return html.page(f"{redact_stored(report.suite)} - agentkit", _STYLE.read_text("utf-8"), *parts)


def _header(report: Reported) -> Markup:
    repeats = max((trial.repeat for trial in report.trials), default=0)
    facts = {"Run": report.began.replace("T", " ")[:16], "Cases": f"{len(report.cases):,}", "Repeats": f"{repeats}"}
    facts["Trials"] = f"{len(report.trials):,}"
    rows = [element("div", element("dt", term), element("dd", value)) for term, value in facts.items() if value]
    return element(
        "header",
        element("p", "Evaluation", class_="kind"),
        element("h1", redact_stored(report.suite)),
        element("dl", rows, class_="facts"),
    )


def _figures(figures: list[Metrics]) -> Markup:
    headers = ("Agent", "Passed", "Rate, 95 % interval", "Score", "Median", "90 %", "Tokens", "Money", "Judging")
    rows = [
        element("tr", [element("td", cell, data_head=head) for head, cell in zip(headers, _row(each), strict=True)])
        for each in figures
    ]
    head = element("tr", [element("th", word, scope="col") for word in headers])
    return _section("Figures", element("table", element("thead", head), element("tbody", rows), class_="figures"))


def _row(figures: Metrics) -> tuple[str, ...]:
    judging = f"{figures.judging.total_tokens:,} tokens" if figures.judging.requests else "-"
    return redact_stored(figures.agent), *row_of(figures)[1:], judging


def _plots(figures: list[Metrics]) -> list[Markup]:
    latency_plot = latencies(figures)
    sections = [_section("Success", element("figure", rates(figures), tabindex="0"))]
    return (
        sections
        if latency_plot is None
        else [*sections, _section("Seconds to the answer", element("figure", latency_plot, tabindex="0"))]
    )


def _decisions(figures: list[Metrics]) -> Markup | None:
    """Render the verdicts on tool calls, and the tool-call accuracy."""
    items = []
    for each in figures:
        words = [f"{times} {verdict} by {rule}" for (verdict, rule), times in each.decisions.items()]
        if each.tool_accuracy is not None:
            words.insert(0, f"accuracy {100 * each.tool_accuracy:.0f} %")
        if words:
            items.append(element("li", element("b", redact_stored(each.agent)), ": ", redact_stored("; ".join(words))))
    return _section("Tool calls", element("ul", items)) if items else None


def _cases(report: Reported) -> Markup:
    """Render each case with a symbol for each of its trials."""
    found: dict[tuple[str, str], list[Trial]] = {}
    for trial in report.trials:
        found.setdefault((trial.case.id, trial.agent), []).append(trial)
    head = element(
        "tr",
        element("th", "Case", scope="col"),
        [element("th", redact_stored(each), scope="col") for each in report.agents],
    )
    rows = [
        element(
            "tr",
            element("th", one_line(case.text, 90), scope="row"),
            [element("td", [_sign(trial) for trial in found.get((case.id, agent), [])]) for agent in report.agents],
        )
        for case in report.cases
    ]
    key = [element("li", element("span", _SIGNS[word], class_=_class(word)), f" {word}") for word in OUTCOMES]
    table = element("table", element("thead", head), element("tbody", rows), class_="cases")
    return _section("Cases", element("ul", key, class_="key"), table)


def _sign(trial: Trial) -> Markup:
    return element("span", _SIGNS[trial.outcome], class_=_class(trial.outcome), title=trial.outcome)


def _class(outcome: str) -> str:
    return f"sign {outcome.replace(' ', '-')}"


def _failures(report: Reported) -> Iterator[Markup]:
    """Render the trials that did not pass, with prompt, answer and expectation."""
    failures = report.failures
    if failures:
        more = len(failures) - _MAX_FAILURES
        remaining = element("p", f"{more:,} more are in the JSON of the report.", class_="empty") if more > 0 else None
        yield _section("What did not pass", [_failure(trial) for trial in failures[:_MAX_FAILURES]], remaining)


def _failure(trial: Trial) -> Markup:
    repeat = f", repeat {trial.repeat}" if trial.repeat > 1 else ""
    fields = [[element("dt", head), element("dd", text)] for head, text in facts_of(trial, _MAX_TEXT_CHARS).items()]
    return element(
        "details",
        element(
            "summary",
            _sign(trial),
            element("b", f" {one_line(trial.case.text, 80)} "),
            element("span", f"{redact_stored(trial.agent)}{repeat} · {one_line(failure_reason(trial), 120)}"),
        ),
        element("dl", fields, class_="fields"),
    )


def _section(title: str, *children: html.Child) -> Markup:
    return element("section", element("h2", title), *children)
