"""Tests for fitting a conversation into a context window."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.content import Image
from agentkit.errors import ConfigError
from agentkit.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from agentkit.sessions.context_window import Fitted, Window, fit
from agentkit.sessions.token_estimates import Estimates


def iteration(number: int, chars: int = 4_000, calls: int = 1) -> list[Message]:
    """Return an answer with tool calls, and their results."""
    ids = [f"call_{number}_{index}" for index in range(calls)]
    requested_calls = tuple(ToolCall(call_id, "look", "{}") for call_id in ids)
    return [
        AssistantMessage("", requested_calls),
        *(ToolMessage(call_id, "look", "word " * (chars // 5)) for call_id in ids),
    ]


def exchange(number: int, chars: int = 4_000) -> list[Message]:
    """Return a prompt, a tool call with its result, and an answer."""
    return [UserMessage(f"Question {number}"), *iteration(number, chars), AssistantMessage(f"Answer {number}")]


def conversation(exchanges: int, chars: int = 4_000) -> list[Message]:
    """Return several exchanges."""
    return [message for number in range(exchanges) for message in exchange(number, chars)]


def assert_valid(messages: Sequence[Message]) -> None:
    """Assert that every tool call has exactly one result, directly after its message."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            waiting.remove(message.call_id)
        else:
            assert waiting == []
            waiting = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
    assert waiting == []


def texts(messages: Sequence[Message]) -> str:
    """Return the messages as one string."""
    return "\n".join(map(str, messages))


def test_fitting_conversation_is_unchanged() -> None:
    """A conversation that fits is returned unchanged."""
    messages = conversation(3)
    fitted = fit(messages, 100_000)
    assert fitted == Fitted(tuple(messages), Estimates().total(messages))
    assert fit([], 0) == Fitted((), 0)


def test_old_results_are_shortened_first() -> None:
    """Old tool results are shortened to head and tail first; the newest three are not."""
    messages = conversation(10)
    fitted = fit(messages, 6_000)
    lengths = [len(message.content) for message in fitted.messages if isinstance(message, ToolMessage)]
    assert (fitted.left_out, fitted.fits, len(fitted.messages)) == (0, True, len(messages))
    assert lengths == [1_000] * fitted.shortened + [4_000] * (10 - fitted.shortened)
    assert 3 <= fitted.shortened <= 7
    assert "[… 3,000 of 4,000 characters left out …]" in texts(fitted.messages)
    assert fitted.tokens == Estimates().total(fitted.messages) <= 6_000


def test_shortened_result_names_its_handle() -> None:
    """If the model has read_more, a shortened result says how to read all of it."""
    fitted = fit(conversation(10), 6_000, with_handles=True)
    first = next(message for message in fitted.messages if isinstance(message, ToolMessage))
    assert 'characters left out; read_more(handle="call_0_0") reads the whole …]' in first.content
    assert len(first.content) == 1_000


def test_oldest_exchanges_are_dropped() -> None:
    """If shortening is not enough, the oldest exchanges are dropped and replaced by a note."""
    messages = conversation(40)
    fitted = fit(messages, 3_500)
    text = len(messages) - fitted.left_out
    first = fitted.messages[0]
    assert isinstance(first, UserMessage)
    assert fitted.left_out % 4 == 0
    assert fitted.fits
    assert first.content == (
        f"[{fitted.left_out} earlier messages of this conversation are left out here, because it exceeds your context "
        "window."
        f"]\n\nQuestion {40 - text // 4}"
    )
    assert fitted.messages[-1] == messages[-1]


def test_system_messages_are_not_dropped() -> None:
    """System messages are never dropped."""
    messages = [SystemMessage("Be brief."), *conversation(40), SystemMessage("Be kind."), *exchange(41)]
    fitted = fit(messages, 3_000)
    assert [message for message in fitted.messages if isinstance(message, SystemMessage)] == [
        messages[0],
        messages[161],
    ]


def test_conversation_is_truncated_in_large_steps() -> None:
    """A growing conversation is truncated in large steps, so that providers can cache the rest."""
    estimates, beginnings = Estimates(), []
    messages = conversation(30, 500)
    for number in range(30, 90):
        messages += exchange(number, 500)
        beginnings.append(fit(messages, 4_000, estimates=estimates).messages[1])
    changes = sum(one is not other for one, other in itertools.pairwise(beginnings))
    assert 3 <= changes <= 15


