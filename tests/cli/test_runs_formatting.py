"""Tests for the words that describe files and costs."""

from agentkit.cli.export import cost_text, file_type, heading
from agentkit.usage import Price, Tariff, Usage


def test_kinds_of_files():
    """A file is called what its header says it is."""
    assert [file_type({"cassette": 1}), file_type({"session": 1})] == ["Cassette", "Session"]
    assert (
        heading({"cassette": 1, "recorded": "today", "agentkit": "1.0"}) == "Cassette, recorded today with agentkit 1.0"
    )


def test_money():
    """cost_text() returns the cost if the price is known."""
    assert (
        cost_text(Usage(10, 1, requests=1, tariff=Tariff("ollama", "mine", price=Price(2, 0)))) == "≈ $0.000020 (given)"
    )
