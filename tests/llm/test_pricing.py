"""Tests for prices and costs of models."""

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import genai_prices
import pytest
from genai_prices import data_snapshot, types

from agentkit.errors import ConfigError
from agentkit.llm.client import LLM
from agentkit.llm.endpoint import Endpoint
from agentkit.llm.pricing import OFFLINE_PRICE, context_window, cost_of, price_of, price_under, prices_under, tariff_of
from agentkit.llm.providers.openai import SERVICES
from agentkit.llm.remote_model import RemoteModel
from agentkit.messages import Request, UserMessage
from agentkit.testing import FakeServer, say
from agentkit.usage import LONG_REQUESTS, Cost, Price, Tariff, Usage

TODAY = date(2026, 11, 22)
PLAIN, TIERED = ("openai", "gpt-5.4-mini"), ("openai", "gpt-6-luna")
GIVEN = Price(1, 2)


def usage_of(provider, model, served="", **counts):
    """Return a usage with these counts for a model."""
    return Usage(**{"requests": 1, **counts}, tariff=Tariff(provider, model, served))


def run(program, *arguments):
    """Run a Python program in a separate process and return the words that it prints."""
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.fixture
def listed():
    """Replace the package's price list, as a host program may, and restore it afterwards."""

    def put(prices, *, model="m", updated=False, days=0):
        info = types.ModelInfo(id=model, match=types.ClauseEquals(model), prices=prices, context_window=1_000)
        provider = types.Provider(id="openai", name="OpenAI", api_pattern="https://api\\.openai\\.com", models=[info])
        stamp = datetime(2026, 11, 20, tzinfo=UTC) + timedelta(days=days)
        snapshot = data_snapshot.DataSnapshot([provider], from_auto_update=updated, timestamp=stamp)
        data_snapshot.set_custom_snapshot(snapshot)

    yield put
    data_snapshot.set_custom_snapshot(None)


# --- the price of a model


@pytest.mark.for_each(
    ("provider", "model"),
    [
        PLAIN,
        TIERED,
        ("azure", "gpt-4o-mini-2024-07-18"),
        ("gemini", "gemini-2.5-pro"),
        ("groq", "llama-3.3-70b-versatile"),
        ("anthropic", "claude-haiku-5-5"),
        ("openrouter", "anthropic/claude-sonnet-4.5"),
        ("https://api.groq.com", "llama-3.3-70b-versatile"),
    ],
)
@pytest.mark.for_each("lengths", [(1_000, 0), (150_000, 100_000), (300_000, 0)])
def test_price_is_that_of_genai_prices(provider, model, lengths):
    """The cost of a request is the one computed by genai-prices, including cache and length."""
    input_tokens, cached = lengths
    names = {"gemini": "google"}
    place = {"provider_api_url": provider} if "://" in provider else {"provider_id": names.get(provider, provider)}
    usage = genai_prices.Usage(input_tokens=input_tokens, output_tokens=5_000, cache_read_tokens=cached)
    moment = datetime(2026, 11, 22, tzinfo=UTC)
    expected = genai_prices.calc_price(usage, model, genai_request_timestamp=moment, **place)
    price = price_of(provider, model, TODAY)
    assert price.dollars(input_tokens, 5_000, cached) == pytest.approx(float(expected.total_price))


def test_input_written_to_the_cache_has_its_price():
    """Input written to the cache is charged for models with such a price."""
    usage = genai_prices.Usage(input_tokens=9_000, output_tokens=10, cache_read_tokens=2_000, cache_write_tokens=5_000)
    expected = genai_prices.calc_price(usage, TIERED[1], provider_id=TIERED[0])
    assert price_of(*TIERED).dollars(9_000, 10, 2_000, 5_000) == pytest.approx(float(expected.total_price))


def test_price_names_its_source():
    """A price names the package with its version, and the date of its latest price change."""
    price = price_of(*TIERED, TODAY)
    assert price.source == price.tiers[0][1].source == f"genai-prices {genai_prices.__version__}"
    assert "2026-10-01" < price.date == price.tiers[0][1].date <= "2026-11-22"


