"""Words with their concepts, numbers and time zones, in English and Vietnamese."""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, timedelta
from functools import cache
from zoneinfo import available_timezones

_MEANINGS = {
    "what": "gì, cái gì, nào",
    "what is": "là gì",
    "who is": "là ai, ai là",
    "who": "ai đã",
    "where": "ở đâu, đâu",
    "when": "khi nào, bao giờ",
    "why": "tại sao, vì sao",
    "how": "như thế nào, thế nào, ra sao, làm sao, làm thế nào",
    "how much": "bao nhiêu, mấy",
    "what time": "mấy giờ",
    "what time is it": "mấy giờ rồi",
    "today's date": "ngày hôm nay",
    "tell me": "cho tôi biết, cho mình biết, cho em biết",
    "files": "các file, các tệp, các tập tin, những file, những tệp",
    "which files": "những file nào, file nào, những tệp nào, tệp nào, các file nào",
    "what day": "thứ mấy, ngày mấy, ngày nào, ngày bao nhiêu, ngày mấy tháng mấy",
    "what month": "tháng mấy",
    "what year": "năm nào, năm bao nhiêu, năm mấy",
    "now": "bây giờ, hiện tại, hiện giờ, lúc này, đang",
    "today": "hôm nay",
    "time": "thời gian, giờ",
    "date": "ngày tháng, ngày",
    "tomorrow": "ngày mai",
    "yesterday": "hôm qua",
    "calculate": "tính, tính toán",
    "equals": "bằng",
    "read": "đọc",
    "open": "mở",
    "view": "xem",
    "show": "hiển thị, cho xem, cho tôi xem",
    "list": "liệt kê, danh sách",
    "search": "tìm, tìm kiếm, tra, tra cứu",
    "find": "tìm hiểu",
    "web": "mạng",
    "page": "trang web, trang",
    "fetch": "tải, tải về, tải xuống, truy cập",
    "file": "tệp, tập tin, tệp tin",
    "folder": "thư mục",
    "write": "ghi, viết",
    "save": "lưu",
    "create": "tạo",
    "content": "nội dung",
    "run": "chạy, thực thi",
    "command": "lệnh, câu lệnh",
    "code": "mã, đoạn mã",
    "program": "chương trình",
    "count": "đếm",
    "words": "số từ",
    "characters": "ký tự, kí tự, số ký tự, số kí tự",
    "letters": "chữ cái, số chữ cái",
    "lines": "số dòng",
    "length": "độ dài",
    "how long": "dài bao nhiêu",
    "text": "chuỗi, văn bản, đoạn văn",
    "sentence": "câu",
    "story": "câu chuyện, chuyện",
    "question": "câu hỏi",
    "check": "kiểm tra",
    "valid": "hợp lệ",
    "summary": "tóm tắt",
    "article": "bài viết",
    "info": "thông tin",
    "weather": "thời tiết",
    "send": "gửi",
    "message": "tin nhắn",
    "delete": "xóa, xoá",
    "rename": "đổi tên",
    "copy": "sao chép",
    "convert": "chuyển",
    "remind": "nhắc",
    "alarm": "báo thức",
    "sing": "hát",
    "know": "biết",
    "translate": "dịch",
    "tell": "kể, nói",
    "hello": "xin chào, chào",
    "thanks": "cảm ơn, cám ơn",
    "goodbye": "tạm biệt",
    "fine": "khỏe, khoẻ",
    "don't": "đừng, chớ, không được, không cần, không muốn, khỏi",
    "please": "làm ơn, vui lòng, hãy, giúp, giùm, hộ",
    "for me": "cho tôi, cho mình, cho em, giúp tôi, giúp mình, giúp em",
    "i": "tôi, tớ",
    "you": "bạn",
    "is": "là, có",
    "the": "các, những, cái",
    "of": "của",
    "in": "trong, ở, tại",
    "on": "trên",
    "into": "vào",
    "about": "về",
    "for": "cho",
    "and": "và",
    "or": "hoặc",
    "with": "với",
    "then": "rồi, sau đó",
    "this": "này",
    "that": "đó",
    "all": "tất cả, cả",
    "did": "đã",
    "will": "sẽ",
    "much": "nhiều",
    "there": "không",
    "so": "thế, vậy, nhé, ạ, ơi",
}
"""English words with their Vietnamese equivalents; `không` at the end of a question only marks it as one."""

