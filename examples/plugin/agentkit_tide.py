"""Example of an agentkit plugin: tools, a provider and a command.

pip install ./examples/plugin
agentkit plugins
agentkit -t tide "When is high water today?"
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import click

from agentkit import LLM
from agentkit.testing import ScriptedLLM

_PERIOD = timedelta(hours=12, minutes=25)
_NEW_MOON = datetime(2026, 1, 18, 19, 52, tzinfo=UTC)


def high_water(after: datetime | None = None) -> str:
    """Predict the next high water from the phase of the moon, as ISO 8601 in UTC.

    Args:
        after: The earliest time of the high water; now by default.
    """
    start = after or datetime.now(UTC)
    start = start if start.tzinfo else start.replace(tzinfo=UTC)
    return (_NEW_MOON + math.ceil((start - _NEW_MOON) / _PERIOD) * _PERIOD).isoformat(timespec="minutes")


tools = [high_water]


def parrot(model: str) -> LLM:
    """A provider whose models answer with their own name."""
    return ScriptedLLM(f"I am {model}.")


@click.command()
def command() -> None:
    """Print the next high water."""
    click.echo(high_water())
