"""Does the reference say what the code says? Writes its pages, or with --check only compares them."""

import argparse
import difflib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import api
import commands
import environment
import errors
import events
import tools

COMMAND = "make reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "api.md": api.page,
    "command-line.md": commands.page,
    "environment.md": environment.page,
    "errors.md": errors.page,
    "events.md": events.page,
    "tools.md": tools.page,
}
"""Each page of the reference, and what makes its text."""


def written(name: str) -> str:
    """The text of a page as it should stand."""
    note = f"<!-- Made from the code by `{COMMAND}`; change the docstrings there, not this page. -->"
    title, _, rest = PAGES[name]().partition("\n")
    return f"{title}\n\n{note}\n{rest.rstrip()}\n"


def difference(name: str, folder: Path) -> str:
    """What is to be changed in a page, as a diff; empty when it stands as it should."""
    path = folder / name
    old = path.read_text("utf-8") if path.exists() else ""
    lines = difflib.unified_diff(old.splitlines(), written(name).splitlines(), str(path), "the code", lineterm="", n=1)
    return "\n".join(lines)


def main() -> int:
    """Write every page, or compare them; 1 when one is stale."""
    parser = argparse.ArgumentParser(prog="docs/site/reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[2] / "reference")
    asked = parser.parse_args()
    if not asked.check:
        for name in PAGES:
            (asked.folder / name).write_text(written(name), "utf-8")
        return 0
    stale = {name: found for name in PAGES if (found := difference(name, asked.folder))}
    for found in stale.values():
        print(found)
    if stale:
        print(f"Stale: {', '.join(stale)}. Bring the reference up to date with: {COMMAND}", file=sys.stderr)
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
