"""Adapters to the `mcp` package; nothing else imports it."""

from __future__ import annotations

import logging

from agentkit.errors import MissingExtra


def check_package() -> None:
    """Load the package. What it logs goes to the program's own handlers, and is not printed where there are none.

    Raises MissingExtra.
    """
    try:
        import mcp
    except ModuleNotFoundError as error:
        raise MissingExtra("mcp", "agentkit.mcp") from error
    logger = logging.getLogger(mcp.__name__)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