_ENGLISH = {phrase.strip(): english for english, phrases in _MEANINGS.items() for phrase in phrases.split(",")}
_KNOWN = "|".join(re.escape(phrase) for phrase in sorted(_ENGLISH, key=len, reverse=True))
_PHRASE = re.compile(rf"(?<!\w)(?:{_KNOWN})(?!\w)", re.IGNORECASE)
_STRETCH = re.compile(rf"(?<!\S)(?:{_KNOWN})(?!\w)\S*|\S+", re.IGNORECASE)
_ASKS = re.compile(
    r"(?<!\w)(?:là gì|là ai|ở đâu|bao nhiêu|khi nào|bao giờ|năm nào|như thế nào)[\s?.!]*$"
    r"|^\s*(?:ai là|ai đã|tại sao|vì sao)(?!\w)",
    re.IGNORECASE,
)
_OPERATORS = {
    "cộng với": "+",
    "cộng": "+",
    "trừ đi": "-",
    "trừ": "-",
    "nhân với": "*",
    "nhân": "*",
    "chia cho": "/",
    "chia": "/",
    "mũ": "^",
    "của": "of",
    "căn bậc hai của": "square root of",
    "căn bậc hai": "square root of",
    "căn bậc ba của": "cube root of",
    "căn bậc ba": "cube root of",
    "bình phương": "squared",
    "lập phương": "cubed",
    "phần trăm": "percent",
}
_OPERATOR = re.compile(rf"\b(?:{'|'.join(sorted(_OPERATORS, key=len, reverse=True))})\b", re.IGNORECASE)


def in_english(text: str) -> str:
    """The text with known Vietnamese words translated to English; other words are unchanged."""
    return _PHRASE.sub(lambda found: _ENGLISH[found.group().lower()], unicodedata.normalize("NFC", text))


def asks_in_vietnamese(text: str) -> bool:
    """Whether the text is a Vietnamese question, with the interrogative at either end."""
    return _ASKS.search(unicodedata.normalize("NFC", text)) is not None


def stretches(text: str) -> Iterator[re.Match[str]]:
    """The words of a text including punctuation; known multi-word phrases are one match."""
    return _STRETCH.finditer(text)


def sum_in_english(text: str) -> str:
    """Translate Vietnamese operators of a sum to the calculator's notation."""
    return _OPERATOR.sub(lambda found: _OPERATORS[found.group().lower()], text)


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


def spoken_numbers_in(text: str) -> tuple[float, ...]:
    """The numbers in words, up to ninety; each word is a separate number."""
    return tuple(NUMBER_WORDS[word] for word in words(text) if word in NUMBER_WORDS)


def spoken(text: str) -> float:
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


def ideas(some_words: Iterable[str]) -> frozenset[str]:
    """The content words, each as its family or stem: `files` and `document` are one idea."""
    content = (word for word in plain(some_words) if word not in _EMPTY)
    return frozenset(idea(word) for word in content if not word.isdigit())


def idea(word: str) -> str:
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
    said = re.findall(r"[\w/+-]+", text.lower())
    for start in range(len(said)):
        ends = (end for end in range(start + _MAX_WORDS, start, -1) if " ".join(said[start:end]) in _zones())
        end = next(ends, start)
        placed = said[max(start - 1, 0)] in _AT or said[end : end + 1] == ["time"] or "/" in said[start]
        if end > start and placed:
            yield _zones()[" ".join(said[start:end])]


def places_in(zone: str) -> Iterator[str]:
    """The places in a time zone; empty if the text is not the name of a zone."""
    if _ZONE.fullmatch(zone):
        yield from (place for place, meant in _zones().items() if meant == zone)


