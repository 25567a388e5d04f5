"""The names that other toolkits use, and the agentkit names that correspond to them."""

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
    **dict.fromkeys(("tool_output_guardrails",), "guardrails=[function of a `result`], of the agent"),
    **dict.fromkeys(("pre_hook", "post_hook", "tool_hooks"), _HEARD),
    **dict.fromkeys(("failure_error_function", "retries", "max_retries"), _TOLD),
    **dict.fromkeys(("strict", "strict_mode"), "A schema is strict where it can be, and arguments are always checked."),
    "defer_loading": "tools=[Toolset([function]).searchable()]",
    "allowed_callers": "program_tool([function]), of agentkit.code_mode",
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
"""Arguments of Tool and `@tool`."""

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
    "process_tool_call": "policy= and guardrails= of the agent",
    **dict.fromkeys(("httpx_client_factory", "http_client"), "headers=, token=, or login= for OAuth"),
    "cache_tools_list": "The list is asked for once for each connection by itself.",
}
"""Arguments of MCPServer."""

_FUNCTION = (
    "A tool with parameters of its own is a function that asks the agent, in a conversation of its own: "
    "agent.within(Session())(f'Translate {{text}}.')."
)
_OWN = "A worker keeps its own limits=, max_iterations= and guardrails=; each request is a conversation of its own."

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
"""Arguments of an agent used as a tool."""


_KNOWS = (
    "What tools need to know is given as context=, to the agent or to a run: a tool's parameter of type RunContext has "
    "it. Or a tool holds it itself: a method of an object, a closure, a functools.partial."
)
_REMEMBERS = "An agent remembers its conversation by itself: agent.reset() forgets it, window= bounds what is read."
_SILENT = "Nothing is printed or sent anywhere unless you say so; listeners= hear what happens."
_CHECKED = "guardrails=[function]"
_SETTING = "llm=LLM(settings={{'{0}': ...}})"
_HISTORY = "A conversation is set on the agent: agent.history = [...], a list of messages."
_ORDER = "instruction=, a text, or a function that writes it for each run"
_STREAM = "A streamed run is agent.stream(prompt), which gives events, or agent.stream_text(prompt)."
_ISOLATED = "run_python and run_shell run isolated by themselves, with no files, no network and a list of modules."

