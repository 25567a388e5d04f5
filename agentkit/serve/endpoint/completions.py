"""How does an agent answer a chat completions request? Its tools run here, and what must be asked for is denied."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import field, replace
from typing import Any

from agentkit.agents.agent import Agent
from agentkit.agents.facing.spoken import PARAGRAPH, Spoken
from agentkit.agents.result import RunFinished, RunResult
from agentkit.agents.running.plan import LINEAGE
from agentkit.decisions import Label
from agentkit.errors import (
    AgentKitError,
    ConfigError,
    ModelError,
    RateLimited,
    Rejected,
    RunError,
    SessionError,
    Unreachable,
)
from agentkit.events import Event, ResponseReceived
from agentkit.memory.session import Session
from agentkit.serve.endpoint.remembering import Answers, Telling
from agentkit.serve.endpoint.wishes import Wishes, wishes_of
from agentkit.serve.exchange import Asked, Refusal, Reply, json_bytes, reply_of
from agentkit.serve.slots import Slots
from agentkit.serve.streaming import unless_gone
from agentkit.slotted import dataclass
from agentkit.usage import Limits, Usage, shown_cost

_STATUSES: tuple[tuple[type[AgentKitError], int, str], ...] = (
    (RateLimited, 429, "rate_limit_exceeded"),
    (Unreachable, 503, "model_unreachable"),
    (Rejected, 400, "model_refused"),
    (ModelError, 502, "model_failed"),
    (ConfigError, 500, "not_set_up"),
    (RunError, 400, "run_failed"),
    (SessionError, 409, "session"),
    (AgentKitError, 500, "server_error"),
)
"""What a failed run is to the client. That the model's key is wrong says nothing of the client's own."""


@dataclass(slots=True)
class Completions:
    """The endpoint of one agent: any number of clients, each request a conversation of its own."""

    agent: Agent[Any]
    room: Slots
    answers: Answers = field(default_factory=Answers)
    created: int = field(default_factory=lambda: int(time.time()))

    async def models(self, _asked: Asked) -> Reply:
        """The one model that there is: the agent."""
        return reply_of({"object": "list", "data": [self._model]})

    async def model(self, asked: Asked) -> Reply:
        """The agent as a model, by its name. Raises Refusal for another name."""
        if asked.path.get("model") != self.agent.name:
            text = f"There is no such model; the agent is called {self.agent.name!r}."
            raise Refusal(404, text, code="model_not_found", parameter="model")
        return reply_of(self._model)

    @property
    def _model(self) -> dict[str, Any]:
        return {"id": self.agent.name, "object": "model", "created": self.created, "owned_by": "agentkit"}

    async def complete(self, asked: Asked) -> Reply:
        """The answer to the last message. The run ends when the client leaves. Raises Refusal and Gone."""
        wishes = wishes_of(await asked.document(), self.agent.name)
        headers = {"x-agentkit-ignored": ", ".join(wishes.ignored)} if wishes.ignored else {}
        work = _Work(self, wishes)
        if wishes.stream:
            self.room.take()
            headers |= {"cache-control": "no-store", "x-accel-buffering": "no"}
            return Reply(
                content_type="text/event-stream",
                headers=headers,
                pieces=work.chunks(),
                beat=b": still at work\n\n",
                ended=self.room.give_back,
            )
        with self.room.one():
            return reply_of(await unless_gone(asked.receive, work.whole()), headers=headers)


class _Work:
    """One run for a client."""

    def __init__(self, endpoint: Completions, wishes: Wishes) -> None:
        self._endpoint, self._wishes = endpoint, wishes
        self._id, self._created = f"chatcmpl-{secrets.token_hex(12)}", int(time.time())
        self._session = Session()
        self._agent = endpoint.agent.within(self._session)
        self._agent.limits = limits_under(self._agent.limits, wishes.max_tokens)
        self._read: set[Label] = set()
        self._telling = Telling(endpoint.answers, self._read)

    async def whole(self) -> dict[str, Any]:
        """The document of a whole answer. Raises Refusal when there is none."""
        self._enter()
        try:
            result = await self._agent.arun(self._wishes.prompt)
            self._end(result)
        except AgentKitError as error:
            raise refusal_of(error) from error
        message = {"role": "assistant", "content": self._text(result), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason(result)}
        return {**self._shared("chat.completion"), "choices": [choice], **usage_of(result.usage), **_told(result)}

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The answer as server-sent events; a failure is one of them, and then there is no end mark."""
        yield self._chunk({"role": "assistant", "content": ""})
        try:
            async with aclosing(self._pieces()) as pieces:
                async for piece in pieces:
                    yield piece
        except Refusal as refusal:
            yield _event(refusal.document)
        else:
            yield b"data: [DONE]\n\n"

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        spoken = Spoken(self._endpoint.agent.holds_back)
        async with aclosing(self._events()) as events:
            async for event in events:
                if text := spoken.piece(event):
                    yield self._said(text)
                if isinstance(event, RunFinished):
                    result = event.result
        if text := spoken.rest(self._text(result)):
            yield self._said(text)
        yield self._chunk({}, self._reason(result), _told(result))
        if self._wishes.include_usage:
            yield _event({**self._shared("chat.completion.chunk"), "choices": [], **usage_of(result.usage)})

    def _enter(self) -> None:
        """Put the conversation before the prompt in place, with what was read for it; what is read now is noted."""
        before = self._wishes.history
        if before:
            self._session.append(before)
        self._read |= self._endpoint.answers.labels(before)
        lineage = LINEAGE.get()
        LINEAGE.set(replace(lineage, read=lineage.read | self._read, found=self._read))

    async def _events(self) -> AsyncGenerator[Event, None]:
        """The events of the run. Raises Refusal when it comes to nothing."""
        self._enter()
        try:
            async with aclosing(self._agent.astream(self._wishes.prompt)) as run:
                async for event in run:
                    if isinstance(event, RunFinished):
                        self._end(event.result)
                    yield event
        except AgentKitError as error:
            raise refusal_of(error) from error

    def _said(self, text: str) -> bytes:
        """A piece of the answer, remembered before the client has it."""
        self._telling.tell(text)
        return self._chunk({"content": text})

    def _end(self, result: RunResult[Any]) -> None:
        """Remember what the answer was made of. Raises the error of a run that failed."""
        if result.status == "failed" and result.error is not None:
            raise result.error
        self._endpoint.answers.note(self._text(result), self._read)

    def _text(self, result: RunResult[Any]) -> str:
        """What the client is told: the answer, and what a run that waits for a person asks."""
        questions = [pending.question for pending in result.pending]
        return PARAGRAPH.join(filter(None, [result.text, *questions]))

    def _reason(self, result: RunResult[Any]) -> str:
        responses = [each.response for each in result.milestones if isinstance(each, ResponseReceived)]
        is_cut = bool(responses) and responses[-1].finish_reason == "length"
        return "length" if is_cut or result.status == "limit" else "stop"

    def _shared(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._endpoint.agent.name}

    def _chunk(self, delta: Mapping[str, Any], reason: str | None = None, more: Mapping[str, Any] = {}) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        usage = {"usage": None} if self._wishes.include_usage else {}
        return _event({**self._shared("chat.completion.chunk"), "choices": [choice], **usage, **more})


