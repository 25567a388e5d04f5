"""Tracing: listeners for the console, JSON lines and OpenTelemetry.

    from agentkit.tracing import Console, JSONLines, OpenTelemetry

    Agent("helper", core_tools, listeners=[Console(), JSONLines("trace.jsonl"), OpenTelemetry()])

They use only the public listener interface, `origin()` and `around(work)`, and never raise into a run. `OpenTelemetry`
requires the extra `otel`. Everything is imported lazily.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentkit.tracing.console import Console as Console
    from agentkit.tracing.jsonl import JSONLines as JSONLines
    from agentkit.tracing.listeners import ContextListener as ContextListener
    from agentkit.tracing.listeners import EmbeddingRequest as EmbeddingRequest
    from agentkit.tracing.listeners import ModelRequest as ModelRequest
    from agentkit.tracing.listeners import Origin as Origin
    from agentkit.tracing.listeners import ToolUse as ToolUse
    from agentkit.tracing.listeners import origin as origin
    from agentkit.tracing.otel import OpenTelemetry as OpenTelemetry

__all__ = [
    "Console",
    "ContextListener",
    "EmbeddingRequest",
    "JSONLines",
    "ModelRequest",
    "OpenTelemetry",
    "Origin",
    "ToolUse",
    "origin",
]


def __getattr__(name: str) -> object:
    """Import the public names on first use of one of them."""
    if name not in __all__:
        raise AttributeError(f"module 'agentkit.tracing' has no attribute {name!r}")
    from agentkit.tracing import console, jsonl, listeners, otel

    for home in (console, jsonl, listeners, otel):
        globals().update({offered: getattr(home, offered) for offered in __all__ if hasattr(home, offered)})
    return globals()[name]
