"""Summarise the text files of a folder. The agent can only read: it has no tools for writing.

    python summarise_folder.py [FOLDER] > SUMMARY.md

Set OPENAI_API_KEY, or OPENAI_BASE_URL for your own server. docs/models.md lists other providers.
"""

import sys

from agentkit import Agent, AgentKitError, system_tools
from agentkit.events import ToolCallFinished

INSTRUCTION = """You summarise a folder. List it and its subfolders, read the relevant files, and answer in
Markdown: first a paragraph about the folder, then one line for each file that you have read. List the files
that you have not read. Never guess the content of a file."""


def show(event: ToolCallFinished) -> None:
    """Print a tool call and its error."""
    print(f"{event.call.name} {event.call.arguments} {event.result.error or ''}", file=sys.stderr)


def main(folder: str = ".") -> None:
    """Print the summary, and the tool calls to standard error."""
    tools = system_tools.only("list_directory", "read_file")
    reader = Agent("reader", tools, INSTRUCTION, max_iterations=30, workspace=folder)
    reader.on(ToolCallFinished, show)
    print(reader("Summarise this folder."))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except AgentKitError as error:
        sys.exit(f"Error: {error}")
