"""What is learnt from what servers and models refuse that speak the Messages protocol?"""

import json

import pytest

from agentkit.errors import Rejected
from agentkit.llm import quirks
from agentkit.llm.client import LLM
from agentkit.messages import AssistantMessage, Request, ToolCall, ToolMessage, ToolSpec, UserMessage
from agentkit.parts import File, Image
from agentkit.testing import FakeServer, raw, say

ADAPTIVE = {"type": "adaptive", "display": "summarized"}
HIGH = {"effort": "high"}
MARK = {"type": "ephemeral"}
BINDING = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


def manual(budget):
    """Thinking with a budget of tokens."""
    return {"type": "enabled", "budget_tokens": budget}


# what was sent; what the server says; what is sent instead
LESSONS = {
    "a model that cannot be forced": (
        {"tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}},
        'tool_choice: type "tool" and "any" are not supported for this model.',
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    "a model that thinks and cannot be forced": (
        {"tool_choice": {"type": "any"}, "thinking": ADAPTIVE},
        "Thinking may not be enabled when tool_choice forces tool use.",
        {"tool_choice": {"type": "auto"}, "thinking": ADAPTIVE},
    ),
    "a budget where there is none": (
        {"thinking": {**manual(2_000), "display": "omitted"}},
        '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
        '"output_config.effort" to control thinking behavior.',
        {"thinking": {"type": "adaptive", "display": "omitted"}},
    ),
    "thinking that cannot be switched off": (
        {"thinking": {"type": "disabled"}},
        '"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and '
        '"output_config.effort" to control thinking behavior.',
        {},
    ),
    "thinking that is switched off otherwise": (
        {"thinking": {"type": "disabled"}},
        '"thinking.type.disabled" is not supported for this model. To turn thinking off on this model, send '
        '"thinking": {"type": "between_tools"}.',
        {"thinking": {"type": "between_tools"}},
    ),
    "a model that wants a budget": (
        {"thinking": ADAPTIVE, "output_config": HIGH, "max_tokens": 32_000},
        "adaptive thinking is not supported on this model",
        {"thinking": manual(16_000), "max_tokens": 32_000},
    ),
    "a model that knows no other": (
        {"thinking": ADAPTIVE, "output_config": {"effort": "low", "format": {}}, "max_tokens": 3_000},
        "thinking: Input tag 'adaptive' found using 'type' does not match any of the expected tags: 'disabled', "
        "'enabled'",
        {"thinking": manual(2_048), "output_config": {"format": {}}, "max_tokens": 3_000},
    ),
    "a display that nobody knows": (
        {"thinking": ADAPTIVE},
        "thinking.adaptive.display: Extra inputs are not permitted",
        {"thinking": {"type": "adaptive"}},
    ),
    "a model without efforts": (
        {"output_config": HIGH},
        "This model does not support the effort parameter.",
        {},
    ),
    "a server without efforts": (
        {"output_config": {**HIGH, "format": {}}},
        "output_config.effort: Extra inputs are not permitted",
        {"output_config": {"format": {}}},
    ),
    "a server that can be configured in nothing": (
        {"output_config": HIGH},
        "output_config: Extra inputs are not permitted",
        {},
    ),
    "a temperature that is no more": (
        {"temperature": 0, "top_p": 0.5},
        "`temperature` is deprecated for this model.",
        {"top_p": 0.5},
    ),
    "a temperature beside thoughts": (
        {"temperature": 0, "thinking": ADAPTIVE},
        "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
        {"thinking": ADAPTIVE},
    ),
    "two of a kind": (
        {"temperature": 0, "top_p": 0.5},
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        {"temperature": 0},
    ),
    "a longer answer than there is": (
        {"max_tokens": 32_000, "thinking": manual(16_000)},
        "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-x",
        {"max_tokens": 8_192, "thinking": manual(4_096)},
    ),
    "marks that nobody knows": (
        {
            "system": [{"type": "text", "text": "s", "cache_control": MARK}],
            "tools": [{"name": "f", "cache_control": MARK}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": MARK}]}],
            "cache_control": MARK,
        },
        "system.0.cache_control: Extra inputs are not permitted",
        {
            "system": [{"type": "text", "text": "s"}],
            "tools": [{"name": "f"}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        },
    ),
    "tools that were called before": (
        {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f"}] * 2}]},
        "Requests which include `tool_use` or `tool_result` blocks must define tools",
        {
            "messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f"}] * 2}],
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "none"},
        },
    ),
    "pictures of results": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image", "source": {}}]},
                        {"type": "tool_result", "tool_use_id": "b", "content": "1"},
                        {"type": "image", "source": {}},
                    ],
                }
            ]
        },
        "messages.0.content.0: image input is not supported",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "a",
                            "content": "[A picture, not shown: this model was given the text alone.]",
                        },
                        {"type": "tool_result", "tool_use_id": "b", "content": "1"},
                        {"type": "image", "source": {}},
                    ],
                }
            ]
        },
    ),
}


