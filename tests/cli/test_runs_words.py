"""Tests for the words that describe files and costs."""

from agentkit.cli.export import heading, kind_of, money
from agentkit.usage import Price, Tariff, Usage


def test_kinds_of_files():
    """A file is called what its header says it is."""
    assert [kind_of({"cassette": 1}), kind_of({"session": 1})] == ["Cassette", "Session"]
    assert (
        heading({"cassette": 1, "recorded": "today", "agentkit": "1.0"}) == "Cassette, recorded today with agentkit 1.0"
    )


def test_money():
    """money() returns the cost if the price is known."""
    assert money(Usage(10, 1, requests=1, tariff=Tariff("ollama", "mine", price=Price(2, 0)))) == "≈ $0.000020 (given)"
