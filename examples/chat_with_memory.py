"""Chat with an agent that remembers: the conversation is there tomorrow, and also after the program was killed.

python chat_with_memory.py [NAME]        one conversation for each name; end with Ctrl-D or an empty line
"""

import sys

from agentkit import LLM, Agent, AgentKitError, RunFinished, core_tools
from agentkit.agents.result import Resumption
from agentkit.events import TextDelta


def answer(friend: Agent[str], prompt: str | Resumption) -> None:
    """Print the answer as it is written."""
    for event in friend.stream(prompt):
        if isinstance(event, TextDelta):
            print(event.text, end="", flush=True)
        elif isinstance(event, RunFinished):
            print(f"\n(No answer: {event.result.error})" if event.result.error else "")


def main(name: str = "chat") -> None:
    """Go on with the conversation of this name."""
    friend = Agent("friend", core_tools, "You are good company. Be brief.", llm=LLM(), session=name)
    print(f"{len(friend.history)} messages so far.")
    if friend.session.unfinished:
        print("The last answer was cut off. It goes on:")
        answer(friend, Resumption())
    while prompt := input("> ").strip():
        answer(friend, prompt)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except (EOFError, KeyboardInterrupt):
        print()
    except AgentKitError as error:
        sys.exit(f"No chat: {error}")
