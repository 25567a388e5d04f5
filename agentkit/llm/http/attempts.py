"""A counter of requests that were sent without a complete answer."""

from __future__ import annotations

from dataclasses import replace

from agentkit.errors import ModelError
from agentkit.messages import Response
from agentkit.usage import unreported


class AttemptCounter:
    """Counts requests that were sent without receiving a complete response, whose charge is therefore unknown.

    `has_begun` is set once a response has started; `is_hasty` means that another model can be called instead.
    """

    def __init__(self, *, is_hasty: bool = False) -> None:
        self.unanswered = 0
        self.has_begun = False
        self.is_hasty = is_hasty

    def tell(self, error: ModelError) -> None:
        """Store the count in an error; a response that had begun counts as unanswered, too."""
        error.unanswered = self.unanswered + (self.has_begun and error.status is None)

    def told_in(self, response: Response) -> Response:
        """The response with the unanswered requests added to its usage."""
        if not self.unanswered:
            return response
        usage = response.usage
        return replace(response, usage=usage + unreported(self.unanswered, usage.tariff))
