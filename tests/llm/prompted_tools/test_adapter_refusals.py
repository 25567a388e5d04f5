"""Tests for the recognition of rejections of tools and schemas, with the messages of real servers."""

import pytest

from agentkit.errors import Rejected, Unreachable
from agentkit.llm.prompted_tools.adapter import is_about_last_tool, is_missing_call, unsupported_feature
from agentkit.messages import OutputSchema, Request, ToolSpec, UserMessage

TOOL = ToolSpec("f", "", {"type": "object", "properties": {}})
SCHEMA = OutputSchema("answer", {"type": "object"})
WITH_TOOLS = Request([UserMessage("Hi")], tools=(TOOL,))
WITH_SCHEMA = Request([UserMessage("Hi")], output_schema=SCHEMA)
WITH_BOTH = Request([UserMessage("Hi")], tools=(TOOL,), output_schema=SCHEMA)

# the server and status; the error message
NO_TOOLS = {
    "Ollama": (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
    "vLLM": (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    "llama.cpp": (500, "tools param requires --jinja flag"),
    "llama.cpp, older": (500, "Unsupported param: tools"),
    "OpenRouter": (
        404,
        "No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai",
    ),
    "OpenRouter, of one tool": (404, 'No endpoints found that support tool use. Try disabling "question".'),
    "Groq": (400, "`tool calling` is not supported with this model"),
    "DeepSeek": (400, "deepseek-reasoner does not support Function Calling"),
    "DeepInfra": (405, "Tool calling is not supported for model: mistralai/Mistral-Small-24B-Instruct-2501"),
    "Gemini": (400, "Function calling is not enabled for models/gemma-3-12b-it"),
    "Perplexity": (400, "Tool calling is not supported for this model"),
    "Ark": (
        400,
        "The parameter `tools` specified in the request are not valid: "
        "the requested model does not support function calling",
    ),
    "OpenAI": (400, "Unsupported parameter: 'tools' is not supported with this model."),
    "an old one": (400, "Unrecognized request argument supplied: tools"),
}
NO_SCHEMA = {
    "Groq": (400, "This model does not support response format `json_schema`. See supported models."),
    "DeepSeek": (400, "This response_format type is unavailable now"),
    "DeepSeek, older": (
        422,
        "Failed to deserialize the JSON body into the target type: "
        "response_format: response_format.type `json_schema` is unavailable now at line 1 column 12440",
    ),
    "OpenAI": (400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
    "OpenAI, of a version": (
        400,
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with model version `gpt-4o`.",
    ),
    "Azure": (
        400,
        "response_format value as json_schema is enabled only for api versions 2024-08-01-preview",
    ),
    "llama.cpp, older": (500, 'response_format type must be one of "text" or "json_object", but got: json_schema'),
    "LM Studio, the other way": (400, "'response_format.type' must be 'text'"),
    "OpenRouter": (404, "No endpoints found that can handle the requested parameters."),
}
NOT_BOTH = {
    "Gemini": (400, "Function calling with a response mime type: 'application/json' is unsupported"),
    "Groq": (400, "json mode cannot be combined with tool/function calling"),
}
OTHER = {
    "a tool's schema": (400, "Invalid schema for function 'f': 'oneOf' is not permitted."),
    "an answer's schema": (400, "Invalid schema for response_format 'answer': 'minItems' is not supported"),
    "a schema, by its path": (
        400,
        "invalid schema for response format: response_format/json_schema/next_step: minItems is not supported",
    ),
    "a tool's name": (400, "tools.0.function.name: string does not match pattern"),
    "a call that failed": (400, "Failed to call a function. Please adjust your prompt."),
    "a result without a call": (400, "messages with role 'tool' must be a response to a preceding message"),
    "no model": (404, "The model `m` does not exist"),
    "no key": (401, "m does not support tools"),
    "a failure": (500, "The server had an error while processing your request"),
    "overload": (503, "The tools service is unavailable"),
    "no status": (None, "m does not support tools"),
}


def refusal(case):
    """Return a rejection as the transport raises it."""
    status, text = case
    return Rejected(f"The provider answered {status}: {text}", status=status)


@pytest.mark.for_each("case", NO_TOOLS.values(), ids=NO_TOOLS)
def test_rejection_of_tools_is_recognized(case):
    """Every server's message that rejects tools is recognized."""
    assert unsupported_feature(refusal(case), WITH_TOOLS) == "tools"
    assert unsupported_feature(refusal(case), WITH_BOTH) == "tools"
    assert unsupported_feature(refusal(case), WITH_SCHEMA) is None


@pytest.mark.for_each("case", NO_SCHEMA.values(), ids=NO_SCHEMA)
def test_rejection_of_schemas_is_recognized(case):
    """Every server's message that rejects an output schema is recognized."""
    assert unsupported_feature(refusal(case), WITH_SCHEMA) == "schema"
    assert unsupported_feature(refusal(case), WITH_BOTH) == "schema"
    assert unsupported_feature(refusal(case), WITH_TOOLS) is None


@pytest.mark.parametrize("case", NOT_BOTH.values(), ids=NOT_BOTH)
def test_tools_and_schema_are_refused_together(case):
    """A rejection of tools with a schema is distinguished from a rejection of the schema alone."""
    assert unsupported_feature(refusal(case), WITH_BOTH) == "both"
    assert unsupported_feature(refusal(case), WITH_SCHEMA) is None


@pytest.mark.for_each("case", OTHER.values(), ids=OTHER)
def test_other_errors_are_not_rejections(case):
    """Other errors, such as one for an invalid schema, are not recognized as a rejection."""
    assert unsupported_feature(refusal(case), WITH_BOTH) is None


@pytest.mark.parametrize(
    ("parameter", "lesson"),
    [
        ("tools", "tools"),
        ("response_format", "schema"),
        ("text", "schema"),
        ("tools.0.strict", None),
        ("messages", None),
    ],
)
def test_rejected_parameter_is_recognized(parameter, lesson):
    """A rejection is recognized by the parameter that the server names in its error."""
    error = Rejected("Extra inputs are not permitted", status=422, parameter=parameter)
    assert unsupported_feature(error, WITH_BOTH) == lesson
    assert unsupported_feature(Rejected("Too long", status=400, parameter=parameter), WITH_BOTH) is None


# errors about the last tool, `final_answer`; other errors
OF_THE_LAST = [
    "Invalid schema for function 'final_answer': In context=(), 'minItems' is not permitted.",
    "tool call validation failed: parameters for tool final_answer did not match schema: errors: [missing properties]",
    "Unknown name \"$defs\" at 'tools[0].function_declarations[1].parameters': Cannot find field.",
    "tools.1.function.parameters: Extra inputs are not permitted",
]
OF_OTHERS = [
    "Invalid schema for function 'f': 'oneOf' is not permitted.",
    "Unknown name \"$defs\" at 'tools[0].function_declarations[0].parameters': Cannot find field.",
    "Failed to call a function. Please adjust your prompt.",
    "Too many messages",
]


def test_rejected_tool_is_recognized():
    """A rejected tool is recognized by its name or index, and any tool error applies to a single tool."""
    own = ToolSpec("final_answer", "", {"type": "object"})
    one, two = Request([], tools=(own,)), Request([], tools=(TOOL, own))
    assert all(is_about_last_tool(refusal((400, text)), two, "final_answer") for text in OF_THE_LAST)
    assert not any(is_about_last_tool(refusal((400, text)), two, "final_answer") for text in OF_OTHERS)
    assert [is_about_last_tool(refusal((400, text)), one, "final_answer") for text in OF_OTHERS] == [True] * 3 + [False]
    assert is_about_last_tool(Rejected("No.", status=422, code="tool_use_failed"), one, "final_answer")
    assert is_about_last_tool(Rejected("No.", status=400, parameter="tools[0].function"), one, "final_answer")


@pytest.mark.parametrize(
    ("text", "is_want"),
    [
        ("Tool choice is required, but model did not call a tool: It is 4.", True),
        ("The model did not call any function", True),
        ("Failed to call a function. Please adjust your prompt.", False),
        ("Tool call validation failed", False),
    ],
)
def test_missing_required_call_is_recognized(text, is_want):
    """A refusal of text where a call was required is distinguished from a refusal of a call."""
    assert is_missing_call(Rejected(text, status=400)) is is_want


def test_other_errors_are_not_rejections_of_a_tool():
    """Server failures and conversations that are too long are not rejections of a tool."""
    request = Request([], tools=(TOOL,))
    assert not is_about_last_tool(Unreachable("tools are broken", status=500), request, "f")
    too_long = Rejected("8000 tokens, 90 in the functions", status=400, code="context_length_exceeded")
    assert too_long.is_too_long
    assert not is_about_last_tool(too_long, request, "f")
