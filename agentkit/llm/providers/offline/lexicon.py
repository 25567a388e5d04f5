"""Words with their concepts, numbers, time zones and days, in English and Vietnamese.

The vocabulary is in `lexicon.toml`.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones


@cache
def table(name: str) -> Any:
    """The contents of a TOML file of this package."""
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


_DATA: Mapping[str, Mapping[str, Any]] = table("lexicon.toml")

_ENGLISH = {phrase.strip(): english for english, phrases in _DATA["meanings"].items() for phrase in phrases.split(",")}
_KNOWN = "|".join(re.escape(phrase) for phrase in sorted(_ENGLISH, key=len, reverse=True))
_PHRASE = re.compile(rf"(?<!\w)(?:{_KNOWN})(?!\w)", re.IGNORECASE)
_STRETCH = re.compile(rf"(?<!\S)(?:{_KNOWN})(?!\w)\S*|\S+", re.IGNORECASE)
_ASKS = re.compile(
    r"(?<!\w)(?:là gì|là ai|ở đâu|bao nhiêu|khi nào|bao giờ|năm nào|như thế nào)[\s?.!]*$"
    r"|^\s*(?:ai là|ai đã|tại sao|vì sao)(?!\w)",
    re.IGNORECASE,
)
_OPERATIONS: Mapping[str, str] = _DATA["operations"]
_OPERATOR = re.compile(rf"\b(?:{'|'.join(sorted(_DATA['operations'], key=len, reverse=True))})\b", re.IGNORECASE)


def in_english(text: str) -> str:
    """The text with known Vietnamese words translated to English; other words are unchanged."""
    return _PHRASE.sub(lambda found: _ENGLISH[found.group().lower()], unicodedata.normalize("NFC", text))


def asks_in_vietnamese(text: str) -> bool:
    """Whether the text is a Vietnamese question, with the interrogative at either end."""
    return _ASKS.search(unicodedata.normalize("NFC", text)) is not None


def tokens_in(text: str) -> Iterator[re.Match[str]]:
    """The words of a text including punctuation; known multi-word phrases are one match."""
    return _STRETCH.finditer(text)


def operators_in_english(text: str) -> str:
    """Translate Vietnamese operators of a sum to the calculator's notation."""
    return _OPERATOR.sub(lambda found: _OPERATIONS[found.group().lower()], text)


def word_set(name: str) -> frozenset[str]:
    """A set of words of the vocabulary."""
    return vocabulary(_DATA["words"][name])


def vocabulary(text: str) -> frozenset[str]:
    """Split a text into a set of words."""
    return frozenset(text.split())


def numbers_in(text: str) -> tuple[float, ...]:
    """The numbers in digits; thousands separators are removed."""
    return tuple(float(match.group().replace(",", "")) for match in _DIGITS.finditer(text))


def signed_numbers_in(text: str) -> tuple[float, ...]:
    """The numbers in digits, negative if preceded by a minus sign that is not an operator."""
    found = ((match, float(match.group().replace(",", ""))) for match in _DIGITS.finditer(text))
    return tuple(-number if _MINUS.search(text[: match.start()]) else number for match, number in found)


def word_numbers_in(text: str) -> tuple[float, ...]:
    """The numbers in words, up to ninety; each word is a separate number."""
    return tuple(NUMBER_WORDS[word] for word in words(text) if word in NUMBER_WORDS)


def number_from_words(text: str) -> float:
    """The number expressed by several words, such as `two hundred and five` or `twenty-two`."""
    whole = part = 0.0
    for word in re.findall(r"[a-z]+", text.lower()):
        if word in _SCALES:
            part = max(part, 1) * _SCALES[word]
            whole, part = (whole + part, 0.0) if _SCALES[word] > 100 else (whole, part)
        else:
            part += NUMBER_WORDS.get(word, 0.0)
    return whole + part


def words(text: str) -> list[str]:
    """The lower-case words and numbers of a text, with inner apostrophes; known Vietnamese words are in English."""
    return [match.group().lower() for match in _WORD.finditer(in_english(text))]


