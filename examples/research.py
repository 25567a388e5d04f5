"""Research a question on the web. Each statement cites its page, and one whose page was never opened is marked.

python research.py ["QUESTION" [HOST ...]]        hosts of your own network, such as wiki:8080, may be read, too
"""

import sys
from dataclasses import dataclass

from agentkit import Agent, AgentKitError, web_search_tool
from agentkit.tools.web import fetch_tool

ORDER = "Search, open the best pages, and state only what they say. Say where they disagree."


@dataclass
class Finding:
    """One statement, and the URL of the page that says so, as it was opened."""

    statement: str
    source: str


def main(question: str = "How do plants know when to flower?", *hosts: str) -> None:
    """Print the findings and their sources."""
    tools = [web_search_tool, fetch_tool(allow_hosts=hosts)]
    researcher = Agent("researcher", tools, ORDER, 20, output_type=list[Finding])
    result = researcher.run(question).raise_for_status()
    opened = {page["url"] for page in result.values("fetch_url") if "error" not in page}
    for finding in result.output:
        print(f"{finding.statement}\n    {finding.source} {'' if finding.source in opened else '(NEVER OPENED)'}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except AgentKitError as error:
        sys.exit(f"No answer: {error}")
