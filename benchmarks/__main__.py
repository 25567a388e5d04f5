"""Command that compares agentkit with the openai client and other agent libraries.

    python -m benchmarks [--scenarios NAME ...] [--peers [NAME ...]] [--quick] [--json FILE] [--markdown [PAGE]]

The reference is the plain `openai` client with a handwritten loop. All libraries are measured in the same run, in
turns, against a local server on another core. Install the peers first: `python -m benchmarks.peers make`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import own, peers
from benchmarks.catalog import LIBRARIES, SCENARIOS, Library, Scenario
from benchmarks.comparing import Bench, Outcome
from benchmarks.figures import number, shown
from benchmarks.machine import machine, versions
from benchmarks.processes import Server
from benchmarks.reporting import Report, markdown, merge, replace_tables, results

_PROFILED = ("chat", "loop", "stream", "history", "concurrent", "schema")


def main() -> None:
    """Run the benchmarks that the arguments select."""
    options = parsed(sys.argv[1:])
    report: Report = {"machine": machine(), "scenarios": {}, "own": {}, "versions": {}, "sizes": {}, "profiles": {}}
    for part, name, value in measured(options):
        report[part][name] = value
        if options.json:
            merge(options.json, {part: {name: value}})
    if options.json:
        report = merge(options.json, {"machine": report["machine"]})
    if options.markdown:
        replace_tables(options.markdown, markdown(report))


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments; `scenarios` and `libraries` become the selected names."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*(scenario.name for scenario in SCENARIOS), *own.TABLES]
    others = [library.name for library in LIBRARIES if library.kind == "peer"]
    parser.add_argument(
        "--scenarios", nargs="+", metavar="NAME", choices=names, help=f"one or more of: {', '.join(names)}"
    )
    parser.add_argument(
        "--peers", nargs="*", metavar="NAME", choices=others, help=f"all peers, or some of: {', '.join(others)}"
    )
    parser.add_argument("--no-floors", action="store_true", help="no baselines except the openai client")
    parser.add_argument("--quick", action="store_true", help="run everything once, to check that it works")
    parser.add_argument("--rounds", type=int, default=1_000, metavar="N", help="maximum number of rounds per scenario")
    parser.add_argument("--soak", action="store_true", help="only the soak test of 7,200 runs")
    parser.add_argument("--growth", action="store_true", help="only the growth of costs with use, with exponents")
    parser.add_argument(
        "--overheads", action="store_true", help="only what sessions, recordings and tracing add to a run"
    )
    parser.add_argument("--profile", action="store_true", help="profile agentkit instead of measuring it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="update this file with the results")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="write the tables between the marks of this page")
    parser.add_argument(
        "--postgres", metavar="URL", help="also measure this database for `sessions`; leaves two sessions in it"
    )
    offline = parser.add_argument_group("options of `offline`")
    offline.add_argument("--engine-alone", action="store_true", help="ask the engine without the rules")
    offline.add_argument("--show", action="store_true", help="also print every question without a correct answer")
    offline.add_argument("--half", choices=("development", "held-out"), help="only the questions of one half")
    options = parser.parse_args(arguments)
    options.scenarios = selected(options)
    options.libraries = [library.name for library in LIBRARIES if is_selected(library, options)]
    return options


def selected(options: argparse.Namespace) -> list[str]:
    """The names of the selected scenarios."""
    alone = [name for name in ("soak", "growth", "overheads") if getattr(options, name)]
    if alone:
        return alone
    compared = [scenario.name for scenario in SCENARIOS if scenario.quick or not options.quick]
    tables = [] if options.quick or options.profile else own.USUAL
    return list(options.scenarios or (_PROFILED if options.profile else [*compared, *tables]))


def is_selected(library: Library, options: argparse.Namespace) -> bool:
    """Whether a library is selected."""
    if library.kind == "peer":
        return options.peers is not None and (not options.peers or library.name in options.peers)
    return library.kind == "own" or library.name == "openai" or not options.no_floors


def measured(options: argparse.Namespace) -> Iterator[tuple[str, str, Any]]:
    """Run the measurements in turn, and yield the part of the report, the name and the figures of each."""
    pythons = peers.pythons(options.libraries)
    for name in sorted(set(options.libraries) - set(pythons)):
        print(f"{name} is not installed: python -m benchmarks.peers make {name}", flush=True)
    yield from (("versions", name, version) for name, version in found_versions(pythons).items())
    libraries = [library for library in LIBRARIES if library.name in pythons]
    with Server() as server:
        bench = Bench(server, pythons, options.quick, options.rounds)
        for scenario in (scenario for scenario in SCENARIOS if scenario.name in options.scenarios):
            if options.profile:
                yield profiled(bench, scenario)
            else:
                outcomes = bench.compare(scenario, libraries)
                print_results(scenario, outcomes)
                yield "scenarios", scenario.name, results(scenario, outcomes)
    for name in (name for name in own.TABLES if name in options.scenarios):
        lines = [""]
        for line in own.tables(name, options):
            lines.append(line)
            print(line, flush=True)
        yield "own", name, "\n".join(lines[1:])
    yield from (("sizes", name, size) for name in peers.requirements() if (size := peers.installed_bytes(name)))


def found_versions(pythons: dict[str, Path]) -> dict[str, str]:
    """The versions of the selected libraries."""
    found = {}
    for library in LIBRARIES:
        if library.name in pythons and (library.kind == "peer" or library.name in {"openai", "httpx2", "agentkit"}):
            name = library.distribution or library.name
            found[library.name] = versions(pythons[library.name]).get(name, "unknown")
    return found


def profiled(bench: Bench, scenario: Scenario) -> tuple[str, str, Any]:
    """Profile agentkit in a scenario, by package."""
    agentkit = next(library for library in LIBRARIES if library.kind == "own")
    shares = bench.profile(scenario, agentkit).get("profile", [])
    print(f"{scenario.name}: {', '.join(f'{where} {share:.0%}' for where, share in shares)}", flush=True)
    return "profiles", scenario.title, shares


def print_results(scenario: Scenario, outcomes: Sequence[Outcome]) -> None:
    """Print the results of a scenario."""
    reference = next((each for each in outcomes if each.library.name == scenario.reference), None)
    aims = f" (must {scenario.must}, want {scenario.want})" if scenario.must else ""
    print(f"\n{scenario.name}: {scenario.title}{aims}")
    for outcome in outcomes:
        spread, ratio, cpu = outcome.spread, outcome.against(reference), outcome.cpu_against(reference)
        value = shown(spread.median, scenario.unit) if spread else outcome.refusal
        times = f"x {number(ratio.median)} ({number(ratio.low)} to {number(ratio.high)})" if ratio else ""
        in_cpu = f"CPU x {number(cpu.median)}" if cpu else ""
        print(f"  {outcome.library.name:14} {value:>12}  {times:28} {in_cpu}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
