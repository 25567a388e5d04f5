"""What has been accepted of a server? Its tools as they were then, with their hashes, in a file of the state folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentkit.errors import ConfigError
from agentkit.keeping import write_whole
from agentkit.mcp.definitions import Definition
from agentkit.redaction import written_redactor

_VERSION = 1


class Pins:
    """The file about one server, found by a hash of what the server is known by. Only its owner can read it."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._identity = identity
        self.path = folder / f"{hashlib.sha256(identity.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}.json"

    def read(self) -> dict[str, Definition] | None:
        """What was accepted, by name; None when the server is new. Raises ConfigError for a file that is not ours."""
        try:
            data = json.loads(self.path.read_text("utf-8"))
            pinned = [(each["sha256"], Definition.from_dict(each["definition"])) for each in data["tools"]]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(f"{self._cannot_be_believed()} ({type(error).__name__}: {error}).") from error
        if data.get("version") != _VERSION or any(digest != each.digest for digest, each in pinned):
            raise ConfigError(f"{self._cannot_be_believed()}: the hashes do not fit what they stand by.")
        return {each.name: each for _, each in pinned}

    def write(self, accepted: Mapping[str, Definition]) -> None:
        """Accept these definitions, and no others, from now on. Raises ConfigError when they cannot be kept."""
        tools = [{"sha256": each.digest, "definition": each.to_dict()} for each in accepted.values()]
        document = {"version": _VERSION, "server": written_redactor()(self._identity), "tools": tools}
        try:
            replace_file(self.path, document)
        except OSError as error:
            raise ConfigError(f"What was accepted of an MCP server cannot be kept in {self.path}: {error}.") from error

    def _cannot_be_believed(self) -> str:
        return f"What was accepted of an MCP server, in {self.path}, cannot be believed; look at it and delete it"


def replace_file(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document to a file that only its owner can read, in a folder that is made for that."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, json.dumps(document, indent=1))
