"""`agentkit models`: the selected model, its price and context window, and the alternatives."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from agentkit.cli.terminal import fitted
from agentkit.settings import environment

if TYPE_CHECKING:
    from agentkit.llm.client import LLM
    from agentkit.usage import Price

_EXAMPLES = """\b
Examples:
  agentkit models
  agentkit models gpt-5.4-mini groq:llama-3.3-70b-versatile
  agentkit models list                        the models that the provider offers
  agentkit models list ollama
"""


_MARKS = {True: "✓", False: "-", None: "?"}


@click.command(short_help="Show the model in use, its price and its window; list models.", epilog=_EXAMPLES)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def models(*, names: tuple[str, ...], as_json: bool) -> None:
    """Show the selected model, or the models NAME: endpoint, price and context window. Nothing is sent.

    `models list [PROVIDER]` asks the provider for the names of its models.
    """
    if names[:1] == ("list",):
        _list_offered(names[1:], as_json=as_json)
        return
    from agentkit.cli.display import clean, document_text
    from agentkit.cli.settings import settings_here
    from agentkit.errors import NoProvider

    settings, told, problem = settings_here(), [], None
    for name in names or (None,):
        try:
            told += [_about(each) for each in settings.llm(name).with_fallbacks()]
        except NoProvider as error:
            if names:
                raise
            problem = error
    if as_json:
        providers = [{"name": name, "ready": ready, "why": why} for name, ready, why in _providers()]
        click.echo(document_text(models=told, providers=providers))
        return
    lines = ["\n".join(f"{word:<12} {value}" for word, value in _rows(about)) for about in told]
    lines += [f"{problem}"] if problem else []
    if not names:
        width = max(len(name) for name, _, _ in _providers())
        lines.append("\n".join(f"{_MARKS[ready]} {name:<{width}}  {why}" for name, ready, why in _providers()))
    click.echo(fitted(clean("\n\n".join(lines)), sys.stdout, 15))


def _list_offered(providers: tuple[str, ...], *, as_json: bool) -> None:
    """Print the models that a provider offers. Raises ModelError."""
    from agentkit.cli.display import clean, document_text
    from agentkit.cli.settings import settings_here
    from agentkit.llm.detection import PROVIDERS

    if len(providers) > 1:
        raise click.UsageError("Name one provider: agentkit models list PROVIDER")
    settings = settings_here()
    wanted = providers[0] if providers else None
    if wanted is not None and wanted not in PROVIDERS:
        from agentkit.event_rendering import suggestion

        hint = suggestion(wanted, PROVIDERS)
        raise click.UsageError(f"No provider is named {wanted!r}.{hint} Known: {', '.join(PROVIDERS)}.")
    llm = settings.llm() if wanted is None else settings.llm(f"{wanted}:any")
    names = llm.list_models()
    if as_json:
        click.echo(document_text(provider=llm.provider, models=names))
        return
    for name in names:
        click.echo(clean(name))


def _about(llm: LLM) -> dict[str, Any]:
    """The description of a model with price and context window, as JSON data."""
    from agentkit.llm.pricing import context_window, price_under

    price, tariff = price_under(llm.tariff), llm.tariff
    return {
        **asdict(llm.describe()),
        "price": None if price is None else _price_fields(price),
        "window_tokens": context_window(tariff.provider, tariff.model),
    }


def _price_fields(price: Price) -> dict[str, Any]:
    return {
        "input": price.input,
        "cached": price.cached,
        "output": price.output,
        "unit": "US dollars per million tokens",
        "source": price.source,
        "date": price.date,
        "is_tiered": bool(price.tiers),
    }


def _rows(about: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows of a model's description for a person."""
    yield "model", f"{about['model']}"
    yield "provider", f"{about['provider']} (decided by {about['decided_by']})"
    yield "endpoint", f"{about['endpoint']}"
    yield "protocol", f"{about['protocol']}"
    if about["api_version"]:
        yield "api version", f"{about['api_version']}"
    yield "price", _price_text(about["price"])
    window = about["window_tokens"]
    yield "window", f"{window:,} tokens" if window else "unknown"
    for reason in about["ignored"]:
        yield "ignored", reason
    for fallback in about["fallbacks"]:
        yield "fallback", f"{fallback['provider']}:{fallback['model']} at {fallback['endpoint']}"


def _price_text(price: dict[str, Any] | None) -> str:
    if price is not None and not price["input"] and not price["output"]:
        return f"$0 ({price['source']})"
    if price is None:
        return "unknown; with --limit cost=… it is refused, unless you add --limit unknown_price=free"
    rates = [f"{price['input']:g} in", f"{price['cached']:g} cached" if price["cached"] is not None else ""]
    rates += [f"{price['output']:g} out", "more for long requests" if price["is_tiered"] else ""]
    by = ", ".join(filter(None, (price["source"], price["date"])))
    return f"≈ US dollars per million tokens: {', '.join(filter(None, rates))} ({by})"


def _providers() -> list[tuple[str, bool | None, str]]:
    """Each provider, whether it can be used (None if only a request would show), and why."""
    from agentkit.installation import install_command
    from agentkit.llm.providers.openai import SERVICES

    variables = environment()
    azure = [name for name in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT") if name not in variables]
    rows: list[tuple[str, bool | None, str]] = [_keyed("openai", "OPENAI_API_KEY", variables)]
    rows.append(("azure", not azure, f"{' and '.join(azure)} not set" if azure else "AZURE_OPENAI_API_KEY is set"))
    for name, service in SERVICES.items():
        if service.key_variable:
            rows.append(_keyed(name, service.key_variable, variables))
        else:
            rows.append((name, None, f"no key needed; if it runs at {service.base_url}"))
    has_offline = find_spec("needle") is not None
    how = "installed; no key, no network" if has_offline else install_command("offline")
    return [*rows, ("offline", has_offline, how)]


def _keyed(name: str, variable: str, variables: Mapping[str, str]) -> tuple[str, bool, str]:
    is_set = variable in variables
    return name, is_set, f"{variable} is {'' if is_set else 'not '}set"
