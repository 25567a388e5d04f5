"""What is an argument of another toolkit's tools called here? Read only where somebody has written one."""

from __future__ import annotations

from collections.abc import Mapping

OFFERED = (
    "What is offered is asked before each request: tools=[Toolset([...]).when(function)], of the RunContext. Of many "
    "tools, those that toolset.searchable() names are offered once the model has searched for them."
)
_TOLD = "What a tool raises is told to the model, which may try again; wrap the function for other words."
_ASKED = "An approver answers with other arguments, as a dictionary; level='SYSTEM' has it asked."
_READ = "Docstrings of every usual style are read; description= and Annotated[..., 'text'] come before them."
_COUNTED = "A judge= that counts denies a call too many; limits=Limits(tool_calls=...) bounds all tools together."
_HEARD = "A listener with a method around(work), which stands around each call; agent.on(ToolCallStarted, function)."
_CONTEXT = "A parameter annotated RunContext gets what the run knows, and no model sees it."
_LATER = (
    "Raise Postponed('a question'), of agentkit.errors, in it: the run pauses, and result.resume({{id: text}})"
    " gives the call its result."
)

DEFINING: Mapping[str, str] = {
    **dict.fromkeys(("func", "fn", "coroutine", "callable"), "the function, given first"),
    **dict.fromkeys(("timeout", "max_seconds"), "timeout_seconds="),
    **dict.fromkeys(("max_length", "max_output_chars", "max_result_chars"), "max_chars="),
    **dict.fromkeys(("name_override", "tool_name", "title"), "name="),
    **dict.fromkeys(("description_override", "tool_description", "doc"), "description="),
    **dict.fromkeys(("safety", "safety_level", "risk"), "level="),
    **dict.fromkeys(("return_direct", "stop_after_tool_call"), "ends_run=True"),
    **dict.fromkeys(("is_enabled", "enabled", "condition", "prepare"), "when=, a function of the RunContext"),
    **dict.fromkeys(("tool_input_guardrails", "args_validator"), "judge=, a function from arguments to a Decision"),
    **dict.fromkeys(("tool_output_guardrails",), "checks=[function of a `result`], of the agent"),
    **dict.fromkeys(("pre_hook", "post_hook", "tool_hooks"), _HEARD),
    **dict.fromkeys(("failure_error_function", "retries", "max_retries"), _TOLD),
    **dict.fromkeys(("strict", "strict_mode"), "A schema is strict where it can be, and arguments are always checked."),
    "defer_loading": "tools=[Toolset([function]).searchable()]",
    "allowed_callers": "program_tool([function]), of agentkit.programs",
    **dict.fromkeys(("max_calls", "max_usage", "usage_limit"), _COUNTED),
    **dict.fromkeys(("cache_results", "cache"), "@functools.cache on the function"),
    **dict.fromkeys(("requires_user_input", "user_input_fields"), _ASKED),
    **dict.fromkeys(("external_execution", "external"), _LATER),
    **dict.fromkeys(("takes_ctx", "context", "pass_context"), _CONTEXT),
    **dict.fromkeys(("docstring_style", "docstring_format", "use_docstring_info", "parse_docstring"), _READ),
    **dict.fromkeys(
        ("requires_approval", "needs_approval", "requires_confirmation"),
        "level='SYSTEM', which is asked for; or a Rule of the agent's policy, with the verdict 'ask'",
    ),
    **dict.fromkeys(
        ("parameters", "inputs", "args_schema", "input_schema", "params_json_schema", "schema"),
        "Tool.from_schema(name, description, json_schema, function)",
    ),
}
"""The same of the arguments of Tool, and of `@tool`."""

_COMMAND = "A command is given first, with its words: MCPServer(['uvx', 'mcp-server-time']) or MCPServer('uvx ...')."
_FEW_TOOLS = "Tools of a server are chosen like any others: server.tools.only('one', 'two'), or .without('three')."

SERVING: Mapping[str, str] = {
    **dict.fromkeys(("command", "args", "arguments", "params", "transport", "type"), _COMMAND),
    **dict.fromkeys(("url", "server_url", "endpoint"), "the URL, given first"),
    **dict.fromkeys(("env", "environ", "variables"), "environment="),
    **dict.fromkeys(("cwd", "working_directory", "working_dir"), "folder="),
    **dict.fromkeys(("auth", "oauth", "authorization"), "token=, or login= where the server wants OAuth"),
    **dict.fromkeys(("bearer_token", "api_key", "authorization_token"), "token="),
    **dict.fromkeys(("timeout", "read_timeout", "tool_timeout", "client_session_timeout_seconds"), "timeout_seconds="),
    **dict.fromkeys(("init_timeout", "connect_timeout", "startup_timeout"), "connect_seconds="),
    **dict.fromkeys(("tool_prefix", "tool_name_prefix"), "prefix=True, which takes the name, name=..."),
    **dict.fromkeys(("tools", "allowed_tools", "include_tools", "exclude_tools", "tool_filter"), _FEW_TOOLS),
    **dict.fromkeys(("safety", "safety_level", "trust", "require_approval"), "level="),
    **dict.fromkeys(
        ("max_retry_attempts", "retry_backoff_seconds_base"),
        "A lost server is connected again at the next call; the call under way is not repeated.",
    ),
    **dict.fromkeys(
        ("sampling_model", "sampling_callback", "elicitation_callback"),
        "A server that asks for a model or a person is told no.",
    ),
    "process_tool_call": "policy= and checks= of the agent",
    **dict.fromkeys(("httpx_client_factory", "http_client"), "headers=, token=, or login= for OAuth"),
    "cache_tools_list": "The list is asked for once for each connection by itself.",
}
"""The same of the arguments of MCPServer."""

_FUNCTION = (
    "A tool with parameters of its own is a function that asks the agent, in a conversation of its own: "
    "agent.within(Session())(f'Translate {{text}}.')."
)
_OWN = "A worker keeps its own limits=, max_iterations= and checks=; each request is a conversation of its own."

WORKING: Mapping[str, str] = {
    **dict.fromkeys(("tool_name", "name_override"), "name="),
    **dict.fromkeys(("tool_description", "description_override"), "description="),
    **dict.fromkeys(("is_enabled", "enabled", "when"), "agent.as_tool().when(function), a function of the RunContext"),
    **dict.fromkeys(
        ("on_stream", "on_event", "hooks", "callbacks", "event_stream_handler"),
        "listeners= of the agent, which hear what it does as a tool, too",
    ),
    **dict.fromkeys(("parameters", "input_schema", "input_builder", "include_input_schema"), _FUNCTION),
    **dict.fromkeys(("custom_output_extractor", "output_extractor"), _FUNCTION),
    **dict.fromkeys(
        ("needs_approval", "requires_approval", "level"),
        "Rule('ask', 'its_name'), in the policy of the agent that uses it",
    ),
    **dict.fromkeys(("max_turns", "limits", "run_config", "session", "conversation_id"), _OWN),
    **dict.fromkeys(("previous_response_id", "preserve_context", "output_type"), _OWN),
    "failure_error_function": "A worker that fails is a failed call, of which the model is told.",
}
"""The same of the arguments of an agent as a tool."""
