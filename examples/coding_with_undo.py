"""A supervised coding agent: it needs approval for changes, shows the diff, and can undo all changes.

    python coding_with_undo.py ["TASK" [FOLDER]]

Reading and searching need no approval. Commands run in a sandbox without network and keys.
"""

import sys

from agentkit import Agent, AgentKitError, system_tools
from agentkit.events import ToolCallFinished
from agentkit.safety.terminal_approver import TerminalApprover
from agentkit.tools.files import edit_file_tool, search_files_tool

INSTRUCTION = "You are a careful programmer. Read before you change, change little, and run the tests if there are any."


def show(event: ToolCallFinished) -> None:
    """Print a tool call and its status."""
    print(f"  {event.call.name} {event.call.arguments[:100]} -> {event.result.status}", file=sys.stderr)


def main(task: str = "Find and fix a bug in this folder.", folder: str = ".") -> None:
    """Run the task, then ask whether to keep the changes."""
    tools = system_tools + edit_file_tool + search_files_tool
    coder = Agent("coder", tools, INSTRUCTION, 40, approve=TerminalApprover(), workspace=folder)
    coder.on(ToolCallFinished, show)
    result = coder.run(task)
    print(result.output or result.error)
    if result.changes:
        print(result.changes)
        if input("Keep the changes? [y/N] ").strip().lower() != "y":
            print(result.undo())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except AgentKitError as error:
        sys.exit(f"Error: {error}")