def with_vietnamese_digits(text: str) -> str:
    """The text with Vietnamese numbers in words beside an operation in digits: `2 cộng 3` for `hai cộng ba`."""
    if not _VIETNAMESE_OPERATION.search(text):
        return text
    return _VIETNAMESE_NUMBERS.sub(lambda match: vietnamese_number(match.group().lower()), text)


def vietnamese_number(text: str) -> str:
    """The number expressed by Vietnamese words: 105 for `một trăm linh năm`, 2.5 for `hai phẩy năm` or `hai rưỡi`."""
    whole, _, decimals = text.partition(" phẩy ")
    if decimals:
        return f"{_vietnamese_integer(whole)}.{_vietnamese_integer(decimals)}"
    if not whole.endswith(" rưỡi"):
        return str(_vietnamese_integer(whole))
    whole = whole.removesuffix(" rưỡi")
    return f"{_vietnamese_integer(whole) + _VIETNAMESE_SCALES.get(whole.split()[-1], 1) / 2:.10g}"


def _vietnamese_integer(text: str) -> int:
    whole = part = 0
    unit: int | None = None
    for word in text.split():
        if word in _VIETNAMESE_SCALES:
            part += (1 if unit is None else unit) * _VIETNAMESE_SCALES[word]
            if _VIETNAMESE_SCALES[word] >= 1_000:
                whole, part = whole + part, 0
            unit = None
        elif word == "mười":
            part, unit = part + 10, None
        elif word not in _VIETNAMESE_FILLERS:
            unit = _VIETNAMESE_UNITS[word]
    return whole + part + (unit or 0)


def concepts(some_words: Iterable[str]) -> frozenset[str]:
    """The content words, each as its family or stem: `files` and `document` are one concept."""
    content = (word for word in plain(some_words) if word not in _FUNCTION_WORDS)
    return frozenset(concept(word) for word in content if not word.isdigit())


def concept(word: str) -> str:
    """The family of a word, or its stem."""
    root = stem(word)
    return _FAMILY_OF.get(root, root)


