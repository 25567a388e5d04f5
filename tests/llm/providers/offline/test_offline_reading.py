"""Tests for the spans that the offline model finds in a question: sums, dates, quotations, paths and commands."""

import time

import pytest

from agentkit.llm.providers.offline.question_parser import Question, Shape


def found(text, *shapes, has_commands=False):
    """Return the texts of the spans of these kinds."""
    return [span.text for span in Question(text, has_commands=has_commands).spans_of(*shapes)]


@pytest.mark.for_each(
    ("text", "total"),
    [
        ("How much is 1250 * 0.17?", "1250 * 0.17"),
        ("sqrt(144) + 2**10", "sqrt(144) + 2**10"),
        ("2**16 - 1", "2**16 - 1"),
        ("what is -5 + 3", "-5 + 3"),
        ("144 \u00f7 12 = ?", "144 \u00f7 12"),
        ("Please compute 1,234 + 5,678.", "1,234 + 5,678"),
        ("what is 17% of 2,400", "17% of 2,400"),
        ("$45.50 * 3", "45.50 * 3"),
        ("(1 + 2) * 3) is odd", "(1 + 2) * 3"),
        ("((1 + 2) * 3", "(1 + 2) * 3"),
        ("log(100, 10)", "log(100, 10)"),
        ("what is 5!", "5!"),
        ("3\u00b2", "3\u00b2"),
        ("12 plus 30", "12 plus 30"),
        ("3 squared", "3 squared"),
        ("the square root of 81", "the square root of 81"),
        ("seven times eight", "7 times 8"),
    ],
)
def test_whole_sum_is_found(text, total):
    """An arithmetic expression is found completely, in symbols or in words."""
    assert found(text, Shape.EXPRESSION) == [total]


@pytest.mark.for_each(
    "text",
    [
        *("x + 3 * 4", "3 * 4 + apples", "covid-19", "version 1.2.3 + 4", "2024-01-02", "12:30 - 13:30", "05-03"),
        *("192.168.0.1/24", "print(sum(range(10)))", "I have 3", "1 to 5", "v2.0-beta", "- 3"),
    ],
)
def test_dates_and_versions_are_not_sums(text):
    """Dates, versions, times and sums with unknown parts are not sums."""
    assert found(text, Shape.EXPRESSION) == []


@pytest.mark.parametrize(("text", "sure"), [("5-3", True), ("call 555-1234 now", False), ("a 10/4 split", False)])
def test_bare_dash_or_slash_is_a_sum_without_other_text(text, sure):
    """A number with only a dash or slash is a certain sum only if the text contains nothing else."""
    (span,) = Question(text).spans_of(Shape.EXPRESSION)
    assert span.is_certain is sure


@pytest.mark.for_each(
    ("text", "quote"),
    [
        ("the word 'cat' please", "cat"),
        ('say "hello world"', "hello world"),
        ("“naïve café”", "naïve café"),
        ("« bonjour »", "bonjour"),
        ("\u2018curly\u2019", "curly"),
        ("run `git status`", "git status"),
        ("'What's up, doc?'", "What's up, doc?"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("``` plain ```", "plain"),
    ],
)
def test_quotation_is_the_text_between_its_marks(text, quote):
    """Text in quotation marks, backticks or fences is found without a change."""
    assert found(text, Shape.QUOTE) == [quote]


def test_apostrophe_does_not_start_a_quotation():
    """`today's` and an unclosed quotation mark are not quotations."""
    assert found("what's today's date, 'tis", Shape.QUOTE) == []


@pytest.mark.parametrize(
    ("text", "snippet"),
    [
        ('Is {"a": 1} valid?', '{"a": 1}'),
        ("Is {'a': 1} valid?", "{'a': 1}"),
        ("parse [1, 2, 3].", "[1, 2, 3]"),
        ("parse [1, 2,] now", "[1, 2,]"),
        ('nested {"a": [1, {"b": "}"}]} end', '{"a": [1, {"b": "}"}]}'),
        ('broken {"b": "}", x} end', '{"b": "}", x}'),
    ],
)
def test_json_ends_at_its_closing_bracket(text, snippet):
    """A JSON value ends at its closing bracket, even if it is invalid."""
    assert found(text, Shape.JSON) == [snippet]


def test_unclosed_json_is_uncertain():
    """The end of an unclosed JSON text is uncertain."""
    (span,) = Question('{"open": true is this json').spans
    assert (span.shape, span.is_certain) == (Shape.JSON, False)


def test_brackets_that_do_not_begin_json_are_ignored():
    """A comprehension or a remark in brackets is not JSON."""
    assert found("[x*x for x in y] and [see above]", Shape.JSON) == []


def test_deep_nesting_is_parsed_in_little_time():
    """Deep nesting and very many sums take little time and do not overflow the stack."""
    begin = time.monotonic()
    Question("[" * 20_000)
    Question("{'a':" * 5_000)
    Question("half of the 1 + " * 1_200)
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://example.com/a?b=1&c=2.", "https://example.com/a?b=1&c=2"),
        ("(https://example.com/x)", "https://example.com/x"),
        ("https://example.com/path_(with)_parens!", "https://example.com/path_(with)_parens"),
        ("open www.example.org/about", "www.example.org/about"),
    ],
)
def test_url_ends_before_the_punctuation(text, address):
    """Punctuation of the sentence is not part of the URL."""
    assert found(text, Shape.URL) == [address]


