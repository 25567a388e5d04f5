"""A program that kills the process of a durable function at each stored entry and then runs it to its end.

`durable_program.py FOLDER FIRST LAST` kills a process before and after each entry from FIRST to LAST, and prints a line
of JSON for each kill: how the killed process ended, the result after it, and how often each effect happened.
"""

import json
import os
import sys
import threading
import traceback
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from killed_program import MortalStore, Notebook

from agentkit import Agent, Limits
from agentkit.agents.durable import StepFailed, ask_person, durable, step, wait_until
from agentkit.messages import ToolMessage
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, call

NEVER = (10**9, "before")


def decide(request):
    """Call a tool twice for each prompt, then answer."""
    prompt = next(each.content for each in reversed(request.messages) if type(each).__name__ == "UserMessage")
    if isinstance(request.messages[-1], ToolMessage):
        return f"found {prompt}"
    return [call("look", token=f"{prompt}/{index}") for index in range(2)]


def carry_out(folder, dies):
    """Run the function to its end in this process, unless it is killed; return its result and usage."""
    effects = Notebook(folder / "effects")

    def look(token: str) -> str:
        """Look something up."""
        effects.add(f"tool {token}")
        return f"seen {token}"

    def note(token: str) -> str:
        effects.add(f"step {token}")
        return f"noted {token}"

    def now() -> str:
        return datetime.now(UTC).isoformat()

    def broken() -> None:
        effects.add("step broken")
        raise OSError("no disk")

    llm = ScriptedLLM(decide, repeat=True)
    researcher, writer = Agent("researcher", [look], llm=llm), Agent("writer", [look], llm=llm)

    @durable(limits=Limits(tool_calls=100), version="1")
    def trip(city: str) -> list[str]:
        first = step(note, f"begin {city}")
        found = [researcher.run(prompt).output for prompt in ("one", "two")]
        texts = [each.output for each in writer.map(["a", "b"], concurrency=2)]
        many = step.map(note, ["x", "y", "z"])
        wait_until(datetime.fromisoformat(step(now)) + timedelta(seconds=0.01))
        try:
            step(broken)
        except StepFailed as error:
            first += f", {error}"
        answer = ask_person("Send it?")
        return [first, *found, *texts, *many, answer, step(note, "end")]

    store = MortalStore(folder / "sessions.db", dies)
    result = trip.run(Session.open(store, "trip"), "Hue")
    if result.status == "paused":
        result = trip.resume(Session.open(store, "trip"), "yes")
    return result.output, result.usage.requests


def in_child(folder, dies):
    """Run the function in a child process; return its exit code, which is negative for a signal."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        (folder / "result").write_text(json.dumps(carry_out(folder, dies)))
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


def main():
    """Kill a process at each entry, and report the outcomes."""
    place, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for number in range(first, last + 1):
        for instant in ("before", "after"):
            folder = place / f"{number}-{instant}"
            folder.mkdir()
            died = in_child(folder, (number, instant))
            again = in_child(folder, NEVER)
            effects = Counter((folder / "effects").read_text().splitlines())
            output, requests = json.loads((folder / "result").read_text()) if again == 0 else (None, 0)
            report = {"kill": [number, instant], "died": died, "again": again, "output": output, "requests": requests}
            sys.stdout.write(json.dumps(report | {"effects": effects}) + "\n")
            sys.stdout.flush()
    assert threading.active_count() == 1


if __name__ == "__main__":
    main()
