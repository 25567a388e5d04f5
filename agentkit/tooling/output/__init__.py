"""Is this answer of the type that was asked for? Any Python type, as JSON schema for a model and as a value for you."""

from agentkit.tooling.output.output_type import GrowingAnswer, OutputType

__all__ = ["GrowingAnswer", "OutputType"]
