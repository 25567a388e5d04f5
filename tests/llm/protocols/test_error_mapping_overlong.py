"""Tests for errors of conversations that are too long, and the limit that they name."""

import json

import pytest

from agentkit.errors import RateLimited, Rejected, Unauthorized
from agentkit.llm.protocols.error_mapping import error_from_body

OPENAI = {"type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
VLLM = {"object": "error", "type": "BadRequestError", "param": None, "code": 400}
NO_PROVIDER = {"metadata": {"provider_name": None}}


def error_body(message, **fields):
    """Return an error body with this message."""
    return {"error": {"message": message, **fields}}


TOO_LONG = {
    "OpenAI": (
        400,
        error_body(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens. "
            "Please reduce the length of the messages.",
            **OPENAI,
        ),
        128_000,
    ),
    "OpenAI with functions": (
        400,
        error_body(
            "This model's maximum context length is 8192 tokens. However, you requested 8213 tokens (6683 in the "
            "messages, 730 in the functions, and 800 in the completion). Please reduce the length of the messages, "
            "functions, or completion.",
            **OPENAI,
        ),
        8_192,
    ),
    "OpenAI, input limit": (
        400,
        error_body(
            "Input tokens exceed the configured limit of 272,000 tokens. Your messages resulted in 289650 tokens. "
            "Please reduce the length of the messages.",
            **OPENAI,
        ),
        272_000,
    ),
    "Responses": (
        400,
        error_body(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            **{**OPENAI, "param": "input"},
        ),
        None,
    ),
    "Responses, in a stream": (
        None,
        error_body(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            type="invalid_request_error",
            code="context_length_exceeded",
            param="input",
        ),
        None,
    ),
    "DeepSeek": (
        400,
        error_body(
            "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the "
            "messages, 8192 in the completion). Please reduce the length of the messages or completion.",
            type="invalid_request_error",
            param=None,
            code="invalid_request_error",
        ),
        131_072,
    ),
    "vLLM": (
        400,
        {
            "message": "This model's maximum context length is 16384 tokens. However, you requested 19591 tokens (9591 "
            "in the messages, 10000 in the completion). Please reduce the length of the messages or completion. None",
            **VLLM,
        },
        16_384,
    ),
    "vLLM, the prompt alone": (
        400,
        {
            "message": "The prompt (total length 25938) is too long to fit into the model (context length 4096). Make "
            "sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.",
            **VLLM,
        },
        4_096,
    ),
    "vLLM, no room for an answer": (400, {"message": "max_tokens must be at least 1, got -186.", **VLLM}, None),
    "SGLang": (
        400,
        {"message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).", **VLLM},
        40_960,
    ),
    "SGLang, allowed length": (
        400,
        {"message": "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).", **VLLM},
        59_862,
    ),
    "llama.cpp": (
        400,
        error_body(
            "the request exceeds the available context size, try increasing it",
            code=400,
            type="exceed_context_size_error",
            n_prompt_tokens=14_429,
            n_ctx=8_192,
        ),
        8_192,
    ),
    "llama.cpp, as a server error": (
        500,
        error_body(
            "the request exceeds the available context size. try increasing the context size or enable context shift",
            code=500,
            type="server_error",
        ),
        None,
    ),
    "llama.cpp, with sizes": (
        400,
        error_body(
            "request (9120 tokens) exceeds the available context size (4096 tokens), try increasing it", code=400
        ),
        4_096,
    ),
    "llama-cpp-python": (500, error_body("Requested tokens (2285) exceed context window of 2048", type="x"), 2_048),
    "Ollama": (
        400,
        error_body("the prompt is longer than the context length currently available to the model", type="api_error"),
        None,
    ),
    "Ollama, older": (400, {"error": "the input length exceeds the context length"}, None),
    "LM Studio": (
        400,
        {
            "error": "Trying to keep the first 14538 tokens when context the overflows. However, the model is loaded "
            "with context length of only 2048 tokens, which is not enough. Try to load the model with a larger context "
            "length, or provide a shorter input"
        },
        2_048,
    ),
    "LM Studio, newer": (
        400,
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: "
            "13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input."
        },
        4_096,
    ),
    "Groq": (400, error_body("Please reduce the length of the messages or completion.", **OPENAI), None),
    "Groq, tokens per minute": (
        413,
        error_body(
            "Request too large for model `llama-3.3-70b-versatile` in organization `org_x` service tier `on_demand` on "
            "tokens per minute (TPM): Limit 12000, Requested 14137, please reduce your message size and try again.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
        12_000,
    ),
    "Cerebras": (
        400,
        error_body(
            "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000"
        ),
        40_000,
    ),
    "OpenRouter": (
        400,
        error_body(
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 141607 tokens "
            "(10535 of text input, 131072 in the output). Please reduce the length of either one, or use the "
            '"middle-out" transform to compress your prompt automatically.',
            code=400,
            **NO_PROVIDER,
        ),
        131_072,
    ),
    "OpenRouter, upstream provider": (
        400,
        error_body(
            "Provider returned error",
            code=400,
            metadata={"raw": '{"error":{"message":"prompt is too long: 208310 tokens > 200000 maximum"}}'},
        ),
        200_000,
    ),
    "Anthropic": (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 208310 tokens > 200000 maximum",
            },
        },
        200_000,
    ),
    "Anthropic, with the answer": (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648, decrease "
                "input length or `max_tokens` and try again",
            },
        },
        204_648,
    ),
    "xAI": (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
        },
        131_072,
    ),
    "Google": (
        400,
        [
            error_body(
                "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
                code=400,
                status="INVALID_ARGUMENT",
            )
        ],
        1_048_576,
    ),
    "a proxy's proxy": (
        400,
        error_body(
            json.dumps(
                error_body("The input token count (3475108) exceeds the maximum number of tokens allowed (1048576).")
            ),
            code=400,
        ),
        1_048_576,
    ),
    "Mistral": (
        400,
        {
            "object": "error",
            "message": "Prompt contains 40121 tokens and 0 draft tokens, too large for model with 32768 maximum "
            "context length",
            "type": "invalid_request_error",
        },
        32_768,
    ),
    "text generation inference": (
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` "
            "tokens and 20 `max_new_tokens`",
            "error_type": "validation",
        },
        4_096,
    ),
    "Cohere": (
        400,
        {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000"},
        4_081,
    ),
    "Fireworks": (400, error_body("The prompt is too long: 9000, model maximum context length: 8191"), 8_191),
    "Moonshot": (400, error_body("Invalid request: Your request exceeded model token limit: 8192"), 8_192),
    "MiniMax": (400, error_body("invalid params, context window exceeds limit (2013)"), None),
    "Zhipu": (400, error_body("tokens in request more than max tokens allowed", code="1210"), None),
    "Zhipu in Chinese": (400, error_body("Prompt 超长", code="1261"), None),
    "DashScope": (
        400,
        error_body("Range of input length should be [1, 30720]", code="invalid_parameter_error"),
        30_720,
    ),
    "GitHub": (
        413,
        error_body("Request body too large for gpt-4o model. Max size: 8000 tokens.", code="tokens_limit_reached"),
        8_000,
    ),
    "watsonx": (400, error_body("the number of input tokens 5000 cannot exceed the total tokens limit 4096"), 4_096),
    "AI21": (422, {"detail": "Prompt has too many tokens: 300000 (max 262144)"}, 262_144),
    "Databricks": (400, {"message": "Input length 5000 exceeds maximum context 4096"}, 4_096),
    "Perplexity": (400, error_body("Conversation too long: 200000 tokens, maximum 127072"), 127_072),
    "NVIDIA": (400, error_body("Input length 5000 exceeds maximum allowed token size 4096"), 4_096),
    "a proxy": (413, "<html><title>413 Request Entity Too Large</title></html>", None),
    "proxy without a message": (413, "", None),
    "another server": (400, {"error": {"message": "Prompt exceeds maximum context length"}}, None),
}


@pytest.mark.for_each("provider", TOO_LONG)
def test_conversation_that_is_too_long_is_recognized(provider):
    """Every provider's message is recognized; the error has one code, and the limit if the message names it."""
    status, body, limit = TOO_LONG[provider]
    error = error_from_body(body, status=status)
    assert (type(error), error.code, error.limit_tokens) == (Rejected, "context_length_exceeded", limit)
    assert error.is_too_long


@pytest.mark.for_each(
    ("status", "body", "kind"),
    [
        (
            400,
            error_body(
                "max_tokens is too large: 6000. This model supports at most 4096 completion tokens, whereas you "
                "provided 6000."
            ),
            Rejected,
        ),
        (
            400,
            error_body(
                "max_tokens: 21333 > 4096, which is the maximum allowed number of output tokens for "
                "claude-3-opus-20240229",
                type="invalid_request_error",
            ),
            Rejected,
        ),
        (400, error_body("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"), Rejected),
        (
            429,
            error_body(
                "Rate limit reached for gpt-x on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000. Please "
                "try again in 6s.",
                code="rate_limit_exceeded",
            ),
            RateLimited,
        ),
        (401, error_body("Incorrect key for this prompt is too long"), Unauthorized),
        (400, {"detail": [{"loc": ["body", "messages"], "msg": "wrong", "input": "prompt is too long"}]}, Rejected),
        (400, error_body({"text": "odd"}), Rejected),
        (400, error_body("The name is too long"), Rejected),
    ],
)
def test_other_rejections_are_not_recognized(status, body, kind):
    """Errors about the maximum answer, a rate limit, a key or quoted text are not recognized as too long."""
    error = error_from_body(body, status=status)
    assert (type(error), error.limit_tokens) == (kind, None)
    assert not error.is_too_long


def test_long_error_body_is_searched_quickly():
    """Only the beginning of a long error body is searched."""
    assert not error_from_body(error_body("exceed " * 200_000), status=400).is_too_long
