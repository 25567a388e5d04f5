"""The calculator: exact, bounded arithmetic without `eval`."""

from agentkit.tools.calculator.parser import MAX_CHARS, calculate

__all__ = ["MAX_CHARS", "calculate"]