def test_long_run_preserves_its_prompt_and_newest_iteration() -> None:
    """Within one exchange, the oldest iterations are dropped; the prompt and the newest iteration are kept."""
    messages = [UserMessage("Find it"), *itertools.chain.from_iterable(iteration(number) for number in range(50))]
    fitted = fit([*conversation(3), *messages], 3_000)
    prompt = fitted.messages[0]
    assert isinstance(prompt, UserMessage)
    assert "12 earlier messages of this conversation" in str(prompt.content)
    assert f"Find it\n\n[{fitted.left_out - 12} earlier messages of your work on this are left out" in str(
        prompt.content
    )
    assert fitted.messages[-2:] == tuple(messages[-2:])
    assert fitted.fits
    assert_valid(fitted.messages)


def test_newest_exchange_may_contain_user_messages() -> None:
    """`newest` marks the start of the newest exchange, so that a later user message does not drop its prompt."""
    messages = [
        *conversation(9),
        UserMessage("Find it"),
        *iteration(90),
        AssistantMessage("No"),
        UserMessage("Try again"),
    ]
    assert "Find it" not in texts(fit(messages, 150).messages)
    assert "Find it" in texts(fit(messages, 150, newest=36).messages)
    assert fit(messages, 150, newest=99) == fit(messages, 150, newest=40)


def test_unread_results_are_shortened_last() -> None:
    """Results that the model has not read yet are shortened only as far as necessary."""
    messages = [*conversation(5), UserMessage("Find it"), *iteration(9, 40_000, calls=4)]
    fitted = fit(messages, 5_000)
    lengths = {len(message.content) for message in fitted.messages if isinstance(message, ToolMessage)}
    assert fitted.fits
    assert lengths <= {40_000, 20_000, 10_000, 5_000}
    assert_valid(fitted.messages)


def test_prompt_that_cannot_fit_is_reported() -> None:
    """If the newest prompt alone is too long, the result says that it does not fit."""
    fitted = fit([*conversation(5), UserMessage("word " * 10_000)], 1_000)
    assert (fitted.fits, len(fitted.messages), fitted.left_out) == (False, 1, 20)
    assert fitted.tokens > 1_000


def test_notes_surround_image_prompts() -> None:
    """Notes are added before and after the parts of a prompt with images."""
    prompt = UserMessage(("What is", Image("data:x", "low")))
    first = fit([*conversation(9), prompt, *iteration(9), *iteration(10)], 400).messages[0]
    assert isinstance(first, UserMessage)
    assert first.content[1:3] == prompt.content
    assert [type(part) for part in first.content] == [str, str, Image, str]
    assert fit([*conversation(9), prompt], 300).messages[0].content[1:] == prompt.content


def test_images_of_old_results_are_dropped_first() -> None:
    """Images of old results are dropped with a note; those of the newest results are kept."""
    messages: list[Message] = [UserMessage("Watch.")]
    for number in range(9):
        *before, result = iteration(number, 20)
        messages += [*before, replace(result, images=(Image("data:x"),))]
    fitted = fit(messages, 6_500)
    shown = [bool(message.images) for message in fitted.messages if isinstance(message, ToolMessage)]
    assert shown == sorted(shown)
    assert 3 <= sum(shown) < 9
    assert "its images and files are left out" in fitted.messages[2].content
    assert fitted.left_out == 0


def test_conversation_without_a_prompt_is_cut() -> None:
    """A conversation without a user message is cut without a note and stays valid."""
    messages = list(itertools.chain.from_iterable(iteration(number) for number in range(9)))
    fitted = fit(messages, 500)
    assert fitted.messages[0] == messages[16]
    assert fitted.left_out == 16
    assert_valid(fitted.messages)
    assert fit([*messages, AssistantMessage("So")], 30, newest=17).messages == (AssistantMessage("So"),)


names = st.sampled_from(["", "a", "ü", "x" * 300, "word " * 400, "数" * 900, '{"a": [1, 2]}' * 200])


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """A strategy for valid conversations."""
    messages: list[Message] = []
    ids = (f"call_{number}" for number in itertools.count())
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["user", "user", "system", "assistant", "tools", "tools", "picture"]))
        if kind == "user":
            messages.append(UserMessage(draw(names)))
        elif kind == "picture":
            messages.append(UserMessage((draw(names), Image("data:x", "low"))))
        elif kind == "system":
            messages.append(SystemMessage(draw(names)))
        else:
            calls = [ToolCall(next(ids), "look", draw(names)) for _ in range(draw(st.integers(1, 3)))]
            messages.append(AssistantMessage(draw(names), tuple(calls) if kind == "tools" else ()))
            if kind == "tools":
                messages += [ToolMessage(call.id, "look", draw(names)) for call in calls]
    return messages