def limits_under(limits: Limits, max_tokens: int | None) -> Limits:
    """The limits of a run that may write so many tokens; None leaves them as they are."""
    known = limits.output_tokens
    return limits if max_tokens is None else replace(limits, output_tokens=min(max_tokens, known or max_tokens))


def usage_of(usage: Usage) -> dict[str, Any]:
    """What was used as OpenAI tells it; nothing when the provider gave no figures."""
    if usage.unreported and not usage.total_tokens:
        return {}
    return {
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        }
    }


def refusal_of(error: AgentKitError) -> Refusal:
    """A failed run as an OpenAI error."""
    status, code = next((status, code) for kind, status, code in _STATUSES if isinstance(error, kind))
    headers = {}
    if isinstance(error, RateLimited) and error.retry_after_seconds is not None:
        headers = {"retry-after": f"{error.retry_after_seconds:.0f}"}
    known = error.code if isinstance(error, Rejected) else None
    return Refusal(status, str(error), code=known or code, headers={"x-should-retry": "false", **headers})


def _told(result: RunResult[Any]) -> dict[str, Any]:
    """What OpenAI's format has no place for: how the run ended, its tool calls with who judged them how, its cost."""
    calls = [
        {
            "name": used.call.name,
            "arguments": used.call.arguments,
            "status": used.result.status,
            "decision": used.result.decision.to_dict() if used.result.decision is not None else None,
        }
        for used in result.tool_calls
    ]
    cost = shown_cost(result.cost)
    return {"agentkit": {"status": result.status, "iterations": result.iterations, "tool_calls": calls, "cost": cost}}


def _event(document: Mapping[str, Any]) -> bytes:
    return b"data: " + json_bytes(document) + b"\n\n"
