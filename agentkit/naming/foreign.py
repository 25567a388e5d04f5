"""What is an argument of another toolkit called here? Read only where somebody has written one."""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.naming.foreign_tools import DEFINING, OFFERED, SERVING

_KNOWS = (
    "What tools need to know is given as context=, to the agent or to a run: a tool's parameter of type RunContext has "
    "it. Or a tool holds it itself: a method of an object, a closure, a functools.partial."
)
_REMEMBERS = "An agent remembers its conversation by itself: agent.reset() forgets it, window= bounds what is read."
_SILENT = "Nothing is printed or sent anywhere unless you say so; listeners= hear what happens."
_CHECKED = "checks=[function]"
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
        ("builtin_tools", "native_tools", "hosted_tools"), "tools=[HostedTool('web_search')], of agentkit.hosted"
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
    **dict.fromkeys(("guardrails", "input_guardrails", "output_guardrails", "validators"), _CHECKED),
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
        "window=Window(edit=function), of agentkit.memory.window, edits what is sent before each request.",
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
"""What other toolkits call an argument of an agent, and what it is here: an argument, or a sentence."""

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
"""The same of the arguments of a run."""

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
"""The same of many prompts."""

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
"""The same of the arguments of LLM."""

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
"""The same of the arguments of `agent("…")`, which are those of LLM beside `system_prompt`."""

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
"""The same of the arguments of Limits."""

RULING: Mapping[str, str] = {
    **dict.fromkeys(("action", "decision", "effect", "behavior"), "verdict="),
    **dict.fromkeys(
        ("tools", "tool_name", "names"), "tool=, a name or a pattern such as 'run_*'; a rule is written for each"
    ),
    **dict.fromkeys(("arguments", "args", "when", "condition", "conditions", "pattern"), "where="),
    **dict.fromkeys(("message", "why", "description"), "reason="),
    **dict.fromkeys(("examples", "matches"), "match="),
}
"""The same of the arguments of Rule."""

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
"""The same of the arguments of Knowledge."""

SEARCHING: Mapping[str, str] = {
    **dict.fromkeys(("top_k", "k", "n_results", "num_documents", "max_results"), "limit="),
    **dict.fromkeys(("filter", "filters", "metadata", "metadata_filter"), "where="),
    **dict.fromkeys(("query", "text"), "the question, given first"),
}
"""The same of the arguments of a search in it."""

REMEMBERING: Mapping[str, str] = {
    **dict.fromkeys(("user_id", "user_name", "namespace", "agent_id"), "user="),
    **dict.fromkeys(("path", "file", "db", "database", "url"), "the place, given first"),
    **dict.fromkeys(("embedding", "embedder", "embedding_model", "model"), "embed="),
}
"""The same of the arguments of Memory."""

EXPECTING: Mapping[str, str] = {
    **dict.fromkeys(("input", "inputs", "question", "query", "message"), "prompt="),
    **dict.fromkeys(("output", "expected_output", "answer", "target", "reference", "ground_truth"), "expected="),
    **dict.fromkeys(("tools", "expected_tools", "tools_called"), "tool_calls="),
    **dict.fromkeys(("tag", "metadata", "category"), "tags=[...]"),
    **dict.fromkeys(("name", "case_id"), "id="),
    **dict.fromkeys(("scorer", "evaluators", "metrics", "assertions"), "scorers=[...]"),
    **dict.fromkeys(("turns", "messages", "conversation", "user"), "prompts="),
}
"""The same of the arguments of Case."""

MEASURING: Mapping[str, str] = {
    **dict.fromkeys(("scorer", "evaluators", "metrics", "graders", "scoring_functions"), "scorers=[...]"),
    **dict.fromkeys(("dataset", "data", "tests", "examples"), "cases="),
    **dict.fromkeys(("agent", "agents", "task", "target"), "suite.run(agent)"),
}
"""The same of the arguments of Suite."""

TRYING: Mapping[str, str] = {
    **dict.fromkeys(("agent", "task", "target", "function"), "the agent, given first"),
    **dict.fromkeys(("max_workers", "max_concurrency", "workers", "parallel", "n_jobs"), "concurrency="),
    **dict.fromkeys(("epochs", "trials", "runs", "repetitions", "num_runs"), "repeats="),
    **dict.fromkeys(("model", "llm", "llms"), "models=[...]"),
    **dict.fromkeys(("budget", "max_cost", "timeout"), "limits=Limits(...)"),
}
"""The same of the arguments of `Suite.run`."""

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
"""The same of the arguments of `optimize`."""

PROGRAMMING: Mapping[str, str] = {
    **dict.fromkeys(("functions", "toolset"), "tools="),
    **dict.fromkeys(("timeout", "timeout_seconds"), "limits=ProcessLimits(timeout_seconds=...)"),
    **dict.fromkeys(("isolation", "executor", "executor_type"), "sandbox="),
    **dict.fromkeys(("name", "description"), "The tool is run_program, and says itself what its programs may call."),
}
"""The same of the arguments of `program_tool`."""

FINDING: Mapping[str, str] = {
    **dict.fromkeys(("names", "tools", "only"), "toolset.only('one', 'two').searchable()"),
}
"""The same of the arguments of `Toolset.searchable`."""

PLAYING: Mapping[str, str] = {
    **dict.fromkeys(("max_turns", "max_steps", "max_messages"), "max_prompts="),
    **dict.fromkeys(("model", "agent", "function"), "llm="),
    **dict.fromkeys(("instruction", "instructions", "task", "scenario"), "goal="),
}
"""The same of the arguments of SimulatedUser."""

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
"""The words that are no argument of what is made or called by that name."""
