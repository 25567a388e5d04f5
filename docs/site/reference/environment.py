"""Reference page of the environment variables."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from markdown import code, joined, table

import agentkit
from agentkit.cli.settings import KEYS
from agentkit.llm.providers.openai import SERVICES

_SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Models": {
        "AGENTKIT_PROVIDER": "The provider: `openai`, `azure`, `offline`, or a service of the table below.",
        "AGENTKIT_MODEL": "The model; `ollama:qwen3` sets the provider too.",
        "AGENTKIT_BASE_URL": "An OpenAI-compatible server. It overrides `OPENAI_BASE_URL`.",
        "OPENAI_API_KEY": "The key of OpenAI, also sent to the server at the base URL if one is set.",
        "OPENAI_BASE_URL": "An OpenAI-compatible server, which needs no key.",
        "OPENAI_ORG_ID": "The organization that OpenAI charges; it is not sent to other servers.",
        "OPENAI_PROJECT_ID": "The project that OpenAI charges; it is not sent to other servers.",
        "OPENAI_MODEL": "The model, if `AGENTKIT_MODEL` is not set.",
        "ANTHROPIC_MODEL": "The model at Anthropic, if `AGENTKIT_MODEL` is not set.",
        "AZURE_OPENAI_API_KEY": "The key of Azure OpenAI.",
        "AZURE_OPENAI_AD_TOKEN": "A token of Entra ID instead of the key.",
        "AZURE_OPENAI_ENDPOINT": "The endpoint of the Azure OpenAI resource, such as `https://NAME.openai.azure.com`.",
        "AZURE_OPENAI_DEPLOYMENT": "The deployment, if no model is set.",
        "AZURE_OPENAI_API_VERSION": "The version of Azure's API; `v1` for the undated one.",
        "OPENAI_API_VERSION": "The same, if `AZURE_OPENAI_API_VERSION` is not set.",
    },
    "Settings of the command line": {
        "AGENTKIT_TOOLS": "Tools and collections, such as `core,web`.",
        "AGENTKIT_SAFETY": "The level that runs without approval: `safe`, `network`, `system`.",
        "AGENTKIT_SESSION": "The session of the conversation; `false` stores nothing.",
        "AGENTKIT_LIMITS": "The limits of one run, such as `cost=0.10,seconds=60`.",
        "AGENTKIT_INSTRUCTION": "The instruction for the model.",
        "AGENTKIT_OPTIONS": "Options of the model, such as `temperature=0.2`.",
        "AGENTKIT_TRACE": "A file for JSON lines with the events of each run.",
        "AGENTKIT_TOKEN": "The token for clients of `agentkit serve` and `agentkit mcp serve`; random by default.",
        "AGENTKIT_MCP_CLIENT_SECRET": "The client secret for `--client-id` of `agentkit mcp login`.",
        "AGENTKIT_MCP_TOKEN": "The token that `agentkit mcp tools` sends to a URL.",
        "NO_COLOR": "Disables colours.",
        "FORCE_COLOR": "Enables colours without a terminal.",
        "XDG_CONFIG_HOME": "The parent of the folder `agentkit` with your `config.toml`; `~/.config` by default.",
        "APPDATA": "The same on Windows.",
    },
    "Tools and files": {
        "AGENTKIT_SEARXNG_URL": "A SearXNG server that `web_search` uses instead of DuckDuckGo.",
        "AGENTKIT_SANDBOX": "The sandbox of `run_shell` and `run_python`: `kernel` (default) or `docker`.",
        "AGENTKIT_STATE": "The folder of sessions and journals.",
        "XDG_STATE_HOME": "The parent of that folder, if `AGENTKIT_STATE` is not set; `~/.local/state` by default.",
        "LOCALAPPDATA": "The same on Windows.",
    },
}
"""The description of each variable. `page` raises KeyError if these are not exactly the variables that the code reads.
"""

_IN_FILES_ONLY = {"aliases", "plugins"}
"""Settings that are tables, which a variable cannot set."""

_OURS = re.compile(
    r"(AGENTKIT|OPENAI|AZURE_OPENAI|ANTHROPIC)_[A-Z_]*[A-Z]|(NO|FORCE)_COLOR|XDG_[A-Z_]+|(LOCAL)?APPDATA"
)


def page() -> str:
    """Render the page. Raises KeyError if the tables and the code do not name the same variables."""
    described = {name for section in _SECTIONS.values() for name in section}
    read = set(_read_variables())
    if described != read:
        raise KeyError(f"Add these variables to {__file__}, or remove them: {sorted(described ^ read)}")
    opening = "An empty variable counts as unset. Arguments and command-line options override variables."
    sections = [joined([f"## {title}", _table(rows)]) for title, rows in _SECTIONS.items()]
    return joined(["# Reference: environment variables", opening, *sections, "## Services by name", _services()])


def _table(rows: Mapping[str, str]) -> str:
    return table(("variable", "meaning"), ((code(name), words) for name, words in rows.items()))


def _services() -> str:
    """The table of services with their variables."""
    rows = []
    for name, service in SERVICES.items():
        variables = [code(each) if each else "" for each in (service.key_variable, service.url_variable)]
        rows.append((code(f"{name}:MODEL"), code(service.base_url), *variables))
    return table(("model", "URL", "variable of the key", "variable of the URL"), rows)


def _read_variables() -> Iterator[str]:
    """The variables that the code reads: the settings, and strings in the source with the form of a variable name."""
    yield from (f"AGENTKIT_{key.upper()}" for key in KEYS if key not in _IN_FILES_ONLY)
    of_services = {name for each in SERVICES.values() for name in (each.key_variable, each.url_variable)}
    for path in Path(agentkit.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if _OURS.fullmatch(text) and text not in of_services:
                yield text
