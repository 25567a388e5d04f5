"""Classify a hundred texts by topic, eight in parallel. Restarted after a crash, it continues where it stopped.

python batch.py [FILE] > topics.tsv        one text per line; by default the first hundred modules of Python
"""

import sys
from collections import Counter
from pathlib import Path
from typing import Literal
from zlib import crc32

from agentkit import Agent, AgentKitError, Limits, RunResult, Session

Topic = Literal["text", "numbers", "files", "network", "system", "language", "other"]
MODULES = sorted(name for name in sys.stdlib_module_names if not name.startswith("_"))


def show(done: int, total: int | None, result: RunResult[str]) -> None:
    """Print the progress, and each failure."""
    if result.error or done % 10 == 0:
        print(f"{done} of {total} {result.error or ''}", file=sys.stderr)


def main(path: str = "") -> None:
    """Print a line for each text, and the counts of the topics to standard error."""
    texts = list(filter(None, Path(path).read_text("utf-8").splitlines())) if path else MODULES[:100]
    session = Session.open("batch.db", f"topics {crc32(repr(texts).encode())}")  # one batch for each set of texts
    sorter = Agent("sorter", instruction="What is this about?", output_type=Topic, session=session)
    results = sorter.map(texts, limits=Limits(total_tokens=500_000), progress=show)
    for text, result in zip(texts, results, strict=True):
        print(result.value or result.status, text, sep="\t")
    print(Counter(result.value or result.status for result in results), file=sys.stderr)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except (AgentKitError, OSError) as error:
        sys.exit(f"Error: {error}")
