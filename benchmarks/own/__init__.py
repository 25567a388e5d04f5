"""Benchmarks of parts that only agentkit has. Each returns the lines of Markdown tables."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from importlib import import_module

TABLES = {
    "runs": "benchmarks.own.runs",
    "sessions": "benchmarks.own.sessions",
    "sandbox": "benchmarks.own.sandbox",
    "tracing": "benchmarks.own.tracing",
    "mcp": "benchmarks.own.mcp",
    "knowledge": "benchmarks.knowledge.retrieval",
    "offline": "benchmarks.offline.accuracy",
    "optimising": "benchmarks.optimising.scenarios",
    "growth": "benchmarks.own.growth",
    "overheads": "benchmarks.own.overheads",
    "soak": "benchmarks.own.soak",
}
"""Each table with its module, which is imported when the table is selected."""

USUAL = ("runs", "sessions", "sandbox", "tracing")
"""The tables that are measured by default; the offline model takes minutes, the soak test longer."""


def tables(name: str, options: argparse.Namespace) -> Iterable[str]:
    """The lines of the tables with one name."""
    lines: Iterable[str] = import_module(TABLES[name]).tables(options)
    return lines