MAKING: Mapping[str, str] = {
    **dict.fromkeys(("instructions", "system", "system_prompt", "system_message", "prompt"), "instruction="),
    **dict.fromkeys(("role", "goal", "backstory", "persona", "prompt_templates"), "instruction="),
    **dict.fromkeys(
        ("description", "handoff_description"),
        "An agent is described by its instruction; as_tool(description=...) says otherwise.",
    ),
    **dict.fromkeys(("max_turns", "max_steps", "max_iter"), "max_iterations="),
    **dict.fromkeys(("tool_call_limit", "max_tool_calls"), "limits=Limits(tool_calls=...)"),
    **dict.fromkeys(("timeout", "timeout_seconds", "max_seconds", "max_time"), "limits=Limits(seconds=...)"),
    **dict.fromkeys(("max_cost", "budget", "cost_limit", "max_budget_usd"), "limits=Limits(cost=...)"),
    **dict.fromkeys(("usage_limits", "token_limit", "max_total_tokens"), "limits=Limits(total_tokens=...)"),
    **dict.fromkeys(("api_key", "base_url", "provider", "temperature", "max_tokens"), "llm=LLM({0}=...)"),
    **dict.fromkeys(("reasoning_effort", "max_retries"), "llm=LLM({0}=...)"),
    **dict.fromkeys(("retries", "retry_strategy"), "llm=LLM(max_retries=...)"),
    **dict.fromkeys(("fallback", "fallbacks", "fallback_model", "fallback_models"), "llm=LLM(fallback=...)"),
    **dict.fromkeys(("top_p", "seed", "stop", "tool_choice", "parallel_tool_calls"), _SETTING),
    **dict.fromkeys(("model_settings", "model_kwargs", "reasoning"), "llm=LLM(...)"),
    **dict.fromkeys(("client", "openai_client", "http_client"), "llm=LLM(client=OpenAI(...))"),
    **dict.fromkeys(("headers", "extra_headers", "default_headers"), "llm=LLM(headers=...)"),
    **dict.fromkeys(("model_id", "model_name", "llm_model"), "model="),
    **dict.fromkeys(("toolsets", "functions", "toolkits", "plugins", "capabilities"), "tools="),
    **dict.fromkeys(("allowed_tools", "include_tools"), "tools=default_tools.only('calculator', ...)"),
    "add_base_tools": "tools=default_tools",
    **dict.fromkeys(("mcp_servers", "mcp_config"), "tools=[MCPServer(...)], of agentkit.mcp"),
    **dict.fromkeys(("prepare_tools", "tools_prepare", "cache_callables"), OFFERED),
    **dict.fromkeys(
        ("builtin_tools", "native_tools", "hosted_tools"), "tools=[HostedTool('web_search')], of agentkit.tools.hosted"
    ),
    "reset_tool_choice": "A tool_choice that forces a call holds until the run has used a tool.",
    **dict.fromkeys(("knowledge", "retriever"), "tools=[Knowledge(...)], of agentkit.knowledge"),
    **dict.fromkeys(("tool_timeout",), "@tool(timeout_seconds=...)"),
    **dict.fromkeys(("tool_use_behavior", "return_direct", "end_strategy"), "@tool(ends_run=True)"),
    **dict.fromkeys(
        ("output_retries", "tool_retries", "max_result_retries"),
        "A wrong answer goes back to the model twice, and what a tool raises is told to it, by themselves.",
    ),
    **dict.fromkeys(
        ("managed_agents", "agents", "members", "team", "sub_agents", "subagents"),
        "tools=[other_agent], or handoffs=[other_agent]",
    ),
    **dict.fromkeys(("output_schema", "result_type", "response_format", "response_model"), "output_type="),
    **dict.fromkeys(("structured_output_model", "output_model", "schema", "structured_output"), "output_type="),
    **dict.fromkeys(("checks", "input_guardrails", "output_guardrails", "validators"), _CHECKED),
    **dict.fromkeys(("final_answer_checks", "output_validators", "pre_hooks", "post_hooks"), _CHECKED),
    **dict.fromkeys(("callbacks", "callback_handler", "hooks", "tracer", "event_stream_handler"), "listeners="),
    **dict.fromkeys(("step_callbacks", "step_callback", "middleware", "tool_hooks", "instrument"), "listeners="),
    **dict.fromkeys(("verbose", "verbosity_level", "debug", "debug_mode", "telemetry", "markdown"), _SILENT),
    **dict.fromkeys(
        ("human_input", "requires_approval", "needs_approval", "interrupt_on", "permission_mode"),
        "approve=function is asked; what it is asked about say safety= and policy=.",
    ),
    **dict.fromkeys(("memory", "db", "storage", "session_manager", "checkpointer"), "session="),
    **dict.fromkeys(("session_id", "user_id", "thread_id", "conversation_id"), "session="),
    **dict.fromkeys(("history", "messages", "message_history"), _HISTORY),
    **dict.fromkeys(("additional_input", "additional_messages", "examples", "few_shot"), _HISTORY),
    **dict.fromkeys(
        ("history_processors", "call_model_input_filter", "max_tool_calls_from_history"),
        "window=Window(edit=function), of agentkit.sessions.context_window, edits what is sent before each request.",
    ),
    **dict.fromkeys(("expected_output", "additional_context", "add_datetime_to_context"), _ORDER),
    "input_schema": "A prompt is a text, or a list of texts and files; give a value as its JSON.",
    **dict.fromkeys(
        ("parser_model", "reasoning_model", "followup_model", "fast_model"),
        "An agent has one model. Ask another in a line of its own: LLM(model=...).extract(text, type).",
    ),
    **dict.fromkeys(("agent_id", "id"), "name="),
    "interventions": "policy=",
    **dict.fromkeys(("add_history_to_context", "num_history_runs", "num_history_messages"), _REMEMBERS),
    **dict.fromkeys(("conversation_manager", "context_manager", "compaction"), "window="),
    **dict.fromkeys(("deps", "deps_type", "dependencies", "context_type"), _KNOWS),
    **dict.fromkeys(("state", "session_state", "agent_state"), _KNOWS),
    **dict.fromkeys(("stream", "stream_outputs", "stream_events"), _STREAM),
    **dict.fromkeys(("cwd", "root", "root_dir", "working_directory"), "workspace="),
    **dict.fromkeys(("executor_type", "executor", "sandbox", "additional_authorized_imports"), _ISOLATED),
}
"""Arguments of an agent in other toolkits, mapped to an argument here or to a sentence."""

_ONE_RUN = "That is the agent's, not a run's. To differ: other = agent.within(Session()), then set other.{0}."

RUNNING: Mapping[str, str] = {
    **dict.fromkeys(("message", "input", "task", "user_prompt", "question", "messages"), "the prompt, given first"),
    **dict.fromkeys(("max_turns", "max_steps", "max_iterations"), "limits=Limits(iterations=...)"),
    **dict.fromkeys(("usage_limits", "max_tokens", "token_limit"), "limits=Limits(total_tokens=...)"),
    **dict.fromkeys(("timeout", "timeout_seconds"), "limits=Limits(seconds=...)"),
    **dict.fromkeys(("cost_limit", "max_cost"), "limits=Limits(cost=...)"),
    **dict.fromkeys(("images", "image"), "a list as prompt, [text, Image.read('cat.png')]"),
    **dict.fromkeys(("attachments", "files", "audio", "documents"), "a list as prompt, [text, Path('report.pdf')]"),
    **dict.fromkeys(("session", "session_id", "conversation_id", "user_id"), "agent.within(Session.open(...))"),
    **dict.fromkeys(("thread_id", "config"), "agent.within(Session.open(...))"),
    **dict.fromkeys(("message_history", "history"), _HISTORY),
    **dict.fromkeys(("reset", "previous_response_id", "add_history_to_context"), _REMEMBERS),
    **dict.fromkeys(("deps", "dependencies", "additional_args"), _KNOWS),
    **dict.fromkeys(("invocation_state", "session_state", "metadata", "state", "variables"), _KNOWS),
    **dict.fromkeys(("starting_agent", "agent"), "An agent runs itself: agent.run(prompt)."),
    "error_handlers": "A run that fails does not raise: look at result.status, or call result.raise_for_status().",
    "usage": "What agents spend that a tool sets to work counts for its run by itself; agent.usage has the sum.",
    "return_full_result": "agent.run(prompt) gives the result, and agent(prompt) the text.",
    **dict.fromkeys(("stream", "stream_mode", "stream_events"), _STREAM),
    **dict.fromkeys(
        ("output_type", "structured_output_model", "output_schema", "response_model", "response_format"),
        "agent.run(prompt, output_type=...), whose result has the value as output",
    ),
    **dict.fromkeys(("tools", "instruction", "approve"), _ONE_RUN),
    **dict.fromkeys(("toolsets", "builtin_tools"), _ONE_RUN.format("tools")),
    **dict.fromkeys(("instructions", "system_prompt"), _ONE_RUN.format("instruction")),
    **dict.fromkeys(("model", "temperature", "model_settings", "llm"), _ONE_RUN.format("llm")),
    **dict.fromkeys(("hooks", "callbacks", "callback_handler", "event_stream_handler"), "agent.on(kind, function)"),
    "run_config": "A run takes limits=; all else is said of the agent.",
}
"""Arguments of a run."""

