"""agentkit: a batteries-included agent toolkit. Every tool call is judged, explained, bounded, replayable, undoable.

Importing the package loads almost nothing: each public name is imported on first use.
"""

from agentkit._version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentkit.agents.agent import Agent as Agent
    from agentkit.agents.default import agent as agent
    from agentkit.agents.result import RunFinished as RunFinished
    from agentkit.agents.result import RunResult as RunResult
    from agentkit.agents.run_config import budget as budget
    from agentkit.content import File as File
    from agentkit.content import Image as Image
    from agentkit.decisions import Decision as Decision
    from agentkit.decisions import SafetyLevel as SafetyLevel
    from agentkit.decisions import Verdict as Verdict
    from agentkit.errors import AgentKitError as AgentKitError
    from agentkit.errors import ConfigError as ConfigError
    from agentkit.errors import LimitExceeded as LimitExceeded
    from agentkit.errors import ModelError as ModelError
    from agentkit.errors import NoProvider as NoProvider
    from agentkit.errors import RunError as RunError
    from agentkit.errors import ToolError as ToolError
    from agentkit.evals.suite import Suite as Suite
    from agentkit.events import TextDelta as TextDelta
    from agentkit.knowledge.knowledge import Knowledge as Knowledge
    from agentkit.llm.client import LLM as LLM
    from agentkit.mcp.client import MCPServer as MCPServer
    from agentkit.messages import Response as Response
    from agentkit.messages import ToolResult as ToolResult
    from agentkit.safety.approval import Approval as Approval
    from agentkit.safety.approval import ApprovalRequest as ApprovalRequest
    from agentkit.safety.policy import Policy as Policy
    from agentkit.safety.rules import Rule as Rule
    from agentkit.sessions.context_window import Window as Window
    from agentkit.sessions.session import Session as Session
    from agentkit.tooling.run_context import RunContext as RunContext
    from agentkit.tooling.tool import Tool as Tool
    from agentkit.tooling.tool import tool as tool
    from agentkit.tooling.toolset import Toolset as Toolset
    from agentkit.tools.catalog import default_tools as default_tools
    from agentkit.tools.catalog import system_tools as system_tools
    from agentkit.tools.catalog import web_tools as web_tools
    from agentkit.tools.core import calculator_tool as calculator_tool
    from agentkit.tools.core import core_tools as core_tools
    from agentkit.tools.core import current_datetime_tool as current_datetime_tool
    from agentkit.tools.core import json_parse_tool as json_parse_tool
    from agentkit.tools.core import string_length_tool as string_length_tool
    from agentkit.tools.files import list_directory_tool as list_directory_tool
    from agentkit.tools.files import read_file_tool as read_file_tool
    from agentkit.tools.files import write_file_tool as write_file_tool
    from agentkit.tools.hosted import HostedTool as HostedTool
    from agentkit.tools.system import python_tool as python_tool
    from agentkit.tools.system import shell_tool as shell_tool
    from agentkit.tools.web import fetch_url_tool as fetch_url_tool
    from agentkit.tools.web import web_search_tool as web_search_tool
    from agentkit.tools.web import wikipedia_tool as wikipedia_tool
    from agentkit.usage import Limits as Limits
    from agentkit.usage import Usage as Usage


_MODULES = {
    "Agent": "agents.agent",
    "AgentKitError": "errors",
    "Approval": "safety.approval",
    "ApprovalRequest": "safety.approval",
    "ConfigError": "errors",
    "Decision": "decisions",
    "File": "content",
    "HostedTool": "tools.hosted",
    "Image": "content",
    "Knowledge": "knowledge.knowledge",
    "LLM": "llm.client",
    "LimitExceeded": "errors",
    "Limits": "usage",
    "MCPServer": "mcp.client",
    "ModelError": "errors",
    "NoProvider": "errors",
    "Policy": "safety.policy",
    "Response": "messages",
    "Rule": "safety.rules",
    "RunContext": "tooling.run_context",
    "RunError": "errors",
    "RunFinished": "agents.result",
    "RunResult": "agents.result",
    "SafetyLevel": "decisions",
    "Session": "sessions.session",
    "Suite": "evals.suite",
    "TextDelta": "events",
    "Tool": "tooling.tool",
    "ToolError": "errors",
    "ToolResult": "messages",
    "Toolset": "tooling.toolset",
    "Usage": "usage",
    "Verdict": "decisions",
    "Window": "sessions.context_window",
    "agent": "agents.default",
    "budget": "agents.run_config",
    "calculator_tool": "tools.core",
    "core_tools": "tools.core",
    "current_datetime_tool": "tools.core",
    "default_tools": "tools.catalog",
    "fetch_url_tool": "tools.web",
    "json_parse_tool": "tools.core",
    "list_directory_tool": "tools.files",
    "python_tool": "tools.system",
    "read_file_tool": "tools.files",
    "shell_tool": "tools.system",
    "string_length_tool": "tools.core",
    "system_tools": "tools.catalog",
    "tool": "tooling.tool",
    "web_search_tool": "tools.web",
    "web_tools": "tools.catalog",
    "wikipedia_tool": "tools.web",
    "write_file_tool": "tools.files",
}
"""Each public name and the module below `agentkit` that defines it."""

__all__ = list(_MODULES)


_OTHER_MODULES = (
    *("events", "errors", "messages", "content", "usage", "code_mode", "evals", "knowledge"),
    *(
        "llm.pricing",
        "mcp",
        "agents.result",
        "safety.terminal_approver",
        "server",
        "testing",
        "tools.files",
        "tools.human",
        "tools.planning",
        "agents.coding",
        "agents.durable",
    ),
    *("tools.skills", "tools.web", "tracing"),
)
"""Modules with further names for users, in the order in which they are searched for a missing name."""


def __getattr__(name: str) -> object:
    """Import a public name on first access and cache it."""
    import sys
    from importlib import import_module

    if name not in _MODULES:
        module = _defining_module(name)
        if module:  # not an AttributeError: `from agentkit import` would replace its message
            raise ImportError(f"{name} is in {module}. Write: from {module} import {name}", name=__name__)
        raise AttributeError(f"module 'agentkit' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    value = getattr(import_module(f"agentkit.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def _defining_module(name: str) -> str:
    """The module with a name that is not exported here, or an empty string."""
    import re
    from importlib import import_module
    from importlib.util import find_spec

    if name.startswith("_") or find_spec(f"agentkit.{name}"):  # `from agentkit import errors` looks here first
        return ""
    for module in map("agentkit.{}".format, _OTHER_MODULES):
        value = getattr(import_module(module), name, None)
        if re.match(r"agentkit\.(?!_)", getattr(value, "__module__", "")):
            return module
    return ""


def __dir__() -> list[str]:
    return list({*globals(), *_MODULES})
