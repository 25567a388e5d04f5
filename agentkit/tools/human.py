"""Tools that talk to a person: ask, tell, finish."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agentkit.errors import Postponed
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset

Ask = Callable[[str], str | Awaitable[str]]
"""Returns a person's answer to a question; sync or async."""

Tell = Callable[[str], object]
"""Shows a message to a person; sync or async."""


def ask_user_tool(ask: Ask | None = None) -> Tool[..., Any]:
    """Create the tool `ask_user`. Without a function, the run pauses until it is resumed with the answer."""

    def ask_user(question: str) -> str | Awaitable[str]:
        """Ask the person you work for a question, and wait for the answer.

        Use it when you cannot continue without the answer: a choice that is theirs, or a detail that is available
        nowhere else. Do not ask for information that you can find yourself, and ask for everything you need in one
        question.

        Args:
            question: The question, with the information that the person needs to answer it.

        Returns:
            The person's answer, in their own words.
        """
        if ask is None:
            raise Postponed(question)
        return ask(question)

    return Tool(ask_user, timeout_seconds=None)


def tell_user_tool(tell: Tell | None = None) -> Tool[..., Any]:
    """Create the tool `tell_user`. Without a function, the message appears only in the events of the run."""

    def tell_user(message: str) -> Any:
        """Tell the person you work for something while you are still at work, without waiting for an answer.

        Use it for news that matters before the end: what you found, what you are going to do next, why it takes long.
        The answer itself does not belong here.

        Args:
            message: The message, in a sentence or two.
        """
        return None if tell is None else tell(message)

    return Tool(tell_user)


def finish(answer: str) -> str:
    """Give the final answer and end your work. Use it once, when nothing is left to do.

    Args:
        answer: The whole answer, as the person is to read it.
    """
    return answer


finish_tool = Tool(finish, ends_run=True)
"""The tool `finish`: its argument is the run's answer."""


def dialogue_tools(ask: Ask | None = None, tell: Tell | None = None) -> Toolset:
    """Return `ask_user`, `tell_user` and `finish`, using these functions to reach the person."""
    return Toolset([ask_user_tool(ask), tell_user_tool(tell), finish_tool])
