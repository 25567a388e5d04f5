"""Tests for the words under which a text is indexed and searched."""

import pytest

from agentkit.documents.search_terms import MAX_WORDS, Terms, fold, index_terms, search_terms


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Đường phố", "duong pho"),
        ("Việt Nam", "viet nam"),
        ("Straße, Łódź, Øre, Ærø", "strase, lodz, ore, aro"),
        ("Vie\u0302\u0323t", "viet"),
        ("ﬁve", "five"),
    ],
)
def test_diacritics_are_folded(text, plain):
    """Words are found without their diacritics, including letters that Unicode does not decompose, such as đ."""
    assert fold(text) == plain


def test_diacritics_are_indexed_as_variants():
    """Spellings with diacritics are indexed as variants, so that exact matches rank higher."""
    assert index_terms("Hà Nội").variants == "hà nội"
    assert search_terms("Hà Nội") == Terms(("ha", "noi"), ("hà", "nội"))
    assert search_terms("ha noi") == Terms(("ha", "noi"))


def test_identifiers_are_found_by_their_parts():
    """The name readFile is also found as `read file`, and read_file as a whole before its parts."""
    assert index_terms("HTTPServer readFile SAFE Safe").variants == "http server read file"
    assert search_terms("read_file don't").words == ("read file", "read", "file", "don t", "don", "t")


def test_scripts_without_spaces_are_found_by_pairs():
    """Chinese, Japanese and Thai are found by pairs of consecutive characters."""
    assert search_terms("東京都").words == ("東 京", "京 都")
    assert search_terms("水").words == ("水",)
    assert "東  京" in index_terms("東京").words


@pytest.mark.parametrize("question", ['" OR x NEAR(', "\0\ud800 * ^ : - ( )", "'; DROP TABLE documents; --", "", "  "])
def test_terms_contain_only_words(question):
    """Search terms contain only letters and digits of the question."""
    terms = search_terms(question)
    assert all(part.isalnum() for term in terms.words for part in term.split())
    assert bool(terms) == any(char.isalnum() for char in question)


def test_huge_question_is_bounded():
    """Only the first words of a huge question are searched for."""
    assert len(search_terms(" ".join(f"word{number}" for number in range(100_000))).words) == MAX_WORDS


@pytest.mark.for_each(
    ("question", "words"),
    [
        ("How do I make the kettle boil?", ("make", "kettle", "boil")),
        ("WHAT IS THE LIMIT", ("limit",)),
        ("What is the IT department?", ("it", "department")),
        ("Who is it?", ("who", "is", "it")),
        ("the gioi an toan", ("the", "gioi", "an", "toan")),
        ("nước Mỹ", ("nuoc", "my")),
        ("is Đà Nẵng it?", ("is", "da", "nang", "it")),
        ("use of use", ("use",)),
    ],
)
def test_stop_words_are_ignored(question, words):
    """Stop words of an English question are ignored, unless they are names or the only words."""
    assert search_terms(question).words == words
