"""Tests for Azure endpoints: styles, deployments, and credentials."""

import pytest

from agentkit.errors import ConfigError, NoProvider
from agentkit.llm.endpoint import Sources
from agentkit.llm.providers.openai import azure_endpoint
from agentkit.settings import Secret

KEY = {"api_key=": Secret("k")}
ROOT = "https://r.openai.azure.com"
DATED = f"{ROOT}/openai/deployments"


def endpoint_of(**values):
    """Return the endpoint for these arguments (`model_` for `model=`) and variables, with a key."""
    return azure_endpoint(Sources(KEY | {name.replace("_is", "="): value for name, value in values.items()}))


# the URL, other values; base URL, protocol, version, query
STYLES = {
    "dated": (ROOT, {}, f"{DATED}/gpt", "chat", "2024-02-01", {"api-version": "2024-02-01"}),
    "a slash": (f"{ROOT}/", {}, f"{DATED}/gpt", "chat", "2024-02-01", {"api-version": "2024-02-01"}),
    "a version": (
        ROOT,
        {"azure_api_version_is": "2025-01-01"},
        f"{DATED}/gpt",
        "chat",
        "2025-01-01",
        {"api-version": "2025-01-01"},
    ),
    "azure's version": (
        ROOT,
        {"AZURE_OPENAI_API_VERSION": "2025-01-01", "OPENAI_API_VERSION": "2020-01-01"},
        f"{DATED}/gpt",
        "chat",
        "2025-01-01",
        {"api-version": "2025-01-01"},
    ),
    "openai's version": (
        ROOT,
        {"OPENAI_API_VERSION": "2025-01-01"},
        f"{DATED}/gpt",
        "chat",
        "2025-01-01",
        {"api-version": "2025-01-01"},
    ),
    "v1 by version": (ROOT, {"azure_api_version_is": "v1"}, f"{ROOT}/openai/v1", "responses", "v1", {}),
    "v1 by address": (f"{ROOT}/openai/v1/", {}, f"{ROOT}/openai/v1", "responses", "v1", {}),
    "v1 by address, though a date is set": (
        f"{ROOT}/openai/v1",
        {"OPENAI_API_VERSION": "2025-01-01"},
        f"{ROOT}/openai/v1",
        "responses",
        "v1",
        {},
    ),
    "v1 preview": (
        ROOT,
        {"azure_api_version_is": "preview"},
        f"{ROOT}/openai/v1",
        "responses",
        "preview",
        {"api-version": "preview"},
    ),
    "v1 over chat": (f"{ROOT}/openai/v1", {"protocol_is": "chat"}, f"{ROOT}/openai/v1", "chat", "v1", {}),
    "openai in the address": (
        f"{ROOT}/openai",
        {},
        f"{DATED}/gpt",
        "chat",
        "2024-02-01",
        {"api-version": "2024-02-01"},
    ),
    "a gateway": (
        "https://gw.example/team?team=1",
        {},
        "https://gw.example/team/openai/deployments/gpt",
        "chat",
        "2024-02-01",
        {"team": "1", "api-version": "2024-02-01"},
    ),
    "a whole address": (
        f"{DATED}/gpt/chat/completions?api-version=2025-01-01",
        {"OPENAI_API_VERSION": "2020-01-01"},
        f"{DATED}/gpt",
        "chat",
        "2025-01-01",
        {"api-version": "2025-01-01"},
    ),
}


@pytest.mark.for_each(("address", "values", "base_url", "protocol", "version", "query"), STYLES.values(), ids=STYLES)
def test_styles(address, values, base_url, protocol, version, query):
    """The version and the URL determine the dated style or the v1 style."""
    endpoint = endpoint_of(azure_endpoint_is=address, model_is="gpt", **values)
    assert (endpoint.base_url, endpoint.protocol) == (base_url, protocol)
    assert (endpoint.api_version, endpoint.query) == (version, query)
    assert (endpoint.provider, endpoint.key_header) == ("azure", "api-key")
    assert endpoint.strict is ("/openai/v1" in base_url)


@pytest.mark.parametrize(
    ("values", "deployment"),
    [
        ({"model_is": "a", "AGENTKIT_MODEL": "b"}, "a"),
        ({"AGENTKIT_MODEL": "b", "AZURE_OPENAI_DEPLOYMENT": "c"}, "b"),
        ({"AZURE_OPENAI_DEPLOYMENT": "c", "OPENAI_MODEL": "d"}, "c"),
        ({"OPENAI_MODEL": "d"}, "d"),
        ({}, "gpt-5.4-mini"),
        ({"azure_endpoint_is": f"{DATED}/in%20url", "OPENAI_MODEL": "d"}, "in url"),
        ({"azure_endpoint_is": f"{DATED}/in%20url", "model_is": "a"}, "a"),
    ],
)
def test_deployment_name(values, deployment):
    """The deployment is the model named by an argument, the URL or a variable."""
    endpoint = endpoint_of(**{"azure_endpoint_is": ROOT, **values})
    assert endpoint.model == deployment


def test_deployment_is_quoted_in_the_path():
    """The name of a deployment is quoted in the path of a request."""
    endpoint = endpoint_of(azure_endpoint_is=ROOT, model_is="../../a?b#c")
    assert endpoint.base_url == f"{DATED}/..%2F..%2Fa%3Fb%23c"


def test_sources_of_the_endpoint():
    """The endpoint is azure_endpoint=, base_url= or the variable, whichever is set first."""
    assert endpoint_of(base_url_is=ROOT, AZURE_OPENAI_ENDPOINT="https://x").base_url.startswith(ROOT)
    assert endpoint_of(AZURE_OPENAI_ENDPOINT=ROOT).base_url.startswith(ROOT)


def test_credentials():
    """A token provider takes precedence over a key, and an argument over a variable."""
    root = {"AZURE_OPENAI_ENDPOINT": ROOT}
    variables = {"AZURE_OPENAI_API_KEY": "key", "AZURE_OPENAI_AD_TOKEN": "token"}
    provided = azure_endpoint(Sources(root | variables | KEY | {"azure_token_provider=": lambda: "mine"}))
    assert (provided.api_key, provided.token_provider()) == (None, "mine")
    keyed = azure_endpoint(Sources(root | variables | KEY))
    assert (keyed.api_key, keyed.token_provider) == (Secret("k"), None)
    assert azure_endpoint(Sources(root | variables)).api_key == Secret("key")
    tokened = azure_endpoint(Sources(root | {"AZURE_OPENAI_AD_TOKEN": "token"}))
    assert (tokened.api_key, tokened.token_provider()) == (None, "token")


def test_missing_setting_is_named():
    """A missing endpoint or credential raises an error that names the variable and the argument."""
    with pytest.raises(NoProvider, match=r"endpoint required\. Set AZURE_OPENAI_ENDPOINT or pass azure_endpoint="):
        azure_endpoint(Sources(KEY))
    with pytest.raises(NoProvider, match=r"API key required\. Set AZURE_OPENAI_API_KEY, or pass api_key="):
        azure_endpoint(Sources({"AZURE_OPENAI_ENDPOINT": ROOT}))


def test_endpoint_without_a_scheme_raises_config_error():
    """An endpoint without https:// raises ConfigError."""
    with pytest.raises(ConfigError, match=r"'r.openai.azure.com' is not a base URL"):
        endpoint_of(azure_endpoint_is="r.openai.azure.com")
