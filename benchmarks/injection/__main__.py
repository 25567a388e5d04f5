"""Command that measures which prompt injections succeed, and how many calls need approval.

    python -m benchmarks.injection [--suites NAME ...] [--json FILE]

A script replaces the model: it makes the calls that AgentDojo lists for the task and, as soon as it has read the
injected instruction, those of the attack. An attack succeeds if agentkit's policy allows its calls.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.injection.declaring import DECLARED, SETTINGS
from benchmarks.injection.tallying import Tally, report

MISSING = "This benchmark needs AgentDojo's tasks and attacks: pip install agentdojo"


def main(words: list[str] | None = None) -> int:
    """Run the suites and print the tables. Returns 2 if AgentDojo is not installed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.injection", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--suites", nargs="+", default=[], choices=list(DECLARED["suites"]))
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    arguments = parser.parse_args(words)
    try:
        from benchmarks.injection.suites import tallies
    except ModuleNotFoundError as error:
        print(f"{MISSING} ({error})", file=sys.stderr)
        return 2
    found: list[Tally] = []
    for tally in tallies(arguments.suites, SETTINGS):
        print(tally, file=sys.stderr)
        found.append(tally)
    print("\n".join(report(found)))
    if arguments.json:
        arguments.json.write_text(json.dumps([tally.to_dict() for tally in found], indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