def stem(word: str) -> str:
    """A word without its endings, for comparison only: `parsing`, `parses` and `parse` have the same stem."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def plain(some_words: Iterable[str]) -> list[str]:
    """The words with straight apostrophes, and without a possessive or contracted `'s`."""
    return [word.replace("\u2019", "'").removesuffix("'s") for word in some_words]


def zones_in(text: str) -> Iterator[str]:
    """The time zones of places in a text, as in `in Tokyo`, `New York time` or `Asia/Tokyo`."""
    tokens = re.findall(r"[\w/+-]+", text.lower())
    for start in range(len(tokens)):
        ends = (end for end in range(start + _MAX_WORDS, start, -1) if " ".join(tokens[start:end]) in _zones())
        end = next(ends, start)
        placed = (
            tokens[max(start - 1, 0)] in _PLACE_PREPOSITIONS
            or tokens[end : end + 1] == ["time"]
            or "/" in tokens[start]
        )
        if end > start and placed:
            yield _zones()[" ".join(tokens[start:end])]


def places_in(zone: str) -> Iterator[str]:
    """The places in a time zone; empty if the text is not the name of a zone."""
    if _ZONE.fullmatch(zone):
        yield from (place for place, place_zone in _zones().items() if place_zone == zone)


def separate_time_requests(text: str) -> str:
    """A question for the time in several places, as one request for each; any other text unchanged."""
    if len(text) > _MAX_TIME_QUESTION:
        return text
    text = re.sub(r"\blocal (?=time\b)", "", text)
    match = next(filter(None, (pattern.fullmatch(text.strip()) for pattern in _TIMES)), None)
    places = [place.strip() for place in _BETWEEN.split(match.group("places"))] if match else []
    if len(places) < 2 or not all(place.lower() in _zones() for place in places):
        return text
    return " and ".join(f"time in {place}" for place in places)


DateAnswer = Callable[[date], str]
"""The answer to a question about dates, from the current date. It raises ValueError outside the calendar."""


def date_answer(text: str) -> DateAnswer | None:
    """How the answer to a question about days or dates follows from the current date.

    The question can ask for a day relative to today (tomorrow, next Friday, 10 days ago), the weekday of a date, or the
    days between two dates. None for any other question, such as one with a word that is not about days.
    """
    if len(text) > _MAX_DATE_QUESTION:
        return None
    text = _with_english_days(text)
    return _answer_about_dates(text) or _answer_about_relative_day(text)


def _with_english_days(text: str) -> str:
    """The text with the Vietnamese words for days and dates in English."""
    text = unicodedata.normalize("NFC", text)
    if VIETNAMESE_LETTER.search(text):
        text = _DAY_MONTH_YEAR.sub(lambda match: "{2}-{1:0>2}-{0:0>2}".format(*match.groups()), text)
    for pattern, english in _VIETNAMESE_DAYS:
        text = pattern.sub(english, text)
    return text


def _answer_about_dates(text: str) -> DateAnswer | None:
    """The answer to a question that consists of one or two dates and one of the known phrases."""
    dates: list[_CalendarDate] = []

    def placeholder(match: re.Match[str]) -> str:
        dates.append(_calendar_date(match))
        return "@"

    sentence = " ".join(_DATE.sub(placeholder, text.lower().replace("\u2019", "'")).split())
    sentence = _POLITE_OPENING.sub("", sentence).strip(" ?.!")
    for pattern, answer in _DATE_QUESTIONS:
        if match := pattern.fullmatch(sentence):
            return lambda today: answer(match, dates, today)
    return None


def _calendar_date(match: re.Match[str]) -> _CalendarDate:
    parts = match.groupdict()
    if parts["iso"]:
        year, month, day = (int(part) for part in parts["iso"].split("-"))
        return year, month, day
    if parts["holiday"]:
        month, day = _HOLIDAYS[parts["holiday"]]
    else:
        month = _MONTHS.index((parts["month"] or parts["month_after"])[:3]) or 12
        day = int(re.sub(r"\D", "", parts["day"] or parts["day_before"]))
    return int(parts["year"]) if parts["year"] else None, month, day


def _resolved(value: _CalendarDate, today: date, *, is_past: bool = False) -> date:
    """A date without a year as its next occurrence, or as its last one."""
    year, month, day = value
    if year:
        return date(year, month, day)
    found = date(today.year, month, day)
    if is_past:
        return found if found <= today else date(today.year - 1, month, day)
    return found if found >= today else date(today.year + 1, month, day)


def _weekday_answer(match: re.Match[str], dates: Sequence[_CalendarDate], today: date) -> str:
    year, month, day = dates[0]
    if named_year := match.groupdict().get("relative"):
        year = today.year + {"this": 0, "next": 1, "last": -1}[named_year]
    return _written(_resolved((year, month, day), today, is_past=bool(_PAST.search(match.group()))))


def _days_between_answer(match: re.Match[str], dates: Sequence[_CalendarDate], today: date) -> str:
    if len(dates) == 2:
        first, last = dates
        start = date(first[0] or last[0] or today.year, *first[1:])
        end = date(last[0] or start.year, *last[1:])
        end = end if last[0] or end >= start else date(end.year + 1, *last[1:])
    elif _PAST.search(match.group()):
        start, end = _resolved(dates[0], today, is_past=True), today
    else:
        start, end = today, _resolved(dates[0], today)
    days = abs((end - start).days)
    weeks = f" ({days // 7} weeks and {days % 7} days)" if "week" in match.group() else ""
    return f"{days} day{'' if days == 1 else 's'}{weeks} from {_written(start)} to {_written(end)}"


def _years_since_answer(match: re.Match[str], _: Sequence[_CalendarDate], today: date) -> str:
    years = today.year - int(match.group("from_year"))
    return f"{years} years from {match.group('from_year')} to {today.year}"


def _month_length_answer(match: re.Match[str], _: Sequence[_CalendarDate], today: date) -> str:
    year = int(match.group("in_year") or today.year)
    month = _MONTHS.index(match.group("name")[:3]) or 12
    return f"{monthrange(year, month)[1]} days in {date(year, month, 1):%B %Y}"


def _shifted_date_answer(match: re.Match[str], dates: Sequence[_CalendarDate], today: date) -> str:
    return _written(_day_shifted(match)(_resolved(dates[0], today)))


def _age_answer(_: re.Match[str], dates: Sequence[_CalendarDate], today: date) -> str:
    year, month, day = dates[0]
    if not year or date(year, month, day) > today:
        raise ValueError
    return f"{today.year - year - ((today.month, today.day) < (month, day))} years old on {_written(today)}"


def _written(day: date) -> str:
    return f"{day:%A}, {day.isoformat()}"


def _answer_about_relative_day(text: str) -> DateAnswer | None:
    """The answer to a question for a day that is counted from today: `Sunday, 2026-11-29`."""
    sentence = " ".join(words(_PLACE.sub("", text)))
    found = [(match, day) for pattern, day in _RELATIVE_DAYS if (match := pattern.search(sentence))]
    if not found:
        return None
    match, day = max(found, key=lambda each: len(each[0].group()))
    rest = f"{sentence[: match.start()]} {sentence[match.end() :]}".split()
    names_day = not _DAY_WORDS.isdisjoint(rest) or "count" not in match.groupdict()
    is_question = names_day and set(rest) <= _DAY_QUESTION_WORDS | _DAY_WORDS
    return (lambda today: _written(day(match)(today))) if is_question else None


def _day_shifted(match: re.Match[str]) -> Callable[[date], date]:
    """The function that adds the number of days, weeks, months or years in a phrase to a day, or subtracts it."""
    parts = match.groupdict()
    count = int(NUMBER_WORDS.get(parts["count"], 0) or parts["count"])
    sign = -1 if re.search(r"\b(?:ago|earlier|before|prior)\b", match.group()) else 1
    unit = parts["unit"].removesuffix("s")
    if unit in ("day", "week"):
        return lambda today: today + timedelta(days=sign * count * (7 if unit == "week" else 1))
    months = sign * count * (12 if unit == "year" else 1)

    def shifted(today: date) -> date:
        year, month = divmod(today.year * 12 + today.month - 1 + months, 12)
        return date(year, month + 1, min(today.day, monthrange(year, month + 1)[1]))

    return shifted


def _nearest_weekday(match: re.Match[str]) -> Callable[[date], date]:
    """The function that finds the first day of that name after a day, or the last one before it."""
    wanted = _WEEKDAYS.index(match.group("weekday"))
    if match.group().startswith(("last", "previous", "past")):
        return lambda today: today - timedelta(days=(today.weekday() - wanted - 1) % 7 + 1)
    return lambda today: today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1)


def day_of(value: str) -> str | None:
    """The day written as `2027-03-05`, `March 5, 2027` or `5 March 2027`, in ISO format; otherwise None."""
    if _DAY.fullmatch(value):
        return value
    match = _DATE_IN_WORDS.fullmatch(value)
    if match is None:
        return None
    first, month, second, year = match.groups()
    place = _MONTHS.index(month.lower()) if month.lower() in _MONTHS else -1
    day = first or second
    return f"{year}-{place or 12:02}-{int(day):02}" if place >= 0 and day and not (first and second) else None


def states_date(value: Any, text: str) -> bool:
    """Whether a text states this day and time unambiguously: 5/3/2027 can be in March or in May."""
    stated = {int(digits) for digits in re.findall(r"\d+", text)}
    date = str(value)
    match = _DAY.match(date)
    rest = [int(digits) for digits in re.findall(r"\d+", date[match.end() :] if match else date)]
    if any(number and number not in stated and number - 12 not in stated for number in rest):
        return False
    if match is None:
        return True
    year, month, day = map(int, match.groups())
    named = any(word.startswith(_MONTHS[month % 12]) for word in words(text))
    clear = named or (month in stated and (day > 12 or day == month or match.group() in text))
    return clear and day in stated and not stated.isdisjoint((year, year % 100))


def format_day(day: str, schema: Mapping[str, Any]) -> str | None:
    """A day in the format shown in the parameter's description, such as `MM/DD/YYYY`; None without such a format."""
    pattern = _DATE_FORMAT.search(str(schema.get("description", "")))
    parts = dict(zip("YMD", day.split("-"), strict=True))
    if pattern is None or {letters[0].upper() for letters in pattern.group(1, 3, 4)} != {*parts}:
        return None
    return pattern.group(2).join(parts[letters[0].upper()][-len(letters) :] for letters in pattern.group(1, 3, 4))


