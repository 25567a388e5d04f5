"""Description of the machine and the versions of a measurement."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.processes import Process, cores

_VERSIONS = """
import json
from importlib.metadata import distributions
print(json.dumps({each.name.lower(): each.version for each in distributions()}))
"""


def machine() -> dict[str, str]:
    """Describe the machine."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def versions(python: Path) -> Mapping[str, str]:
    """The distributions that an interpreter has installed, by name in lower case."""
    process = Process([python, "-c", _VERSIONS], cores()[1])
    output = process.read()
    process.wait()
    found: dict[str, str] = json.loads(output)
    return found