def is_part_of(part: Message, complete: Message) -> bool:
    """Return whether a message is a shortened or annotated form of another."""
    if isinstance(complete, UserMessage) and isinstance(part, UserMessage):
        inner = (complete.content,) if isinstance(complete.content, str) else complete.content
        outer = (part.content,) if isinstance(part.content, str) else part.content
        return all(any(str(one) in str(other) for other in outer) for one in inner)
    if isinstance(complete, ToolMessage) and isinstance(part, ToolMessage):
        return part.call_id == complete.call_id and len(part.content) <= len(complete.content)
    return part == complete


@settings(max_examples=300)
@given(
    messages=histories(),
    room_tokens=st.integers(0, 3_000),
    window=st.builds(Window, keep_results=st.integers(0, 4), result_chars=st.integers(200, 1_200)),
    with_handles=st.booleans(),
)
def test_any_conversation_stays_valid(
    messages: list[Message], room_tokens: int, window: Window, *, with_handles: bool
) -> None:
    """A fitted conversation is valid, keeps the order and the newest prompt, and reports whether it fits."""
    fitted = fit(messages, room_tokens, window, with_handles=with_handles)
    assert_valid(fitted.messages)
    assert fitted.tokens == Estimates().total(fitted.messages)
    assert fitted.fits is (fitted.tokens <= room_tokens)
    assert len(fitted.messages) == len(messages) - fitted.left_out
    assert bool(fitted.messages) is bool(messages)
    originals = iter(messages)
    assert all(any(is_part_of(message, original) for original in originals) for message in fitted.messages)
    prompts = [message for message in messages if isinstance(message, UserMessage)]
    assert not prompts or any(is_part_of(message, prompts[-1]) for message in fitted.messages)
    if fitted.messages:
        assert is_part_of(fitted.messages[-1], messages[-1])


@given(messages=histories(), room_tokens=st.integers(0, 3_000), with_handles=st.booleans())
def test_fitting_is_idempotent(messages: list[Message], room_tokens: int, *, with_handles: bool) -> None:
    """Fitting is deterministic, and fitting a fitted conversation does not change it."""
    once = fit(messages, room_tokens, with_handles=with_handles)
    assert fit(messages, room_tokens, estimates=Estimates(), with_handles=with_handles) == once
    assert fit(once.messages, room_tokens, with_handles=with_handles).messages == once.messages


@pytest.mark.parametrize(
    ("window", "known", "taken", "room"),
    [
        (Window(), None, 0, None),
        (Window(), 128_000, 1_000, 123_000),
        (Window(tokens=10_000), 128_000, 0, 7_500),
        (Window(tokens=10_000, answer_tokens=100), None, 0, 9_900),
        (Window(), 4_096, 0, 3_072),
        (Window(), 4_096, 5_000, 0),
    ],
)
def test_space_for_messages(window: Window, known: int | None, taken: int, room: int | None) -> None:
    """The space for messages is the window without the tokens of answer, instruction and tools."""
    assert window.available_tokens(known, taken) == room


@pytest.mark.parametrize(
    ("sent", "limit", "tokens"),
    [(100_000, None, 75_000), (100_000, 32_768, 32_768), (30_000, 32_768, 22_500), (0, 0, 1)],
)
def test_window_shrinks_after_a_rejected_request(sent: int, limit: int | None, tokens: int) -> None:
    """After a rejected request, the window shrinks by a quarter or to the server's limit, if that is less."""
    assert Window(keep_results=1).after_refusal(sent, limit) == Window(tokens=tokens, keep_results=1)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("tokens", 0), ("answer_tokens", -1), ("keep_results", 1.5), ("result_chars", 199), ("keep_results", True)],
)
def test_invalid_window_is_rejected(setting: str, value: object) -> None:
    """An invalid setting of a window raises a ConfigError with its name."""
    with pytest.raises(ConfigError, match=rf"Window\({setting}=\) takes an integer of at least \d+. Got {value}"):
        Window(**{setting: value})
