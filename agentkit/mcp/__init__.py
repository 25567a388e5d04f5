"""MCP support: tools from MCP servers, and agentkit tools for MCP clients, under the same policy engine.

    from agentkit.mcp import MCPServer, serve

    Agent("helper", tools=[MCPServer("uvx mcp-server-time")])   # the tools of a server, for an agent
    serve(core_tools)                                           # agentkit tools, for any MCP client

Requires the extra `mcp`, which is imported lazily.
"""

from __future__ import annotations

from agentkit.mcp.client import MCPServer, connect
from agentkit.mcp.config import ListedServers, connect_file, read_servers
from agentkit.mcp.content import Prompt, PromptArgument, Resource
from agentkit.mcp.login_store import ClientCredentials, Login
from agentkit.mcp.sdk.server import CallingClient, calling_client
from agentkit.mcp.server import Address, ToolServer, serve

__all__ = [
    "Address",
    "CallingClient",
    "ClientCredentials",
    "ListedServers",
    "Login",
    "MCPServer",
    "Prompt",
    "PromptArgument",
    "Resource",
    "ToolServer",
    "calling_client",
    "connect",
    "connect_file",
    "read_servers",
    "serve",
]
