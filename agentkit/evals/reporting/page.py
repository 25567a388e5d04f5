"""How is a report shown on a page? One HTML file with plots that needs no script, no network and nothing beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from agentkit.evals.reporting.figures import OUTCOMES, Figures, Reported
from agentkit.evals.reporting.lines import facts_of, why
from agentkit.evals.reporting.plots import latencies, rates
from agentkit.evals.reporting.table import row_of
from agentkit.evals.trial import Trial
from agentkit.safety import markup
from agentkit.safety.markup import Markup, element
from agentkit.wording import hidden, one_line

_STYLE = Path(__file__).with_name("page.css")
_MOST_TEXT_CHARS = 4_000
_MOST_TOLD = 200
_SIGNS: Mapping[str, str] = {
    "passed": "✓",
    "failed": "✗",
    "refused": "⊘",
    "limit": "◷",
    "error": "!",
    "undone": "-",
}


def page(report: Reported) -> str:
    """The page of a report. Secrets in it are redacted."""
    figures = report.figures
    parts = [
        _top(report),
        element("main", _figures(figures), _plots(figures), _decisions(figures), _cases(report), list(_told(report))),
        element("footer", element("p", "Made by agentkit. Secrets were redacted when it was written.")),
    ]
    return markup.page(f"{hidden(report.suite)} - agentkit", _STYLE.read_text("utf-8"), *parts)


def _top(report: Reported) -> Markup:
    repeats = max((trial.repeat for trial in report.trials), default=0)
    facts = {"Run": report.began.replace("T", " ")[:16], "Cases": f"{len(report.cases):,}", "Repeats": f"{repeats}"}
    facts["Trials"] = f"{len(report.trials):,}"
    rows = [element("div", element("dt", term), element("dd", value)) for term, value in facts.items() if value]
    return element(
        "header",
        element("p", "Evaluation", class_="kind"),
        element("h1", hidden(report.suite)),
        element("dl", rows, class_="facts"),
    )


def _figures(figures: list[Figures]) -> Markup:
    heads = ("Agent", "Passed", "Rate, 95 % interval", "Score", "Median", "90 %", "Tokens", "Money", "Judging")
    rows = [
        element("tr", [element("td", cell, data_head=head) for head, cell in zip(heads, _row(each), strict=True)])
        for each in figures
    ]
    head = element("tr", [element("th", word, scope="col") for word in heads])
    return _section("Figures", element("table", element("thead", head), element("tbody", rows), class_="figures"))


def _row(figures: Figures) -> tuple[str, ...]:
    judging = f"{figures.judging.total_tokens:,} tokens" if figures.judging.requests else "-"
    return hidden(figures.agent), *row_of(figures)[1:], judging


def _plots(figures: list[Figures]) -> list[Markup]:
    dots = latencies(figures)
    drawn = [_section("Success", element("figure", rates(figures), tabindex="0"))]
    return drawn if dots is None else [*drawn, _section("Seconds to the answer", element("figure", dots, tabindex="0"))]


def _decisions(figures: list[Figures]) -> Markup | None:
    """What was judged of the tool calls, and how right they were."""
    items = []
    for each in figures:
        words = [f"{times} {verdict} by {rule}" for (verdict, rule), times in each.decisions.items()]
        if each.tool_accuracy is not None:
            words.insert(0, f"accuracy {100 * each.tool_accuracy:.0f} %")
        if words:
            items.append(element("li", element("b", hidden(each.agent)), ": ", hidden("; ".join(words))))
    return _section("Tool calls", element("ul", items)) if items else None


def _cases(report: Reported) -> Markup:
    """Each case with a sign for each of its trials."""
    found: dict[tuple[str, str], list[Trial]] = {}
    for trial in report.trials:
        found.setdefault((trial.case.id, trial.agent), []).append(trial)
    head = element(
        "tr", element("th", "Case", scope="col"), [element("th", hidden(each), scope="col") for each in report.agents]
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


def _told(report: Reported) -> Iterator[Markup]:
    """What did not pass, with what was asked, answered and expected."""
    failures = report.failures
    if failures:
        more = len(failures) - _MOST_TOLD
        left = element("p", f"{more:,} more are in the JSON of the report.", class_="empty") if more > 0 else None
        yield _section("What did not pass", [_failure(trial) for trial in failures[:_MOST_TOLD]], left)


def _failure(trial: Trial) -> Markup:
    repeat = f", repeat {trial.repeat}" if trial.repeat > 1 else ""
    shown = [[element("dt", head), element("dd", text)] for head, text in facts_of(trial, _MOST_TEXT_CHARS).items()]
    return element(
        "details",
        element(
            "summary",
            _sign(trial),
            element("b", f" {one_line(trial.case.text, 80)} "),
            element("span", f"{hidden(trial.agent)}{repeat} · {one_line(why(trial), 120)}"),
        ),
        element("dl", shown, class_="fields"),
    )


def _section(title: str, *children: markup.Child) -> Markup:
    return element("section", element("h2", title), *children)
