"""A worker that runs a durable function as a DBOS workflow and kills itself at a given moment.

`dbos_program.py FOLDER URL EXECUTOR MOMENT` starts or continues the workflow, answers pending calls, and prints the
result with the names of the workflow's steps. The effects of the steps and tools are recorded in FOLDER/effects.
"""

import json
import os
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dbos import DBOS, SetWorkflowID

from agentkit import Agent, Limits
from agentkit.agents.dbos_engine import dbos_workflow
from agentkit.agents.durable import StepFailed, ask_person, durable, step, wait_until
from agentkit.agents.result import RunFinished
from agentkit.messages import ToolMessage
from agentkit.testing import ScriptedLLM, call
from agentkit.tooling.tool import Tool

FOLDER, URL, EXECUTOR, MOMENT = sys.argv[1:]


def reach(moment):
    """Die if this is the requested moment."""
    if moment == MOMENT:
        os.kill(os.getpid(), signal.SIGKILL)


def note(text):
    """Record an effect, and die if this is the requested moment."""
    with Path(FOLDER, "effects").open("a", encoding="utf-8") as effects:
        effects.write(f"{text}\n")
    reach(text)


def pack(city: str) -> str:
    """Pack for a trip; raise an error for Rome."""
    note(f"pack {city}")
    if city == "Rome":
        raise ValueError("no ticket")
    return f"packed for {city}"


def look(city: str) -> str:
    """Look something up."""
    note(f"look {city}")
    return f"seen {city}"


def book(city: str) -> str:
    """Book a room."""
    note(f"book {city}")
    return f"a room in {city}"


def decide(request):
    """Call the agent's tool with the prompt, then answer with its result."""
    newest = request.messages[-1]
    return newest.content if isinstance(newest, ToolMessage) else call(request.tools[0].name, city=newest.content)


def after_run(event):
    """Die after a run of an agent is stored, and before DBOS stores its step."""
    if isinstance(event, RunFinished) and event.result.status == "done":
        reach("answered")


llm = ScriptedLLM(decide, repeat=True)
guide = Agent("guide", [look], llm=llm, listeners=[after_run])
clerk = Agent("clerk", [Tool(book, level="system")], llm=llm, approve="later")


@durable(limits=Limits(tool_calls=7))
def trip(city: str) -> list[str]:
    """Use steps, agents, batches and waits."""
    first = step(pack, city)
    seen = [guide.run(city).output, *(each.output for each in guide.map(["Da Lat", "Vinh"], concurrency=1))]
    packed = step.map(pack, ["Hanoi", "Sa Pa"])
    wait_until(datetime.now(UTC) + timedelta(seconds=0.1))
    try:
        step(pack, "Rome")
    except StepFailed as error:
        first += f", {error}"
    rooms = [clerk.run(city).output, *(each.output for each in clerk.map(["Hoi An", "My Son"]))]
    return [first, *seen, *packed, *rooms, ask_person("Send it?")]


def answers_to(pending):
    """Answer each question, and approve each call."""
    return {each["id"]: "yes" if each["needs_answer"] else True for each in pending}


def main():
    """Run the workflow to its end, unless this process is killed."""
    workflow = dbos_workflow(trip, URL if URL.startswith("postgresql") else f"{FOLDER}/sessions.db")
    config = {"name": "trips", "system_database_url": URL, "executor_id": EXECUTOR, "log_level": "ERROR"}
    DBOS(config=config | {"notification_listener_polling_interval_sec": 0.05})
    DBOS.launch()
    status, answered = DBOS.get_workflow_status("trip"), None
    if status is None:
        with SetWorkflowID("trip"):
            DBOS.start_workflow(workflow, "Hue")
    elif status.executor_id != EXECUTOR:
        DBOS.resume_workflow("trip")
    handle = DBOS.retrieve_workflow("trip")
    while handle.get_status().status in ("PENDING", "ENQUEUED"):
        pending = DBOS.get_event("trip", "pending", timeout_seconds=0)
        if pending and pending != answered:
            reach(f"waiting {pending[0]['tool']}")
            answered = pending
            DBOS.send("trip", answers_to(pending), "answers")
        time.sleep(0.02)
    names = [each["function_name"] for each in DBOS.list_workflow_steps("trip")]
    sys.stdout.write(json.dumps([handle.get_result(), [name for name in names if not name.startswith("DBOS.")]]))
    DBOS.destroy()


if __name__ == "__main__":
    main()
