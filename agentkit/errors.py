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
├── ToolError              the model: it gets the error and may try again
│   ├── UnknownTool
│   ├── BadArguments
│   ├── ToolTimeout
│   ├── Blocked
│   ├── Postponed
│   ├── LoginNeeded
│   └── SandboxError
├── RunError               the caller; carries the result so far
│   ├── GuardrailRefused
│   ├── LimitExceeded      also a RuntimeError
│   ├── Cancelled
│   ├── StepFailed
│   └── ReplayError        also an AssertionError
└── SessionError           the operator
    └── KnowledgeError

Foreign exceptions are translated once, by a table, in the module that imports their library.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType


class AgentKitError(Exception):
    """Base class of every exception that agentkit raises on purpose."""


class _ShortTraceback:
    """Context manager that removes the inner frames of this package from the tracebacks of its errors.

    The traceback then ends at the public function that was called, after the line of the program that called it.
    Frames of other code, such as a middleware, remain. `python -X dev` shows all frames.
    """

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, frames: TracebackType | None) -> None:
        if frames is None or not isinstance(error, AgentKitError) or sys.flags.dev_mode:
            return
        last, frame = frames, frames.tb_next
        while frame is not None:
            package = frame.tb_frame.f_globals.get("__name__", "").partition(".")[0]
            if package != "agentkit" and package not in sys.stdlib_module_names:
                last = frame
            frame = frame.tb_next
        last.tb_next = None


short_traceback = _ShortTraceback()
"""`with short_traceback:` in the functions that programs call."""


class ConfigError(AgentKitError):
    """The configuration is invalid; nothing was run."""


class NoProvider(ConfigError, ValueError):
    """Neither the arguments nor the environment select a model provider."""


class MissingExtra(ConfigError, ImportError):
    """An optional package is not installed; the message contains the command that installs it."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(extra, purpose)
        self.extra, self.purpose = extra, purpose

    def __str__(self) -> str:
        """Message with the feature that needs the package and the command that installs it."""
        from agentkit.installation import install_command

        return f"{self.purpose} needs an optional package. Install it with: {install_command(self.extra)}"


class ModelError(AgentKitError):
    """The provider did not return an answer.

    `status` is the HTTP status, or None if the server sent no response. `code` and `parameter` are the provider's error
    code and the parameter it names, if any. If the conversation exceeds the model's context, `code` is
    `context_length_exceeded` for every provider; `limit_tokens` is then the context size, when the provider reports it.
    `unanswered` counts the requests that were sent without receiving a complete answer, whose cost is unknown. If
    several models were tried in turn, `missed` describes each failure. `written` is the model's output when the
    provider rejected it, such as a malformed tool call. `partial` is the part of the answer that had arrived, as an
    AssistantMessage; None if nothing had.
    """

    unanswered: int = 0
    written: str = ""
    missed: tuple[Any, ...] = ()
    partial: Any = None

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
        """Whether the conversation exceeds the model's context."""
        return self.code == "context_length_exceeded"


class Unauthorized(ModelError):
    """The key is missing, wrong, or not allowed to do this (401, 403)."""


class RateLimited(ModelError):
    """Too many requests or the quota is exhausted (429).

    `retry_after_seconds` is the delay the server requests, or None.
    """

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
    """The provider refused a well-formed request: a bad parameter, a refusal, a content filter."""


class Unreachable(ModelError):
    """The connection failed or timed out, or the server is failing (5xx)."""


class BadResponse(ModelError):
    """The response is not a usable answer: HTML, broken JSON, a stream cut short."""


class ToolError(AgentKitError):
    """A tool call failed. The message is sent to the model, which can try again."""


class UnknownTool(ToolError):
    """The tool does not exist; the message names the closest match."""


class BadArguments(ToolError):
    """The arguments do not match the tool's parameters; the message names each invalid one."""


class ToolTimeout(ToolError):
    """The tool did not finish within its timeout."""


class Blocked(ToolError):
    """The policy blocked the call; the message contains reason and remedy."""


class Postponed(ToolError):
    """The tool needs a person to answer the message first. The run pauses and resumes with the answer."""


class LoginNeeded(ToolError):
    """An MCP server requires a login, or a login with more permissions; nothing was done."""


class SandboxError(ToolError):
    """The requested isolation is not available on this machine."""


class RunError(AgentKitError):
    """A run ended early. `result` is the RunResult so far."""

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class GuardrailRefused(RunError):
    """A guardrail refused the prompt or the answer: its name, what it checks (`prompt` or `output`), and its reason."""

    def __init__(self, message: str, *, guardrail: str = "", stage: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.guardrail, self.stage, self.reason = guardrail, stage, reason


class LimitExceeded(RunError, RuntimeError):
    """The run exceeded one of its limits."""


class Cancelled(RunError):
    """The run was cancelled from outside."""


class StepFailed(RunError):
    """A step of a durable function failed. The message contains the class and the text of its exception."""


class ReplayError(RunError, AssertionError):
    """A program makes a request that its recording does not contain, or leaves a recorded one unused."""


class SessionError(AgentKitError):
    """A stored session cannot be read or written."""


class KnowledgeError(SessionError):
    """The store of documents and notes cannot be read or written: the message explains why and how to fix it."""
