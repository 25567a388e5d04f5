"""Command that compares the tokens that libraries send for the same ten tasks, with a scripted model on a local server.

    python -m benchmarks.coding [--deepagents PYTHON] [--smolagents PYTHON]

A PYTHON is an interpreter with that library installed. Tokens are estimated from the messages and tools of each
request, with one function for all libraries.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agentkit.sessions.token_estimates import tokens_in
from benchmarks.coding.tasks import ANSWER, TASKS, Action, Task, write_files

LIBRARIES = ("agentkit", "deepagents", "smolagents")
Call = tuple[str, dict[str, Any]]


def agentkit_call(action: Action) -> Call:
    """The call of agentkit's tools for an action."""
    match action:
        case ("read", path):
            return "read_file", {"path": path}
        case ("search", pattern):
            return "search_files", {"pattern": pattern}
        case ("edit", path, old, new):
            return "edit_file", {"path": path, "old_text": old, "new_text": new}
        case ("write", path, content):
            return "write_file", {"path": path, "content": content}
        case ("run", command):
            return "run_shell", {"command": command}
    return "update_plan", {"steps": [{"step": step, "status": status} for step, status in action[1:]]}


_STATUS = {"active": "in_progress", "done": "completed", "pending": "pending"}


def deepagents_call(action: Action) -> Call:
    """The call of deepagents' tools for an action."""
    match action:
        case ("read", path):
            return "read_file", {"file_path": f"/{path}"}
        case ("search", pattern):
            return "grep", {"pattern": pattern.replace("\\", ""), "output_mode": "content"}
        case ("edit", path, old, new):
            return "edit_file", {"file_path": f"/{path}", "old_string": old, "new_string": new}
        case ("write", path, content):  # write_file creates files only
            file = f"cat > {path} <<'EOF'\n{content}EOF"
            return "execute", {"command": file}
        case ("run", command):
            return "execute", {"command": command}
    return "write_todos", {"todos": [{"content": step, "status": _STATUS[status]} for step, status in action[1:]]}


def smolagents_call(action: Action) -> Call:
    """The call of the tools that the worker defines for smolagents, which has no file tools."""
    name, arguments = agentkit_call(action)
    return name, arguments


CALLS: dict[str, Callable[[Action], Call]] = {
    "agentkit": agentkit_call,
    "deepagents": deepagents_call,
    "smolagents": smolagents_call,
}


@dataclass
class Script:
    """The answers to the requests of one task, and what the requests contained."""

    library: str
    task: Task
    tokens: list[int] = field(default_factory=list)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The message of the model for a request."""
        place = len(self.tokens)
        self.tokens.append(round(tokens_in(json.dumps([request["messages"], request.get("tools", [])]))))
        actions = self.task.responses[place] if place < len(self.task.responses) else ()
        calls = [
            CALLS[self.library](action) for action in actions if (action[0], self.library) != ("plan", "smolagents")
        ]
        if self.library == "smolagents":
            lines = [f"print({name}(**{arguments!r}))" for name, arguments in calls]
            lines += [] if actions else [f"final_answer({ANSWER!r})"]
            return {
                "role": "assistant",
                "content": "Thought: next.\n<code>\n" + "\n".join(lines or ["pass"]) + "\n</code>",
            }
        if not calls:
            return {"role": "assistant", "content": ANSWER}
        used = [
            {
                "id": f"call_{place}_{at}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for at, (name, arguments) in enumerate(calls)
        ]
        return {"role": "assistant", "content": "", "tool_calls": used}


def serve(script: Script) -> ThreadingHTTPServer:
    """Start an OpenAI-compatible server on 127.0.0.1 that answers with the script."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            message = script.answer(request)
            reason = "tool_calls" if message.get("tool_calls") else "stop"
            usage = {
                "prompt_tokens": script.tokens[-1],
                "completion_tokens": 10,
                "total_tokens": script.tokens[-1] + 10,
            }
            choice = {"index": 0, "message": message, "finish_reason": reason}
            body = json.dumps(
                {
                    "id": "c",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "m",
                    "choices": [choice],
                    "usage": usage,
                }
            ).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


async def run_task(library: str, python: str, task: Task) -> tuple[bool, list[int]]:
    """Run a task in a new folder; returns whether its check passes, and the tokens of each request."""
    script = Script(library, task)
    server = serve(script)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_files(task, folder)
        worker = str(Path(__file__).with_name("worker.py"))
        command = (python, worker, library, f"http://127.0.0.1:{server.server_port}/v1", str(folder), task.prompt)
        await (await asyncio.create_subprocess_exec(*command)).wait()
        server.shutdown()
        check = await asyncio.create_subprocess_shell(
            task.check, cwd=folder, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        return await check.wait() == 0, script.tokens


async def measure(pythons: dict[str, str], tasks: Sequence[Task]) -> None:
    """Run all tasks with each library, and print a table."""
    print("| library | tasks done | requests | tokens of all requests | of the first request |")
    print("|---|---|---|---|---|")
    for library, python in pythons.items():
        ran = [await run_task(library, python, task) for task in tasks]
        failed = [task.name for task, (done, _) in zip(tasks, ran, strict=True) if not done]
        tokens = [sent for _, sent in ran]
        first = round(sum(sent[0] for sent in tokens if sent) / len(tokens))
        done = f"{len(tasks) - len(failed)} of {len(tasks)}"
        print(f"| {library} | {done} | {sum(map(len, tokens))} | {sum(map(sum, tokens)):,} | {first:,} |", flush=True)
        if failed:
            print(f"not done by {library}: {', '.join(failed)}", file=sys.stderr)


def main() -> None:
    """Measure the libraries whose interpreters are given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for library in LIBRARIES[1:]:
        parser.add_argument(f"--{library}", metavar="PYTHON", help=f"the interpreter of an environment with {library}")
    given = {"agentkit": sys.executable, **vars(parser.parse_args())}
    asyncio.run(measure({name: python for name, python in given.items() if python}, TASKS))


if __name__ == "__main__":
    main()
