"""Both benchmarks of prompt optimisation.

    python -m benchmarks --scenarios optimising

The first takes seconds; the second takes an hour on a busy machine, because it asks the offline model some hundred
questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.optimising import clerk, routing


def tables(_options: argparse.Namespace) -> Iterator[str]:
    """Yield the tables."""
    yield from clerk.tables()
    yield ""
    yield from routing.tables()