MAPPING: Mapping[str, str] = {
    **RUNNING,
    **dict.fromkeys(("message", "input", "task", "user_prompt", "question", "messages"), "the prompts, given first"),
    **dict.fromkeys(
        ("max_workers", "workers", "max_concurrency", "n_jobs", "max_parallel", "batch_size"), "concurrency="
    ),
    **dict.fromkeys(("inputs", "items", "tasks", "questions"), "the prompts, given first"),
    **dict.fromkeys(("on_progress", "show_progress", "callback", "pbar"), "progress="),
    **dict.fromkeys(("pool", "client", "cluster"), "executor="),
    **dict.fromkeys(("max_turns", "max_steps", "max_iterations"), "Agent(max_iterations=...)"),
    **dict.fromkeys(
        ("output_type", "output_schema", "response_model"), "Agent(output_type=...), the type of each answer"
    ),
}
"""Arguments of a run over many prompts."""

_ORDERED = "An LLM has no standing order: Agent(instruction=...), or a message of the role 'system'."

_CONNECTING: Mapping[str, str] = {
    **dict.fromkeys(("model_name", "model_id", "deployment", "azure_deployment", "deployment_name"), "model="),
    **dict.fromkeys(("key", "token", "openai_api_key", "azure_api_key", "anthropic_api_key"), "api_key="),
    **dict.fromkeys(("api_base", "url", "host", "openai_api_base"), "base_url="),
    "endpoint": "base_url=, or for Azure azure_endpoint=",
    **dict.fromkeys(("api_version", "openai_api_version"), "azure_api_version="),
    **dict.fromkeys(("azure_ad_token_provider", "credential"), "azure_token_provider="),
    **dict.fromkeys(("timeout", "request_timeout"), "timeout_seconds="),
    **dict.fromkeys(("retries", "num_retries"), "max_retries="),
    **dict.fromkeys(("max_completion_tokens", "max_output_tokens"), "max_tokens="),
    **dict.fromkeys(("top_p", "seed", "stop", "tool_choice", "parallel_tool_calls"), "settings={{'{0}': ...}}"),
    **dict.fromkeys(("frequency_penalty", "presence_penalty", "logit_bias", "logprobs"), "settings={{'{0}': ...}}"),
    **dict.fromkeys(("top_k", "thinking", "verbosity", "service_tier", "metadata", "user"), "settings={{'{0}': ...}}"),
    **dict.fromkeys(
        ("retry", "retry_on", "max_delay", "initial_delay", "backoff"),
        "max_retries=, which wait as long as the server asks for",
    ),
    **dict.fromkeys(("model_settings", "model_kwargs", "extra_body"), "settings="),
    "reasoning": "reasoning_effort=",
    **dict.fromkeys(("fallbacks", "fallback_model", "fallback_models"), "fallback="),
    **dict.fromkeys(("extra_headers", "default_headers"), "headers="),
    **dict.fromkeys(("openai_client", "http_client"), "client=OpenAI(...)"),
}

ASKING: Mapping[str, str] = {
    **_CONNECTING,
    **dict.fromkeys(("stream", "streaming"), "LLM.stream(messages), which gives events"),
    **dict.fromkeys(("tools", "functions"), "Agent(tools=...), or LLM.complete(messages, tools=...)"),
    **dict.fromkeys(("output_type", "response_format", "response_model", "schema"), "LLM.extract(text, type)"),
    **dict.fromkeys(("instruction", "instructions", "system", "system_prompt"), _ORDERED),
}
"""Arguments of LLM."""

CHATTING: Mapping[str, str] = {
    **_CONNECTING,
    "tools": "It is for chat and has no tools; make an agent that has: Agent('helper', tools=...).",
    **dict.fromkeys(("instruction", "instructions", "system", "system_message", "prompt"), "system_prompt="),
    **dict.fromkeys(("session", "session_id", "history", "memory"), "Agent(session='...'), an agent of your own"),
    **dict.fromkeys(("output_type", "response_format", "response_model", "schema"), "LLM().extract(text, type)"),
    **dict.fromkeys(("stream", "stream_events"), "agent.stream(message), or agent.stream_text(message)"),
    **dict.fromkeys(("limits", "max_iterations", "max_turns", "approve", "safety"), "Agent(...), an agent of your own"),
    "llm": "model=, provider= or base_url=",
}
"""Arguments of `agent("…")`, which are those of LLM and `system_prompt`."""

