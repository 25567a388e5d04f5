"""Permission manifests: the permissions of an agent as a file to review, commit and compare.

    from agentkit.manifest import Manifest, differences, manifest_of

    manifest = manifest_of(agent)                              # derived without running the agent or its model
    before = Manifest.parse(Path("agentkit.manifest.json").read_text())
    for difference in differences(before, manifest):
        print(difference.way, difference)                      # wider line 14: run_shell: level network -> system

The command `agentkit manifest` does the same, and fails if a permission is wider.
"""

from __future__ import annotations

from agentkit.manifest.build import manifest_of
from agentkit.manifest.compare import Difference, differences
from agentkit.manifest.file import Manifest
from agentkit.manifest.schema import ChangeDirection

__all__ = ["ChangeDirection", "Difference", "Manifest", "differences", "manifest_of"]
