"""Web tools: fetch, search and Wikipedia."""

from agentkit.tools.web.fetch import fetch_tool, fetch_url_tool
from agentkit.tools.web.search import search_tool, web_search_tool
from agentkit.tools.web.wikipedia import encyclopedia_tool, wikipedia_tool

__all__ = ["encyclopedia_tool", "fetch_tool", "fetch_url_tool", "search_tool", "web_search_tool", "wikipedia_tool"]
