"""Adapters to the `mcp` package; only this package imports it."""

from __future__ import annotations

import logging

from agentkit.errors import MissingExtra


def check_package() -> None:
    """Import the package and keep its log records from being printed if the program has no handlers.

    Raises MissingExtra.
    """
    try:
        import mcp
    except ModuleNotFoundError as error:
        raise MissingExtra("mcp", "agentkit.mcp") from error
    logger = logging.getLogger(mcp.__name__)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
