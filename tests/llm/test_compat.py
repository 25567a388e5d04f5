"""Tests for adjustments of requests: known model families, and what is learned from rejections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.errors import Rejected
from agentkit.llm.compat import request_adjustments

ENCRYPTED = "reasoning.encrypted_content"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
UNSIGNED = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}
ORDER, TOLD = ({"role": role, "content": "Be brief"} for role in ("system", "user"))
ASKED, SAID = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
ASKED_BOTH = {"role": "user", "content": "Be brief\n\nHi"}
PICTURED = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
STRICT_TOOL = {"type": "function", "function": {"name": "f", "parameters": {}, "strict": True}}


def refusal(text, parameter=None, status=400, code=None):
    """Return a rejection as the transport raises it."""
    return Rejected(f"The provider answered {status}: {text}", status=status, parameter=parameter, code=code)


@pytest.mark.for_each(
    ("model", "protocol", "body", "sent"),
    [
        ("gpt-5.4-mini", "chat", {"max_tokens": 5}, {"max_completion_tokens": 5}),
        ("o3", "chat", {"max_tokens": 5}, {"max_completion_tokens": 5}),
        ("gpt-4o", "chat", {"max_tokens": 5}, {"max_tokens": 5}),
        ("qwen3", "chat", {"max_tokens": 5}, {"max_tokens": 5}),
        ("gpt-5.4-mini", "chat", {"tools": [TOOL]}, {"tools": [TOOL]}),
        ("gpt-5.6", "chat", {"tools": [TOOL]}, {"tools": [TOOL], "reasoning_effort": "none"}),
        ("gpt-6-luna", "chat", {"tools": [TOOL]}, {"tools": [TOOL], "reasoning_effort": "none"}),
        ("gpt-6", "chat", {"tools": [TOOL], "reasoning_effort": "low"}, {"tools": [TOOL], "reasoning_effort": "low"}),
        ("gpt-6", "chat", {}, {}),
        ("gpt-6", "responses", {"tools": [TOOL]}, {"tools": [TOOL]}),
        ("gpt-4.1", "responses", {"include": [ENCRYPTED]}, {}),
        ("gpt-4.1", "responses", {"include": [ENCRYPTED, "x"]}, {"include": ["x"]}),
        ("gpt-5", "responses", {"include": [ENCRYPTED]}, {"include": [ENCRYPTED]}),
        ("any", "chat", {"tool_choice": "required", "parallel_tool_calls": False, "seed": 1}, {"seed": 1}),
        ("any", "chat", {"tool_choice": "none", "tools": [TOOL]}, {"tool_choice": "none", "tools": [TOOL]}),
    ],
)
def test_known_adjustments_of_model_families(model, protocol, body, sent):
    """Parameters that a model family is known to reject or rename are adjusted before the request."""
    assert request_adjustments.apply_known_adjustments(body, model, protocol) == sent


# the body; the error of the server, its parameter; the adjusted body
LESSONS = {
    "parameter": ({"seed": 1}, "not supported", "seed", {}),
    "parameter by path": ({"reasoning": {"effort": "low"}}, "Unsupported parameter", "reasoning.effort", {}),
    "parameter by index": ({"include": [ENCRYPTED]}, "Invalid value", "include[0]", {}),
    "an entry of it": (
        {"include": [ENCRYPTED, "x"]},
        "Encrypted content is not supported with this model.",
        "include",
        {"include": ["x"]},
    ),
    "the other entry of it": ({"include": ["x"]}, "Not supported", "include", {}),
    "unknown name": ({"top_k": 1}, 'Unknown name "top_k": Cannot find field.', None, {}),
    "unrecognized argument": ({"logit_bias": {}}, "Unrecognized request argument supplied: logit_bias", None, {}),
    "extra inputs": ({"seed": 1}, "seed: Extra inputs are not permitted", "seed", {}),
    "a quoted word": ({"stop": "x"}, "'stop' is not supported", None, {}),
    "a marked word": ({"seed": 1}, "unsupported parameter: seed", None, {}),
    "unknown field": ({"seed": 1}, "unknown field `seed`, expected one of `model`, `messages`", None, {}),
    "limit": ({"max_tokens": 1}, "Use 'max_completion_tokens' instead.", "max_tokens", {"max_completion_tokens": 1}),
    "limit, reversed": (
        {"max_completion_tokens": 1},
        "Extra inputs are not permitted",
        "max_completion_tokens",
        {"max_tokens": 1},
    ),
    "our effort": ({"reasoning_effort": "none"}, "Supported values are: 'low'", "reasoning_effort", {}),
    "effort": (
        {"tools": [TOOL]},
        "reasoning_effort must be 'none'",
        None,
        {"tools": [TOOL], "reasoning_effort": "none"},
    ),
    "strict": ({"tools": [STRICT_TOOL]}, "unknown field `strict`", None, {"tools": [TOOL]}),
    "field": (
        {"messages": [{"a": 1, "b": 2}]},
        "messages.0.a: Extra inputs are not permitted",
        None,
        {"messages": [{"b": 2}]},
    ),
    "field of an item": ({"input": [{"a": 1}]}, "Unknown parameter: 'input[0].a'.", "input[0].a", {"input": [{}]}),
    "field of a call": (
        {"messages": [{"tool_calls": [{"id": "x", "a": 1}]}]},
        "messages[0].tool_calls[0].a is not supported",
        None,
        {"messages": [{"tool_calls": [{"id": "x"}]}]},
    ),
    **{
        f"field, {name}": (
            {
                "messages": [
                    {"role": "assistant", "mood_of": 1, "tool_calls": [{"id": "x", "mood_of": 1, "function": {}}]}
                ]
            },
            text,
            None,
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "x", "function": {}}]}]},
        )
        for name, text in {
            "Google": "Invalid JSON payload received. Unknown name \"mood_of\" at 'messages[1]': Cannot find field.",
            "Google, in a call": "Unknown name \"mood_of\" at 'messages[1].tool_calls[0]': Cannot find field.",
            "Rust": "messages[1]: unknown field `mood_of`, expected one of `role`, `content` at line 1 column 99",
            "Go": 'json: unknown field "mood_of"',
            "JSON schema": "Additional properties are not allowed ('mood_of' was unexpected) - 'messages.1'",
            "zod": "Unrecognized key(s) in object: 'mood_of'",
        }.items()
    },
    "field of a part": (
        {"input": [{"role": "assistant", "content": [{"type": "output_text", "text": "x", "logprobs": []}, "y"]}]},
        "Unknown parameter: 'input[0].content[0].logprobs'.",
        "input[0].content[0].logprobs",
        {"input": [{"role": "assistant", "content": [{"type": "output_text", "text": "x"}, "y"]}]},
    ),
    "parameter and field of one name": (
        {"reasoning": {}, "messages": [{"role": "assistant", "reasoning": "Hm"}]},
        "Unsupported parameter: 'reasoning'",
        None,
        {"messages": [{"role": "assistant", "reasoning": "Hm"}]},
    ),
    "reasoning, DeepSeek": (
        {"messages": [{"role": "user"}, {"role": "assistant"}]},
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        None,
        {"messages": [{"role": "user"}, {"role": "assistant", "reasoning_content": " "}]},
    ),
    "reasoning, Moonshot": (
        {
            "messages": [
                {"role": "assistant", "reasoning_content": ""},
                {"role": "assistant", "reasoning_content": "Hm"},
            ]
        },
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 0",
        None,
        {"messages": [{"role": "assistant", "reasoning_content": text} for text in (" ", "Hm")]},
    ),
    "signature": (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "x"}, {"id": "y"}]}, {"role": "assistant"}]},
        "Function call is missing a thought_signature in functionCall parts.",
        None,
        {
            "messages": [
                {"role": "assistant", "tool_calls": [{"id": "x", **UNSIGNED}, {"id": "y"}]},
                {"role": "assistant"},
            ]
        },
    ),
    **{
        f"no instruction, {name}": (
            {"messages": [ORDER, ASKED, SAID, ORDER]},
            text,
            None,
            {"messages": [ASKED_BOTH, SAID, TOLD]},
        )
        for name, text in {
            "vLLM": "System role not supported",
            "LM Studio": "Only user and assistant roles are supported!",
            "llama.cpp": "Only user, assistant and tool roles are supported, got system.",
            "Google": "Developer instruction is not enabled for models/gemma-3-27b-it",
            "OpenAI": "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
            "Bedrock": "This model doesn't support system messages. Try again without a system message.",
            "older templates": "Conversation roles must alternate user/assistant/user/assistant/...",
        }.items()
    },
    "roles that alternate": (
        {"messages": [ORDER, ASKED, PICTURED, SAID, ORDER, ASKED]},
        "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...",
        None,
        {
            "messages": [
                ORDER,
                {"role": "user", "content": [{"type": "text", "text": "Hi"}, *PICTURED["content"]]},
                SAID,
                ASKED_BOTH,
            ]
        },
    ),
    "another signature": (
        {"messages": [{"role": "assistant", "tool_calls": [{"extra_content": {}}]}]},
        "Function call is missing a thought_signature in functionCall parts.",
        None,
        {"messages": [{"role": "assistant", "tool_calls": [{"extra_content": {}}]}]},
    ),
}


@pytest.mark.for_each(("body", "text", "parameter", "sent"), LESSONS.values(), ids=LESSONS)
def test_rejection_adjusts_the_request(body, text, parameter, sent):
    """A rejection that names an unsupported feature adjusts the request."""
    adjustment = request_adjustments.adjustment_for(body, refusal(text, parameter))
    assert adjustment.apply(body) == sent


NOTHING_LEARNT = {
    "another status": ({"seed": 1}, refusal("seed is unsupported", "seed", status=403)),
    "no status": ({"seed": 1}, refusal("seed is unsupported", "seed", status=None)),
    "parameter that was not sent": ({"seed": 1}, refusal("Unsupported parameter", "top_k")),
    "nothing named": ({"seed": 1}, refusal("Unsupported")),
    "a model": ({"model": "m", "seed": 1}, refusal("Unknown model m", "model")),
    "unrelated word": ({"stop": "x"}, refusal("Unknown model; please stop")),
    "a limit": ({"max_tokens": 1}, refusal("Unsupported parameter", "max_tokens")),
    "another limit": ({"max_completion_tokens": 1}, refusal("Invalid value", "max_completion_tokens")),
    "a schema": ({"response_format": {}}, refusal("response_format is not supported", None)),
    "a search": (
        {"web_search_options": {}},
        refusal("Web search options not supported with this model.", "web_search_options"),
    ),
    "a protection": ({"safe_prompt": True}, refusal("Extra inputs are not permitted", "safe_prompt", status=422)),
    "earlier message": (
        {"input": [], "previous_response_id": "a"},
        refusal("Unsupported parameter", "previous_response_id"),
    ),
    "a role": ({"messages": [{"role": "tool"}]}, refusal("messages.0.role is not supported")),
    "a part of a call": (
        {"messages": [{"tool_calls": [{"id": "x", "function": {"name": "f"}}]}]},
        refusal("Unknown name \"strict_at\" at 'messages[0].tool_calls[0].function': Cannot find field."),
    ),
    "unknown id": ({"messages": [{"id": "x"}]}, refusal("Unknown id")),
    "reasoning at a server of items": ({"input": []}, refusal("reasoning_content is missing")),
    "a message at a server of items": ({"input": []}, refusal("messages.0.a is not supported")),
    "a variant": ({"messages": [{"mood": 1}]}, refusal("unknown variant `mood`, expected one of `a`, `b`")),
    "a value": ({"seed": "x"}, refusal("Invalid value: 'x'. Supported values are: 1", "seed")),
    "a context too long": (
        {"seed": 1},
        refusal("maximum context length is 8192 tokens", "messages", code="context_length"),
    ),
    "schema without a tool": ({"tools": [TOOL]}, refusal("Invalid schema", code="invalid_function_parameters")),
    "strict mode": ({"tools": [TOOL]}, refusal("unsupported in strict mode", None)),
}


@pytest.mark.for_each(("body", "error"), NOTHING_LEARNT.values(), ids=NOTHING_LEARNT)
def test_other_rejections_adjust_nothing(body, error):
    """Other rejections adjust nothing."""
    assert request_adjustments.adjustment_for(body, error, chosen={"seed", "stop"}) is None


def test_rejected_strict_schema():
    """Only the schema that strict mode rejects is sent without it, or all of them if no tool is named."""
    error = refusal(
        "Invalid schema for function 'f'", "tools[0].function.parameters", code="invalid_function_parameters"
    )
    assert request_adjustments.adjustment_for({"tools": [STRICT_TOOL]}, error).rules == {"lenient_tools": {"f"}}
    unnamed = refusal("Invalid schema", "tools", code="invalid_function_parameters")
    assert request_adjustments.adjustment_for({"tools": [STRICT_TOOL]}, unnamed) is request_adjustments.STRICT_DISABLED
    assert request_adjustments.STRICT_DISABLED.apply({"tools": [STRICT_TOOL]}) == {"tools": [STRICT_TOOL]}
    assert not request_adjustments.STRICT_DISABLED.keeps_strict


@pytest.mark.parametrize("adjustment", [request_adjustments.STRICT_OMITTED, request_adjustments.NO_EFFORT])
def test_tool_adjustments_ignore_requests_without_tools(adjustment):
    """An adjustment for tools does not change a request without tools."""
    assert adjustment.apply({"model": "m"}) == {"model": "m"}


NAMES = st.sampled_from(
    ["seed", "tools", "messages", "input", "max_tokens", "model", "strict", "0", "stop", "reasoning_effort"]
)
WORDS = NAMES | st.sampled_from(
    ["unsupported", "not supported", "'", '"', ".", "[", "]", " ", "messages.0.", "property '", "use"]
)


@given(st.lists(WORDS).map("".join), st.none() | st.lists(NAMES).map(".".join), st.sampled_from([400, 422]))
def test_no_rejection_breaks_the_request(text, parameter, status):
    """Whatever a server responds, no adjustment removes required parts of the request."""
    body = {
        "model": "m",
        "messages": [{"role": "user"}],
        "tools": [STRICT_TOOL],
        "seed": 1,
        "max_tokens": 1,
        "stop": "x",
    }
    adjustment = request_adjustments.adjustment_for(body, refusal(text, parameter, status))
    if adjustment:
        sent = adjustment.apply(body)
        assert {"model", "messages", "tools"} <= sent.keys()
        assert {"max_tokens", "max_completion_tokens"} & sent.keys()