LIMITING: Mapping[str, str] = {
    **dict.fromkeys(("max_iterations", "max_turns", "max_steps", "turns"), "iterations="),
    **dict.fromkeys(("requests", "request_limit", "max_requests"), "iterations="),
    **dict.fromkeys(("max_tool_calls", "tool_call_limit", "tool_calls_limit"), "tool_calls="),
    **dict.fromkeys(("timeout", "timeout_seconds", "max_seconds", "max_time"), "seconds="),
    **dict.fromkeys(("max_cost", "budget", "cost_limit", "max_budget_usd"), "cost="),
    **dict.fromkeys(("max_tokens", "tokens", "token_limit", "total_tokens_limit"), "total_tokens="),
    **dict.fromkeys(("input_tokens_limit", "request_tokens_limit"), "input_tokens="),
    **dict.fromkeys(("output_tokens_limit", "response_tokens_limit"), "output_tokens="),
}
"""Arguments of Limits."""

RULING: Mapping[str, str] = {
    **dict.fromkeys(("action", "decision", "effect", "behavior"), "verdict="),
    **dict.fromkeys(
        ("tools", "tool_name", "names"), "tool=, a name or a pattern such as 'run_*'; a rule is written for each"
    ),
    **dict.fromkeys(("arguments", "args", "when", "condition", "conditions", "pattern"), "where="),
    **dict.fromkeys(("message", "why", "description"), "reason="),
    **dict.fromkeys(("examples", "matches"), "match="),
}
"""Arguments of Rule."""

KNOWING: Mapping[str, str] = {
    **dict.fromkeys(
        ("path", "file", "db", "database", "url", "vector_db", "persist_directory"), "the place, given first"
    ),
    **dict.fromkeys(("collection", "collection_name", "table_name", "index_name"), "name="),
    **dict.fromkeys(("embedding", "embedder", "embedding_model", "embedding_function", "model"), "embed="),
    **dict.fromkeys(("reranker", "rerank_model"), "rerank="),
    **dict.fromkeys(("chunk_size", "max_chunk_size", "passage_size"), "passage_chars="),
    **dict.fromkeys(("chunk_overlap", "overlap"), "overlap_chars="),
    **dict.fromkeys(("top_k", "k", "num_documents", "max_results"), "limit=, of search() and as_tool()"),
    **dict.fromkeys(("documents", "sources", "files"), "Documents come later: knowledge.add('folder')."),
}
"""Arguments of Knowledge."""

SEARCHING: Mapping[str, str] = {
    **dict.fromkeys(("top_k", "k", "n_results", "num_documents", "max_results"), "limit="),
    **dict.fromkeys(("filter", "filters", "metadata", "metadata_filter"), "where="),
    **dict.fromkeys(("query", "text"), "the question, given first"),
}
"""Arguments of a search in Knowledge."""

REMEMBERING: Mapping[str, str] = {
    **dict.fromkeys(("user_id", "user_name", "namespace", "agent_id"), "user="),
    **dict.fromkeys(("path", "file", "db", "database", "url"), "the place, given first"),
    **dict.fromkeys(("embedding", "embedder", "embedding_model", "model"), "embed="),
}
"""Arguments of Memory."""

EXPECTING: Mapping[str, str] = {
    **dict.fromkeys(("input", "inputs", "question", "query", "message"), "prompt="),
    **dict.fromkeys(("output", "expected_output", "answer", "target", "reference", "ground_truth"), "expected="),
    **dict.fromkeys(("tools", "expected_tools", "tools_called"), "tool_calls="),
    **dict.fromkeys(("tag", "metadata", "category"), "tags=[...]"),
    **dict.fromkeys(("name", "case_id"), "id="),
    **dict.fromkeys(("scorer", "evaluators", "metrics", "assertions"), "scorers=[...]"),
    **dict.fromkeys(("turns", "messages", "conversation", "user"), "prompts="),
}
"""Arguments of Case."""

MEASURING: Mapping[str, str] = {
    **dict.fromkeys(("scorer", "evaluators", "metrics", "graders", "scoring_functions"), "scorers=[...]"),
    **dict.fromkeys(("dataset", "data", "tests", "examples"), "cases="),
    **dict.fromkeys(("agent", "agents", "task", "target"), "suite.run(agent)"),
}
"""Arguments of Suite."""

TRYING: Mapping[str, str] = {
    **dict.fromkeys(("agent", "task", "target", "function"), "the agent, given first"),
    **dict.fromkeys(("max_workers", "max_concurrency", "workers", "parallel", "n_jobs"), "concurrency="),
    **dict.fromkeys(("epochs", "trials", "runs", "repetitions", "num_runs"), "repeats="),
    **dict.fromkeys(("model", "llm", "llms"), "models=[...]"),
    **dict.fromkeys(("budget", "max_cost", "timeout"), "limits=Limits(...)"),
}
"""Arguments of `Suite.run`."""

IMPROVING: Mapping[str, str] = {
    **dict.fromkeys(("budget", "max_cost", "max_metric_calls", "timeout"), "limits=Limits(cost=...)"),
    **dict.fromkeys(("iterations", "max_rounds", "max_iterations", "generations"), "rounds="),
    **dict.fromkeys(("reflection_lm", "optimizer_model", "teacher", "model", "llm"), "proposer="),
    **dict.fromkeys(("valset", "validation", "test_size", "holdout"), "held_out="),
    **dict.fromkeys(("metric", "scorers"), "Suite(scorers=[...])"),
    **dict.fromkeys(("resume", "checkpoint", "log_dir"), "path="),
    **dict.fromkeys(("batch_size", "minibatch_size"), "batch="),
    **dict.fromkeys(("max_workers", "num_threads"), "concurrency="),
}
"""Arguments of `optimize`."""

