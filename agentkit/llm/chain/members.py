"""Which models can be asked, and what is each of them sent?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from agentkit.llm.chain.absence import Absence
from agentkit.llm.quirks import merged
from agentkit.slotted import dataclass

if TYPE_CHECKING:
    from agentkit.llm.providers import Provider
    from agentkit.messages import Request
    from agentkit.usage import Tariff


@dataclass(frozen=True, slots=True)
class Member:
    """A model of a chain: what it is called, where it is, what answers for it and is charged, and its own settings."""

    name: str
    address: str
    provider: Provider
    tariff: Tariff
    settings: Mapping[str, Any]
    absence: Absence = field(default_factory=Absence)

    def sent(self, request: Request) -> Request:
        """The request with the model's own settings, as far as nothing else was said of it."""
        if not self.settings:
            return request
        return replace(request, settings=merged(self.settings, request.settings))


def told_apart(members: Sequence[Member]) -> tuple[Member, ...]:
    """The members, those of one name called by their addresses, too."""
    names = [member.name for member in members]
    return tuple(
        member if names.count(member.name) == 1 else replace(member, name=f"{member.name} at {member.address}")
        for member in members
    )
