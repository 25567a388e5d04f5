"""What happens in a run, and who hears it? Listeners, and two that keep it: lines of JSON, spans of OpenTelemetry.

    from agentkit.tracing import JSONLines, OpenTelemetry

    Agent("helper", core_tools, listeners=[JSONLines("trace.jsonl"), OpenTelemetry()])

Both are listeners as anybody can write them, with `origin()` and `around(work)`, and neither ever raises into a run.
`OpenTelemetry` needs the extra `otel`. Nothing is loaded before it is used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentkit.tracing.jsonl import JSONLines as JSONLines
    from agentkit.tracing.listening import ModelRequest as ModelRequest
    from agentkit.tracing.listening import Origin as Origin
    from agentkit.tracing.listening import Surrounding as Surrounding
    from agentkit.tracing.listening import ToolUse as ToolUse
    from agentkit.tracing.listening import origin as origin
    from agentkit.tracing.otel.listener import OpenTelemetry as OpenTelemetry

__all__ = ["JSONLines", "ModelRequest", "OpenTelemetry", "Origin", "Surrounding", "ToolUse", "origin"]


def __getattr__(name: str) -> object:
    """Import what is offered when the first of it is used."""
    if name not in __all__:
        raise AttributeError(f"module 'agentkit.tracing' has no attribute {name!r}")
    from agentkit.tracing import jsonl, listening
    from agentkit.tracing.otel import listener

    for home in (jsonl, listening, listener):
        globals().update({offered: getattr(home, offered) for offered in __all__ if hasattr(home, offered)})
    return globals()[name]