PROGRAMMING: Mapping[str, str] = {
    **dict.fromkeys(("functions", "toolset"), "tools="),
    **dict.fromkeys(("timeout", "timeout_seconds"), "limits=ProcessLimits(timeout_seconds=...)"),
    **dict.fromkeys(("isolation", "executor", "executor_type"), "sandbox="),
    **dict.fromkeys(("name", "description"), "The tool is run_program, and says itself what its programs may call."),
}
"""Arguments of `program_tool`."""

FINDING: Mapping[str, str] = {
    **dict.fromkeys(("names", "tools", "only"), "toolset.only('one', 'two').searchable()"),
}
"""Arguments of `Toolset.searchable`."""

PLAYING: Mapping[str, str] = {
    **dict.fromkeys(("max_turns", "max_steps", "max_messages"), "max_prompts="),
    **dict.fromkeys(("model", "agent", "function"), "llm="),
    **dict.fromkeys(("instruction", "instructions", "task", "scenario"), "goal="),
}
"""Arguments of SimulatedUser."""

TABLES: Mapping[str, Mapping[str, str]] = {
    "LLM": ASKING,
    "Limits": LIMITING,
    "Rule": RULING,
    "Tool": DEFINING,
    "MCPServer": SERVING,
    "program_tool": PROGRAMMING,
    "Toolset.searchable": FINDING,
    "Knowledge": KNOWING,
    "Knowledge.search": SEARCHING,
    "Knowledge.as_tool": SEARCHING,
    "Memory": REMEMBERING,
    "Case": EXPECTING,
    "SimulatedUser": PLAYING,
    "Suite": MEASURING,
    "Suite.run": TRYING,
    "optimize": IMPROVING,
}
"""The tables above by the name of the class or function."""


AGENT: Mapping[str, str] = {
    **dict.fromkeys(("run_sync", "invoke", "kickoff", "prompt", "generate"), "agent.run(prompt), or agent(prompt)"),
    **dict.fromkeys(("chat", "ask", "send"), "agent(prompt), which gives the answer as text"),
    **dict.fromkeys(("run_async", "ainvoke", "invoke_async", "akickoff"), "await agent.arun(prompt)"),
    **dict.fromkeys(("text_stream", "iter_text"), "agent.stream_text(prompt)"),
    **dict.fromkeys(("run_stream", "run_streamed", "run_stream_sync", "iter"), "agent.stream(prompt)"),
    **dict.fromkeys(("stream_async", "arun_stream", "run_stream_events"), "agent.astream(prompt)"),
    **dict.fromkeys(("print_response", "aprint_response"), "print(agent(prompt))"),
    **dict.fromkeys(
        ("cli_app", "to_cli", "to_cli_sync"),
        "`agentkit chat` at a shell, or `agentkit serve --agent FILE`, which has a page",
    ),
    **dict.fromkeys(("to_web", "serve", "launch", "get_app"), "app(agent), of agentkit.server"),
    **dict.fromkeys(("continue_run", "acontinue_run"), "agent.resume(...), or result.resume(...)"),
    **dict.fromkeys(("batch", "run_batch", "abatch"), "agent.map(prompts), or await agent.amap(prompts)"),
    **dict.fromkeys(
        ("clone", "copy", "deep_copy", "override"), "other = agent.within(Session()), and set what differs on it"
    ),
    **dict.fromkeys(
        ("tool_plain", "add_tool", "add_tools", "register_tool"),
        "tools=[function] when the agent is made, or agent.tools += function",
    ),
    "tool": "tools=[function] when the agent is made; agent.tools['name'](...) calls one",
    **dict.fromkeys(("set_tools", "toolset", "toolsets"), "agent.tools = [function, ...]"),
    "tool_names": "agent.tools.names",
    **dict.fromkeys(
        ("instructions", "system_prompt", "prompt_templates", "system"),
        "agent.instruction; to set it, agent.instruction = '...', or a function that gives the text",
    ),
    **dict.fromkeys(("max_turns", "max_steps", "max_iter"), "agent.max_iterations"),
    **dict.fromkeys(("provider", "client", "model_settings", "model_id"), "agent.llm"),
    "model": "agent.llm.model; to ask another model, agent.llm = agent.llm.with_model('...')",
    "safety": "agent.policy.level; to set it, agent.policy = Policy('SAFE')",
    "output_type": "output_type= when the agent is made, or agent.run(prompt, output_type=...) for one run",
    "guardrails": "guardrails=[...] when the agent is made; they do not change",
    "window": "window= when the agent is made; it does not change",
    **dict.fromkeys(("output_validator", "result_validator"), "guardrails=[function] when the agent is made"),
    **dict.fromkeys(
        ("memory", "logs", "steps", "conversation", "get_chat_history"), "agent.history, or agent.messages"
    ),
    **dict.fromkeys(("get_session_messages", "get_messages"), "agent.history, or agent.messages"),
    **dict.fromkeys(("clear", "clear_history", "clear_memory", "reset_chat"), "agent.reset()"),
    **dict.fromkeys(("session_id", "set_session_name", "get_session"), "agent.session"),
    **dict.fromkeys(("state", "session_state", "get_session_state", "deps"), "an object whose methods are the tools"),
    "replay": "print(agent.session.show()); a recorded run is replayed with agentkit.testing.replay",
    **dict.fromkeys(
        ("save", "load", "to_dict", "from_dict"),
        "session='name' when the agent is made, which keeps its conversation; Agent.from_file reads one from a text",
    ),
    **dict.fromkeys(
        ("structured_output", "structured_output_async"),
        "agent.run(prompt, output_type=...).output, or agent.llm.extract(text, type)",
    ),
    **dict.fromkeys(("add_hook", "hooks", "callback_handler", "on_event"), "agent.on(kind, function)"),
    **dict.fromkeys(
        ("cancel", "interrupt", "cancel_run"), "agent.stop(); or leave the loop over agent.stream, or cancel the task"
    ),
    "metrics": "agent.usage, agent.cost",
}
"""Attributes of an agent in other toolkits, mapped to the code to write here."""

