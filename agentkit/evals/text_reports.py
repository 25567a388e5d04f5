"""Reports as terminal tables, Markdown and JUnit XML (pure).

Untrusted text is rendered as code only, so that it cannot form links, images, tags or mentions.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from xml.etree import ElementTree

from agentkit.evals.case import expected_text
from agentkit.evals.metrics import Metrics, Reported
from agentkit.evals.trial import Trial
from agentkit.event_rendering import call_text, count_text, escape_invisible, one_line, redact_stored, truncate
from agentkit.text_encoding import split_lines
from agentkit.usage import Usage, format_cost

MAX_NAME_CHARS = 28
_MAX_LISTED = 10


def short(name: str) -> str:
    """Shorten a name."""
    return one_line(name, MAX_NAME_CHARS)


def failure_reason(trial: Trial) -> str:
    """Explain why a trial did not pass."""
    reasons = [f"{score.name}: {score.reason or f'{score.value:.2f}'}" for score in trial.scores if not score.passed]
    return trial.error or "; ".join(reasons)


def facts_of(trial: Trial, max_chars: int) -> dict[str, str]:
    """The facts of a trial by heading, redacted and shortened; empty ones are omitted."""
    facts = {"Prompt": trial.case.text, "Answer": trial.answer, "Expected": expected_text(trial.case)}
    if trial.case.is_conversation:
        facts["Conversation"] = trial.transcript
    facts["Tool calls"] = "\n".join(call_text(used.call) for used in (trial.result.tool_calls if trial.result else ()))
    facts["Why"] = "\n".join([*(f"{each.name} {each.value:.2f}: {each.reason}" for each in trial.scores), trial.error])
    return {head: truncate(redact_stored(text.strip()), max_chars) for head, text in facts.items() if text.strip()}


def text_width(text: str) -> int:
    """The width of a text in terminal columns: two for a wide character, zero for a combining mark."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def seconds_text(seconds: float) -> str:
    """Format a duration: `0.42 s`, `12 s`."""
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def indented_list(lines: Iterable[str]) -> list[str]:
    """The first ten lines, indented, and the number of further ones."""
    items = list(lines)
    remaining = len(items) - _MAX_LISTED
    return [f"  {line}" for line in items[:_MAX_LISTED]] + ([f"  … and {remaining} more"] if remaining > 0 else [])


HEADS = ("agent", "passed", "rate (95 %)", "score", "p50", "p90", "tokens", "money")


def report_text(report: Reported, max_columns: int | None = None) -> str:
    """Render the report; if the table is wider than `max_columns`, it has a column per agent instead of a row."""
    figures = report.figures
    notes = [line for each in figures for line in notes_of(each, alone=len(figures) == 1)]
    rows = [HEADS, *map(row_of, figures)]
    table = _align(rows)
    if max_columns is not None and max(map(text_width, table)) > max_columns:
        table = _align([*zip(*rows, strict=True)])
    blocks = [[title_of(report)], table, notes, _align(tag_rows(report)), _failures(report.failures)]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def title_of(report: Reported) -> str:
    """The title: the suite, its cases and repeats."""
    repeats = max((trial.repeat for trial in report.trials), default=0)
    repeats_text = f", each {repeats} times" if repeats > 1 else ""
    return f"{one_line(report.suite)}: {count_text(len(report.cases), 'case')}{repeats_text}"


def row_of(figures: Metrics) -> tuple[str, ...]:
    """The metrics of an agent as cells of a table."""
    rate = figures.rate
    return (
        short(figures.agent),
        f"{figures.outcomes['passed']} of {rate.trials}",
        str(rate) if rate.trials else "-",
        f"{figures.score:.2f}",
        seconds_text(figures.latency(0.5)) if figures.seconds else "-",
        seconds_text(figures.latency(0.9)) if figures.seconds else "-",
        _tokens(figures.usage),
        format_cost(figures.cost),
    )


def _tokens(usage: Usage) -> str:
    """Render the token count: with a plus if some requests did not report it, `unknown` if none did."""
    if usage.requests and usage.unreported == usage.requests:
        return "unknown"
    return f"{usage.total_tokens:,}{'+' if usage.unreported else ''}"


