"""Chat with an agent that stores the conversation, and continues it after a restart or a crash.

python chat_with_memory.py [NAME]        one conversation per name; end with Ctrl-D or an empty line
"""

import sys

from agentkit import LLM, Agent, AgentKitError, RunFinished, core_tools
from agentkit.agents.result import Resumption
from agentkit.events import TextDelta


def answer(friend: Agent[str], prompt: str | Resumption) -> None:
    """Print the answer as it is streamed."""
    for event in friend.stream(prompt):
        if isinstance(event, TextDelta):
            print(event.text, end="", flush=True)
        elif isinstance(event, RunFinished):
            print(f"\n(No answer: {event.result.error})" if event.result.error else "")


def main(name: str = "chat") -> None:
    """Continue the conversation with this name."""
    friend = Agent("friend", core_tools, "You are good company. Be brief.", llm=LLM(), session=name)
    print(f"{len(friend.history)} messages so far.")
    if friend.session.unfinished:
        print("Continuing the interrupted answer:")
        answer(friend, Resumption())
    while prompt := input("> ").strip():
        answer(friend, prompt)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except (EOFError, KeyboardInterrupt):
        print()
    except AgentKitError as error:
        sys.exit(f"Error: {error}")
