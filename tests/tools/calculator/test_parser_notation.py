"""Tests for the different notations of operators."""

import pytest

from agentkit.errors import ToolError
from agentkit.tools.calculator.parser import MAX_TOKENS, exponent, tokenize


def texts(expression):
    """Return the tokens of an expression as text, without the end."""
    return [token.text for token in tokenize(expression)[:-1]]


@pytest.mark.for_each(
    ("written", "read"),
    [
        ("6 \N{MULTIPLICATION SIGN} 7 ÷ 2 \N{MINUS SIGN} 1", ["6", "*", "7", "/", "2", "-", "1"]),
        ("2^3", ["2", "**", "3"]),
        ("twelve", ["twelve"]),
        ("6 multiplied  BY 7", ["6", "*", "7"]),
        ("the square root of 9", ["square root of", "9"]),
        ("3 squared", ["3", "²"]),
        ("surplus", ["surplus"]),
        ("often", ["often"]),
        ("math.pi", ["pi"]),
        ("3 x 4", ["3", "*", "4"]),
        ("x 4", ["x", "4"]),
        ("\N{FULLWIDTH DIGIT ONE}2\N{FULLWIDTH ASTERISK}3", ["12", "*", "3"]),
        ("۴+४", ["4", "+", "4"]),
        ("0x1F", ["0x1F"]),
        ("1e-3", ["1e-3"]),
        ("3e", ["3", "e"]),
        ("5!", ["5", "!"]),
    ],
)
def test_notations_are_normalised(written, read):
    """Typographic signs, digits of other scripts and words become the usual operators."""
    assert texts(written) == read


def test_tokens_have_positions():
    """Each token stores its start and end position."""
    assert [(token.start, token.end) for token in tokenize("12 * π")] == [(0, 2), (3, 4), (5, 6), (6, 6)]


def test_last_token_is_the_end():
    """Every token list ends with a token of kind `end`, also for an empty text."""
    assert [token.kind for token in tokenize("")] == ["end"]


@pytest.mark.parametrize(("written", "power"), [("²", 2), ("¹⁰", 10), ("⁻³", -3), ("cubed", 3), ("2", None)])
def test_superscripts_are_exponents(written, power):
    """A superscript or its word is parsed as an exponent; other tokens return None."""
    assert exponent(tokenize(written)[0]) == power


def test_number_of_tokens_is_bounded():
    """An expression with too many tokens raises an error."""
    assert len(tokenize("1" + "+1" * (MAX_TOKENS // 2 - 1))) == MAX_TOKENS
    with pytest.raises(ToolError, match="more than 500"):
        tokenize("1" + "+1" * MAX_TOKENS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2 + ¤", "'¤' at character 5 is not understood"),
        ("2 + naïve", "'naïve' at character 7"),
        ("1 # 2", "'#' at character 3"),
        ("2 \t '3'", "at character 5 is not understood: text in quotes"),
    ],
)
def test_unknown_character_is_reported(text, says):
    """An unknown character or word is reported with its position."""
    with pytest.raises(ToolError) as caught:
        tokenize(text)
    assert says in str(caught.value)