@pytest.mark.for_each(
    ("provider", "model"),
    [
        ("openai", "no-such-model"),
        ("openai", ""),
        ("open", "gpt-4o"),
        ("my-openai", "gpt-4o"),
        ("ollama", "gpt-4o"),
        ("http://127.0.0.1:11434", "gpt-4o"),
        ("https://models.example.com", "gpt-4o"),
        ("perplexity", "sonar"),
        ("google", "gemma-3"),
        ("openai", "text-embedding-3-small"),
    ],
)
def test_unknown_price_is_none(provider, model):
    """Unlisted models, local servers, and models that charge for more than tokens have no price."""
    assert price_of(provider, model) is None


def test_offline_model_is_free():
    """The offline model is free."""
    assert price_of("offline", "needle3") is OFFLINE_PRICE
    assert OFFLINE_PRICE.is_free


def test_every_price_threshold_is_tracked():
    """Usage is tracked separately at every token threshold of the price lists, give or take one."""
    models = [model for provider in data_snapshot.get_snapshot().providers for model in provider.models]
    prices = [model.get_prices(datetime(2026, 11, 22, tzinfo=UTC)) for model in models]
    rates = [rate for price in prices for rate in vars(price).values() if isinstance(rate, types.TieredPrices)]
    starts = {tier.start for rate in rates for tier in rate.tiers}
    assert 272_000 in starts
    assert {start for start in starts if not {start, start + 1} & set(LONG_REQUESTS)} == set()


def test_price_change_applies_from_its_date(listed):
    """A price change applies from its start date, and the reported date is not in the future."""
    old, new = (types.ModelPrice(input_mtok=Decimal(rate), output_mtok=Decimal(rate)) for rate in (1, 2))
    start = types.StartDateConstraint(date(2026, 12, 1))
    listed([types.ConditionalPrice(prices=old), types.ConditionalPrice(start, prices=new)])
    before, after = price_of("openai", "m", date(2026, 11, 30)), price_of("openai", "m", date(2026, 12, 1))
    assert (before.input, before.date) == (1, "")
    assert (after.input, after.date) == (2, "2026-12-01")


def test_hourly_price_is_the_highest_of_the_day(listed):
    """A price that depends on the hour is the highest of the day."""
    cheap, dear = (types.ModelPrice(input_mtok=Decimal(rate), output_mtok=Decimal(rate)) for rate in (1, 2))
    hours = types.TimeOfDateConstraint(
        datetime(2026, 1, 1, 16, 30, tzinfo=UTC).timetz(), datetime(2026, 1, 1, 0, 30, tzinfo=UTC).timetz()
    )
    listed([types.ConditionalPrice(prices=dear), types.ConditionalPrice(hours, prices=cheap)], days=1)
    assert price_of("openai", "m", TODAY).input == 2


def test_prices_updated_by_the_host_program_are_used(listed):
    """Prices that the host program updates are used with their date, and are never downloaded."""
    listed(types.ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(1)), updated=True, days=2)
    assert price_of("openai", "m", TODAY).date == "2026-11-22"
    assert price_of("openai", "m", TODAY).source.endswith("updated")
    listed(types.ModelPrice(input_mtok=Decimal(3), output_mtok=Decimal(1)), updated=True, days=3)
    assert price_of("openai", "m", TODAY).input == 3


@pytest.mark.parametrize(("place", "tokens"), [(("openai", "gpt-4o"), 128_000), (("openai", "nope"), None)])
def test_context_window_of_a_model(place, tokens):
    """The context window is known for many models, and None for others."""
    assert context_window(*place) == tokens


# --- which price applies


