"""Test tools: a scripted LLM, a fake model server, and recorded runs.

`ScriptedLLM` replaces the model inside the program; `FakeServer` replaces the server behind a socket. Both accept
the same lines: a text, `call(...)`, `say(...)`. The server can also misbehave: `fail`, `refuse`, `filtered`, `slow`,
`cut`, `drop`, `raw`. `record` stores the answers of models, tools and people in a cassette, and `replay` returns them.

pytest imports this package at every start, for its plugin: each name is imported on first use.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentkit.testing.fake_responses import RecordedRequest as RecordedRequest
    from agentkit.testing.fake_responses import ScriptedReply as ScriptedReply
    from agentkit.testing.fake_responses import ServerLine as ServerLine
    from agentkit.testing.fake_responses import cut as cut
    from agentkit.testing.fake_responses import drop as drop
    from agentkit.testing.fake_responses import fail as fail
    from agentkit.testing.fake_responses import filtered as filtered
    from agentkit.testing.fake_responses import raw as raw
    from agentkit.testing.fake_responses import refuse as refuse
    from agentkit.testing.fake_responses import slow as slow
    from agentkit.testing.fake_server import FakeServer as FakeServer
    from agentkit.testing.scripted_llm import LINE_USAGE as LINE_USAGE
    from agentkit.testing.scripted_llm import Line as Line
    from agentkit.testing.scripted_llm import ScriptedLLM as ScriptedLLM
    from agentkit.testing.scripted_llm import ScriptedProvider as ScriptedProvider
    from agentkit.testing.scripted_llm import ScriptError as ScriptError
    from agentkit.testing.scripted_llm import call as call
    from agentkit.testing.scripted_llm import record as record
    from agentkit.testing.scripted_llm import record_or_replay as record_or_replay
    from agentkit.testing.scripted_llm import replay as replay
    from agentkit.testing.scripted_llm import say as say

__all__ = [
    "LINE_USAGE",
    "FakeServer",
    "Line",
    "RecordedRequest",
    "ScriptError",
    "ScriptedLLM",
    "ScriptedProvider",
    "ScriptedReply",
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
    """Import the modules of this package when one of their names is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'agentkit.testing' has no attribute {name!r}")
    from agentkit.testing import fake_responses, fake_server, scripted_llm

    homes = (fake_responses, scripted_llm, fake_server)
    return next(vars(home)[name] for home in homes if name in vars(home))


def __dir__() -> list[str]:
    return list({*globals(), *__all__})