def times_apart(text: str) -> str:
    """A question for the time in several places, as one request for each; any other text unchanged."""
    match = next(filter(None, (pattern.fullmatch(text.strip()) for pattern in _TIMES)), None)
    places = [place.strip() for place in _BETWEEN.split(match.group("places"))] if match else []
    if len(places) < 2 or not all(place.lower() in _zones() for place in places):
        return text
    return " and ".join(f"time in {place}" for place in places)


def day_asked_for(text: str) -> Callable[[date], date] | None:
    """How the day that a question asks for follows from today: tomorrow, next Friday, 10 days ago.

    None for any other question, such as one with a word that is not about days.
    """
    said = " ".join(words(_PLACE.sub("", unicodedata.normalize("NFC", _vietnamese_days(text)))))
    found = [(match, days) for pattern, days in _DAYS if (match := pattern.search(said))]
    if not found:
        return None
    match, days = max(found, key=lambda each: len(each[0].group()))
    rest = f"{said[: match.start()]} {said[match.end() :]}".split()
    is_asked = not _DAY_WORDS.isdisjoint(rest) or "count" not in match.groupdict()
    return days(match) if is_asked and set(rest) <= _DAY_FRAME | _DAY_WORDS else None


def _vietnamese_days(text: str) -> str:
    """The text with the Vietnamese words for days in English."""
    text = unicodedata.normalize("NFC", text)
    for pattern, english in _VIETNAMESE_DAYS:
        text = pattern.sub(english, text)
    return text


def _shifted(match: re.Match[str]) -> Callable[[date], date]:
    """The day that lies a number of days, weeks, months or years after or before today."""
    words = match.groupdict()
    count = int(NUMBER_WORDS.get(words["count"], 0) or words["count"])
    sign = -1 if match.group().endswith(("ago", "earlier", "before today", "before")) else 1
    unit = words["unit"].removesuffix("s")
    if unit in ("day", "week"):
        return lambda today: today + timedelta(days=sign * count * (7 if unit == "week" else 1))
    months = sign * count * (12 if unit == "year" else 1)

    def shifted(today: date) -> date:
        year, month = divmod(today.year * 12 + today.month - 1 + months, 12)
        return date(year, month + 1, min(today.day, monthrange(year, month + 1)[1]))

    return shifted


def _on_weekday(match: re.Match[str]) -> Callable[[date], date]:
    """The first day of a name after today, or the last one before it."""
    wanted = _WEEKDAYS.index(match.group("weekday"))
    if match.group().startswith(("last", "previous", "past")):
        return lambda today: today - timedelta(days=(today.weekday() - wanted - 1) % 7 + 1)
    return lambda today: today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1)


@cache
def _zones() -> Mapping[str, str]:
    """Time zones by lower-case place: the places in their names, and some others."""
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
"""A pattern for the number words that are not also articles."""

