"""A program that starts or resumes a run whose program pauses, each in a separate process.

python waiting_program.py PLACE LOG [ANSWERS]: without answers, which are JSON, the run starts. Each
call of a tool adds a line to the file LOG.
"""

import json
import sys
from pathlib import Path

from agentkit import Agent, Approval, Session, tool
from agentkit.code_mode import program_tool
from agentkit.testing import ScriptedLLM, call

CODE = """
for city in ("Hue", "Hanoi"):
    euros = price(city)
    try:
        print(refund(city, euros))
    except ToolError as error:
        print(error)
print({"a", "b", "c", "d"})
"""

place, log, *given = sys.argv[1:]


def note(what: str) -> None:
    """Record a call."""
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")


@tool
def price(city: str) -> int:
    """Look up what a night costs."""
    note(f"price {city}")
    return {"Hue": 21, "Hanoi": 34}[city]


@tool(level="system")
def refund(city: str, euros: float) -> str:
    """Pay money back."""
    note(f"refund {city} {euros:g}")
    return f"{euros:g} EUR for {city}"


if __name__ == "__main__":
    lines = ["Done."] if given else [call("run_program", code=CODE), "Done."]
    agent = Agent(
        "clerk",
        [program_tool([price, refund])],
        llm=ScriptedLLM(*lines),
        session=Session.open(place, "x"),
        approve=lambda _: Approval.LATER,
    )
    result = agent.resume(answers=json.loads(given[0])) if given else agent.run("Pay them back.")
    summary = {"status": result.status, "text": result.text}
    summary["pending"] = [[each.id, each.tool, each.arguments, each.within] for each in result.pending]
    summary["values"] = [used.result.value for used in result.tool_calls]
    sys.stdout.write(json.dumps(summary))
