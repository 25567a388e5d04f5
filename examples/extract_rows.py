"""Extract typed rows from texts, such as expenses from notes. Several texts are processed in parallel.

python extract_rows.py [FILE ...] > expenses.csv        reads standard input by default
"""

import csv
import sys
from dataclasses import astuple, dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Literal

from agentkit import Agent, AgentKitError


@dataclass
class Expense:
    """One expense. The amount is the total of all pieces."""

    day: date
    what: str
    amount: Decimal
    currency: Literal["EUR", "USD", "VND"]


def main(*paths: str) -> None:
    """Print a row for each expense, and the failures to standard error."""
    texts = {path: Path(path).read_text("utf-8") for path in paths or ["/dev/stdin"]}
    clerk = Agent("clerk", instruction="List all expenses in the text.", output_type=list[Expense])
    results = dict(zip(texts, clerk.map(texts.values()), strict=True))
    csv.writer(sys.stdout).writerows(astuple(row) for result in results.values() for row in result.value or ())
    sys.exit("\n".join(f"{path}: {result.error}" for path, result in results.items() if result.error) or None)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (AgentKitError, OSError) as error:
        sys.exit(f"Error: {error}")
