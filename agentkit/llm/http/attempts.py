"""A counter of requests that were sent without a complete answer."""

from __future__ import annotations

from dataclasses import replace

from agentkit.errors import ModelError
from agentkit.messages import Response
from agentkit.usage import unreported


class AttemptCounter:
    """Counts how often a request was sent in full without a full answer, so that its charge is unknown.

    `has_begun` says whether an answer is on its way, or was; `is_hasty`, that another model can be asked meanwhile.
    """

    def __init__(self, *, is_hasty: bool = False) -> None:
        self.unanswered = 0
        self.has_begun = False
        self.is_hasty = is_hasty

    def tell(self, error: ModelError) -> None:
        """Enter in an error how many there were; an answer that has begun came to nothing with it."""
        error.unanswered = self.unanswered + (self.has_begun and error.status is None)

    def told_in(self, response: Response) -> Response:
        """The response, in whose usage they are requests without figures."""
        if not self.unanswered:
            return response
        usage = response.usage
        return replace(response, usage=usage + unreported(self.unanswered, usage.tariff))
