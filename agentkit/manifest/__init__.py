"""Permission manifests: what an agent may do, as a file to review, commit and compare."""

from __future__ import annotations

from agentkit.manifest.build import manifest_of
from agentkit.manifest.compare import Difference, differences
from agentkit.manifest.facts import ChangeDirection
from agentkit.manifest.file import Manifest

__all__ = ["ChangeDirection", "Difference", "Manifest", "differences", "manifest_of"]
