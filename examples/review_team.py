"""A supervisor with workers: three reviewers with different instructions read a file, and one review is written.

    python review_team.py [FILE] > REVIEW.md        reviews this program by default

The workers can read the folder of the file, but not change it. One limit applies to all of them.
"""

import sys
from pathlib import Path

from agentkit import Agent, AgentKitError, Limits, list_directory_tool, read_file_tool
from agentkit.events import ToolCallFinished

TASKS = {
    "safety_reviewer": "Look for security problems: inputs, paths, secrets, limits.",
    "clarity_reviewer": "Look for code that is hard to understand: names, structure, wrong comments.",
    "correctness_reviewer": "Look for bugs: edge cases, unhandled errors, wrong results.",
}
REVIEWER = "You review one file. Read it first. Name the line for each finding; report nothing if you find nothing. "
INSTRUCTION = """Call all reviewers in parallel. Then write one review in Markdown, with the most severe finding first.
Remove duplicates, and report where the reviewers disagree."""


def main(path: str = __file__) -> None:
    """Print the review, and the answers of the reviewers to standard error."""
    file, tools = Path(path).resolve(strict=True), [read_file_tool, list_directory_tool]
    workers = [Agent(name, tools, REVIEWER + task, workspace=file.parent) for name, task in TASKS.items()]
    limits = Limits(total_tokens=300_000)
    supervisor = Agent("supervisor", [worker.as_tool() for worker in workers], INSTRUCTION, limits=limits)
    supervisor.on(ToolCallFinished, lambda event: print(f"{event.call.name}: {event.result.content}", file=sys.stderr))
    result = supervisor.run(f"Review {file.name}.").raise_for_status()
    print(result.output)
    print(f"{result.usage.requests} requests, {result.usage.total_tokens} tokens", file=sys.stderr)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except (AgentKitError, OSError) as error:
        sys.exit(f"Error: {error}")
