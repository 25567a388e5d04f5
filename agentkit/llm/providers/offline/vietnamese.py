"""Which English words do the Vietnamese ones of a request stand for? Only those that say what is to be done."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

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
"""English words, and the Vietnamese ones that are read as them; `không` at the end of a question only asks."""

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
    """The text with the Vietnamese words that say what is to be done in English, and all others as they are."""
    return _PHRASE.sub(lambda found: _ENGLISH[found.group().lower()], unicodedata.normalize("NFC", text))


def asks_in_vietnamese(text: str) -> bool:
    """Whether it asks about something in Vietnamese, where the word that asks stands at either end."""
    return _ASKS.search(unicodedata.normalize("NFC", text)) is not None


def stretches(text: str) -> Iterator[re.Match[str]]:
    """The words of a text with the marks at them; those that mean something together are one."""
    return _STRETCH.finditer(text)


def sum_in_english(text: str) -> str:
    """A sum whose operators are Vietnamese words, as the calculator reads it."""
    return _OPERATOR.sub(lambda found: _OPERATORS[found.group().lower()], text)
