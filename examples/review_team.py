"""A supervisor with workers: three reviewers read a file, each with other eyes, and the supervisor writes one review.

    python review_team.py [FILE] > REVIEW.md        without a file this program is reviewed

The workers may read the folder of the file and change nothing. What all of them spend counts against one limit.
"""

import sys
from pathlib import Path

from agentkit import Agent, AgentKitError, Limits, list_directory_tool, read_file_tool
from agentkit.events import ToolCallFinished

EYES = {
    "safety_reviewer": "Look for what an attacker or a careless user could do: inputs, paths, secrets, limits.",
    "clarity_reviewer": "Look for what a newcomer would misread: names, structure, comments that are not true.",
    "correctness_reviewer": "Look for what goes wrong: edge cases, errors that nobody handles, wrong results.",
}
REVIEWER = "You review one file. Read it first. Name the line for each finding; no finding is a good answer, too. "
ORDER = """Let all reviewers look at the file, at the same time. Then write one review in Markdown, the gravest finding
first. Leave out what is said twice, and say so where the reviewers disagree."""


def main(path: str = __file__) -> None:
    """Print the review; what each reviewer has said goes to standard error."""
    file, tools = Path(path).resolve(strict=True), [read_file_tool, list_directory_tool]
    workers = [Agent(name, tools, REVIEWER + eyes, workspace=file.parent) for name, eyes in EYES.items()]
    limits = Limits(total_tokens=300_000)
    supervisor = Agent("supervisor", [worker.as_tool() for worker in workers], ORDER, limits=limits)
    supervisor.on(ToolCallFinished, lambda event: print(f"{event.call.name}: {event.result.content}", file=sys.stderr))
    result = supervisor.run(f"Review {file.name}.").raise_for_status()
    print(result.output)
    print(f"{result.usage.requests} requests, {result.usage.total_tokens} tokens", file=sys.stderr)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except (AgentKitError, OSError) as error:
        sys.exit(f"No review: {error}")
