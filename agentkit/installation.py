"""How agentkit is installed, and the command that installs an extra in the same way."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

_WHEEL = ".whl"
NAME = "agentkit-tools"
"""The name of the package on the registry."""


def install_command(extra: str = "", prefix: str = sys.prefix) -> str:
    """The shell command that installs agentkit with an extra into this environment.

    It names the checkout or the wheel if agentkit is installed from one, and `uv` or `pipx` if one of them made the
    environment.
    """
    source = _source()
    extras = f"[{extra}]" if extra else ""
    wanted = shlex.quote(f"{source or NAME}{extras}")
    place = Path(prefix)
    if "pipx" in place.parts:
        return f"pipx install --force {wanted}"
    if place.parts[-3:-1] == ("uv", "tools"):
        return f"uv tool install {wanted}"
    if "archive-v0" in place.parts:  # an environment of uvx
        return f"uvx --from {wanted} agentkit"
    option = "-e " if source and not source.endswith(_WHEEL) and _is_editable() else ""
    return f"{_installer(place)} {option}{wanted}"


def _installer(place: Path) -> str:
    """`uv pip install` in an environment that uv made without pip, otherwise `pip install`.

    The path of pip is named if the shell would find another one, as in an environment that is not activated.
    """
    try:
        is_uv = "uv =" in (place / "pyvenv.cfg").read_text("utf-8")
    except (OSError, ValueError):
        is_uv = False
    if is_uv and not _is_installed("pip"):
        return "uv pip install"
    from shutil import which

    own = place / ("Scripts" if sys.platform == "win32" else "bin") / "pip"
    is_found = not own.is_file() or which("pip") == str(own)
    return "pip install" if is_found else f"{shlex.quote(str(own))} install"


def _is_editable() -> bool:
    """Whether agentkit runs from its source code: as an editable installation, or without one."""
    found = _distribution(NAME)
    return found is None or '"editable": true' in (found.read_text("direct_url.json") or "")


def _is_installed(name: str) -> bool:
    return _distribution(name) is not None


def _distribution(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _source() -> str:
    """The wheel, or the folder of the source code, that agentkit is installed from or runs from; empty otherwise."""
    found = _distribution(NAME)
    return str(Path(__file__).parents[1]) if found is None else local_source(found.read_text("direct_url.json") or "")


def local_source(direct_url: str) -> str:
    """The wheel or the checkout that a `direct_url.json` (PEP 610) names, if it still exists; empty otherwise."""
    try:
        parts = urlsplit(json.loads(direct_url or "{}").get("url", ""))
    except ValueError:
        return ""
    place = unquote(parts.path)
    is_there = (Path(place) / "pyproject.toml").is_file() or (place.endswith(_WHEEL) and Path(place).is_file())
    return place if parts.scheme == "file" and is_there else ""
