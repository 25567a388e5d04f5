"""Which injected orders reach their goal, though the model obeys every one? And how often is a person asked?

    python -m benchmarks.injection [--suites NAME ...] [--json FILE]

No model is asked: its place is taken by a script that does the task as AgentDojo would have it done, and carries out
the attacker's order as soon as it has read it. What is left of an attack is what agentkit lets happen.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.injection.declaring import DECLARED, SETTINGS
from benchmarks.injection.tallying import Tally, told

MISSING = "The tasks and attacks are AgentDojo's, which agentkit does not need otherwise: pip install agentdojo"


def main(words: list[str] | None = None) -> int:
    """Run the suites and print the tables; 2 when AgentDojo is not installed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.injection", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--suites", nargs="+", default=[], choices=list(DECLARED["suites"]))
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    wishes = parser.parse_args(words)
    try:
        from benchmarks.injection.suites import tallies
    except ModuleNotFoundError as error:
        print(f"{MISSING} ({error})", file=sys.stderr)
        return 2
    found: list[Tally] = []
    for tally in tallies(wishes.suites, SETTINGS):
        print(tally, file=sys.stderr)
        found.append(tally)
    print("\n".join(told(found)))
    if wishes.json:
        wishes.json.write_text(json.dumps([tally.to_dict() for tally in found], indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