def notes_of(figures: Metrics, *, alone: bool) -> Iterator[str]:
    """Yield the further notes about an agent."""
    words = {
        "error": "errors",
        "refused": "refused by the model",
        "limit": "ended by a limit",
        "undone": "not run because of the limits",
    }
    parts = [
        "1 error" if (name, count) == ("error", 1) else f"{count} {words[name]}"
        for name, count in figures.outcomes.items()
        if count and name in words
    ]
    if figures.most_repeats > 1:
        count = figures.most_repeats
        shares = f"{100 * figures.all_of(count):.0f} % pass each of {count} times"
        parts.insert(0, f"of the cases {shares}, {100 * figures.any_of(count):.0f} % at least once")
    if figures.tool_accuracy is not None:
        parts.append(f"tool-call accuracy {100 * figures.tool_accuracy:.0f} %")
    if figures.decisions:
        rules = ", ".join(
            f"{verdict} {times} by {one_line(rule, MAX_NAME_CHARS)}"
            for (verdict, rule), times in figures.decisions.items()
            if verdict != "allow"
        )
        parts.append(f"tool calls: {_verdicts(figures)}{f' ({rules})' if rules else ''}")
    if figures.judging.requests:
        parts.append(f"judging took {figures.judging.total_tokens:,} tokens, cost {format_cost(figures.judging_cost)}")
    if figures.simulating.requests:
        spent = f"{figures.simulating.total_tokens:,} tokens, cost {format_cost(figures.simulating_cost)}"
        parts.append(f"simulated users took {spent}")
    parts += [
        f"in {times} trials {short(agent)} began with earlier messages: make it in the function, or reset() it"
        for agent, times in figures.remembering.items()
    ]
    if parts:
        yield f"{'' if alone else f'{short(figures.agent)}: '}{'; '.join(parts)}"


def _verdicts(figures: Metrics) -> str:
    return ", ".join(f"{times} {verdict}" for verdict, times in sorted(figures.verdicts.items()))


def tag_rows(report: Reported) -> list[tuple[str, ...]]:
    """The metrics of each tag and agent as rows of a table with a header; empty without tags."""
    tags = list(dict.fromkeys(tag for case in report.cases for tag in case.tags))
    rows = [
        (
            one_line(tag, MAX_NAME_CHARS),
            short(each.agent),
            f"{each.outcomes['passed']} of {each.rate.trials}",
            str(each.rate),
        )
        for tag in tags
        for each in report.only(tag=tag).figures
        if each.rate.trials
    ]
    return [("tag", "agent", "passed", "rate (95 %)"), *rows] if rows else []


def _failures(trials: Sequence[Trial]) -> list[str]:
    """Render the failures: one line for the repeats of a case, and one for all trials with the same error."""
    groups: dict[tuple[str, str, str], list[Trial]] = {}
    for trial in trials:
        key = trial.error if trial.outcome == "error" else trial.case.id
        groups.setdefault((trial.outcome, trial.agent, key), []).append(trial)
    return indented_list(_failure(some) for some in groups.values())


def _failure(some: Sequence[Trial]) -> str:
    first, more = some[0], len(some) - 1
    is_one_case = len({trial.case.id for trial in some}) == 1
    times = f"  ({more + 1} times)" if is_one_case else f"  and {more} {'other' if more == 1 else 'others'}"
    times = times if more else ""
    head = f"{first.outcome}  [{short(first.agent)}] {one_line(first.case.text, 60)}{times}"
    return f"{head}\n    {one_line(failure_reason(first))}"


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(_pad, row, widths)).rstrip() for row in rows]


def _pad(cell: str, width: int) -> str:
    return cell + " " * (width - text_width(cell))


_WORDS = re.compile(r"(?!\d+[.)](?: |$)|[-+ ])(?:[A-Za-z0-9 ,:;%()'+-]|\.(?![A-Za-z]))*")
"""Text without Markdown syntax: no markup, no list, and no address that would become a link."""

_MAX_FAILURES = 20
_MAX_FACT_CHARS = 1_000


