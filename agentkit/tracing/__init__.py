"""What happens in a run, and who hears it? Listeners, and three that tell it: on a console, as JSON, as spans.

    from agentkit.tracing import Console, JSONLines, OpenTelemetry

    Agent("helper", core_tools, listeners=[Console(), JSONLines("trace.jsonl"), OpenTelemetry()])

They are listeners as anybody can write them, with `origin()` and `around(work)`, and none ever raises into a run.
`OpenTelemetry` needs the extra `otel`. Nothing is loaded before it is used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentkit.tracing.console import Console as Console
    from agentkit.tracing.jsonl import JSONLines as JSONLines
    from agentkit.tracing.listening import ModelRequest as ModelRequest
    from agentkit.tracing.listening import Origin as Origin
    from agentkit.tracing.listening import Surrounding as Surrounding
    from agentkit.tracing.listening import ToolUse as ToolUse
    from agentkit.tracing.listening import origin as origin
    from agentkit.tracing.otel.listener import OpenTelemetry as OpenTelemetry

__all__ = ["Console", "JSONLines", "ModelRequest", "OpenTelemetry", "Origin", "Surrounding", "ToolUse", "origin"]


def __getattr__(name: str) -> object:
    """Import what is offered when the first of it is used."""
    if name not in __all__:
        raise AttributeError(f"module 'agentkit.tracing' has no attribute {name!r}")
    from agentkit.tracing import console, jsonl, listening
    from agentkit.tracing.otel import listener

    for home in (console, jsonl, listening, listener):
        globals().update({offered: getattr(home, offered) for offered in __all__ if hasattr(home, offered)})
    return globals()[name]
