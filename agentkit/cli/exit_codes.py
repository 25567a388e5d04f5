"""What does the command's exit code say?"""

from __future__ import annotations

ANSWERED = 0
FAILED = 1
USAGE = 2
"""The command line or the configuration is wrong; no key, for example."""
LIMIT = 3
REFUSED = 4
"""A judge forbade the call."""
INTERRUPTED = 130
