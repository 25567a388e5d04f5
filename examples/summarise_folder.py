"""Summarise the text files of a folder. The agent may read there and nothing else: it has no tool that writes.

    python summarise_folder.py [FOLDER] > SUMMARY.md

Any provider will do: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own, or see docs/models.md.
"""

import sys

from agentkit import Agent, AgentKitError, system_tools
from agentkit.events import ToolCallFinished

INSTRUCTION = """You summarise a folder. List it, and the folders in it, read what looks worth reading, and answer in
Markdown: first a paragraph on what the folder is about, then one line for each file that you have read. Say of the
others that you have not read them. Never guess what a file says."""


def show(event: ToolCallFinished) -> None:
    """Tell on the way what is read, and what could not be."""
    print(f"{event.call.name} {event.call.arguments} {event.result.error or ''}", file=sys.stderr)


def main(folder: str = ".") -> None:
    """Print the summary; what is read on the way goes to standard error."""
    tools = system_tools.only("list_directory", "read_file")
    reader = Agent("reader", tools, INSTRUCTION, max_iterations=30, workspace=folder)
    reader.on(ToolCallFinished, show)
    print(reader("Summarise this folder."))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except AgentKitError as error:
        sys.exit(f"No summary: {error}")
