"""Virtual environments of the other libraries, outside of the source tree.

    python -m benchmarks.peers make [NAME ...]
    python -m benchmarks.peers list

The folder is `$AGENTKIT_PEERS`, or `agentkit/benchmark-peers` in the user's cache folder.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.catalog import LIBRARIES, Library
from benchmarks.processes import ROOT


def folder() -> Path:
    """The folder of all virtual environments."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("AGENTKIT_PEERS") or cache / "agentkit" / "benchmark-peers")


def python_of(library: Library) -> Path:
    """The interpreter of a library: that of a peer's environment, or the current one."""
    return folder() / library.name / "bin" / "python" if library.kind == "peer" else Path(sys.executable)


def pythons(names: Sequence[str]) -> dict[str, Path]:
    """The interpreters of the named libraries that are installed."""
    found = {library.name: python_of(library) for library in LIBRARIES if library.name in names}
    return {name: python for name, python in found.items() if python.exists()}


def installed_bytes(name: str) -> int | None:
    """The distributions in an environment, except pip; None if the environment does not exist."""
    packages = next((folder() / name).glob("lib/python*/site-packages"), None)
    if packages is None:
        return None
    files = (path for path in packages.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sum(path.stat().st_size for path in files if path.relative_to(packages).parts[0].partition("-")[0] != "pip")


def requirements() -> dict[str, tuple[str, ...]]:
    """The requirements of each environment: the peers, and agentkit and openai alone, to compare sizes."""
    peers = {library.name: library.requires for library in LIBRARIES if library.kind == "peer"}
    return {"agentkit": (str(ROOT),), "openai": ("openai",), **peers}


def make(names: Sequence[str]) -> Iterator[str]:
    """Create environments, and yield the outcome of each."""
    for name, requires in requirements().items():
        if not names or name in names:
            place = folder() / name
            venv.create(place, with_pip=True, symlinks=True, clear=True)
            command = (str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *requires)
            status = asyncio.run(_run(command))
            yield f"{name}: {'installed' if status == 0 else f'pip ended with status {status}'}"


async def _run(command: Sequence[str]) -> int:
    process = await asyncio.create_subprocess_exec(*command)
    return await process.wait()


def main() -> None:
    """Create the environments, or list them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "list"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these peers")
    options = parser.parse_args()
    if unknown := set(options.names) - set(requirements()):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; the peers are {', '.join(requirements())}")
    sizes = {name: installed_bytes(name) for name in requirements()}
    lines = (f"{name}: {'not created' if size is None else f'{size / 1e6:.0f} MB'}" for name, size in sizes.items())
    for line in make(options.names) if options.what == "make" else lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
