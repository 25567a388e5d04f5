"""`agentkit doctor` and `agentkit models`: checks with fixes, the selected model, its price and the alternatives."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from agentkit._dataclass import dataclass
from agentkit.cli.options import JSON
from agentkit.cli.terminal import ANSWERED, FAILED, clean, document_text, for_shell, wrap_lines
from agentkit.installation import install_command
from agentkit.settings import environment

if TYPE_CHECKING:
    from agentkit.llm.client import LLM
    from agentkit.sandbox.process import ProcessOutcome
    from agentkit.sandbox.python import PythonOutcome
    from agentkit.usage import Price

_MARKS = {"ok": "✓", "missing": "-", "failed": "✗"}
_ISOLATION_FIX = (
    "install bubblewrap (sudo apt install bubblewrap), or allow user namespaces "
    "(sudo sysctl kernel.unprivileged_userns_clone=1; in a container: --security-opt seccomp=unconfined)"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `missing` is something optional, `failed` something that should work."""

    name: str
    state: Literal["ok", "missing", "failed"]
    found: str
    fix: str = ""


@click.command(short_help="Check the installation, and name the next step.")
@JSON
def doctor(*, as_json: bool) -> int:
    """Check provider, isolation and packages, grouped by use, and name the next step."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as pool:  # the sandboxes are processes, which start at the same time
        started = {group: [pool.submit(list, check()) for check in checks] for group, checks in _CHECKS.items()}
        groups = {group: [each for one in checks for each in one.result()] for group, checks in started.items()}
    findings = [each for group in groups.values() for each in group]
    failed = any(finding.state == "failed" for finding in findings)
    step = _next_step(groups)
    if as_json:
        click.echo(document_text(ok=not failed, findings=[asdict(each) for each in findings], next_step=step))
        return FAILED if failed else ANSWERED
    width = max(len(finding.name) for finding in findings)
    for group, group_findings in groups.items():
        click.echo(f"{group}")
        for each in group_findings:
            rows = [f"  {_MARKS[each.state]} {each.name:<{width}}  {each.found}"]
            rows += [f"    {'':<{width}}  → {each.fix}"] if each.fix else []
            click.echo("\n".join(wrap_lines(clean(row), sys.stdout, width + 8) for row in rows))
    click.echo(wrap_lines(clean(f"\nNext step: {step}"), sys.stdout))
    return FAILED if failed else ANSWERED


def _next_step(groups: Mapping[str, Sequence[Finding]]) -> str:
    """The one thing to do next: repair what failed, then choose a provider, then isolation, then ask."""
    findings = [each for group in groups.values() for each in group]
    failed = next((each for each in findings if each.state == "failed"), None)
    if failed is not None:
        return f"repair {failed.name}: {failed.fix or failed.found}"
    if any(each.name == "provider" and each.state == "missing" for each in findings):
        return "store a key: agentkit keys set openai   (or ask the offline model: agentkit --offline ...)"
    missing_item = next((each for each in groups[_RUNNING] if each.state == "missing"), None)
    if missing_item is not None:
        return f"isolate {missing_item.name}: {missing_item.fix}"
    return 'ask a question: agentkit "How much is 17% of 2400?"'


def _installation() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, requires

    import agentkit

    yield Finding("agentkit", "ok", agentkit.__version__)
    yield Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    try:
        required = list(_required(requires("agentkit-tools") or [], ""))
    except PackageNotFoundError:
        yield Finding("packages", "missing", "agentkit runs from its source folder", install_command())
        return
    wrong = [each for each in required if each.state != "ok"]
    yield from wrong or [Finding("packages", "ok", ", ".join(f"{each.name} {each.found}" for each in required))]


_EXTRAS = {
    "offline": "the offline model",
    "local": "models in GGUF files",
    "mcp": "MCP servers and clients",
    "serve": "the chat page and the endpoint",
    "pdf": "PDF files",
    "otel": "OpenTelemetry traces",
    "postgres": "sessions in PostgreSQL",
    "dask": "agents in other processes",
}


def _extras() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("agentkit-tools") or []
    except PackageNotFoundError:
        return
    for extra, purpose in _EXTRAS.items():
        is_complete = all(each.state == "ok" for each in _required(lines, extra))
        fix = "" if is_complete else install_command(extra)
        yield Finding(extra, "ok" if is_complete else "missing", purpose, fix)


def _provider() -> Iterator[Finding]:
    from agentkit.cli.settings import load_settings
    from agentkit.errors import AgentKitError

    try:
        about = load_settings().llm().describe()
    except AgentKitError as error:
        yield Finding("provider", "missing", "none", for_shell(" ".join(str(error).split())))
        return
    yield Finding("provider", "ok", f"{about.provider}, decided by {about.decided_by}")
    yield Finding("model", "ok", f"{about.model} {'on' if about.endpoint == 'this machine' else 'at'} {about.endpoint}")
    yield from (Finding("fallback", "ok", each.line) for each in about.fallbacks)


def _python_sandbox() -> Iterator[Finding]:
    from agentkit.sandbox.python import run_python
    from agentkit.settings import sandbox_backend

    yield Finding("sandbox", "ok", f"{sandbox_backend()}; AGENTKIT_SANDBOX=kernel or =docker chooses it")
    yield _check_program("run_python", lambda: run_python("print(6 * 7)"))


def _shell_sandbox() -> Iterator[Finding]:
    import shutil

    from agentkit.sandbox.process import Confinement, run_command

    if shutil.which("bash") is None:
        yield Finding("run_shell", "missing", "no bash", "install bash")
    else:
        yield _check_program("run_shell", lambda: run_command("echo 42", str(Path.cwd()), Confinement(writable=False)))


def _check_program(name: str, attempt: Callable[[], ProcessOutcome | PythonOutcome]) -> Finding:
    """Run a harmless program that prints 42, and check its output."""
    from agentkit.errors import SandboxError

    try:
        outcome = attempt()
    except SandboxError as error:
        return Finding(name, "failed", str(error))
    if outcome.output.strip() == "42":
        unsearched = getattr(outcome, "unsearched", "")
        if unsearched:
            found = f"runs, but secrets of this folder may stay readable, because {unsearched}"
            return Finding(name, "missing", found, "use a smaller folder as workspace")
        boundary = outcome.boundary
        if boundary.is_strong:
            return Finding(name, "ok", f"runs isolated: {boundary.describe()}")
        missing = ", ".join(boundary.missing)
        fix = _ISOLATION_FIX if sys.platform == "linux" else "strong isolation needs Linux"
        return Finding(name, "missing", f"runs, but without {missing}; there is {boundary.describe()}", fix)
    return Finding(name, "failed", outcome.error or f"it printed {outcome.output!r} instead of 42")


def _required(lines: Iterable[str], extra: str) -> Iterator[Finding]:
    """Check the packages of these requirements: those of an extra, or those without one."""
    from importlib.metadata import PackageNotFoundError, version

    for line in lines:
        package = re.split(r"[\s<>=!~;\[]", line, maxsplit=1)[0]
        marker = re.search(r"""extra == ['"]([\w-]+)['"]""", line)
        if (marker[1] if marker else "") != extra or "python_version" in line:
            continue
        try:
            yield Finding(package, "ok", version(package))
        except PackageNotFoundError:
            yield Finding(package, "failed", "not installed", install_command(extra))


