"""How much is that? Arithmetic from text, exact, bounded and never run as code."""

from agentkit.tools.calculator.reading import MAX_CHARS, calculate

__all__ = ["MAX_CHARS", "calculate"]