@cache
def _zones() -> Mapping[str, str]:
    """Time zones by lower-case place: the places in their names, and some others."""
    has_known_kinds = [
        zone for zone in sorted(available_timezones()) if zone.partition("/")[0] not in _NON_PLACE_REGIONS
    ]
    cities = {zone.rpartition("/")[2].replace("_", " ").lower(): zone for zone in has_known_kinds}
    others = {place.strip(): zone for zone, places in _DATA["places"].items() for place in places.split(",")}
    return {**{zone.lower(): zone for zone in has_known_kinds}, **cities, "utc": "UTC", "gmt": "GMT", **others}


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
"""A pattern for the number words that are not also articles."""

_SCALES = {"hundred": 100.0, "thousand": 1_000.0, "million": 1_000_000.0}
_UNIT, _TEN = "|".join(_COUNT.split()[1:10]), "|".join(["twenty", *_TENS.split()])
_SMALL_NUMBER = rf"(?:(?:{_TEN})(?:[- ](?:{_UNIT}))?|{'|'.join(_COUNT.split()[1:20])})"
NUMBER_PHRASE = re.compile(
    rf"\b(?:(?:{_TEN})[- ](?:{_UNIT})|(?:a|{_SMALL_NUMBER})(?: (?:{'|'.join(_SCALES)}))+"
    rf"(?:(?: and)? {_SMALL_NUMBER}(?: hundred)?)*)\b",
    re.IGNORECASE,
)
"""Numbers of several words."""

