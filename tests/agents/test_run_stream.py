"""Tests for messages sent into an active run, and for runs without a prompt."""

import asyncio
import gc
import threading

import pytest

from agentkit import LLM, Agent, ConfigError, RunError, RunFinished, Session
from agentkit.events import InputReceived, RequestStarted, ResponseReceived, TextDelta, ToolCallStarted
from agentkit.testing import FakeServer, ScriptedLLM, call


def look() -> str:
    """Look around."""
    return "nothing"


def texts(request):
    """Return the texts of the messages of a request."""
    return [message.text for message in request.messages]


def test_message_during_a_call_is_in_the_next_request():
    """A message sent from another thread while a tool runs is part of the next request."""
    llm = ScriptedLLM(call("look"), "Done.")
    agent = Agent("helper", [look], llm=llm)
    run = agent.stream("Go.")
    for event in run:
        if isinstance(event, ToolCallStarted):
            sender = threading.Thread(target=run.send, args=["Hurry!"])
            sender.start()
            sender.join()
    assert texts(llm.requests[1]) == ["Go.", "", "nothing", "Hurry!"]
    assert [message["content"] for message in agent.history if message["role"] == "user"] == ["Go.", "Hurry!"]


def test_message_after_the_answer_continues_the_run():
    """A message that arrives together with the answer continues the run."""
    llm = ScriptedLLM("First.", "Second.")

    async def streamed():
        async with Agent("helper", llm=llm).astream("Go.") as run:
            sent = False
            async for event in run:
                if isinstance(event, ResponseReceived) and not sent:
                    run.send("And then?")
                    sent = True
            return event.result

    result = asyncio.run(streamed())
    assert result.output == "Second."
    assert texts(llm.requests[1]) == ["Go.", "First.", "And then?"]
    assert sum(isinstance(each, InputReceived) for each in result.events) == 1


def test_message_before_the_first_request():
    """A message that is sent before the first request follows the prompt."""
    llm = ScriptedLLM("Done.")
    with Agent("helper", llm=llm).stream("Go.") as run:
        run.send("Please.")
        assert [*run][-1].result.output == "Done."
    assert texts(llm.requests[0]) == ["Go.", "Please."]


def test_finished_run_accepts_no_message():
    """Sending a message into a finished run or sending an invalid message raises an error."""
    run = Agent("helper", llm=ScriptedLLM("Done.")).stream("Go.")
    with pytest.raises(ConfigError, match="A prompt is a text"):
        run.send(5)
    assert isinstance([*run][-1], RunFinished)
    with pytest.raises(RunError, match="The run has ended"):
        run.send("More?")


def test_message_during_a_pause_follows_the_result():
    """A message that arrives while a call is pending follows the result of the call."""
    llm = ScriptedLLM(call("look"), "Done.")
    agent = Agent("helper", [look], llm=llm, approve="later", unlabelled="ask")
    run = agent.stream("Go.")
    for event in run:
        if isinstance(event, ResponseReceived):
            run.send("Hurry!")
    assert event.result.status == "paused"
    assert event.result.resume(True).output == "Done."
    assert texts(llm.requests[1]) == ["Go.", "", "nothing", "Hurry!"]


def test_guardrails_check_sent_messages():
    """A message sent into a run is checked by the prompt guardrails; a refusal fails the run."""

    def polite(prompt):
        if "!" in prompt:
            raise ValueError("Be polite.")
        return prompt.strip()

    llm = ScriptedLLM("One.", "Two.")
    run = Agent("helper", llm=llm, guardrails=[polite]).stream("Go.")
    for event in run:
        if isinstance(event, RequestStarted):
            run.send(" Please. " if event.iteration == 1 else "Now!")
    assert texts(llm.requests[1])[-1] == "Please."
    assert (event.result.status, "Be polite." in str(event.result.error)) == ("failed", True)


HISTORY = [
    {"role": "user", "content": "Look."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "nothing"},
]


@pytest.mark.parametrize("history", [HISTORY, HISTORY[:1]])
def test_run_without_a_prompt(history):
    """A run without a prompt answers the last message of the conversation, such as a tool result."""
    llm = ScriptedLLM("There is nothing.")
    agent = Agent("helper", [look], llm=llm)
    agent.history = history
    assert agent.run().output == "There is nothing."
    assert len(llm.requests[0].messages) == len(history)
    assert [message["role"] for message in agent.history] == [*(each["role"] for each in history), "assistant"]


@pytest.mark.parametrize("answered", [False, True])
def test_run_needs_an_unanswered_message(answered):
    """A run without a prompt raises an error if the conversation has no unanswered message."""
    agent, session = Agent("helper", llm=ScriptedLLM("Hi.")), Session()
    if answered:
        agent.run("Hi!", session=session)
    with pytest.raises(
        ConfigError, match="The run has no prompt, and the conversation has no message without an answer"
    ):
        agent.run(session=session)


async def leave(events):
    """Close an async stream at its first text."""
    async for event in events:
        if isinstance(event, TextDelta):
            break
    await events.aclose()


@pytest.mark.parametrize(("provider", "input_tokens"), [("anthropic", 10), (None, 0)])
@pytest.mark.parametrize("is_async", [False, True])
def test_abandoned_stream_counts_its_request(provider, input_tokens, is_async):
    """An abandoned stream counts one request with unreported usage and its known input tokens."""
    with FakeServer("one two three four five six", repeat=True) as server:
        model = "claude-haiku-5-5" if provider else "m"
        agent = Agent("helper", llm=LLM(provider, model, "key-of-test", base_url=server.base_url))
        if is_async:
            asyncio.run(leave(agent.astream("Hi")))
        else:
            next(event for event in agent.stream("Hi") if isinstance(event, TextDelta))
            gc.collect()
    usage = agent.usage
    assert (usage.requests, usage.unreported, usage.input_tokens) == (1, 1, input_tokens)
