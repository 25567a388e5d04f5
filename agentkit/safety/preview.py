"""The predicted effect of a tool call, which is shown when somebody is asked to approve it."""

from __future__ import annotations

from agentkit._dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CallPreview:
    """The effect that a call would have now, as far as its tool can predict it.

    `summary` has one line for each effect, such as "replaces a.py (50 lines)". `diff` is a unified diff, which shows
    the arguments named in `covers`. `failure` is the error of a call that cannot succeed. `is_confined` states whether
    the call can change nothing but files of the workspace.
    """

    summary: tuple[str, ...] = ()
    diff: str = ""
    covers: frozenset[str] = frozenset()
    failure: str = ""
    is_confined: bool = False


NO_PREVIEW = CallPreview()