def test_email_address_is_neither_url_nor_path():
    """An email address is a single span, and neither a URL nor a path."""
    assert [span.shape for span in Question("write to bob@example.com").spans] == [Shape.EMAIL]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("read notes.txt, please", "notes.txt"),
        ("open ./src/main.py", "./src/main.py"),
        ("in ~/Documents", "~/Documents"),
        ("list docs/", "docs/"),
        ("cat /etc/hostname", "/etc/hostname"),
    ],
)
def test_paths_are_found_by_slash_or_suffix(text, path):
    """Paths are found by a slash or a file suffix, without quotation marks."""
    assert found(text, Shape.PATH) == [path]


@pytest.mark.parametrize("text", ["at 3.14 or 1/2", "e.g. this", "nothing here"])
def test_numbers_and_abbreviations_are_not_paths(text):
    """A decimal number or an abbreviation is not a path."""
    assert found(text, Shape.PATH) == []


def test_two_words_with_a_slash_are_an_uncertain_path():
    """`and/or` may be an alternative, and `src/lib` a folder."""
    (span,) = Question("this and/or that").spans
    assert not span.is_certain


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("run ls -la", "ls -la"),
        ("please run 'echo hello'.", "echo hello"),
        ("execute the command `git status`", "git status"),
        ("Run the shell command: df -h", "df -h"),
        ("execute: find . -name '*.py'", "find . -name '*.py'"),
        ("use python to run print(2**100)", "print(2**100)"),
    ],
)
def test_command_is_everything_after_run(text, order):
    """The text after `run` is one span, whatever it contains."""
    assert found(text, Shape.COMMAND, has_commands=True) == [order]


@pytest.mark.parametrize("text", ["run the tests", "the run took 5 hours", "print 'run x'", "run "])
def test_other_uses_of_run_are_not_commands(text):
    """`run` in a description, as a noun, in a quotation or without an object is not a command."""
    assert found(text, Shape.COMMAND, has_commands=True) == []


@pytest.mark.parametrize("text", ["don't calculate 2+2", "never do it", "don\u2019t", "do not read a.txt"])
def test_negation_is_detected(text):
    """A negation outside of quotations negates the question."""
    assert Question(text).is_negated


def test_negation_inside_a_quotation_is_ignored():
    """A negation inside a quotation does not negate the question."""
    assert not Question("count the words in 'never odd or even'").is_negated


@pytest.mark.parametrize("text", ["hi there", "thanks a lot", "How are you today?", "good day", "", "?!", "your name?"])
def test_small_talk_is_detected(text):
    """Greetings, thanks and blank texts are small talk."""
    assert Question(text).is_small_talk


@pytest.mark.parametrize("text", ["hi, what is 2+2?", "hello world.txt", "weather", "what day is it?", "today"])
def test_question_with_a_greeting_is_not_small_talk(text):
    """A question with a greeting before it is not small talk."""
    assert not Question(text).is_small_talk


@pytest.mark.parametrize("text", ["Who wrote War and Peace?", "why is the sky blue", "How tall is the Eiffel Tower?"])
def test_question_about_the_world_asks_for_knowledge(text):
    """An interrogative at the beginning asks for knowledge."""
    assert Question(text).asks_for_knowledge


@pytest.mark.parametrize(
    "text", ["What should I cook?", "what is your name", "what is 5 apples plus pears", "cook", ""]
)
def test_other_questions_do_not_ask_for_knowledge(text):
    """Questions about a person, sums in words and commands do not ask for knowledge."""
    assert not Question(text).asks_for_knowledge


def test_how_much_asks_for_a_calculation():
    """`how much` asks for a calculation."""
    assert "calculation" in Question("how much is it").concepts


def test_numbers_inside_quotations_are_excluded():
    """Numbers inside quotations are not numbers of the question."""
    assert Question("repeat 'a1 2' 3 times").numbers == (3.0,)
