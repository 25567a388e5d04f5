"""Where is a name that agentkit itself does not have, or what is another toolkit's called here?"""

from __future__ import annotations

from collections.abc import Mapping

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
    **dict.fromkeys(("ask_user_tool", "tell_user_tool", "finish_tool", "dialogue_tools"), "agentkit.tools.dialogue"),
    **dict.fromkeys(("edit_file_tool", "search_files_tool"), "agentkit.tools.files"),
    **dict.fromkeys(("fetch_tool", "search_tool"), "agentkit.tools.web"),
    "skill_tools": "agentkit.tools.skills",
    "HostedTool": "agentkit.hosted",
    "File": "agentkit.parts",
    "Window": "agentkit.memory.window",
    "program_tool": "agentkit.programs",
    "TerminalApprover": "agentkit.safety.terminal",
    "Pending": "agentkit.agents.result",
    "cost_of": "agentkit.llm.prices",
}
"""The module of names that programs import and that are not in `agentkit` itself."""

_RUNS = "agent.run(prompt), await agent.arun(prompt), agent.stream(prompt)"
_MODEL = "LLM(model='provider:name'), or Agent(model='provider:name')"
_SERVER = "from agentkit.mcp import MCPServer, which takes a command or a URL"
_SESSION = "Session.open('file.db', 'name')"
_CHECKS = "checks=[function] of an agent, a function of `prompt`, `output` or `result`"
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
    "CodeAgent": "Agent(tools=[program_tool([...])]), with program_tool of agentkit.programs",
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
    **dict.fromkeys(("BinaryContent", "DocumentUrl", "AudioUrl"), "File.read(data, 'name.pdf'), of agentkit.parts"),
    **dict.fromkeys(("TestModel", "FunctionModel"), "ScriptedLLM(...), of agentkit.testing"),
    **dict.fromkeys(("DuckDuckGoSearchTool", "DuckDuckGoTools"), "web_search_tool, or web_tools"),
    "WebSearchTool": "web_search_tool, or HostedTool('web_search') of agentkit.hosted",
    **dict.fromkeys(("CodeInterpreterTool", "CodeExecutionTool"), "python_tool, or HostedTool(...) of agentkit.hosted"),
    "PythonInterpreterTool": "python_tool",
    **dict.fromkeys(("ShellTool", "LocalShellTool"), "shell_tool"),
    **dict.fromkeys(("AgentOS", "GradioUI"), "app(agent), of agentkit.serve"),
    **{name: f"{name}_tool" for name in ("calculator", "string_length", "web_search", "fetch_url", "wikipedia")},
    **{name: f"{name}_tool" for name in ("read_file", "write_file", "list_directory")},
    "get_current_datetime": "current_datetime_tool",
    "parse_json": "json_parse_tool",
    "run_shell": "shell_tool",
    "run_python": "python_tool",
}
"""What other toolkits export under a name that there is not, or a model calls a tool, and what to write here."""


def told_of(name: str) -> str:
    """What to say to whoever imports a name from agentkit that it does not have; empty where nothing is known."""
    if name in HOMES:
        return f"{name} is in {HOMES[name]}. Write: from {HOMES[name]} import {name}"
    return f"agentkit has no {name}. Write: {FOREIGN[name]}" if name in FOREIGN else ""
