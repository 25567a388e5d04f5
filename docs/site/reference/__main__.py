"""Command that generates the pages of the reference from the code: `python docs/site/reference`, run by `make docs`."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import api
import commands
import environment
import errors
import events
import tools

PAGES: Mapping[str, Callable[[], str]] = {
    "api.md": api.page,
    "command-line.md": commands.page,
    "environment.md": environment.page,
    "errors.md": errors.page,
    "events.md": events.page,
    "tools.md": tools.page,
}
"""The pages of the reference, with the functions that return their text."""


def main() -> None:
    """Write all pages."""
    parser = argparse.ArgumentParser(prog="docs/site/reference", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[2] / "reference")
    folder = parser.parse_args().folder
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(f"{page().rstrip()}\n", "utf-8")


if __name__ == "__main__":
    main()
