"""How do I test an agent without a model? A scripted LLM, and a fake OpenAI server on a real connection.

`ScriptedLLM` takes the model's place inside the program; `FakeServer` stands at the other end of a socket. Both say
the same lines: a text, `call(...)`, `say(...)`. The server can also misbehave: `fail`, `refuse`, `filtered`, `slow`,
`cut`, `drop`, `raw`.
"""

from agentkit.testing.recorded import RecordedRequest
from agentkit.testing.replies import Reply, ServerLine, cut, drop, fail, filtered, raw, refuse, slow
from agentkit.testing.script import LINE_USAGE, ScriptError, call, say
from agentkit.testing.scripted import Line, ScriptedLLM, ScriptedProvider
from agentkit.testing.server import FakeServer

__all__ = [
    "LINE_USAGE",
    "FakeServer",
    "Line",
    "RecordedRequest",
    "Reply",
    "ScriptError",
    "ScriptedLLM",
    "ScriptedProvider",
    "ServerLine",
    "call",
    "cut",
    "drop",
    "fail",
    "filtered",
    "raw",
    "refuse",
    "say",
    "slow",
]
