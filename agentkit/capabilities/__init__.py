"""What may an agent do? Everything it is allowed, told as a file to review and keep, and compared when it changes.

    from agentkit.capabilities import Manifest, differences, manifest_of

    manifest = manifest_of(agent)                              # derived: nothing is run, and no model asked
    before = Manifest.parse(Path("agentkit.manifest.json").read_text())
    for difference in differences(before, manifest):
        print(difference.way, difference)                      # wider line 14: run_shell: level network -> system

The command `agentkit manifest` does the same, and fails when something is wider.
"""

from __future__ import annotations

from agentkit.capabilities.comparing import Difference, differences
from agentkit.capabilities.deriving import manifest_of
from agentkit.capabilities.manifest import Manifest
from agentkit.capabilities.orders import Way

__all__ = ["Difference", "Manifest", "Way", "differences", "manifest_of"]
