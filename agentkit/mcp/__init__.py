"""How do tools come from elsewhere, and how do others use ours? Over the Model Context Protocol, judged as ever.

    from agentkit.mcp import MCPServer, serve

    Agent("helper", tools=[MCPServer("uvx mcp-server-time")])   # the tools of a server, for an agent
    serve(core_tools)                                           # our tools, for any MCP client

It needs the extra `mcp`. Importing this loads nothing of it.
"""

from __future__ import annotations

from agentkit.mcp.client import MCPServer, connect
from agentkit.mcp.listed.servers import ListedServers, connect_file, read_servers
from agentkit.mcp.logins.terms import ClientCredentials, Login
from agentkit.mcp.sdk.contents import Prompt, PromptArgument, Resource
from agentkit.mcp.serving import Address, ToolServer, serve

__all__ = [
    "Address",
    "ClientCredentials",
    "ListedServers",
    "Login",
    "MCPServer",
    "Prompt",
    "PromptArgument",
    "Resource",
    "ToolServer",
    "connect",
    "connect_file",
    "read_servers",
    "serve",
]