_VIETNAMESE_UNITS = {
    word: value
    for value, names in enumerate(
        ("không", "một mốt", "hai", "ba", "bốn tư", "năm lăm", "sáu", "bảy bẩy", "tám", "chín")
    )
    for word in names.split()
}
_VIETNAMESE_SCALES = {"mươi": 10, "trăm": 100, "nghìn": 1_000, "ngàn": 1_000, "triệu": 1_000_000}
_VIETNAMESE_FILLERS = frozenset({"linh", "lẻ"})
_VIETNAMESE_WORD = rf"(?:{'|'.join([*_VIETNAMESE_UNITS, *_VIETNAMESE_SCALES, 'mười', *_VIETNAMESE_FILLERS])})"
VIETNAMESE_NUMBER = rf"{_VIETNAMESE_WORD}(?:\s+{_VIETNAMESE_WORD})*"
_VIETNAMESE_NUMBERS = re.compile(
    rf"(?<!phần )(?<!bậc )(?<!\d )\b{VIETNAMESE_NUMBER}(?: phẩy {VIETNAMESE_NUMBER}| rưỡi)?\b(?!\s+(?:bậc|phương))",
    re.IGNORECASE,
)
_VIETNAMESE_OPERATION = re.compile(
    rf"\b(?:{_VIETNAMESE_WORD}|rưỡi)\s+(?:cộng|trừ|nhân|chia|mũ|tăng|giảm|phần trăm)\b"
    rf"|\b(?:cộng|trừ|nhân|chia|mũ|căn bậc hai(?: của)?|phần trăm của)(?:\s+(?:với|cho|đi))?\s+{_VIETNAMESE_WORD}\b",
    re.IGNORECASE,
)

STOP_WORDS = word_set("stop")
_FUNCTION_WORDS = STOP_WORDS | NUMBER_WORDS.keys() - {"half"}  # `half` changes the meaning
GREETINGS = word_set("greetings")
SMALL_TALK = GREETINGS | word_set("small_talk")
HERE_WORDS = word_set("here")
ACTIONS = word_set("actions")
INTERROGATIVES = word_set("interrogatives")
ARITHMETIC_WORDS = word_set("arithmetic")
LOOKUP_REQUEST = re.compile(
    r"\s*(?:the )?(?:latest |recent )?(?:capital|population|meaning|definition|history|news|president|inventor|author"
    r"|founder|height|age|origin|causes|biography|life|area|price) (?:of|about|on|in) \w",
    re.IGNORECASE,
)
"""A lookup request that is not a complete question: `capital of Mongolia`."""
SMALL_TALK_ADDITIONS = word_set("small_talk_additions")
"""Small talk only in combination with other small talk: `good day` is, `what day is it` is not."""

