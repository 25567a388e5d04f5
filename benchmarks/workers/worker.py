"""Worker process: `python worker.py ADAPTER` reads tasks and writes results as JSON lines.

A result contains the wall and CPU nanoseconds of each run, the values of the runs, and the memory of the process.
`python worker.py ADAPTER URL` sends one question to the server, prints the answer and ends, to measure the first answer
of a new process.
"""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    """Run as the arguments select."""
    name, *url = sys.argv[1:]
    if url:
        sys.stdout.write(importlib.import_module(name).ask(url[0], ())() + "\n")
        sys.stdout.flush()
        return
    from tasks import serve

    serve(name)


if __name__ == "__main__":
    main()
