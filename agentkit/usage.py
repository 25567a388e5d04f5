"""What a run spends: tokens and requests."""

from __future__ import annotations

from dataclasses import dataclass
from operator import add, attrgetter


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the server reported them, summed over `requests` requests.

    `cached_tokens` are part of `input_tokens`; `reasoning_tokens` are part of `output_tokens`.
    `unreported` counts the requests whose server gave no figures: with it above zero the sums are a lower bound.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    requests: int = 0
    unreported: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """The sum, field by field."""
        return Usage(*map(add, _counts(self), _counts(other)))


_counts = attrgetter(*Usage.__slots__)
