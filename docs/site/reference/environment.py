"""Which environment variables are read, and what do they say?"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from markdown import code, joined, table

import agentkit
from agentkit.cli.settings import KEYS
from agentkit.llm.providers.openai import SERVICES

_SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Which model": {
        "AGENTKIT_PROVIDER": "The provider: `openai`, `azure`, `offline`, or a service of the table below.",
        "AGENTKIT_MODEL": "The model; `ollama:qwen3` names the provider too.",
        "AGENTKIT_BASE_URL": "An OpenAI-compatible server. It comes before `OPENAI_BASE_URL`.",
        "OPENAI_API_KEY": "The key of OpenAI, sent to the server at the base URL when there is one.",
        "OPENAI_BASE_URL": "An OpenAI-compatible server; with it no key is needed.",
        "OPENAI_ORG_ID": "The organization that OpenAI charges; no other server is told it.",
        "OPENAI_PROJECT_ID": "The project that OpenAI charges; no other server is told it.",
        "OPENAI_MODEL": "The model, when `AGENTKIT_MODEL` is not set.",
        "ANTHROPIC_MODEL": "The model at Anthropic, when `AGENTKIT_MODEL` is not set.",
        "AZURE_OPENAI_API_KEY": "The key of Azure OpenAI.",
        "AZURE_OPENAI_AD_TOKEN": "A token of Entra ID, in place of the key.",
        "AZURE_OPENAI_ENDPOINT": "Where the resource of Azure OpenAI is, such as `https://NAME.openai.azure.com`.",
        "AZURE_OPENAI_DEPLOYMENT": "The deployment, when no model is named.",
        "AZURE_OPENAI_API_VERSION": "The version of Azure's interface; `v1` for the undated one.",
        "OPENAI_API_VERSION": "The same, when `AZURE_OPENAI_API_VERSION` is not set.",
    },
    "Settings of the command line": {
        "AGENTKIT_TOOLS": "Tools and collections, such as `core,web`.",
        "AGENTKIT_SAFETY": "The level that runs without approval: `safe`, `network`, `system`.",
        "AGENTKIT_SESSION": "The session to ask in; `false` keeps nothing.",
        "AGENTKIT_LIMITS": "The limits of one run, such as `cost=0.10,seconds=60`.",
        "AGENTKIT_INSTRUCTION": "The instruction for the model.",
        "AGENTKIT_OPTIONS": "Options of the model, such as `temperature=0.2`.",
        "AGENTKIT_TRACE": "A file that gets a line of JSON for each stored event of each run.",
        "AGENTKIT_TOKEN": "What clients of `agentkit serve` and `agentkit mcp serve` must show; by default random.",
        "AGENTKIT_MCP_CLIENT_SECRET": "The secret that goes with `--client-id` of `agentkit mcp login`.",
        "AGENTKIT_MCP_TOKEN": "What `agentkit mcp tools` shows to a URL.",
        "NO_COLOR": "No colours.",
        "FORCE_COLOR": "Colours, also where there is no terminal.",
        "XDG_CONFIG_HOME": "Where the folder `agentkit` with your `config.toml` is; by default `~/.config`.",
        "APPDATA": "The same on Windows.",
    },
    "Tools and files": {
        "AGENTKIT_SEARXNG_URL": "A SearXNG server that `web_search` asks in place of DuckDuckGo.",
        "AGENTKIT_SANDBOX": "The sandbox of `run_shell` and `run_python`: `kernel` (default) or `docker`.",
        "AGENTKIT_STATE": "The folder of sessions and journals.",
        "XDG_STATE_HOME": "Where that folder is when `AGENTKIT_STATE` is not set; by default `~/.local/state`.",
        "LOCALAPPDATA": "The same on Windows.",
    },
}
"""What each variable says; `page` fails when the code reads one that is not here, or no longer reads one that is."""

_IN_FILES_ONLY = {"aliases", "plugins"}
"""Settings that are tables of names, which a variable cannot set."""

_OURS = re.compile(
    r"(AGENTKIT|OPENAI|AZURE_OPENAI|ANTHROPIC)_[A-Z_]*[A-Z]|(NO|FORCE)_COLOR|XDG_[A-Z_]+|(LOCAL)?APPDATA"
)


def page() -> str:
    """The whole page. Raises KeyError when the tables here and the code do not name the same variables."""
    told = {name for section in _SECTIONS.values() for name in section}
    read = set(_read_variables())
    if told != read:
        raise KeyError(f"Say what these variables mean, or no longer do, in {__file__}: {sorted(told ^ read)}")
    opening = "A variable that is empty counts as unset. Arguments in the program and flags come before variables."
    sections = [joined([f"## {title}", _table(rows)]) for title, rows in _SECTIONS.items()]
    return joined(["# Reference: environment variables", opening, *sections, "## Services by name", _services()])


def _table(rows: Mapping[str, str]) -> str:
    return table(("variable", "says"), ((code(name), words) for name, words in rows.items()))


def _services() -> str:
    """The services that have variables of their own."""
    rows = []
    for name, service in SERVICES.items():
        variables = [code(each) if each else "" for each in (service.key_variable, service.url_variable)]
        rows.append((code(f"{name}:MODEL"), code(service.base_url), *variables))
    return table(("model", "asked at", "key", "another address"), rows)


def _read_variables() -> Iterator[str]:
    """The variables that the package names: its settings, and texts of its code that look like one of these."""
    yield from (f"AGENTKIT_{key.upper()}" for key in KEYS if key not in _IN_FILES_ONLY)
    of_services = {name for each in SERVICES.values() for name in (each.key_variable, each.url_variable)}
    for path in Path(agentkit.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if _OURS.fullmatch(text) and text not in of_services:
                yield text
