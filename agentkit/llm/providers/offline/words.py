"""What does a word mean here: which idea, which number, which time zone, or nothing of its own?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from zoneinfo import available_timezones

from agentkit.llm.providers.offline.vietnamese import in_english


def vocabulary(text: str) -> frozenset[str]:
    """The words of a table that is written as running text."""
    return frozenset(text.split())


def numbers_in(text: str) -> tuple[float, ...]:
    """The numbers written in digits, thousands separators read over."""
    return tuple(float(match.group().replace(",", "")) for match in _DIGITS.finditer(text))


def signed_numbers_in(text: str) -> tuple[float, ...]:
    """The numbers written in digits, below zero where a minus stands before them and not between."""
    found = ((match, float(match.group().replace(",", ""))) for match in _DIGITS.finditer(text))
    return tuple(-number if _MINUS.search(text[: match.start()]) else number for match, number in found)


def spoken_numbers_in(text: str) -> tuple[float, ...]:
    """The numbers written as words, up to ninety, each word for itself."""
    return tuple(NUMBER_WORDS[word] for word in words(text) if word in NUMBER_WORDS)


def spoken(text: str) -> float:
    """The number that words such as `two hundred and five` or `twenty-two` say together."""
    whole = part = 0.0
    for word in re.findall(r"[a-z]+", text.lower()):
        if word in _SCALES:
            part = max(part, 1) * _SCALES[word]
            whole, part = (whole + part, 0.0) if _SCALES[word] > 100 else (whole, part)
        else:
            part += NUMBER_WORDS.get(word, 0.0)
    return whole + part


def words(text: str) -> list[str]:
    """The words and numbers of a text, lower case, apostrophes inside them kept; known Vietnamese ones in English."""
    return [match.group().lower() for match in _WORD.finditer(in_english(text))]


def ideas(some_words: Iterable[str]) -> frozenset[str]:
    """The content words, each as its family's name or its stem: `files` and `document` are one idea."""
    content = (word for word in plain(some_words) if word not in _EMPTY)
    return frozenset(idea(word) for word in content if not word.isdigit())


def idea(word: str) -> str:
    """The family of a word, or its stem when it has no family."""
    root = stem(word)
    return _FAMILY_OF.get(root, root)


def stem(word: str) -> str:
    """A word without its endings, good enough to compare: `parsing`, `parses` and `parse` are one."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def plain(some_words: Iterable[str]) -> list[str]:
    """The words with straight apostrophes, and without a possessive's or an abbreviated `is`."""
    return [word.replace("\u2019", "'").removesuffix("'s") for word in some_words]


def zones_in(text: str) -> Iterator[str]:
    """The time zones of the places that stand in a text as `in Tokyo`, `New York time` or `Asia/Tokyo`."""
    said = re.findall(r"[\w/+-]+", text.lower())
    for start in range(len(said)):
        ends = (end for end in range(start + _MOST_WORDS, start, -1) if " ".join(said[start:end]) in _zones())
        end = next(ends, start)
        placed = said[max(start - 1, 0)] in _AT or said[end : end + 1] == ["time"] or "/" in said[start]
        if end > start and placed:
            yield _zones()[" ".join(said[start:end])]


def places_in(zone: str) -> Iterator[str]:
    """The places that may be said for a time zone; none for a text that is no zone's name."""
    if _ZONE.fullmatch(zone):
        yield from (place for place, meant in _zones().items() if meant == zone)


@cache
def _zones() -> Mapping[str, str]:
    """The zone of each place, in lower case: those that give a zone its name, and some that do not."""
    known = [zone for zone in sorted(available_timezones()) if zone.partition("/")[0] not in _NO_PLACES]
    cities = {zone.rpartition("/")[2].replace("_", " ").lower(): zone for zone in known}
    others = {place.strip(): zone for zone, places in _PLACES.items() for place in places.split(",")}
    return {**{zone.lower(): zone for zone in known}, **cities, "utc": "UTC", "gmt": "GMT", **others}


