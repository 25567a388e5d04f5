"""Research a question on the web. Each statement cites a page; statements with unopened pages are marked.

python research.py ["QUESTION" [HOST ...]]        HOST allows a host of your network, such as wiki:8080
"""

import sys
from dataclasses import dataclass

from agentkit import Agent, AgentKitError, web_search_tool
from agentkit.tools.web import fetch_tool

INSTRUCTION = "Search, open the best pages, and state only what they say. Say where they disagree."


@dataclass
class Finding:
    """A statement, and the URL of the opened page that supports it."""

    statement: str
    source: str


def main(question: str = "How do plants know when to flower?", *hosts: str) -> None:
    """Print the findings and their sources."""
    tools = [web_search_tool, fetch_tool(allow_hosts=hosts)]
    researcher = Agent("researcher", tools, INSTRUCTION, 20, output_type=list[Finding])
    result = researcher.run(question).raise_for_status()
    opened = {page["url"] for page in result.values("fetch_url") if "error" not in page}
    for finding in result.output:
        print(f"{finding.statement}\n    {finding.source} {'' if finding.source in opened else '(NEVER OPENED)'}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except AgentKitError as error:
        sys.exit(f"Error: {error}")
