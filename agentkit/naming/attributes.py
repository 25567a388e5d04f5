"""What is an attribute of another toolkit called here? Read only where somebody has asked for one."""

from __future__ import annotations

from collections.abc import Mapping

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
    **dict.fromkeys(("to_web", "serve", "launch", "get_app"), "app(agent), of agentkit.serve"),
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
    "checks": "checks=[...] when the agent is made; they do not change",
    "window": "window= when the agent is made; it does not change",
    **dict.fromkeys(("output_validator", "result_validator"), "checks=[function] when the agent is made"),
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
"""What other toolkits call something of an agent, and what to write here."""

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
"""The same of a result."""

CHAT: Mapping[str, str] = {
    **dict.fromkeys(("run", "run_sync", "invoke", "chat", "ask"), "agent(message), or an Agent of your own"),
    **dict.fromkeys(("arun", "astream", "ainvoke"), "an Agent of your own: await Agent('helper').arun(...)"),
    **dict.fromkeys(("messages", "conversation", "memory"), "agent.history"),
    **dict.fromkeys(("clear", "clear_history"), "agent.reset()"),
    **dict.fromkeys(("tools", "tool", "session", "resume", "map"), "an Agent of your own: Agent('helper', ...)"),
    **dict.fromkeys(("system_prompt", "instruction", "model", "llm"), "agent(message, system_prompt=..., model=...)"),
}
"""The same of `agent`, the one for chat."""

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
"""The same of the context of a run."""

REQUEST: Mapping[str, str] = {
    **dict.fromkeys(("name", "tool_name"), "request.tool"),
    **dict.fromkeys(("args", "tool_args", "input", "params", "tool_input"), "request.arguments"),
    **dict.fromkeys(("id", "tool_call_id"), "request.call_id"),
    **dict.fromkeys(("reason", "rule"), "request.decision.reason"),
    **dict.fromkeys(("message", "prompt", "description"), "request.question"),
    **dict.fromkeys(("approve", "confirm"), "return True, an Approval, or other arguments as a dictionary"),
    **dict.fromkeys(("reject", "deny"), "return False, or words that say why not"),
}
"""The same of what an approver is asked."""

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
"""The same of a call that waits."""

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
"""The same of a conversation."""

USED: Mapping[str, str] = {
    **dict.fromkeys(("name", "tool_name", "tool"), "used.call.name"),
    **dict.fromkeys(("arguments", "args", "input", "tool_args"), "used.call.arguments"),
    **dict.fromkeys(("id", "call_id", "tool_call_id"), "used.call.id"),
    **dict.fromkeys(("output", "value", "return_value"), "used.result.value"),
    **dict.fromkeys(("content", "text"), "used.result.content, which is what the model was told"),
    **dict.fromkeys(("error", "status", "decision"), "used.result, which has it"),
}
"""The same of a tool call that has its result."""

OUTCOME: Mapping[str, str] = {
    **dict.fromkeys(("output", "data", "return_value"), "result.value"),
    **dict.fromkeys(("text", "message", "string_result"), "result.content, which is what the model is told"),
    **dict.fromkeys(("success", "is_error"), "result.ok, or result.status"),
    **dict.fromkeys(("name", "tool_name"), "result.tool"),
}
"""The same of what came of a tool call."""

ANSWERED: Mapping[str, str] = {
    **dict.fromkeys(("content", "parts"), "message.text, message.tool_calls, message.reasoning"),
    "reasoning_content": "message.reasoning",
}
"""The same of what a model says."""

USAGE: Mapping[str, str] = {
    **dict.fromkeys(("prompt_tokens", "request_tokens", "inputTokens"), "usage.input_tokens"),
    **dict.fromkeys(("completion_tokens", "response_tokens", "outputTokens"), "usage.output_tokens"),
    **dict.fromkeys(("total", "totalTokens"), "usage.total_tokens"),
    **dict.fromkeys(("cost", "total_cost"), "result.cost, or cost_of(usage) of agentkit.llm.prices"),
    "request_usage_entries": "event.response.usage, of each ResponseReceived in result.milestones",
}
"""The same of what was spent."""