def markdown(report: Reported) -> str:
    """Render the report as Markdown: a table of the agents, notes, and collapsed failures."""
    figures = report.figures
    notes = [f"- {_inline(line)}" for each in figures for line in notes_of(each, alone=len(figures) == 1)]
    blocks = [
        [f"### {_inline(title_of(report))}"],
        _table([HEADS, *map(row_of, figures)]),
        notes,
        _table(tag_rows(report)),
        list(_markdown_failures(report.failures)),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Render rows as a table with the first as header."""
    if not rows:
        return []
    head, *rest = rows
    return [_line(head), _line(["---"] * len(head)), *(_line([_cell(cell) for cell in row]) for row in rest)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Render a table cell, in which a bar would end the cell even in code."""
    return _inline(text).replace("|", r"\|")


def _inline(text: str) -> str:
    """Render plain words and figures unchanged, anything else as code."""
    return text if _WORDS.fullmatch(text) else _code(text)


def _code(text: str) -> str:
    """Render a single-line text as code, between more backticks than it contains."""
    ticks = "`" * (_longest_backticks(text) + 1)
    edge = " " if "`" in text else ""
    return f"{ticks}{edge}{text}{edge}{ticks}"


def _block(text: str) -> Iterator[str]:
    """Render a multi-line text as a code block, with longer fences than it contains."""
    fence = "`" * max(3, _longest_backticks(text) + 1)
    yield from (f"{fence}text", *map(escape_invisible, split_lines(text)), fence)


def _longest_backticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _markdown_failures(trials: Sequence[Trial]) -> Iterator[str]:
    if trials:
        yield f"<details><summary>{len(trials):,} did not pass</summary>"
        for trial in trials[:_MAX_FAILURES]:
            yield from _markdown_failure(trial)
        if len(trials) > _MAX_FAILURES:
            yield from ("", f"{len(trials) - _MAX_FAILURES:,} more are in the JSON of the report.")
        yield from ("", "</details>")


def _markdown_failure(trial: Trial) -> Iterator[str]:
    agent = f"{trial.agent}{f', repeat {trial.repeat}' if trial.repeat > 1 else ''}"
    yield from ("", f"#### {trial.outcome}: {_code(one_line(trial.case.text, 80))}", "")
    yield f"{_inline(one_line(agent))}: {_code(one_line(failure_reason(trial), 120))}"
    for head, text in facts_of(trial, _MAX_FACT_CHARS).items():
        yield from ("", f"{head}:", "", *_block(text))


_MAX_CHARS, _MAX_MESSAGE_CHARS = 20_000, 500
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters not allowed in XML, even escaped: most control characters, lone surrogates, U+FFFE and U+FFFF."""

_KINDS = {"failed": "failure", "refused": "failure", "limit": "failure", "error": "error", "undone": "skipped"}


def junit(report: Reported) -> str:
    """Render the report as a JUnit XML document."""
    figures = report.figures
    root = ElementTree.Element("testsuites", {"name": _text(report.suite), **_counts(figures, report.trials)})
    for each in figures:
        root.append(_suite(report, each))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _suite(report: Reported, figures: Metrics) -> ElementTree.Element:
    trials = report.only(agent=figures.agent).trials
    name = f"{report.suite}: {figures.agent}"
    attributes = {"name": _text(name), **_counts([figures], trials)}
    attributes["skipped"] = str(figures.outcomes["undone"])
    if report.began:
        attributes["timestamp"] = _text(report.began)[:19]
    suite = ElementTree.Element("testsuite", attributes)
    data = {"model": figures.model, "success_rate": f"{figures.rate.value:.6f}"}
    data |= {"interval_low": f"{figures.rate.low:.6f}", "interval_high": f"{figures.rate.high:.6f}"}
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in data.items():
        ElementTree.SubElement(properties, "property", {"name": key, "value": _text(value)})
    for trial in trials:
        suite.append(_case(report.suite, trial))
    return suite


def _case(suite: str, trial: Trial) -> ElementTree.Element:
    repeat = f" [{trial.repeat}]" if trial.repeat > 1 else ""
    names = {"classname": _text(f"{suite}.{trial.agent}"), "name": _text(f"{trial.case.id}{repeat}")}
    case = ElementTree.Element("testcase", {**names, "time": f"{trial.seconds:.3f}"})
    kind = _KINDS.get(trial.outcome)
    if kind is not None:
        data = {"message": _text(failure_reason(trial), _MAX_MESSAGE_CHARS), "type": trial.outcome}
        node = ElementTree.SubElement(case, kind, {"message": data["message"]} if kind == "skipped" else data)
        facts = (f"{head.lower()}: {text}" for head, text in facts_of(trial, _MAX_CHARS).items())
        node.text = None if kind == "skipped" else _text("\n".join(facts))
    return case


def _counts(figures: list[Metrics], trials: tuple[Trial, ...]) -> dict[str, str]:
    def count(kind: str) -> str:
        return str(
            sum(each.outcomes[name] for each in figures for name, xml_kind in _KINDS.items() if xml_kind == kind)
        )

    seconds = sum(trial.seconds for trial in trials)
    return {"tests": str(len(trials)), "failures": count("failure"), "errors": count("error"), "time": f"{seconds:.3f}"}


def _text(text: str, max_chars: int = _MAX_CHARS) -> str:
    """Redact and shorten a text, and escape the characters that XML does not allow."""
    return _FORBIDDEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", truncate(redact_stored(text), max_chars))
