"""The exception hierarchy of agentkit, grouped by who has to act.

AgentKitError
├── ConfigError            the developer, before any run
│   ├── NoProvider         also a ValueError
│   └── MissingExtra       also an ImportError
├── ModelError             the provider
│   ├── Unauthorized
│   ├── RateLimited
│   ├── Rejected
│   ├── Unreachable
│   └── BadResponse
├── ToolError              the model: it is told and may try again
│   ├── UnknownTool
│   ├── BadArguments
│   ├── ToolTimeout
│   ├── Blocked
│   ├── Postponed
│   ├── LoginNeeded
│   └── SandboxError
├── RunError               the caller; carries the result so far
│   ├── LimitExceeded      also a RuntimeError
│   ├── Cancelled
│   └── ReplayError        also an AssertionError
└── SessionError           the operator
    └── KnowledgeError

Foreign exceptions are translated once, by a table, in the module that imports their library.
"""

from __future__ import annotations

from typing import Any


class AgentKitError(Exception):
    """The root: `except AgentKitError` catches whatever agentkit raises on purpose."""


class ConfigError(AgentKitError):
    """The program is set up wrongly; nothing was run."""


class NoProvider(ConfigError, ValueError):
    """No model provider is named by the arguments or the environment."""


class MissingExtra(ConfigError, ImportError):
    """An optional package is not installed; the text names the command that installs it."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(extra, purpose)
        self.extra, self.purpose = extra, purpose

    def __str__(self) -> str:
        """What needs the package, and the command that installs it."""
        return f"{self.purpose} needs an optional package. Install it with: pip install 'agentkit-tools[{self.extra}]'"


class ModelError(AgentKitError):
    """The provider did not give an answer.

    `status` is the HTTP status, or None when there was none. `code` and `parameter` are the
    provider's own words for what went wrong and which parameter it names, when it says so.
    A conversation that is too long for the model has the code `context_length_exceeded` with every
    provider; `limit_tokens` is then what the model can take, when the provider names it.
    `unanswered` counts how often the request was sent and no whole answer came: what the provider
    charges for that nobody knows. Where several models were asked in turn, `missed` tells of each.
    `written` is what the model wrote where the provider refused that, as a call of a tool that it
    could not read.
    """

    unanswered: int = 0
    written: str = ""
    missed: tuple[Any, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        parameter: str | None = None,
        limit_tokens: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.parameter = parameter
        self.limit_tokens = limit_tokens

    @property
    def is_too_long(self) -> bool:
        """Whether the conversation is longer than the model can read."""
        return self.code == "context_length_exceeded"


class Unauthorized(ModelError):
    """The key is missing, wrong, or not allowed to do this (401, 403)."""


class RateLimited(ModelError):
    """Too many requests or no quota left (429). `retry_after_seconds` is the server's wish, or None."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        parameter: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, status=status, code=code, parameter=parameter)
        self.retry_after_seconds = retry_after_seconds


class Rejected(ModelError):
    """The provider understood the request and refuses it: a bad parameter, a refusal, a content filter."""


class Unreachable(ModelError):
    """No connection, a timeout, or the server is failing (5xx)."""


class BadResponse(ModelError):
    """What came back is not a usable answer: HTML, broken JSON, a stream cut short."""


class ToolError(AgentKitError):
    """A tool call came to nothing. The model is told and may try again."""


class UnknownTool(ToolError):
    """There is no tool of that name; the text names the closest real one."""


class BadArguments(ToolError):
    """The arguments do not fit the tool's parameters; the text names each bad one."""


class ToolTimeout(ToolError):
    """The tool did not finish in its time."""


class Blocked(ToolError):
    """The call was judged and may not happen; the text carries reason and remedy."""


class Postponed(ToolError):
    """The tool has no result yet: a person must answer the text first. The run ends paused, and goes on with it."""


class LoginNeeded(ToolError):
    """An MCP server wants to know who asks, and nobody has logged in there, or not for that; nothing was done."""


class SandboxError(ToolError):
    """The isolation that was asked for cannot be had on this machine."""


class RunError(AgentKitError):
    """A run ended early. `result` is the RunResult so far."""

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class LimitExceeded(RunError, RuntimeError):
    """A limit of the run was hit."""


class Cancelled(RunError):
    """The run was cancelled from outside."""


class ReplayError(RunError, AssertionError):
    """A program asks what its recording does not answer, or leaves unasked what it does."""


class SessionError(AgentKitError):
    """A stored session cannot be read or written."""


class KnowledgeError(SessionError):
    """What is kept of documents and notes cannot be read or written: the text says why, and what to do about it."""
