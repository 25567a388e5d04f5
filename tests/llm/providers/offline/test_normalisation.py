"""Tests for the normalisation of hastily typed requests."""

import pytest

from agentkit.llm.providers.offline.normalisation import is_program, is_statement, normalised


@pytest.mark.for_each(
    ("text", "sentence"),
    [
        ("cat notes.txt", "read the file notes.txt"),
        ("head -3 notes.txt", "run the shell command `head -3 notes.txt`"),
        ("ls", "list the files"),
        ("ls docs", "list the files in the folder docs"),
        ("ls -la /tmp", "run the shell command `ls -la /tmp`"),
        ("curl https://example.com/a", "fetch https://example.com/a"),
        ('wc "a b"', 'count the words of "a b"'),
        ("pwd", "run the shell command `pwd`"),
        ("git status", "run the shell command `git status`"),
        ("$ make test", "run the shell command `make test`"),
        ("$ echo `date`", "run the shell command: echo `date`"),
        ("echo 'hi' > hi.txt", "run the shell command `echo 'hi' > hi.txt`"),
        ("print('hello')", "run this Python code: print('hello')"),
    ],
)
def test_command_lines_and_programs_become_sentences(text, sentence):
    """Shell and Python input becomes a request for a dedicated tool, or for the shell tool otherwise."""
    assert normalised(text) == sentence


@pytest.mark.for_each(
    "text",
    [
        "more about tulips",
        "find recipes for bread",
        "make a file a.txt with 'x'",
        "get me the text of ../LICENSE",
        "git is a tool",
        "sqrt(2)",
        "what is in 'twenty-two'?",
        "save '20% off 80' to a.txt",
        "write to a.txt: twice 45",
        "show the folder",
        "sort the list of 3, 1 and 2",
    ],
)
def test_sentences_are_unchanged(text):
    """A sentence, a quotation and the text after a colon are returned unchanged."""
    assert normalised(text) == text


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("raed setup.py", "read setup.py"),
        ("pls serch the web for tulips", "pls search the web for tulips"),
        ("whats in a.txt", "what's in a.txt"),
        ("whos there", "who's there"),
        ("I'd like you to search for bread", "search for bread"),
        ("hi, i want to read a.txt", "read a.txt"),
        ("shwo a.txt", "show a.txt"),
    ],
)
def test_typing_errors_at_the_beginning_are_corrected(text, better):
    """Abbreviations and typing errors are corrected up to the first content word."""
    assert normalised(text) == better


@pytest.mark.for_each(
    ("text", "sum_"),
    [
        ("average of 4, 8 and 15", "mean(4, 8, 15)"),
        ("the largest of 3, 9", "the max(3, 9)"),
        ("difference between 100 and 37", "100 - 37"),
        ("twice 45?", "2 * 45?"),
        ("a third of 99", "99 / 3"),
        ("a quarter of 8", "8 / 4"),
        ("3 to the 4th power", "3 ** 4"),
        ("20% off $80", "80 * (100 - 20) / 100"),
        ("increase 200 by 15%", "200 * (100 + 15) / 100"),
        ("reduce 200 by 15 percent", "200 * (100 - 15) / 100"),
        ("twenty-two plus two hundred and five", "22 plus 205"),
        ("a million minus three thousand five hundred", "1000000 minus 3500"),
        ("multiply 14 by 6", "14 * 6"),
        ("subtract 17 from 50", "50 - 17"),
        ("take 5 away from 20", "20 - 5"),
        ("half of 250", "250 / 2"),
        ("half of 250 + 3", "half of 250 + 3"),
        ("the sum of 4, 8 and 15", "the 4 + 8 + 15"),
        ("add 1,000, 20 and 0.5", "1000 + 20 + 0.5"),
        ("the sum of these numbers: 3, 5, 10", "the 3 + 5 + 10"),
        ("what do 12 and thirty add up to?", "what do 12 + thirty?"),
        ("add 3 and 4 to the list", "add 3 and 4 to the list"),
        ("the product of 2, 3 and 4", "the 2 * 3 * 4"),
        ("multiply 12 by 4, then subtract 8 and divide it by 2", "((12 * 4) - 8) / 2"),
        ("split 90 between 4 people", "90 / 4"),
        ("the remainder when 17 is divided by 5", "the 17 % 5"),
        ("10 factorial", "factorial(10)"),
        ("the factorial of 6", "the factorial(6)"),
        ("9 choose 2", "comb(9, 2)"),
        ("the log of 100 base 10", "the log(100, 10)"),
        ("log base 2 of 64", "log(64, 2)"),
        ("the sine of pi/2", "the sin(pi/2)"),
        ("cosine of 60 degrees", "cos(radians(60))"),
        ("convert 45 degrees to radians", "radians(45)"),
        ("round 3.14159 to two decimal places", "round(3.14159, two)"),
        ("round 2.5 to the nearest integer", "round(2.5)"),
        ("round 1234 to the nearest 10", "round(1234, -1)"),
        ("round 1234 to the nearest 7", "round 1234 to the nearest 7"),
        ("average of 1,234 and 5", "mean(1234, 5)"),
        ("log of 1,000 base 10", "log(1000, 10)"),
        ("20 is what percent of 80?", "20 / 80 * 100?"),
        ("what percent of 80 is 20", "20 / 80 * 100"),
        ("a 20% tip on $64.50", "a 20% of 64.50"),
        ("half of the sum of 3 and 5", "(3 + 5) / 2"),
        ("15% of the sum of 40 and 60", "15% of (40 + 60)"),
        ("3 plus the average of 4 and 8", "3 plus (mean(4, 8))"),
    ],
)
def test_sums_in_words_become_formulas(text, sum_):
    """Averages, percentages, powers and long numbers in words are converted to formulas."""
    assert normalised(text) == sum_


def test_sums_are_unchanged_without_a_formula_tool():
    """Sums in words are unchanged if no tool accepts a formula."""
    assert normalised("please add 3 and 4", has_calculator=False) == "please add 3 and 4"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("len('abc')", True),
        ("json.loads('[]')", True),
        ("max(1, 2)", False),
        ("python: len('a')", False),
        ("a b", False),
    ],
)
def test_programs_are_distinguished_from_sums(text, is_one):
    """Code is a program only if it calls more than calculator functions and contains no other text."""
    assert is_program(text) is is_one


@pytest.mark.parametrize(
    ("text", "states"),
    [("my file is called notes.txt", True), ("the address is https://example.com", True), ("is my file a.txt?", False)],
)
def test_statements_are_distinguished_from_requests(text, states):
    """A statement is distinguished from a request."""
    assert is_statement(text) is states


@pytest.mark.for_each("change", [" 8% and", " and 8%", ", then add 8%", " rồi thêm 8% nữa", " with it 8% more on top"])
def test_many_unfinished_changes_are_read_in_linear_time(change):
    """A long text of percentages that ends in another word is left as it is, within the time limit of a test."""
    text = ("80 + 5" + change * 100)[:990] + " otherwise"
    assert normalised(text).endswith("otherwise")