_ENDINGS = (
    *("ations", "ation", "ators", "ator", "ated", "ates", "ating", "ate", "ities", "ity", "ings", "ing", "ions", "ion"),
    *("ories", "ory", "ied", "ies", "ed", "ers", "er", "es", "e", "s", "y"),
)
_FAMILY_OF = {stem(word): family for family, members in _DATA["families"].items() for word in members.split()}

_MAX_WORDS = 4
_ZONE = re.compile(r"[A-Z]\w+(?:/[A-Z]\w+)+")
_TIME = "(?:current |local )*(?:times?|dates?|weekdays?|day)(?: and (?:time|date))?"
_TIMES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:please |hi |hey |(?:can|could) you |do you know )*(?:(?:show|tell|give|get|compare)(?: me)? )?"
        rf"(?:what(?:'s| is| are|s)? )?(?:the )?{_TIME}(?: is it)?(?: right)?(?: now)? (?:both )?(?:in|for|at) "
        r"(?P<places>[^?.!]+?)(?: right now| now)?(?: please)?[?.!]*",
        rf"(?P<places>[^?.!]+?) {_TIME}(?: now| right now)?(?: please)?[?.!]*",
        r"(?:bây giờ |hiện tại |cho (?:tôi|mình) biết )*(?:là )?(?:mấy )?giờ(?: rồi)? (?:ở|tại) "
        r"(?P<places>[^?.!]+?)[?.!]*",
        r"(?:bây giờ |hiện tại )?(?:ở |tại )?(?P<places>[^?.!]+?) (?:bây giờ |đang )?(?:là )?mấy giờ(?: rồi)?[?.!]*",
    )
)
_BETWEEN = re.compile(
    r"\s*[,;/&]\s*(?:(?:and|và) )?(?:(?:in|ở|tại) )?|\s+(?:and|và|vs\.?|versus|với)\s+(?:(?:in|ở|tại) )?", re.IGNORECASE
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("dec", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov")
_MAX_DATE_QUESTION = _MAX_TIME_QUESTION = 200
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_DATE_IN_WORDS = re.compile(
    r"(?:(\d{1,2})(?:st|nd|rd|th)? )?([A-Za-z]{3})[a-z]*\.?(?: (\d{1,2})(?:st|nd|rd|th)?)?,? (\d{4})"
)
_DATE_FORMAT = re.compile(r"\b(YYYY|MM|DD)([-/.])(YYYY|MM|DD)\2(YYYY|YY|MM|DD)\b", re.IGNORECASE)
_CalendarDate = tuple[int | None, int, int]
"""Year, if stated, month and day."""

_HOLIDAYS = {
    name: (int(day[:2]), int(day[3:])) for day, names in _DATA["holidays"].items() for name in names.split(", ")
}
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY_OF_MONTH = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    r"\b(?:(?P<iso>\d{4}-\d\d-\d\d)"
    rf"|(?:(?P<month>{_MONTH}) (?:the )?(?P<day>{_DAY_OF_MONTH})|(?:the )?(?P<day_before>{_DAY_OF_MONTH}) (?:of )?"
    rf"(?P<month_after>{_MONTH})|(?P<holiday>{'|'.join(sorted(_HOLIDAYS, key=len, reverse=True))}))"
    r"(?!\w)(?:,? (?P<year>\d{4})\b)?)"
)
VIETNAMESE_LETTER = re.compile("[ăâđêôơưạảãấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủũứừửữựỳỵỷỹ]", re.IGNORECASE)
_DAY_MONTH_YEAR = re.compile(r"(?:ngày )?\b(\d{1,2})(?:[/-]| tháng )(\d{1,2})(?:[/-]| năm )(\d{4})\b")
_POLITE_OPENING = re.compile(
    r"(?:(?:please|hi|hey|hello|can you|could you|tell me|calculate|do you know|i want to know)[, ]+)+"
)
_PAST = re.compile(r"\b(?:was|were|did|since|ago|has|have passed|born)\b")
_WHAT_DAY = r"(?:what|which)(?:'s| is)? (?:the )?(?:week ?day|day|date)(?: of the week)?"
_HOW_MANY_DAYS = "(?:how many (?:days|weeks)|(?:the )?number of days|(?:days|weeks)|how long)"
_COUNT_OF_DAYS = rf"(?P<count>\d{{1,5}}|{'|'.join(NUMBER_WORDS)}) (?P<unit>(?:day|week|month|year)s?)"
_DATE_QUESTIONS = tuple(
    (re.compile(pattern), answer)
    for pattern, answer in (
        (
            rf"(?:{_WHAT_DAY} (?:is|was|does|did|will|of|for)|when is)(?: it)?(?: on)? @"
            "(?: (?P<relative>this|next|last) year)?(?: (?:be|fall|falls|land|come))?(?: on)?(?: (?:this year|a))?",
            _weekday_answer,
        ),
        (rf"(?:on )?@ (?:is|was|falls on|fell on)(?: on)? {_WHAT_DAY}", _weekday_answer),
        (
            rf"(?:what(?:'s| is) the )?{_HOW_MANY_DAYS}(?: (?:are|is|is it|were|lie|passed|there))*"
            r" (?:between|from) @ (?:and|to|until|till) @",
            _days_between_answer,
        ),
        (
            rf"(?:there are )?{_HOW_MANY_DAYS}(?: (?:are|is|it|there|we|i|do|have|left|remain|remaining|more|to go))*"
            " (?:until|till|to|before) @",
            _days_between_answer,
        ),
        (
            rf"{_HOW_MANY_DAYS}(?: (?:is|it|has|have|been|passed|there|gone by|are|ago))* (?:since|was) @",
            _days_between_answer,
        ),
        (
            rf"{_HOW_MANY_DAYS}(?: (?:are|there))* (?:left|remaining|remain) (?:in )?(?:this|the) year",
            lambda match, _, today: _days_between_answer(match, [(None, 12, 31)], today),
        ),
        (
            r"how many years (?:ago (?:was|is)|(?:is it|has it been|have passed)? ?since) (?P<from_year>[12]\d{3})",
            _years_since_answer,
        ),
        (
            rf"how many days (?:are|does|did|has|were)?(?: there)?(?: in)? ?(?P<name>{_MONTH})"
            r"(?: (?P<in_year>\d{4}))?(?: have| has)?",
            _month_length_answer,
        ),
        (
            rf"(?:{_WHAT_DAY}|when)(?: (?:is|was|will|be|it|comes|falls))* (?:the )?{_COUNT_OF_DAYS} "
            "(?:after|before|from|prior to) @",
            _shifted_date_answer,
        ),
        (
            r"how old (?:is|am|are|would|will) (?:\w+ ){1,2}(?:be )?(?:who was |if (?:\w+ )?was )?born (?:on )?@",
            _age_answer,
        ),
        (r"(?:\w+ ){1,2}was born (?:on )?@[,.]? (?:so )?how old (?:am|is) \w+(?: now| today)?", _age_answer),
    )
)
"""Questions with @ in place of each date."""

_PLACE = re.compile(r"(?:\s+(?:in|at|ở|tại) +(?-i:[A-Z])[^?.!,]*)(?=[?.!]*$)", re.IGNORECASE)
_RELATIVE_DAYS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Callable[[date], date]]], ...] = (
    *(
        (re.compile(rf"\b{name}\b"), lambda _, days=days: lambda today: today + timedelta(days=days))
        for name, days in (("tomorrow", 1), ("yesterday", -1), ("day after tomorrow", 2), ("day before yesterday", -2))
    ),
    (
        re.compile(rf"\b(?:next|this coming|coming|upcoming|last|previous|past) (?P<weekday>{'|'.join(_WEEKDAYS)})\b"),
        _nearest_weekday,
    ),
    (re.compile(rf"\bin {_COUNT_OF_DAYS}\b"), _day_shifted),
    (
        re.compile(rf"\b{_COUNT_OF_DAYS} (?:from now|from today|after today|ahead|later|ago|earlier|before today)\b"),
        _day_shifted,
    ),
)
_VIETNAMESE_DAYS = tuple(
    (re.compile(rf"(?<!\w){pattern}(?!\w)", re.IGNORECASE), english)
    for pattern, english in _DATA["vietnamese_days"].items()
)
_DAY_WORDS = word_set("days")
_DAY_QUESTION_WORDS = word_set("day_questions")

_PLACE_PREPOSITIONS = word_set("place_prepositions")
_NON_PLACE_REGIONS = word_set("non_place_regions")
