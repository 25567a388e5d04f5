"""A coding agent under supervision: it asks before it changes anything, shows the diff, and can take it all back.

    python coding_with_undo.py ["TASK" [FOLDER]]

Reading and searching go unasked. Commands run without network, in a sandbox that sees the folder and no keys.
"""

import sys

from agentkit import Agent, AgentKitError, system_tools
from agentkit.events import ToolCallFinished
from agentkit.safety.terminal_approver import TerminalApprover
from agentkit.tools.files import edit_file_tool, search_files_tool

ORDER = "You are a careful programmer. Read before you change, change little, and run the tests when there are any."


def show(event: ToolCallFinished) -> None:
    """One line for each tool call: what was wished for, and what came of it."""
    print(f"  {event.call.name} {event.call.arguments[:100]} -> {event.result.status}", file=sys.stderr)


def main(task: str = "Find a bug in this folder and mend it.", folder: str = ".") -> None:
    """Do the task, then ask whether the changes may stay."""
    tools = system_tools + edit_file_tool + search_files_tool
    coder = Agent("coder", tools, ORDER, 40, approve=TerminalApprover(), workspace=folder)
    coder.on(ToolCallFinished, show)
    result = coder.run(task)
    print(result.output or result.error)
    if result.changes:
        print(result.changes)
        if input("Keep this? [y/N] ").strip().lower() != "y":
            print(result.undo())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except AgentKitError as error:
        sys.exit(f"Nothing done: {error}")
