"""Word normalisation for search (pure)."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from agentkit._dataclass import dataclass
from agentkit.text_encoding import lazy_pattern

MAX_WORDS = 64
"""The maximum number of different words of a question that are searched."""

MAX_QUESTION_CHARS = 10_000

_WORD = lazy_pattern(r"\w+(?:['\u2019]\w+)*")
_PART = lazy_pattern(r"[^\W_]+")
_CAMEL_CASE_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_STROKES = str.maketrans("đĐðÐøØłŁħĦŧŦıœŒæÆßẞþÞ", "dDdDoOlLhHtTioOaAsSpP")
"""Letters with a stroke, and ligatures, which Unicode does not decompose."""

_UNSPACED = lazy_pattern(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""

_MARK_CATEGORIES = frozenset({"Mn", "Me"})

_ENGLISH = lazy_pattern(
    r"and|are|could|does|for|from|has|have|how|if|is|of|or|should|these|this|was|were|what|when|where|which|who|whom"
    r"|whose|why|with|would|you|your",
    re.IGNORECASE,
)
"""English function words that identify a question as English; few other languages use them, even without diacritics."""

_FUNCTION_WORDS = lazy_pattern(
    rf"{_ENGLISH.pattern}|a|an|as|at|be|been|but|by|can|did|do|had|i|in|into|it|its|me|my|no|not|on|our|shall|so|such"
    r"|than|that|the|their|them|then|there|they|through|to|us|we|will",
    re.IGNORECASE,
)
"""English function words. They are frequent in questions but not in documents, where they would count as rare."""


@dataclass(frozen=True, slots=True)
class IndexTerms:
    """The index terms of a text: its words without diacritics, and other spellings of some of them."""

    words: str
    variants: str


@dataclass(frozen=True, slots=True)
class Terms:
    """The search terms; each is one word, or a phrase.

    `words` are searched in the folded text and in the parts of names; `variants` are spellings with diacritics: a match
    with them ranks higher than one without.
    """

    words: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.words)

    def fts_query(self, columns: str) -> str:
        """The FTS5 query for a table with these columns and `variants`.

        Words are quoted, so that none is an operator.
        """
        words = " OR ".join(f'"{word}"' for word in self.words)
        variants = " OR ".join(f'variants : "{word}"' for word in self.variants)
        return f"({{{columns}}} : ({words}))" + (f" OR {variants}" if variants else "")


def index_terms(text: str) -> IndexTerms:
    """Compute the index terms of a text."""
    composed = unicodedata.normalize("NFC", text.replace("\u00ad", ""))
    variants = dict.fromkeys(
        variant for word in _WORD.findall(composed) for variant in (*_with_diacritics(word), *_name_parts(word))
    )
    return IndexTerms(_space_characters(fold(composed)), " ".join(variants))


def search_terms(question: str) -> Terms:
    """Compute the search terms of a question. They only contain letters, digits and blanks, whatever the input."""
    composed = unicodedata.normalize("NFC", question[:MAX_QUESTION_CHARS])
    words: dict[str, None] = {}
    variants: dict[str, None] = {}
    for word in _without_function_words(_WORD.findall(composed)):
        words.update(dict.fromkeys([*_word_terms(fold(word)), *_name_parts(word)]))
        variants.update(dict.fromkeys(_with_diacritics(word)))
    return Terms(tuple(words)[:MAX_WORDS], tuple(variants)[:MAX_WORDS])


def _without_function_words(words: list[str]) -> list[str]:
    """Remove the function words of an English question, unless only these are left; other questions are unchanged.

    In other languages the same letters are content words, as `the` and `it` in Vietnamese without its diacritics.
    """
    if not all(map(str.isascii, words)) or not any(map(_ENGLISH.fullmatch, words)):
        return words
    names = {word for word in words if len(word) > 1 and word.isupper()}  # such as IT and WHO
    if names == set(words):
        names = set()
    return [word for word in words if word in names or not _FUNCTION_WORDS.fullmatch(word)] or words


def fold(text: str) -> str:
    """Convert to lower case, and remove diacritics and soft hyphens: `Đường` becomes `duong`."""
    decomposed = unicodedata.normalize("NFKD", text.replace("\u00ad", ""))
    if not decomposed.isascii():
        decomposed = "".join(char for char in decomposed if unicodedata.category(char) not in _MARK_CATEGORIES)
    return decomposed.translate(_STROKES).lower()


def _word_terms(word: str) -> list[str]:
    """The terms for a folded word: the word and its parts; in a script without spaces, each pair of characters."""
    if _UNSPACED.search(word):
        chars = _PART.findall(_space_characters(word))
        return [f"{one} {two}" for one, two in pairwise(chars)] or chars
    parts = _PART.findall(word)
    return [" ".join(parts), *parts] if len(parts) > 1 else parts


def _with_diacritics(word: str) -> list[str]:
    """The word in lower case with its diacritics, if it has any."""
    lower = word.lower()
    return [] if lower.isascii() or lower == fold(word) else _PART.findall(lower)


def _name_parts(word: str) -> list[str]:
    """The parts of a name in a program, such as readFile."""
    if word in (word.lower(), word.upper(), word.capitalize()):
        return []
    parts = [fold(hump) for hump in _CAMEL_CASE_PART.findall(word)]
    return parts if len(parts) > 1 else []


def _space_characters(text: str) -> str:
    """Put blanks around each character of a script without spaces."""
    return _UNSPACED.sub(lambda found: f" {found[0]} ", text)
