"""Extract typed rows from texts: notes in, a table of expenses out. Several texts are read at the same time.

python extract_rows.py [FILE ...] > expenses.csv        without a file it reads standard input
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
    """One thing that was paid for. The amount is that of all pieces together."""

    day: date
    what: str
    amount: Decimal
    currency: Literal["EUR", "USD", "VND"]


def main(*paths: str) -> None:
    """Print a row for each expense; texts that gave none are named on standard error."""
    texts = {path: Path(path).read_text("utf-8") for path in paths or ["/dev/stdin"]}
    clerk = Agent("clerk", instruction="List all expenses in the text.", output_type=list[Expense])
    results = dict(zip(texts, clerk.map(texts.values()), strict=True))
    csv.writer(sys.stdout).writerows(astuple(row) for result in results.values() for row in result.value or ())
    sys.exit("\n".join(f"{path}: {result.error}" for path, result in results.items() if result.error) or None)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (AgentKitError, OSError) as error:
        sys.exit(f"Nothing extracted: {error}")