_SCALES = {"hundred": 100.0, "thousand": 1_000.0, "million": 1_000_000.0}
_UNIT, _TEN = "|".join(_COUNT.split()[1:10]), "|".join(["twenty", *_TENS.split()])
_SMALL_NUMBER = rf"(?:(?:{_TEN})(?:[- ](?:{_UNIT}))?|{'|'.join(_COUNT.split()[1:20])})"
SPOKEN_NUMBER = re.compile(
    rf"\b(?:(?:{_TEN})[- ](?:{_UNIT})|(?:a|{_SMALL_NUMBER})(?: (?:{'|'.join(_SCALES)}))+"
    rf"(?:(?: and)? {_SMALL_NUMBER}(?: hundred)?)*)\b",
    re.IGNORECASE,
)
"""Numbers of several words."""

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
_EMPTY = STOP_WORDS | NUMBER_WORDS.keys() - {"half"}  # `half` changes the meaning
GREETINGS = vocabulary(
    "hi hello hey hiya howdy yo greetings thanks thank thx cheers bye goodbye ok okay yes yeah sorry pls plz"
)
SMALL_TALK = GREETINGS | vocabulary(
    """good later see yep nope sure fine great cool nice awesome well lol haha wow test testing help going doing meet
    talk friend buddy love like bot robot human real happy sad sir madam mate sounds alright welcome lot lots bunch
    things helps helped helpful perfect appreciate appreciated tonight tomorrow soon understood"""
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
"""A lookup request that is not a complete question: `capital of Mongolia`."""
SMALL_WITH_OTHERS = vocabulary("morning afternoon evening night day today name")
"""Small talk only in combination with other small talk: `good day` is, `what day is it` is not."""

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
_PLACE = re.compile(r"(?:\s+(?:in|at|ở|tại) +(?-i:[A-Z])[^?.!,]*)(?=[?.!]*$)", re.IGNORECASE)
_COUNT_OF_DAYS = rf"(?P<count>\d{{1,5}}|{'|'.join(NUMBER_WORDS)}) (?P<unit>(?:day|week|month|year)s?)"
_DAYS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Callable[[date], date]]], ...] = (
    *(
        (re.compile(rf"\b{name}\b"), lambda _, days=days: lambda today: today + timedelta(days=days))
        for name, days in (
            ("tomorrow", 1),
            ("yesterday", -1),
            ("day after tomorrow", 2),
            ("day before yesterday", -2),
        )
    ),
    (
        re.compile(rf"\b(?:next|this coming|coming|upcoming|last|previous|past) (?P<weekday>{'|'.join(_WEEKDAYS)})\b"),
        _on_weekday,
    ),
    (re.compile(rf"\bin {_COUNT_OF_DAYS}\b"), _shifted),
    (
        re.compile(rf"\b{_COUNT_OF_DAYS} (?:from now|from today|after today|ahead|later|ago|earlier|before today)\b"),
        _shifted,
    ),
)
"""The days that are counted from today."""

_VIETNAMESE_WEEKDAYS = ("hai", "ba", "tư", "năm", "sáu", "bảy")
_VIETNAMESE_DAYS = tuple(
    (re.compile(rf"(?<!\w){pattern}(?!\w)", re.IGNORECASE), english)
    for pattern, english in (
        ("ngày mai", "tomorrow"),
        ("hôm qua", "yesterday"),
        ("(?:ngày kia|ngày mốt)", "day after tomorrow"),
        ("hôm kia", "day before yesterday"),
        *(
            (rf"thứ {said} (?:tới|tuần sau|tuần tới|sắp tới|kế tiếp)", f"next {_WEEKDAYS[place]}")
            for place, said in enumerate(_VIETNAMESE_WEEKDAYS)
        ),
        *(
            (rf"thứ {said} (?:trước|tuần trước|vừa rồi|vừa qua)", f"last {_WEEKDAYS[place]}")
            for place, said in enumerate(_VIETNAMESE_WEEKDAYS)
        ),
        ("chủ nhật (?:tới|tuần sau|tuần tới|sắp tới)", "next sunday"),
        ("chủ nhật (?:trước|tuần trước|vừa rồi|vừa qua)", "last sunday"),
        *(
            (rf"{before}(\d+) {unit}{after}", rf"{english[0]}\1 {name}s{english[1]}")
            for unit, name in (("ngày", "day"), ("tuần", "week"), ("tháng", "month"), ("năm", "year"))
            for before, after, english in (
                ("", " (?:nữa|sau|tới)", ("in ", "")),
                ("sau ", "", ("in ", "")),
                ("", " trước", ("", " ago")),
                ("cách đây ", "", ("", " ago")),
            )
        ),
        ("(?:ngày mấy|ngày nào|ngày bao nhiêu|thứ mấy)", "what day"),
    )
)
_DAY_WORDS = vocabulary("date day weekday when")
_DAY_FRAME = vocabulary(
    "what what's which is was it's it will be the 's of week do does fall falls tell me please exact calendar that"
)
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
"""Large places that are not in the name of their zone."""
