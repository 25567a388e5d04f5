"""Resolution of the paths in tool arguments to real locations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentkit.errors import ToolError
from agentkit.safety.locations import NO_FACTS, CallFacts, Located, Place
from agentkit.safety.policy import Policy
from agentkit.safety.rules import rules_from
from agentkit.tooling.tool import Tool
from agentkit.workspace.workspace import Workspace

_MOST_PATHS = 1_000


def places_of(
    tool: Tool[..., Any], arguments: Mapping[str, Any], policies: Sequence[Policy], workspace: Workspace
) -> CallFacts:
    """Resolve the path arguments that a rule about this tool tests."""
    rules = [rule for policy in policies for rule in rules_from(policy.rules) if rule.is_about(tool.name)]
    tested = {name for rule in rules for name in (*rule.folders, *(rule.where.keys() & set(tool.paths)))}
    if tested.isdisjoint(arguments):
        return NO_FACTS
    home = workspace if tool.is_in_workspace else None
    named = {folder for rule in rules for each in rule.folders.values() for folder in each}
    named |= {path for rule in rules for name in tested for path in rule.named_paths(name)}
    found = {name: located(home, arguments[name]) for name in tested & arguments.keys()}
    return CallFacts(found, real_folders(workspace, named) if home is not None else {})


def located(workspace: Workspace | None, value: Any) -> Located:
    """Resolve a path or a list of paths in a workspace; with None, relative to the current folder."""
    is_list = isinstance(value, list | tuple | set | frozenset)
    given = list(value) if is_list else [value]
    found = [_places(workspace, each) for each in given[:_MOST_PATHS]]
    paths = tuple(each for each in found if each is not None)
    return Located(paths, is_list, len(paths) == len(given))


def real_folders(workspace: Workspace, folders: Iterable[str]) -> dict[str, str]:
    """The real paths of paths that lead through a link: relative to the workspace, or absolute if outside."""
    found = {}
    for folder in folders:
        places = _in_workspace(workspace, folder)
        if places is not None and places[0] != places[1]:
            found[folder] = str(places[1].relative)
        elif places is None and os.path.isabs(folder) and os.path.realpath(folder) != os.path.normpath(folder):
            found[folder] = os.path.realpath(folder)
    return found


def expected(arguments: Mapping[str, Any], places: CallFacts) -> dict[str, str]:
    """The real location of each path argument, keyed by the path as written."""
    found = {}
    for name, located_there in places.arguments.items():
        given = arguments[name] if located_there.is_list else [arguments[name]]
        if located_there.is_whole:
            for path, (*_, real) in zip(given, located_there.paths, strict=True):
                found[str(path)] = "" if real.relative in (None, ".") else str(real.relative)
    return found


def _places(workspace: Workspace | None, path: Any) -> tuple[Place, ...] | None:
    if not isinstance(path, str | os.PathLike):
        return None
    text = str(os.fspath(path))
    return _in_current_folder(text) if workspace is None else _in_workspace(workspace, text)


def _in_workspace(workspace: Workspace, path: str) -> tuple[Place, Place] | None:
    """The named and the real location; None for a value outside the workspace or not a path."""
    try:
        name, place = workspace.locate(path)
    except (ToolError, ValueError):
        return None
    roots = workspace.spellings
    named, real = (Place(each or ".", tuple(os.path.join(root, each) for root in roots)) for each in (name, place))
    return named, real


def _in_current_folder(path: str) -> tuple[Place, ...] | None:
    """The locations for a function that opens paths itself and can expand `~` to the home folder."""
    try:
        here, home = Path.cwd(), os.path.expanduser(path)
        spelled = {os.path.abspath(each) for each in (path, home)}
        return tuple(_seen_from(here, each) for place in sorted(spelled) for each in (place, os.path.realpath(place)))
    except (OSError, ValueError):
        return None


def _seen_from(here: Path, place: str) -> Place:
    inner = os.path.relpath(place, here)
    return Place(None if inner.split("/")[0] == ".." else inner, (place,))
