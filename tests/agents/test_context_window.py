"""Tests for the context window: limits, estimates corrected by the server, and summaries."""

from agentkit.agents.budget import ContextBudget
from agentkit.llm.client import LLM
from agentkit.messages import AssistantMessage, Request, SystemMessage, UserMessage
from agentkit.sessions.context_window import Window
from agentkit.sessions.state import Summary

PROMPT = UserMessage("Now?")


def conversation(exchanges=10, chars=400):
    """Return several exchanges, and a prompt without an answer."""
    messages = []
    for number in range(exchanges):
        messages += [UserMessage(f"Question {number} " + "x" * chars), AssistantMessage(f"Answer {number}")]
    return [*messages, PROMPT]


def no_model():
    """Raise an error, as the model must not be called."""
    raise AssertionError("nobody is to be asked")


def test_short_requests_are_sent_unchanged():
    """A short request is sent without looking up the model's context window."""
    assert ContextBudget(Window()).available_tokens(Request(conversation()), no_model) is None


def test_long_requests_are_limited_by_the_context_window():
    """A long request is limited by the model's context window, or not at all if that is unknown."""
    long = Request(conversation(100, 4_000), "Be brief.")
    known = LLM("openai", "gpt-5.4-mini", "a-key")
    unknown = LLM(base_url="http://127.0.0.1:9/v1", model="my-own")
    assert 50_000 < ContextBudget(Window()).available_tokens(long, lambda: known) < 2_000_000
    assert ContextBudget(Window()).available_tokens(long, lambda: unknown) is None


def test_estimates_follow_the_server():
    """If the server counts twice the estimated tokens, half as much fits."""
    room, request = ContextBudget(Window(tokens=4_000)), Request(conversation())
    before = room.available_tokens(request, no_model)
    room.learn(request, 2 * room.tokens(request))
    assert abs(room.available_tokens(request, no_model) - before // 2) <= 1
    room.learn(request, 0)
    assert abs(room.available_tokens(request, no_model) - before // 2) <= 1


def test_rejection_reduces_the_window():
    """A rejection reduces the window to the limit named by the server, if any."""
    room, request = ContextBudget(Window()), Request(conversation())
    sent = room.tokens(request)
    assert room.answer_tokens is None
    room.refused(request, None, None)
    assert room.window.tokens == sent * 3 // 4
    room.refused(request, 16_384, 8_192)
    assert (room.window.tokens, room.answer_tokens) == (8_192, 2_048)


def test_window_of_the_user_does_not_shorten_answers():
    """A window set by the user does not limit the length of answers."""
    assert ContextBudget(Window(tokens=2_000)).answer_tokens is None


def test_nothing_is_summarised_by_default():
    """Nothing is summarised without `summarise` or if all messages fit."""
    messages = conversation()
    assert ContextBudget(Window(tokens=500)).to_summarise(messages, 500, 20) == ()
    assert ContextBudget(Window(tokens=500, summarise=True)).to_summarise(messages, 100_000, 20) == ()


def test_summary_replaces_the_oldest_exchanges():
    """A summary replaces whole exchanges at the beginning of the conversation."""
    room, messages = ContextBudget(Window(tokens=500, summarise=True)), conversation()
    old = room.to_summarise(messages, 500, 20)
    assert list(old) == messages[: len(old)]
    assert isinstance(messages[len(old)], UserMessage)
    room.summary = Summary(len(old), old[-1], "They spoke.")
    shown_messages = room.shown_messages(messages)
    assert "They spoke." in shown_messages[0].content
    assert shown_messages[1:] == messages[len(old) + 1 :]
    assert room.shown_messages(messages)[0] is shown_messages[0]
    assert room.to_summarise(messages, 500, 20) == ()


def test_next_summary_covers_the_previous_one():
    """The next summary covers the previous summary and later messages."""
    room, messages = ContextBudget(Window(tokens=500, summarise=True)), conversation(10)
    room.summary = Summary(6, messages[5], "They spoke.")
    old = room.to_summarise(messages, 300, 20)
    assert len(old) > 6
    assert list(old) == messages[: len(old)]
    prompt = room.summary_request(old, 500).messages[0].content
    assert "They spoke." in prompt
    assert "Question 0" not in prompt


def test_current_exchange_is_never_summarised():
    """The current exchange is never summarised, even if it does not fit."""
    room, messages = ContextBudget(Window(tokens=100, summarise=True)), conversation()
    work = [AssistantMessage("x" * 3_000), UserMessage("Go on."), AssistantMessage("x" * 3_000), UserMessage("Go on.")]
    old = room.to_summarise([*messages, *work], 100, 20)
    assert len(old) == 20


def test_summary_of_another_conversation_is_not_used():
    """A summary is not used in a conversation that it does not match."""
    room, messages = ContextBudget(Window(summarise=True)), conversation()
    room.summary = Summary(6, messages[5], "They spoke.")
    other = [UserMessage("Hello."), *messages]
    assert room.shown_messages(other) is other
    assert room.shown_messages(messages[:6]) == messages[:6]


def test_longer_summary_is_used():
    """`recall` uses a stored summary only if it matches and covers more messages."""
    room, messages = ContextBudget(Window(summarise=True)), conversation()[:-1]
    first, longer = (Summary(count, messages[count - 1], f"{count} messages.") for count in (4, 6))
    stranger = Summary(8, UserMessage("Elsewhere."), "Something else.")
    for found, text in ((first, first), (longer, longer), (first, longer), (stranger, longer)):
        room.recall(found, messages)
        assert room.summary is text


def test_system_messages_are_sent_in_addition_to_a_summary():
    """System messages covered by a summary are still sent."""
    order = SystemMessage("Speak like a pirate.")
    room, messages = ContextBudget(Window(tokens=500, summarise=True)), [order, *conversation()]
    old = room.to_summarise(messages, 500, 21)
    room.summary = Summary(len(old), old[-1], "They spoke.")
    shown_messages = room.shown_messages(messages)
    assert shown_messages[0] == order
    assert f"A summary of {len(old) - 1} earlier messages" in shown_messages[1].content
    assert shown_messages[2] == messages[len(old) + 1]


def test_fitted_messages_include_the_newest_exchange():
    """The messages that fit are the newest ones, preceded by the summary."""
    room, messages = ContextBudget(Window(tokens=500, summarise=True)), conversation()
    room.summary = Summary(16, messages[15], "They spoke.")
    fitted = room.fit_messages(messages, 500, 20, with_handles=False)
    assert fitted.fits
    assert fitted.messages[-1] == PROMPT
    assert "They spoke." in str(fitted.messages[0])