def refusal(text):
    """A refusal of a request."""
    return Rejected(f"The provider answered 400: {text}", status=400, code="invalid_request_error")


@pytest.mark.parametrize(("body", "text", "changed"), LESSONS.values(), ids=LESSONS)
def test_a_refusal_says_what_to_send_instead(body, text, changed):
    """Each refusal changes the body that was refused as it must be, and no other; what holds for a model is kept."""
    adjustment = quirks.learnt(body, refusal(text))
    assert adjustment.apply(body) == changed
    assert adjustment.is_lasting
    assert adjustment.apply({"model": "m", "messages": []}) == {"model": "m", "messages": []}


# what was sent; what the server says; nothing is to be learnt
NO_LESSONS = {
    "a tool that was not forced": (
        {"tool_choice": {"type": "auto"}},
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    "thinking that was not asked for": ({}, '"thinking.type.enabled" is not supported.'),
    "a budget that is too small": (
        {"thinking": manual(5)},
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    ),
    "thoughts that were not sent": ({"messages": [{"role": "user", "content": "Hi"}]}, BINDING),
    "tools that are told": (
        {"tools": [], "messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}]},
        "Requests which include `tool_use` or `tool_result` blocks must define tools",
    ),
    "what is wanted already": ({"thinking": ADAPTIVE}, 'Use "thinking.type.adaptive".'),
}


@pytest.mark.parametrize(("body", "text"), NO_LESSONS.values(), ids=NO_LESSONS)
def test_other_refusals_teach_nothing(body, text):
    """What is the user's to mend, or is not in the request, changes nothing."""
    assert quirks.learnt(body, refusal(text), chosen=body) is None


@pytest.mark.parametrize(
    ("model", "changed"),
    [
        ("claude-haiku-4-5", {"thinking": manual(8_192)}),
        ("claude-sonnet-4-20250514", {"thinking": manual(8_192)}),
        ("claude-sonnet-4-6", {"thinking": ADAPTIVE, "output_config": {"effort": "medium"}}),
        ("claude-opus-5-5", {"thinking": ADAPTIVE, "output_config": {"effort": "medium"}}),
    ],
)
def test_older_models_are_known_to_want_a_budget(model, changed):
    """For models that think by a budget, an effort becomes one before anybody refuses it."""
    body = {"max_tokens": 32_000, "thinking": ADAPTIVE, "output_config": {"effort": "medium"}}
    assert quirks.known(body, model, "messages") == {"max_tokens": 32_000} | changed
    chosen = {"max_tokens": 32_000, "thinking": manual(1_500), "output_config": {"effort": "medium"}}
    assert quirks.known(chosen, model, "messages") == chosen


@pytest.mark.parametrize(
    ("body", "chosen", "text", "left"),
    [
        ({"max_tokens": 16_000}, (), "input length and `max_tokens` exceed context limit: 190 + 16 > 200", 4_096),
        ({"max_tokens": 16_000}, ("max_output_tokens",), "input length and `max_tokens` exceed context limit", None),
        ({"max_tokens": 16_000}, (), "prompt is too long: 208310 tokens > 200000 maximum", None),
        ({}, (), "input length and `max_tokens` exceed context limit", None),
    ],
)
def test_what_we_reserve_for_the_answer_gives_way(body, chosen, text, left):
    """A request that is too long only with what we have reserved for its answer is sent once more with less."""
    error = Rejected(text, status=400, code="context_length_exceeded")
    adjustment = quirks.learnt(body, error, chosen)
    assert (adjustment and adjustment.apply(body)["max_tokens"]) == left
    assert adjustment is None or not adjustment.is_lasting


def refuse(text):
    """A refusal as the server sends it."""
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    return raw(json.dumps(body), status=400, content_type="application/json")


def connect(server, **options):
    """An LLM at the server that gives up at once."""
    wishes = {"base_url": server.base_url, "model": "claude-opus-5-5", "max_retries": 0, "protocol": "messages"}
    return LLM(**wishes | options)


@pytest.mark.parametrize(
    "text",
    [
        BINDING,
        "messages.3: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
    ],
)
def test_thoughts_of_a_changed_conversation_are_left_out(ask, text):
    """Thoughts that a server no longer takes are left out from then on; those of other conversations are not."""
    lines = [say("Hm.", reasoning=f"Thought {number}") for number in range(3)]
    with FakeServer(*lines, refuse(text), "Yes", "Yes", "Yes", refuse(text), "Yes", "Yes") as server:
        llm = connect(server)
        changed, other, third = ([UserMessage("Hi"), ask(llm).message, UserMessage("And?")] for _ in range(3))
        for history in (changed, changed, other, third, changed):
            assert ask(llm, history).text == "Yes"
        sent = [asked.json["messages"][1]["content"] for asked in server.requests[3:]]
    kept = [[block["type"] for block in blocks] for blocks in sent]
    both, text_alone = ["thinking", "text"], ["text"]
    assert kept == [both, text_alone, text_alone, both, both, text_alone, text_alone]
    assert llm.describe().adjustments == ("thoughts of conversations that were changed since are not sent back",)


def test_of_many_thoughts_the_last_are_remembered():
    """So that memory stays bounded, of very many thoughts that are not taken only the last ones are known."""
    blocks = [{"type": "redacted_thinking", "data": str(number)} for number in range(10_001)]
    body = {"messages": [{"role": "assistant", "content": [*blocks, {"type": "text", "text": "Hm."}]}]}
    (turn,) = quirks.learnt(body, refusal(BINDING)).apply(body)["messages"]
    assert turn["content"] == [blocks[0], {"type": "text", "text": "Hm."}]


def test_an_answer_that_was_only_thought_is_left_out_with_its_thoughts():
    """Where nothing is left of an answer without its thoughts, the whole of it is left out."""
    body = {"messages": [{"role": "assistant", "content": [{"type": "thinking"}]}, {"role": "user", "content": "Hi"}]}
    adjustment = quirks.learnt(body, refusal(BINDING))
    assert adjustment.apply(body) == {"messages": [{"role": "user", "content": "Hi"}]}


def test_a_history_without_thoughts_is_answered_without(ask):
    """Where thoughts are demanded that a history from elsewhere has not, there is no thinking in that request."""
    told = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
    wish = AssistantMessage("", (ToolCall("a", "f", "{}"),))
    tool = ToolSpec("f", "", {"type": "object"})
    with FakeServer(refuse(told), "Yes") as server:
        llm = connect(server, settings={"thinking": manual(2_000)})
        request = Request([UserMessage("Hi"), wish, ToolMessage("a", "f", "1")], tools=(tool,))
        assert ask(llm, request).text == "Yes"
        assert ["thinking" in asked.json for asked in server.requests] == [True, False]


def test_what_holds_for_a_model_is_remembered(ask):
    """A model that cannot be forced to call a tool is not forced again."""
    tool = ToolSpec("f", "", {"type": "object"})
    told = 'tool_choice: type "tool" and "any" are not supported for this model.'
    with FakeServer(refuse(told), "Yes", "Yes") as server:
        llm = connect(server)
        for _ in range(2):
            ask(llm, tools=[tool], tool_choice="required")
        choices = [asked.json["tool_choice"]["type"] for asked in server.requests]
    assert choices == ["any", "auto", "auto"]
    assert llm.describe().adjustments == ("no call of a tool is forced",)


def test_a_model_that_cannot_see_is_told_of_pictures(ask):
    """Where a model takes no pictures, those in the results of tools are told in words."""
    picture = Image("https://x.example/a.png")
    wish = AssistantMessage("", (ToolCall("a", "f", "{}"),))
    with FakeServer(refuse("image input is not supported by this model"), "Yes") as server:
        history = [UserMessage("Hi"), wish, ToolMessage("a", "f", "Look", images=(picture,))]
        assert ask(connect(server), history).text == "Yes"
        sent = server.requests[1].json["messages"][2]["content"][0]["content"]
    assert sent == "Look\n[A picture, not shown: this model was given the text alone.]"


@pytest.mark.parametrize("text", ["messages.0.content.1: Input tag 'document' is not known", "audio is not supported"])
def test_files_in_results_are_told_in_words_where_they_are_refused(ask, text):
    """A server that takes no documents, or no recordings, is told in words of those in the results of tools."""
    files = (File("https://x.example/a.pdf"), File("data:audio/wav;base64,UklG"))
    wish = AssistantMessage("", (ToolCall("a", "f", "{}"),))
    with FakeServer(refuse(text), "Yes") as server:
        history = [UserMessage("Hi"), wish, ToolMessage("a", "f", "Look", files=files)]
        assert ask(connect(server), history).text == "Yes"
        sent = server.requests[1].json["messages"][2]["content"][0]["content"]
    assert sent == "\n".join(["Look", *["[A file, not shown: this model was given the text alone.]"] * 2])