@pytest.mark.parametrize(
    ("endpoint", "provider"),
    [
        (Endpoint(provider="openai", model="m", base_url="https://api.openai.com/v1", is_openai=True), "openai"),
        (Endpoint(provider="azure", model="m", base_url="https://r.openai.azure.com/openai/v1"), "azure"),
        (Endpoint(provider="groq", model="m", base_url=SERVICES["groq"].base_url), "groq"),
        (Endpoint(provider="offline", model="m"), "offline"),
        (
            Endpoint(provider="openai", model="m", base_url="http://me:secret@127.0.0.1:8000/v1"),
            "http://127.0.0.1:8000",
        ),
        (
            Endpoint(provider="groq", model="m", base_url="https://gateway.example.com/groq"),
            "https://gateway.example.com",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tariff_names_the_provider_or_the_address(endpoint, provider):
    """A provider at its own URL is named by its name, and another server by its URL without credentials."""
    assert tariff_of(endpoint) == Tariff(provider, "m")
    assert tariff_of(endpoint, GIVEN).price is GIVEN


def test_price_of_the_served_model():
    """The price is that of the model named by the server, or of the requested model if it is not listed."""
    mini = price_of("openai", "gpt-4o-mini")
    assert price_under(Tariff("azure", "my-deployment", "gpt-4o-mini-2024-07-18")) == price_of("azure", "gpt-4o-mini")
    assert price_under(Tariff("openai", "gpt-4o-mini", "gpt-4o-mini-2099-01-01")) == mini
    assert price_under(Tariff("openai", "gpt-4o-mini")) == mini


def test_azure_deployment_name_is_not_a_model():
    """An Azure deployment is priced by the model that it reports, or has no price."""
    assert price_under(Tariff("azure", "gpt-4o", "something-new")) is None
    assert price_under(Tariff("azure", "gpt-4o")) == price_of("azure", "gpt-4o")


def test_price_of_the_user_takes_precedence():
    """A price set by the user takes precedence over the list."""
    assert price_under(Tariff("openai", "gpt-4o", price=GIVEN)) is GIVEN
    assert price_under(None) is None


# --- the cost of a usage


@pytest.mark.parametrize("given", [LLM("offline"), "12 tokens", None])
def test_value_that_is_not_a_usage_raises_config_error(given):
    """A value that is not a Usage raises ConfigError that suggests its `usage` attribute."""
    with pytest.raises(ConfigError, match=rf"takes a Usage, .*: {type(given).__name__}\.usage"):
        cost_of(given)


def test_cost_of_one_model():
    """The cost of a usage contains the dollars, the source and the date of the price."""
    cost = cost_of(usage_of(*PLAIN, input_tokens=10_000, output_tokens=1_000, cached_tokens=4_000), on=TODAY)
    price = price_of(*PLAIN, TODAY)
    assert cost == Cost(pytest.approx(price.dollars(10_000, 1_000, 4_000)), price.source, price.date)
    assert str(cost).startswith("≈ $0.00")


def test_cost_of_several_models():
    """The cost of several models is the sum of their costs, in any order of addition."""
    parts = [
        usage_of(*PLAIN, input_tokens=10_000),
        usage_of(*TIERED, input_tokens=20_000),
        usage_of(*PLAIN, output_tokens=5),
    ]
    parts.append(usage_of("offline", "needle3", unreported=1))
    cost = cost_of(sum(parts, Usage()))
    assert cost.dollars == pytest.approx(sum(cost_of(part).dollars for part in parts))
    assert (cost.unpriced_requests, cost.source) == (0, price_of(*PLAIN).source)


def test_prices_of_fallbacks():
    """Each fallback model has its own price, or none."""
    llm = LLM(model="ollama:qwen3", price=Price(1, 2), fallback=["offline", "lmstudio:gemma"])
    assert prices_under(llm.tariffs) == (Price(1, 2), OFFLINE_PRICE, None)


def test_no_requests_cost_nothing():
    """Without requests the cost is 0, and no price list is read."""
    assert cost_of(Usage()) == Cost(0.0)


def test_embedding_model_charges_for_input():
    """An embedding model has a cost for its input only, and no price for answers."""
    vectors = usage_of("openai", "text-embedding-3-small", input_tokens=1_000_000)
    assert cost_of(vectors).dollars == pytest.approx(0.02)
    assert price_of("openai", "text-embedding-3-small") is None
    assert cost_of(usage_of("openai", "text-embedding-3-small", input_tokens=9, output_tokens=1)) is None


def test_offline_model_costs_nothing():
    """A run with the offline model costs 0 and states why, although its server reports no usage."""
    assert str(cost_of(usage_of("offline", "needle3", unreported=1))) == "$0 (the offline model is free)"


@pytest.mark.parametrize(
    "usage",
    [
        Usage(10, 5, requests=1),
        Usage(10, 5),
        usage_of("http://127.0.0.1:11434", "qwen3", input_tokens=10),
        usage_of(*PLAIN, unreported=1),
    ],
)
def test_unknown_cost_is_none(usage):
    """The cost is None if the price or the token counts are unknown."""
    assert cost_of(usage) is None


def test_unpriced_requests_are_counted():
    """Requests without a known price or usage are counted separately from the sum."""
    known, silent = usage_of(*PLAIN, input_tokens=10_000, requests=2), usage_of(*PLAIN, unreported=1)
    local = usage_of("http://127.0.0.1:11434", "qwen3", input_tokens=10, requests=3)
    cost = cost_of(known + silent + local)
    assert cost.dollars == cost_of(known).dollars
    assert cost.unpriced_requests == 4
    assert str(cost).startswith("at least ≈ $0.0")


def test_given_price_is_used_for_unknown_prices():
    """A given price is used only for models without a known price."""
    local, known = (
        usage_of("http://127.0.0.1:11434", "qwen3", input_tokens=1_000_000),
        usage_of(*PLAIN, input_tokens=10),
    )
    assert cost_of(local, GIVEN) == Cost(1.0, "given")
    assert cost_of(known, GIVEN) == cost_of(known)
    assert cost_of(local + known, GIVEN).source.split(" and ") == ["given", price_of(*PLAIN).source]


# --- the tariff of a response


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_response_usage_contains_its_tariff(protocol):
    """The usage of a response names the server, the requested model and the model that answered."""
    with FakeServer(say("Hi", usage=Usage(300_000, 5, requests=1), model="m-2026")) as server:
        response = LLM(base_url=server.base_url, model="m", protocol=protocol).complete("Hello")
        address = server.base_url.rpartition("/")[0]
    assert response.usage.tariff == Tariff(address, "m", "m-2026", 272_000)
    assert cost_of(response.usage) is None


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_price_of_the_user_for_an_unlisted_server(protocol):
    """A server that is not listed is charged at the price set by its user."""
    with FakeServer(say("Hi", usage=Usage(1_000_000, 500_000, requests=1))) as server:
        endpoint = Endpoint(provider="openai", model="m", base_url=server.base_url, protocol=protocol)
        response = RemoteModel(endpoint, 20, 0, GIVEN).complete(Request([UserMessage("Hello")]))
    assert cost_of(response.usage) == Cost(2.0, "given")


# --- imports and network access


def test_prices_are_read_without_a_network():
    """Looking up prices opens no connection and starts no thread."""
    program = """
import sys, threading
sys.addaudithook(lambda event, arguments: sys.exit(event) if event.startswith("socket.") else None)
from agentkit.llm.pricing import context_window, cost_of, price_of
from agentkit.usage import Tariff, Usage
assert price_of("openai", "gpt-4o") and context_window("openai", "gpt-4o")
assert price_of("https://models.example.com", "m") is None
assert cost_of(Usage(5, 5, requests=1, tariff=Tariff("openai", "gpt-4o")))
print(threading.active_count())
"""
    assert run(program) == ["1"]


def test_price_lists_are_imported_when_needed():
    """The price lists are imported only when a listed price is needed."""
    program = """
import sys
from agentkit import LLM
from agentkit.llm.pricing import cost_of
from agentkit.usage import Price, Tariff
usage = LLM(base_url=sys.argv[1], model="m").complete("Hello").usage
assert cost_of(usage.with_tariff(Tariff("offline", "needle3"))).dollars == 0
assert cost_of(usage.with_tariff(Tariff("x", "m", price=Price(1, 1)))).dollars > 0
print("genai_prices" in sys.modules)
cost_of(usage)
print("genai_prices" in sys.modules)
"""
    with FakeServer("Hi") as server:
        assert run(program, server.base_url) == ["False", "True"]
