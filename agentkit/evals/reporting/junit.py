"""How does a CI server read a report? As JUnit XML: a test suite for each agent, a test case for each trial (pure)."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from agentkit.evals.reporting.figures import Figures, Reported
from agentkit.evals.reporting.lines import facts_of, why
from agentkit.evals.trial import Trial
from agentkit.wording import cut, hidden

_MOST_CHARS, _MOST_MESSAGE_CHARS = 20_000, 500
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML document may hold, not even escaped: most control characters, lone surrogates, U+FFFE and U+FFFF."""

_KINDS = {"failed": "failure", "refused": "failure", "limit": "failure", "error": "error", "undone": "skipped"}


def junit(report: Reported) -> str:
    """The report as an XML document."""
    figures = report.figures
    root = ElementTree.Element("testsuites", {"name": _text(report.suite), **_counts(figures, report.trials)})
    for each in figures:
        root.append(_suite(report, each))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _suite(report: Reported, figures: Figures) -> ElementTree.Element:
    trials = report.only(agent=figures.agent).trials
    name = f"{report.suite}: {figures.agent}"
    attributes = {"name": _text(name), **_counts([figures], trials)}
    attributes["skipped"] = str(figures.outcomes["undone"])
    if report.began:
        attributes["timestamp"] = _text(report.began)[:19]
    suite = ElementTree.Element("testsuite", attributes)
    told = {"model": figures.model, "success_rate": f"{figures.rate.value:.6f}"}
    told |= {"interval_low": f"{figures.rate.low:.6f}", "interval_high": f"{figures.rate.high:.6f}"}
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in told.items():
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
        said = {"message": _text(why(trial), _MOST_MESSAGE_CHARS), "type": trial.outcome}
        told = ElementTree.SubElement(case, kind, {"message": said["message"]} if kind == "skipped" else said)
        facts = (f"{head.lower()}: {text}" for head, text in facts_of(trial, _MOST_CHARS).items())
        told.text = None if kind == "skipped" else _text("\n".join(facts))
    return case


def _counts(figures: list[Figures], trials: tuple[Trial, ...]) -> dict[str, str]:
    def count(kind: str) -> str:
        return str(sum(each.outcomes[name] for each in figures for name, its in _KINDS.items() if its == kind))

    seconds = sum(trial.seconds for trial in trials)
    return {"tests": str(len(trials)), "failures": count("failure"), "errors": count("error"), "time": f"{seconds:.3f}"}


def _text(text: str, most_chars: int = _MOST_CHARS) -> str:
    """Text that XML can hold, of bounded length and without secrets: what it forbids stands there as an escape."""
    return _FORBIDDEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", cut(hidden(text), most_chars))
