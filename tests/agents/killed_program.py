"""A program that is killed: an agent runs errands over a stored session, each in a separate process.

It reads orders from standard input, one JSON object per line, and runs each in a forked child. It prints the child's id
and, after another line of input, how the child ended. The keys of an order:

    place, session   the location of the conversation
    prompt           the prompt to run; without it, the newest run is resumed
    way              run, arun, stream or astream
    folder           a folder in which `effects` gets a line for each effect of a tool, and `told` one for each
                     stored event that the agent has reported
    dies             optional, [number, "before" or "after"]: the stored entry at which the child exits
"""

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

from agentkit import Agent
from agentkit.agents.result import Resumption, RunFinished
from agentkit.events import StoredEvent
from agentkit.messages import AssistantMessage, UserMessage
from agentkit.sessions.codec import encode, to_line
from agentkit.sessions.session import Session
from agentkit.sessions.stores.sqlite import SQLiteSessionStore
from agentkit.testing import ScriptedLLM, call
from agentkit.tooling.tool import Tool

REQUESTED_CALLS = (("note", "slow_note", "look"), ("note",), ("slow_note", "look", "slow_note", "note"))
"""The tools that each response of the model calls; after these, it answers."""


class MortalStore(SQLiteSessionStore):
    """A store whose process exits at a given write."""

    def __init__(self, path, dies):
        super().__init__(path)
        self._left, self._instant = dies

    def append(self, session, entries):
        """Write the entry, unless the process exits before or after."""
        self._left -= 1
        if self._left == 0 and self._instant == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().append(session, entries)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Notebook:
    """A file of lines. Each line is complete once `add` returns, even if the process is then killed."""

    def __init__(self, path):
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, line):
        """Add a line."""
        os.write(self._descriptor, f"{line}\n".encode())


def tools_over(effects):
    """Tools that add a line to a notebook; `look` is idempotent."""

    def note(token: str) -> str:
        """Note something down."""
        effects.add(token)
        return f"noted {token}"

    def slow_note(token: str) -> str:
        """Note something down, slowly."""
        time.sleep(0.004)
        effects.add(token)
        time.sleep(0.004)
        return f"noted {token}"

    def look(token: str) -> str:
        """Look at something."""
        effects.add(token)
        time.sleep(0.002)
        return f"seen {token}"

    return [note, slow_note, Tool(look, idempotent=True)]


def decide(request):
    """Return the model's reply: the next calls for the newest prompt, and finally the answer."""
    prompts = [index for index, message in enumerate(request.messages) if isinstance(message, UserMessage)]
    prompt = request.messages[prompts[-1]].content
    since = request.messages[prompts[-1] :]
    number = sum(isinstance(message, AssistantMessage) for message in since)
    if number == len(REQUESTED_CALLS):
        return f"Done: {prompt}."
    return [call(tool, token=f"{prompt}/{number}/{index}") for index, tool in enumerate(REQUESTED_CALLS[number])]


async def collected(events):
    """Return everything that an asynchronous stream yields."""
    return [event async for event in events]


def drive(agent, mode, prompt):
    """Return the result of a run in one of the four ways to run an agent."""
    match mode:
        case "run":
            return agent.run(prompt)
        case "arun":
            return asyncio.run(agent.arun(prompt))
        case "stream":
            events = list(agent.stream(prompt))
        case _:
            events = asyncio.run(collected(agent.astream(prompt)))
    assert isinstance(events[-1], RunFinished)
    return events[-1].result


def carry_out(order):
    """Run the given order."""
    folder = Path(order["folder"])
    store = MortalStore(order["place"], order["dies"]) if "dies" in order else order["place"]
    notebook = Notebook(folder / "told")
    agent = Agent(
        "helper",
        tools_over(Notebook(folder / "effects")),
        llm=ScriptedLLM(decide, repeat=True),
        session=Session.open(store, order["session"]),
    )
    agent.on(StoredEvent, lambda event: notebook.add(to_line(encode(event))))
    result = drive(agent, order["way"], order["prompt"] if "prompt" in order else Resumption())
    assert (result.status, result.output) == ("done", f"Done: {result.messages[0].content}."), result


def main():
    """Run each order in a child process."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            die_after(json.loads(line))
        say(child)
        sys.stdin.readline()
        say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def die_after(order):
    """Run an order and exit without the process's usual cleanup."""
    code = 1
    try:
        carry_out(order)
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


def say(number):
    """Write a number to standard output."""
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
