"""How do I test an agent without a model? A scripted LLM, a fake OpenAI server, and recorded runs.

`ScriptedLLM` takes the model's place inside the program; `FakeServer` stands at the other end of a socket. Both say
the same lines: a text, `call(...)`, `say(...)`. The server can also misbehave: `fail`, `refuse`, `filtered`, `slow`,
`cut`, `drop`, `raw`. `record` keeps in a cassette what models, tools and people answered, and `replay` gives it again.

pytest imports this package whenever it starts, for its plugin: each name is imported when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentkit.testing.cassettes import record as record
    from agentkit.testing.cassettes import record_or_replay as record_or_replay
    from agentkit.testing.cassettes import replay as replay
    from agentkit.testing.recorded import RecordedRequest as RecordedRequest
    from agentkit.testing.replies import Reply as Reply
    from agentkit.testing.replies import ServerLine as ServerLine
    from agentkit.testing.replies import cut as cut
    from agentkit.testing.replies import drop as drop
    from agentkit.testing.replies import fail as fail
    from agentkit.testing.replies import filtered as filtered
    from agentkit.testing.replies import raw as raw
    from agentkit.testing.replies import refuse as refuse
    from agentkit.testing.replies import slow as slow
    from agentkit.testing.script import LINE_USAGE as LINE_USAGE
    from agentkit.testing.script import ScriptError as ScriptError
    from agentkit.testing.script import call as call
    from agentkit.testing.script import say as say
    from agentkit.testing.scripted import Line as Line
    from agentkit.testing.scripted import ScriptedLLM as ScriptedLLM
    from agentkit.testing.scripted import ScriptedProvider as ScriptedProvider
    from agentkit.testing.server import FakeServer as FakeServer

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
    "record",
    "record_or_replay",
    "refuse",
    "replay",
    "say",
    "slow",
]


def __getattr__(name: str) -> object:
    """Import what is offered when the first of it is used."""
    if name not in __all__:
        raise AttributeError(f"module 'agentkit.testing' has no attribute {name!r}")
    from agentkit.testing import cassettes, recorded, replies, script, scripted, server

    homes = (cassettes, recorded, replies, script, scripted, server)
    return next(vars(home)[name] for home in homes if name in vars(home))


def __dir__() -> list[str]:
    return list({*globals(), *__all__})
