"""The reference ranking: textbook BM25 without stemming."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

K1, B = 1.2, 0.75
"""The usual constants of BM25: saturation of repeated words, and penalty for long texts."""

_WORD = re.compile(r"\w+")


class PlainRanking:
    """Numbered texts ranked by BM25, without stemming, headings and stop words."""

    def __init__(self, texts: Mapping[int, str]) -> None:
        counts = {number: Counter(words(text)) for number, text in texts.items()}
        self._lengths = {number: count.total() for number, count in counts.items()}
        self._mean = sum(self._lengths.values()) / len(texts)
        self._holding: dict[str, dict[int, int]] = defaultdict(dict)
        for number, count in counts.items():
            for word, times in count.items():
                self._holding[word][number] = times

    def search(self, question: str, limit: int) -> list[int]:
        """The numbers of the best texts, best first."""
        scores: dict[int, float] = defaultdict(float)
        for word in dict.fromkeys(words(question)):
            holding = self._holding.get(word, {})
            rarity = math.log(1 + (len(self._lengths) - len(holding) + 0.5) / (len(holding) + 0.5))
            for number, times in holding.items():
                room = 1 - B + B * self._lengths[number] / self._mean
                scores[number] += rarity * times * (K1 + 1) / (times + K1 * room)
        return sorted(scores, key=lambda number: (-scores[number], number))[:limit]


def words(text: str) -> Iterable[str]:
    """The words of a text, in lower case."""
    return _WORD.findall(text.lower())
