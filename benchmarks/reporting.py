"""Reports: JSON files that are updated scenario by scenario, and the Markdown tables of docs/benchmarks.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.catalog import LIBRARIES, SCENARIOS, Scenario
from benchmarks.comparing import Outcome
from benchmarks.figures import Spread, number, shown

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
Report = dict[str, Any]


def results(scenario: Scenario, outcomes: Sequence[Outcome]) -> Report:
    """The results of a scenario, JSON-serialisable."""
    reference = next((each for each in outcomes if each.library.name == scenario.reference), None)
    return {outcome.library.name: _figures(outcome, reference) for outcome in outcomes}


def _figures(outcome: Outcome, reference: Outcome | None) -> Report:
    if outcome.refusal or not outcome.rounds:
        return {"refusal": outcome.refusal or "nothing was measured"}
    spreads = {
        "value": outcome.spread,
        "ratio": outcome.against(reference),
        "cpu": Spread.of(outcome.cpu),
        "cpu_ratio": outcome.cpu_against(reference),
    }
    figures = {name: [spread.median, spread.low, spread.high] for name, spread in spreads.items() if spread}
    return {**figures, "peak": outcome.peak, "connections": outcome.connections, "rounds": len(outcome.rounds)}


def merge(path: Path, news: Report) -> Report:
    """Update a file scenario by scenario, and return its contents."""
    report: Report = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for key, value in news.items():
        report[key] = {**report.get(key, {}), **value}
    path.write_text(json.dumps(report, indent=1), "utf-8")
    return report


def replace_tables(page: Path, lines: Iterable[str]) -> None:
    """Replace the lines between the marks of a page; a page without marks is replaced completely."""
    text = page.read_text("utf-8") if page.exists() else f"{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text("\n".join([before + BEGIN, "", *lines, "", END + after]), "utf-8")


def markdown(report: Report) -> Iterator[str]:
    """Render all measurements as tables."""
    yield from _machine(report.get("machine", {}), report.get("versions", {}))
    measured = {scenario: report["scenarios"][scenario.name] for scenario in SCENARIOS if _is_in(report, scenario)}
    if measured:
        yield from _own_table(measured)
        yield from _floors(measured)
        yield from _peers(measured)
        yield from _costs(measured)
        yield from _growth(report["scenarios"])
        yield from _better(measured)
        yield from _refusals(measured)
    if report.get("sizes"):
        yield from _sizes(report["sizes"])
    if report.get("profiles"):
        yield from _profiles(report["profiles"])
    for text in report.get("own", {}).values():
        yield from ["", text.strip()]


def _is_in(report: Report, scenario: Scenario) -> bool:
    return scenario.name in report.get("scenarios", {})


def _machine(machine: Mapping[str, str], versions: Mapping[str, str]) -> Iterator[str]:
    if machine:
        yield "Measured: " + ", ".join(f"{name} {value}" for name, value in machine.items()) + "."
        if float(machine["load before"].split()[0]) > int(machine["cores"]) / 2:
            yield "The machine was busy: ratios of CPU time are more reliable than ratios of wall time."
        yield "Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + "."


def _own_table(measured: Mapping[Scenario, Report]) -> Iterator[str]:
    heads = ("openai", "its low-level `post`", "agentkit", "ratio to openai (quartiles)", "CPU ratio", "must", "want")
    yield from ["", "### agentkit compared with the openai client", ""]
    yield from _row("", *heads)
    yield _rule(1 + len(heads))
    for scenario, by_name in measured.items():
        own, raw, post = (by_name.get(name, {}) for name in ("agentkit", "openai", "openai post"))
        ratio = f"**{number(own['ratio'][0])}** ({_quartiles(own['ratio'])})" if "ratio" in own else ""
        in_cpu = number(own["cpu_ratio"][0]) if "cpu_ratio" in own else ""
        figures = (_value(raw, scenario), _times(post), _value(own, scenario), ratio, in_cpu)
        yield from _row(scenario.title, *figures, scenario.must, scenario.want)


def _floors(measured: Mapping[Scenario, Report]) -> Iterator[str]:
    names = [library.name for library in LIBRARIES if library.kind == "floor" and library.name != "openai"]
    compared = {scenario: by_name for scenario, by_name in measured.items() if scenario.reference}
    wire = next(
        (by_name.get("raw socket", {}) for scenario, by_name in measured.items() if scenario.name == "chat"), {}
    )
    if any(name in by_name for name in names for by_name in compared.values()):
        yield from ["", "### Baselines: ratio to openai", ""]
        yield from _matrix(compared, [*names, "agentkit"])
    if "value" in wire:
        yield from [
            "",
            f"The server answers up to {number(1e9 / wire['value'][0])} chats per second over one raw socket.",
        ]


def _peers(measured: Mapping[Scenario, Report]) -> Iterator[str]:
    names = [library.name for library in LIBRARIES if library.kind == "peer"]
    there = [name for name in names if any(name in by_name for by_name in measured.values())]
    measured = {each: by_name for each, by_name in measured.items() if by_name.keys() & set(there)}
    if there:
        yield from ["", "### Other libraries: ratio to openai, or the absolute figure", ""]
        yield from _matrix(measured, ["agentkit", *there])
        yield from ["", "### Other libraries: CPU time, ratio to openai", ""]
        compared = {scenario: by_name for scenario, by_name in measured.items() if scenario.reference}
        yield from _matrix(compared, ["agentkit", *there], "cpu_ratio")


def _matrix(measured: Mapping[Scenario, Report], names: Sequence[str], which: str = "ratio") -> Iterator[str]:
    yield from _row("", *names)
    yield _rule(1 + len(names))
    for scenario, by_name in measured.items():
        cells = [_times(by_name.get(name, {}), which) or _value(by_name.get(name, {}), scenario) for name in names]
        if any(cell != "-" for cell in cells):
            yield from _row(scenario.title, *cells)


def _costs(measured: Mapping[Scenario, Report]) -> Iterator[str]:
    concurrent = next((by_name for scenario, by_name in measured.items() if scenario.name == "concurrent"), {})
    rows = {name: figures for name, figures in concurrent.items() if "cpu" in figures}
    if rows:
        yield from ["", "### 200 concurrent runs: CPU time and memory", ""]
        yield from _row("", "runs per second", "CPU per run", "peak memory of the process", "connections opened")
        yield _rule(5)
    for name, figures in rows.items():
        peak, connections = shown(figures["peak"], "bytes"), number(figures["connections"])
        yield from _row(name, number(1e9 / figures["value"][0]), shown(figures["cpu"][0], "ns"), peak, connections)


def _growth(scenarios: Mapping[str, Report]) -> Iterator[str]:
    """The growth of the cost with the length of the conversation."""
    pairs = (("long-loop", "loop"), ("history", "history-200"))
    rows = {
        library.name: [_quotient(scenarios, library.name, *pair) for pair in pairs]
        for library in LIBRARIES
        if library.kind != "floor" or library.name.startswith("openai")
    }
    if any(cell != "-" for cells in rows.values() for cell in cells):
        heads = ("a turn in a run of 100 turns, relative to 10", "2,000 messages of history, relative to 200")
        yield from ["", "### Growth with the length of the conversation", ""]
        yield from _row("", *heads)
        yield _rule(3)
    for name, cells in rows.items():
        if cells != ["-", "-"]:
            yield from _row(name, *cells)


def _quotient(scenarios: Mapping[str, Report], name: str, one: str, other: str) -> str:
    figures = [scenarios.get(scenario, {}).get(name, {}).get("value") for scenario in (one, other)]
    return f"{number(figures[0][0] / figures[1][0])}x" if all(figures) else "-"


def _better(measured: Mapping[Scenario, Report]) -> Iterator[str]:
    """The measurements in which a peer is better than agentkit."""
    peers = {library.name for library in LIBRARIES if library.kind == "peer"}
    if not any(peers.intersection(by_name) for by_name in measured.values()):
        return
    yield from ["", "### Where another library is better", ""]
    found = False
    for scenario, by_name in measured.items():
        own = by_name.get("agentkit", {}).get("value")
        better = [
            f"{name} ({_value(figures, scenario)})"
            for name, figures in by_name.items()
            if own and name in peers and "value" in figures and figures["value"][0] < own[0]
        ]
        if better:
            found = True
            yield f"- {scenario.title}: {', '.join(better)}; agentkit {_value(by_name['agentkit'], scenario)}."
    if not found:
        yield "In no measured scenario."


def _refusals(measured: Mapping[Scenario, Report]) -> Iterator[str]:
    """The missing measurements, with the reasons."""
    lines = [
        f"- {name}, {scenario.title}: {' '.join(figures['refusal'].split())[:200]}."
        for scenario, by_name in measured.items()
        for name, figures in by_name.items()
        if figures.get("refusal")
    ]
    if lines:
        yield from ["", "### Missing figures", "", *lines]


def _sizes(sizes: Mapping[str, int]) -> Iterator[str]:
    yield from ["", "### Installed size with dependencies", ""]
    yield from _row("", "MB without compiled files")
    yield _rule(2)
    for name, size in sorted(sizes.items(), key=lambda each: each[1]):
        yield from _row(name, f"{size / 1e6:.0f}")


def _profiles(profiles: Mapping[str, Sequence[tuple[str, float]]]) -> Iterator[str]:
    yield from ["", "### Profile of agentkit", ""]
    yield "Shares of the time in Python functions by a profiler, which overstates small functions."
    yield ""
    yield from _row("", "share of the time, largest first")
    yield _rule(2)
    for name, shares in profiles.items():
        yield from _row(name, ", ".join(f"`{where}` {share:.0%}" for where, share in shares[:8]))


def _row(*cells: str) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"


def _rule(columns: int) -> str:
    return "|" + "---|" * columns


def _times(figures: Report, which: str = "ratio") -> str:
    return f"{number(figures[which][0])}x" if which in figures else ""


def _value(figures: Report, scenario: Scenario) -> str:
    return shown(figures["value"][0], scenario.unit) if "value" in figures else "-"


def _quartiles(spread: Sequence[float]) -> str:
    return f"{number(spread[1])} to {number(spread[2])}"