RESULT: Mapping[str, str] = {
    **dict.fromkeys(("final_output", "data", "content", "answer", "result", "response"), "result.output"),
    **dict.fromkeys(("final_answer", "structured_output", "parsed", "pydantic", "raw"), "result.output"),
    **dict.fromkeys(("get_content_as_string", "message", "final_message"), "result.text"),
    "final_output_as": "result.output; agent.run(prompt, output_type=...) says of which type",
    **dict.fromkeys(
        ("all_messages", "to_input_list"), "[*result.history, *result.messages]; an agent remembers by itself"
    ),
    **dict.fromkeys(("new_messages", "new_items", "steps", "raw_responses"), "result.messages, or result.milestones"),
    **dict.fromkeys(("last_agent", "agent_name"), "result.agent"),
    **dict.fromkeys(("interruptions", "interrupts", "is_paused", "requirements"), "result.status and result.pending"),
    **dict.fromkeys(("active_requirements", "tools_requiring_confirmation"), "result.pending"),
    **dict.fromkeys(("to_state", "to_dict", "json", "model_dump", "model_dump_json"), "result.to_json()"),
    **dict.fromkeys(("metrics", "token_usage", "context_wrapper"), "result.usage and result.cost"),
    **dict.fromkeys(("stop_reason", "finish_reason", "state"), "result.status and result.limit"),
    **dict.fromkeys(("tools", "tool_results"), "result.tool_calls"),
    "reasoning_content": "result.messages[-1].reasoning",
    **dict.fromkeys(("session_id", "conversation_id"), "agent.session.name"),
    **dict.fromkeys(("model", "model_name", "missed"), "result.milestones: RequestFailed is who gave no answer"),
    "stream_events": "agent.stream(prompt), which gives the events",
}
"""Attributes of a result."""

CHAT: Mapping[str, str] = {
    **dict.fromkeys(("run", "run_sync", "invoke", "chat", "ask"), "agent(message), or an Agent of your own"),
    **dict.fromkeys(("arun", "astream", "ainvoke"), "an Agent of your own: await Agent('helper').arun(...)"),
    **dict.fromkeys(("messages", "conversation", "memory"), "agent.history"),
    **dict.fromkeys(("clear", "clear_history"), "agent.reset()"),
    **dict.fromkeys(("tools", "tool", "session", "resume", "map"), "an Agent of your own: Agent('helper', ...)"),
    **dict.fromkeys(("system_prompt", "instruction", "model", "llm"), "agent(message, system_prompt=..., model=...)"),
}
"""Attributes of `agent`, the chat agent."""

RUN: Mapping[str, str] = {
    **dict.fromkeys(("deps", "context", "dependencies", "state", "session_state", "invocation_state"), "run.value"),
    **dict.fromkeys(("agent_name", "current_agent"), "run.agent"),
    **dict.fromkeys(("tool_call_id", "call_id", "tool_use_id"), "run.call"),
    **dict.fromkeys(("history", "input", "turn_input"), "run.messages, which are what the model has read"),
    "run_id": "run.run",
    **dict.fromkeys(("session_id", "conversation_id"), "run.session"),
    "user_id": "run.value, which the run was given as context=",
    **dict.fromkeys(("usage", "metrics"), "result.usage, once the run is over; a listener hears each response's"),
}
"""Attributes of the context of a run."""

REQUEST: Mapping[str, str] = {
    **dict.fromkeys(("name", "tool_name"), "request.tool"),
    **dict.fromkeys(("args", "tool_args", "input", "params", "tool_input"), "request.arguments"),
    **dict.fromkeys(("id", "tool_call_id"), "request.call_id"),
    **dict.fromkeys(("reason", "rule"), "request.decision.reason"),
    **dict.fromkeys(("message", "prompt", "description"), "request.question"),
    **dict.fromkeys(("approve", "confirm"), "return True, an Approval, or other arguments as a dictionary"),
    **dict.fromkeys(("reject", "deny"), "return False, or words that say why not"),
}
"""Attributes of an approval request."""

