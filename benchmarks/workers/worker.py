"""How does a measured process talk to the harness? `python worker.py ADAPTER`: JSON lines in, JSON lines out.

A line asks for a task and is answered with the nanoseconds that each run took, of the clock and of the processor; with
the values that the runs gave; and with what the process has used of memory. `python worker.py ADAPTER URL` asks one
question of the server, says the answer and ends: a first answer in a fresh process.
"""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    """Do as the arguments say."""
    name, *url = sys.argv[1:]
    if url:
        sys.stdout.write(importlib.import_module(name).ask(url[0], ())() + "\n")
        sys.stdout.flush()
        return
    from tasks import serve

    serve(name)


if __name__ == "__main__":
    main()