_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_DIGITS = re.compile(r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?")
_MINUS = re.compile(r"(?<![\w.)\]])[-\u2212][$€£]?$")
_COUNT = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty"""
_TENS = "thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS: dict[str, float] = {
    **{word: float(value) for value, word in enumerate(_COUNT.split())},
    **{word: 30.0 + 10 * place for place, word in enumerate(_TENS.split())},
    "a": 1.0,
    "an": 1.0,
    "half": 0.5,
}
NUMBER_WORD = "|".join(word for word in NUMBER_WORDS if len(word) > 2)
"""Any of them that is not also an article, as a pattern."""

_SCALES = {"hundred": 100.0, "thousand": 1_000.0, "million": 1_000_000.0}
_UNIT, _TEN = "|".join(_COUNT.split()[1:10]), "|".join(["twenty", *_TENS.split()])
_SMALL_NUMBER = rf"(?:(?:{_TEN})(?:[- ](?:{_UNIT}))?|{'|'.join(_COUNT.split()[1:20])})"
SPOKEN_NUMBER = re.compile(
    rf"\b(?:(?:{_TEN})[- ](?:{_UNIT})|(?:a|{_SMALL_NUMBER})(?: (?:{'|'.join(_SCALES)}))+"
    rf"(?:(?: and)? {_SMALL_NUMBER}(?: hundred)?)*)\b",
    re.IGNORECASE,
)
"""Numbers that take several words."""

STOP_WORDS = vocabulary(
    """a an the this that these those it its it's there here and or but so as at by for from in into of off on onto to
    with without about than then too also just only very some any all both each every other another such
    be am is are was were been being do does did done have has had can could may might must shall should will would
    i i'm i've i'd me my mine we us our you your yours he she they them him her his their one ones
    what which who whom whose when where why how please kindly let lets tell give show get want need know say says
    do don't not no never if because while over under between out up down
    much many long right exactly actually really quickly now current currently present following me following's
    using use via inside within called named yet chance come comes roughly approximately"""
)
_EMPTY = STOP_WORDS | NUMBER_WORDS.keys() - {"half"}  # half of something is another thing
GREETINGS = vocabulary(
    "hi hello hey hiya howdy yo greetings thanks thank thx cheers bye goodbye ok okay yes yeah sorry pls plz"
)
SMALL_TALK = GREETINGS | vocabulary(
    """good later see yep nope sure fine great cool nice awesome well lol haha wow test testing help going doing meet
    talk friend buddy love like bot robot human real happy sad sir madam mate sounds alright welcome lot lots bunch
    things"""
)
HERE = vocabulary("current present working here home")
DEEDS = vocabulary(
    """rename copy move append delete remove erase replace insert send email post upload share publish tweet convert
    translate zip unzip compress extract install update edit change fix bookmark play draw paint sing capitalize
    reverse sort swap rotate crop remind wake schedule book buy order call set turn"""
)
INTERROGATIVES = vocabulary("who whom whose what which when where why how")
SUM_WORDS = vocabulary(
    "plus minus times divided multiplied multiply divide subtract add percent squared cubed root power "
    "difference average mean sum product total ratio"
)
LOOKUP = re.compile(
    r"\s*(?:the )?(?:latest |recent )?(?:capital|population|meaning|definition|history|news|president|inventor|author"
    r"|founder|height|age|origin|causes|biography|life|area|price) (?:of|about|on|in) \w",
    re.IGNORECASE,
)
"""A request to look something up that is no whole question: `capital of Mongolia`."""
SMALL_WITH_OTHERS = vocabulary("morning afternoon evening night day today name")
"""Small talk only beside other small talk: `good day` asks for nothing, `what day is it` does."""

_ENDINGS = (
    *("ations", "ation", "ators", "ator", "ated", "ates", "ating", "ate", "ities", "ity", "ings", "ing", "ions", "ion"),
    *("ories", "ory", "ied", "ies", "ed", "ers", "er", "es", "e", "s", "y"),
)
_FAMILIES = {
    "time": "time date day today weekday month year clock hour datetime timestamp calendar week monday tuesday "
    "wednesday thursday friday saturday sunday",
    "measure": "count length size measure word character char letter line amount number longer shorter",
    "turn": "turn switch toggle",
    "text": "text string sentence phrase paragraph",
    "calculation": "calculate calculator compute evaluate solve math mathematics arithmetic expression formula total "
    "sum equal equals work worked",
    "search": "search find look lookup",
    "article": "article summary summarize information info entry result detail",
    "web": "web internet online google",
    "page": "page website url link site address",
    "see": "read open view display print content contents contain inside see",
    "wikipedia": "wikipedia wiki",
    "fetch": "fetch download visit retrieve load grab pull",
    "save": "write save store put create make",
    "send": "send post reply say message",
    "list": "list listing",
    "folder": "folder directory directories dir",
    "file": "file document",
    "run": "run execute launch",
    "shell": "shell command bash terminal",
    "code": "code python script program",
    "check": "valid validate check parse decode correct",
}
_FAMILY_OF = {stem(word): family for family, members in _FAMILIES.items() for word in members.split()}

_MOST_WORDS = 4
_ZONE = re.compile(r"[A-Z]\w+(?:/[A-Z]\w+)+")
_AT = vocabulary("in at for of to ở tại")
_NO_PLACES = vocabulary("Etc US Canada Brazil Mexico Chile Factory localtime")
_PLACES = {
    "Asia/Ho_Chi_Minh": "vietnam, viet nam, việt nam, hanoi, ha noi, hà nội, ho chi minh city, sài gòn, đà nẵng",
    "Asia/Tokyo": "osaka, kyoto, nhật bản",
    "Asia/Shanghai": "china, beijing, shenzhen, guangzhou, trung quốc, bắc kinh",
    "Asia/Seoul": "korea, south korea, busan, hàn quốc",
    "Asia/Kolkata": "india, delhi, new delhi, mumbai, bangalore, chennai",
    "Asia/Bangkok": "thailand, thái lan",
    "Europe/London": "england, britain, the uk, uk, manchester, edinburgh",
    "Europe/Paris": "france, lyon, marseille, pháp",
    "Europe/Berlin": "germany, munich, hamburg, frankfurt, cologne, đức",
    "Europe/Rome": "italy, milan, naples, florence, venice",
    "Europe/Madrid": "spain, barcelona, valencia, seville",
    "Europe/Zurich": "switzerland, geneva, basel, bern",
    "Europe/Amsterdam": "netherlands, the netherlands, rotterdam, the hague",
    "America/New_York": "boston, washington, philadelphia, miami, atlanta, new york city, nyc",
    "America/Chicago": "houston, dallas, austin, new orleans",
    "America/Los_Angeles": "california, san francisco, seattle, san diego, las vegas",
    "America/Toronto": "ottawa",
    "America/Sao_Paulo": "rio, rio de janeiro, brasilia",
    "Africa/Johannesburg": "south africa, cape town, durban",
}
"""Large places that give no zone its name."""