WAITING: Mapping[str, str] = {
    **dict.fromkeys(("name", "tool_name"), "pending.tool"),
    **dict.fromkeys(("args", "tool_args", "input", "params"), "pending.arguments, which are JSON text"),
    **dict.fromkeys(("call_id", "tool_call_id"), "pending.id"),
    **dict.fromkeys(("agent", "agent_name"), "result.agent"),
    **dict.fromkeys(("message", "prompt", "reason"), "pending.question"),
    **dict.fromkeys(("approve", "confirm"), "result.resume({pending.id: True})"),
    **dict.fromkeys(("reject", "deny"), "result.resume({pending.id: False}), or words that say why not"),
    **dict.fromkeys(("needs_user_input", "needs_confirmation"), "pending.needs_answer"),
}
"""Attributes of a waiting call."""

SESSION: Mapping[str, str] = {
    **dict.fromkeys(("get_items", "get_messages", "items", "history", "get_chat_history"), "session.messages"),
    **dict.fromkeys(("add_items", "add_messages", "add_message", "save"), "session.append(messages)"),
    **dict.fromkeys(("clear_session", "clear", "reset"), "agent.reset(), or session.delete()"),
    "pop_item": "session.fork('other', at=...), which begins with the first messages",
    **dict.fromkeys(("create_branch_from_turn", "branch"), "session.fork('other', at=...)"),
    **dict.fromkeys(("session_id", "id", "get_session_id"), "session.name"),
    **dict.fromkeys(("get_session_usage", "metrics"), "session.usage"),
    "runs": "session.entries, or print(session.show())",
}
"""Attributes of a session."""

USED: Mapping[str, str] = {
    **dict.fromkeys(("name", "tool_name", "tool"), "used.call.name"),
    **dict.fromkeys(("arguments", "args", "input", "tool_args"), "used.call.arguments"),
    **dict.fromkeys(("id", "call_id", "tool_call_id"), "used.call.id"),
    **dict.fromkeys(("output", "value", "return_value"), "used.result.value"),
    **dict.fromkeys(("content", "text"), "used.result.content, which is what the model was told"),
    **dict.fromkeys(("error", "status", "decision"), "used.result, which has it"),
}
"""Attributes of a finished tool call."""

OUTCOME: Mapping[str, str] = {
    **dict.fromkeys(("output", "data", "return_value"), "result.value"),
    **dict.fromkeys(("text", "message", "string_result"), "result.content, which is what the model is told"),
    **dict.fromkeys(("success", "is_error"), "result.ok, or result.status"),
    **dict.fromkeys(("name", "tool_name"), "result.tool"),
}
"""Attributes of a tool result."""

ANSWERED: Mapping[str, str] = {
    **dict.fromkeys(("content", "parts"), "message.text, message.tool_calls, message.reasoning"),
    "reasoning_content": "message.reasoning",
}
"""Attributes of a model's answer."""

USAGE: Mapping[str, str] = {
    **dict.fromkeys(("prompt_tokens", "request_tokens", "inputTokens"), "usage.input_tokens"),
    **dict.fromkeys(("completion_tokens", "response_tokens", "outputTokens"), "usage.output_tokens"),
    **dict.fromkeys(("total", "totalTokens"), "usage.total_tokens"),
    **dict.fromkeys(("cost", "total_cost"), "result.cost, or cost_of(usage) of agentkit.llm.pricing"),
    "request_usage_entries": "event.response.usage, of each ResponseReceived in result.milestones",
}
"""Attributes of usage."""


HOMES: Mapping[str, str] = {
    **dict.fromkeys(("MCPServer", "connect", "connect_file", "read_servers", "Login"), "agentkit.mcp"),
    **dict.fromkeys(("Knowledge", "Memory"), "agentkit.knowledge"),
    **dict.fromkeys(("ScriptedLLM", "FakeServer", "call", "record", "replay"), "agentkit.testing"),
    **dict.fromkeys(("OpenTelemetry", "JSONLines", "Console", "origin"), "agentkit.tracing"),
    **dict.fromkeys(("Suite", "Case"), "agentkit.evals"),
    **dict.fromkeys(("Price", "Tariff"), "agentkit.usage"),
    **dict.fromkeys(
        ("UserMessage", "AssistantMessage", "ToolMessage", "SystemMessage", "ToolCall", "Request"),
        "agentkit.messages",
    ),
    "dialogue_tools": "agentkit.tools.human",
    **dict.fromkeys(("fetch_tool", "search_tool"), "agentkit.tools.web"),
    "skill_tools": "agentkit.tools.skills",
    "HostedTool": "agentkit.tools.hosted",
    "File": "agentkit.content",
    "Window": "agentkit.sessions.context_window",
    "program_tool": "agentkit.code_mode",
    "TerminalApprover": "agentkit.safety.terminal_approver",
    "Pending": "agentkit.agents.result",
    "cost_of": "agentkit.llm.pricing",
}
"""Modules of public names that `agentkit` itself does not export."""

_RUNS = "agent.run(prompt), await agent.arun(prompt), agent.stream(prompt)"
_MODEL = "LLM(model='provider:name'), or Agent(model='provider:name')"
_SERVER = "from agentkit.mcp import MCPServer, which takes a command or a URL"
_SESSION = "Session.open('file.db', 'name')"
_CHECKS = "guardrails=[function] of an agent, a function of `prompt`, `output` or `result`"
_HEARS = "agent.on(kind, function), or listeners=[...]"
_SEVERAL = "handoffs=[agent], or tools=[agent]; what is to happen in an order is a Python program"

