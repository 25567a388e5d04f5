"""Both measurements of the search for better texts.

    python -m benchmarks --scenarios optimising

The first takes seconds, the second an hour on a busy machine: it asks the offline model some hundred questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.optimising import clerk, routing


def tables(_wishes: argparse.Namespace) -> Iterator[str]:
    """The tables."""
    yield from clerk.tables()
    yield ""
    yield from routing.tables()