_RUNNING = "Run code and commands"
_CHECKS: Mapping[str, tuple[Callable[[], Iterator[Finding]], ...]] = {
    "Ask a model": (_provider,),
    _RUNNING: (_python_sandbox, _shell_sandbox),
    "Optional features": (_extras,),
    "Installation": (_installation,),
}
"""The checks by what a user wants to do."""


_MODELS_EXAMPLES = """\b
Examples:
  agentkit models
  agentkit models gpt-5.4-mini groq:llama-3.3-70b-versatile
  agentkit models list  the models that the provider offers
  agentkit models list ollama
"""


_READY_MARKS = {True: "✓", False: "-", None: "?"}


@click.command(
    short_help="Show the model in use, its price and its context window; list models.", epilog=_MODELS_EXAMPLES
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@JSON
def models(*, names: tuple[str, ...], as_json: bool) -> None:
    """Show the selected model, or the models NAME: endpoint, price and context window. Nothing is sent.

    `models list [PROVIDER]` asks the provider for the names of its models.
    """
    if names[:1] == ("list",):
        _list_models(names[1:], as_json=as_json)
        return
    from agentkit.cli.settings import load_settings
    from agentkit.errors import NoProvider

    settings, parts, problem = load_settings(), [], None
    for name in names or (None,):
        try:
            parts += [_model_data(each) for each in settings.llm(name).with_fallbacks()]
        except NoProvider as error:
            if names:
                raise
            problem = error
    if as_json:
        providers = [{"name": name, "ready": ready, "why": reason} for name, ready, reason in _providers()]
        click.echo(document_text(models=parts, providers=providers))
        return
    lines = ["\n".join(f"{word:<12} {value}" for word, value in _rows(about)) for about in parts]
    lines += [for_shell(f"{problem}")] if problem else []
    if not names:
        width = max(len(name) for name, _, _ in _providers())
        lines.append(
            "\n".join(f"{_READY_MARKS[ready]} {name:<{width}}  {reason}" for name, ready, reason in _providers())
        )
    click.echo(wrap_lines(clean("\n\n".join(lines)), sys.stdout, 15))


def _list_models(providers: tuple[str, ...], *, as_json: bool) -> None:
    """Print the models that a provider offers. Raises ModelError."""
    from agentkit.cli.settings import load_settings
    from agentkit.llm.detection import PROVIDERS

    if len(providers) > 1:
        raise click.UsageError("Name one provider: agentkit models list PROVIDER")
    settings = load_settings()
    provider = providers[0] if providers else None
    if provider is not None and provider not in PROVIDERS:
        from agentkit.event_rendering import suggestion

        hint = suggestion(provider, PROVIDERS)
        raise click.UsageError(f"No provider is named {provider!r}.{hint} Known: {', '.join(PROVIDERS)}.")
    llm = settings.llm() if provider is None else settings.llm(f"{provider}:any")
    names = llm.list_models()
    if as_json:
        click.echo(document_text(provider=llm.provider, models=names))
        return
    for name in names:
        click.echo(clean(name))


def _model_data(llm: LLM) -> dict[str, Any]:
    """The description of a model with price and context window, as JSON data."""
    from agentkit.llm.pricing import context_window, price_under

    price, tariff = price_under(llm.tariff), llm.tariff
    return {
        **asdict(llm.describe()),
        "price": None if price is None else _price_data(price),
        "window_tokens": context_window(tariff.provider, tariff.model),
    }


def _price_data(price: Price) -> dict[str, Any]:
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
    rows: list[tuple[str, bool | None, str]] = [_key_status("openai", "OPENAI_API_KEY", variables)]
    rows.append(("azure", not azure, f"{' and '.join(azure)} not set" if azure else "AZURE_OPENAI_API_KEY is set"))
    for name, service in SERVICES.items():
        if service.key_variable:
            rows.append(_key_status(name, service.key_variable, variables))
        else:
            rows.append((name, None, f"no key needed; if it runs at {service.base_url}"))
    has_offline = find_spec("needle") is not None
    status = "installed; no key, no network" if has_offline else install_command("offline")
    return [*rows, ("offline", has_offline, status)]


def _key_status(name: str, variable: str, variables: Mapping[str, str]) -> tuple[str, bool, str]:
    is_set = variable in variables
    return name, is_set, f"{variable} is {'' if is_set else 'not '}set"
