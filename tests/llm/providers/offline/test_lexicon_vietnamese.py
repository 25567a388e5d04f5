"""Tests for the translation of Vietnamese requests to English words."""

import unicodedata

import pytest

from agentkit.llm.providers.offline.argument_matching import Offer, offers
from agentkit.llm.providers.offline.lexicon import in_english, operators_in_english, tokens_in
from agentkit.llm.providers.offline.question_parser import Question
from agentkit.tools.catalog import default_tools

SPECS = [tool.spec for tool in default_tools]


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("Bây giờ là mấy giờ?", "now is what time?"),
        ("Liệt kê các tệp trong thư mục docs", "list files in folder docs"),
        ("Tìm Hồ Chí Minh", "search Hồ Chí Minh"),
        (unicodedata.normalize("NFD", "Tính"), "calculate"),
        ("The cheese is in the tin.", "The cheese is in the tin."),
    ],
)
def test_words_of_requests_are_translated_to_english(text, english):
    """The words of a request are translated, longest phrase first, and names and English are preserved."""
    assert in_english(text) == english


def test_syllables_of_a_word_are_translated_together():
    """Syllables that form a word are translated together, and punctuation stays at its word."""
    assert [each.group() for each in tokens_in("Bây giờ, ở Huế?")] == ["Bây giờ,", "ở", "Huế?"]


@pytest.mark.for_each(
    ("text", "written"),
    [
        ("12 cộng 30 bằng mấy?", "12 + 30"),
        ("Lấy 100 trừ đi 7", "100 - 7"),
        ("6 nhân với 7 là bao nhiêu?", "6 * 7"),
        ("144 chia cho 12", "144 / 12"),
        ("2 mũ 10", "2 ^ 10"),
        ("15% của 240 là bao nhiêu?", "15% of 240"),
        ("căn bậc hai của 196", "square root of 196"),
        ("5 bình phương cộng 2", "5 squared + 2"),
    ],
)
def test_sums_in_words(text, written):
    """A sum with Vietnamese operator words is converted to the calculator's notation."""
    assert [span.text for span in Question(text).spans] == [written]
    assert operators_in_english(written) == written


@pytest.mark.for_each(
    ("text", "tool", "arguments"),
    [
        ("Bây giờ là mấy giờ?", "get_current_datetime", {"timezone": ()}),
        ("Hôm nay là thứ mấy?", "get_current_datetime", {"timezone": ()}),
        ("Tính 25 * 48", "calculator", {"expression": ("25 * 48",)}),
        ("Đọc file README.md", "read_file", {"path": ("README.md",)}),
        ("Tra Wikipedia về Hồ Chí Minh", "wikipedia", {"query": ("Hồ Chí Minh",)}),
        ("Mở trang https://vnexpress.net", "fetch_url", {"url": ("https://vnexpress.net",)}),
        ("Ghi 'xin chào' vào file a.txt", "write_file", {"path": ("a.txt",), "content": ("xin chào",)}),
        ("Chạy lệnh ls -la", "run_shell", {"command": ("ls -la",)}),
    ],
)
def test_requests_find_their_tool(text, tool, arguments):
    """A request in Vietnamese is matched with tools that are described in English."""
    found: list[Offer] = offers(Question(text, has_commands=True), SPECS)
    assert [(offer.spec.name, offer.candidates) for offer in found] == [(tool, arguments)]


@pytest.mark.parametrize(
    ("text", "is_small_talk", "is_negated"),
    [
        ("Xin chào, bạn khỏe không?", True, False),
        ("Cảm ơn bạn nhiều nhé", True, False),
        ("Đừng xóa file nào cả", False, True),
        ("Chuỗi này có hợp lệ không?", False, False),
    ],
)
def test_greetings_negations_and_questions(text, is_small_talk, is_negated):
    """Greetings and thanks are no requests, `đừng` negates, and a final `không` marks a question."""
    question = Question(text)
    assert (question.is_small_talk, question.is_negated) == (is_small_talk, is_negated)
