"""How agentkit is installed, and the command that installs an extra in the same way."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = "agentkit-tools"
"""The name of the package on the registry."""


def install_command(extra: str = "", prefix: str = sys.prefix) -> str:
    """The shell command that installs agentkit with an extra into this environment.

    It names the checkout if agentkit is installed from one, and `uv` or `pipx` if one of them made the environment.
    """
    source = _checkout()
    extras = f"[{extra}]" if extra else ""
    wanted = shlex.quote(f"{source or NAME}{extras}")
    place = Path(prefix)
    if "pipx" in place.parts:
        return f"pipx install --force {wanted}"
    if place.parts[-3:-1] == ("uv", "tools"):
        return f"uv tool install {wanted}"
    if "archive-v0" in place.parts:  # an environment of uvx
        return f"uvx --from {wanted} agentkit"
    option = "-e " if source else ""
    return f"{_installer(place)} {option}{wanted}"


def _installer(place: Path) -> str:
    """`uv pip install` in an environment that uv made without pip, otherwise `pip install`."""
    try:
        is_of_uv = "uv =" in (place / "pyvenv.cfg").read_text("utf-8")
    except (OSError, ValueError):
        is_of_uv = False
    return "uv pip install" if is_of_uv and not _is_installed("pip") else "pip install"


def _is_installed(name: str) -> bool:
    return _found(name) is not None


def _found(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _checkout() -> str:
    """The folder of the source code if agentkit is installed from one or runs from one; empty otherwise."""
    found = _found(NAME)
    folder = str(Path(__file__).parents[1])
    if found is None:
        return folder
    try:
        url = json.loads(found.read_text("direct_url.json") or "{}").get("url", "")
    except ValueError:
        return ""
    parts = urlsplit(url)
    place = unquote(parts.path)
    return place if parts.scheme == "file" and (Path(place) / "pyproject.toml").is_file() else ""