FOREIGN: Mapping[str, str] = {
    **dict.fromkeys(("Runner", "RunConfig"), _RUNS),
    "run_demo_loop": "`agentkit chat --agent bot.py:agent`, at a shell",
    **dict.fromkeys(("handoff", "Handoff"), "handoffs=[agent], or a tool that returns the agent"),
    **dict.fromkeys(("function_tool", "tool_plain", "FunctionTool", "BaseTool"), "tool, or the plain function"),
    **dict.fromkeys(("RunContextWrapper", "ToolContext", "ToolRuntime", "AgentContext"), "RunContext"),
    **dict.fromkeys(("ModelSettings", "Reasoning"), "LLM(temperature=..., settings={...})"),
    **dict.fromkeys(("Team", "Swarm", "Workflow", "GraphBuilder", "Graph", "Crew"), _SEVERAL),
    **dict.fromkeys(("SQLiteSession", "SqliteDb", "SQLAlchemySession", "PostgresDb", "FileSessionManager"), _SESSION),
    **dict.fromkeys(
        ("ModelRetry", "CallDeferred", "ApprovalRequired"), "raise ValueError('why'), in a tool or a check"
    ),
    "UsageLimits": "Limits",
    "CodeAgent": "Agent(tools=[program_tool([...])]), with program_tool of agentkit.code_mode",
    **dict.fromkeys(("ToolCallingAgent", "MultiStepAgent", "ConversableAgent"), "Agent"),
    **dict.fromkeys(
        ("InferenceClientModel", "LiteLLMModel", "LitellmModel", "OpenAIModel", "OpenAIServerModel"), _MODEL
    ),
    **dict.fromkeys(("OpenAIChat", "OpenAIResponses", "OpenAIChatModel", "Claude", "Ollama", "BedrockModel"), _MODEL),
    **dict.fromkeys(("OpenAIChatCompletionsModel", "OpenAIResponsesModel", "AnthropicModel", "ChatOpenAI"), _MODEL),
    "FallbackModel": "LLM(..., fallback=[...])",
    **dict.fromkeys(("Toolkit", "FunctionToolset", "ToolCollection", "Toolbox"), "Toolset, or a list of functions"),
    **dict.fromkeys(("input_guardrail", "output_guardrail", "GuardrailFunctionOutput", "InputGuardrail"), _CHECKS),
    **dict.fromkeys(("tool_input_guardrail", "tool_output_guardrail"), "Tool(function, judge=...), and " + _CHECKS),
    **dict.fromkeys(("RunHooks", "AgentHooks", "HookProvider", "hooks"), _HEARS),
    **dict.fromkeys(("trace", "custom_span", "set_tracing_disabled"), "OpenTelemetry(), of agentkit.tracing"),
    **dict.fromkeys(("MCPServerStdio", "MCPServerStreamableHttp", "MCPServerStreamableHTTP", "MCPClient"), _SERVER),
    **dict.fromkeys(("MCPTools", "MCPServerSse", "MCPToolset"), _SERVER),
    **dict.fromkeys(("ImageUrl", "BinaryImage"), "Image('https://...'), Image.read('cat.png')"),
    **dict.fromkeys(("BinaryContent", "DocumentUrl", "AudioUrl"), "File.read(data, 'name.pdf'), of agentkit.content"),
    **dict.fromkeys(("TestModel", "FunctionModel"), "ScriptedLLM(...), of agentkit.testing"),
    **dict.fromkeys(("DuckDuckGoSearchTool", "DuckDuckGoTools"), "web_search_tool, or web_tools"),
    "WebSearchTool": "web_search_tool, or HostedTool('web_search') of agentkit.tools.hosted",
    **dict.fromkeys(
        ("CodeInterpreterTool", "CodeExecutionTool"), "python_tool, or HostedTool(...) of agentkit.tools.hosted"
    ),
    "PythonInterpreterTool": "python_tool",
    **dict.fromkeys(("ShellTool", "LocalShellTool"), "shell_tool"),
    **dict.fromkeys(("AgentOS", "GradioUI"), "app(agent), of agentkit.server"),
    **{name: f"{name}_tool" for name in ("calculator", "string_length", "web_search", "fetch_url", "wikipedia")},
    **{name: f"{name}_tool" for name in ("read_file", "write_file", "list_directory")},
    "get_current_datetime": "current_datetime_tool",
    "parse_json": "json_parse_tool",
    "run_shell": "shell_tool",
    "run_python": "python_tool",
}
"""Exports of other toolkits that do not exist here, and tool names that models use, with the code to write instead."""


def _tool_module(name: str) -> str:
    """The module of `agentkit.tools` that defines a built-in tool; empty without one."""
    from importlib import import_module
    from pkgutil import iter_modules

    if not name.endswith("_tool"):
        return ""
    homes = [f"agentkit.tools.{each.name}" for each in iter_modules(import_module("agentkit.tools").__path__)]
    return next((home for home in homes if name in vars(import_module(home)) and not home.endswith("catalog")), "")


def told_of(name: str) -> str:
    """The error message for importing an unknown name from agentkit; empty without a suggestion."""
    home = HOMES.get(name) or _tool_module(name)
    if home:
        return f"{name} is in {home}. Write: from {home} import {name}"
    return f"agentkit has no {name}. Write: {FOREIGN[name]}" if name in FOREIGN else ""
