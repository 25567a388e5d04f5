"""Tests for endpoints: URLs, headers, keys, and redaction."""

import pytest

from agentkit.errors import ConfigError
from agentkit.llm.endpoint import (
    Description,
    Endpoint,
    LLMArguments,
    display_url,
    is_header_text,
    read_headers,
    read_url,
)
from agentkit.settings import Secret

PASSWORD_URL = "https://someone:pass-word@host.example:8443/v1"


@pytest.mark.for_each(
    ("url", "base", "query"),
    [
        ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1", {}),
        (" https://host/v1/ ", "https://host/v1", {}),
        ("https://host", "https://host", {}),
        ("https://host/v1/chat/completions", "https://host/v1", {}),
        ("https://host/v1/responses/", "https://host/v1", {}),
        ("https://host/v1?key=a&empty=#part", "https://host/v1", {"key": "a", "empty": ""}),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1", {}),
        ("HTTPS://Host/V1", "https://Host/V1", {}),
        (PASSWORD_URL, PASSWORD_URL, {}),
    ],
)
def test_base_urls_are_normalised(url, base, query):
    """A base URL is accepted with blanks, slashes, a complete endpoint path, or a query."""
    assert read_url(url) == (base, query)


@pytest.mark.for_each(
    "url",
    [
        "",
        "host",
        "host/v1",
        "localhost:8000",
        "ftp://host/v1",
        "file:///etc/passwd",
        "http://",
        "https:///v1",
        "http://host:port/v1",
        "http://host:99999/v1",
        "http://[::1/v1",
        "http://ho st/v1",
        "http://host\\@evil/v1",
        "http://someone:pass/word@host/v1",
    ],
)
def test_invalid_base_url_raises_config_error(url):
    """An invalid base URL raises ConfigError without showing its password."""
    with pytest.raises(ConfigError, match="is not a base URL") as caught:
        read_url(url)
    assert "pass" not in str(caught.value).replace("passwd", "")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"{PASSWORD_URL}?key=secret#part", "https://host.example:8443/v1"),
        ("https://token@host/@scope/v1", "https://host/@scope/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("someone:secret@host?key=secret", "host"),
        ("http://someone:sec/ret@host:port/v1", "http://host:port/v1"),
        ("http://someone:sec?ret@host:port/v1", "http://host:port/v1"),
        ("", ""),
    ],
)
def test_urls_are_shown_without_secrets(url, shown):
    """A URL is shown without user, password, query and fragment, even if it is invalid."""
    assert display_url(url) == shown


@pytest.mark.parametrize(
    ("text", "fits"), [("sk-1", True), ("", False), ("a b", False), ("a\nb", False), ("ключ", False), ("“k”", False)]
)
def test_header_text_is_printable_ascii(text, fits):
    """A header value may contain only printable ASCII characters without surrounding whitespace."""
    assert is_header_text(text) is fits


def test_invalid_key_raises_config_error():
    """A key with invalid characters raises ConfigError without being shown."""
    with pytest.raises(ConfigError, match="contains invalid characters") as caught:
        Endpoint(provider="openai", model="m", api_key=Secret("sk-1\u200b2"))
    assert "sk-1" not in str(caught.value)


def test_unknown_protocol_is_rejected():
    """A wire protocol with an unknown name is rejected."""
    with pytest.raises(ConfigError, match="'messages' or 'gemini', not 'soap'"):
        Endpoint(provider="openai", model="m", protocol="soap")


def test_endpoint_shows_no_secret():
    """The repr of an endpoint and of its arguments contains no key, password or query."""
    endpoint = Endpoint(
        provider="openai", model="m", base_url=PASSWORD_URL, api_key=Secret("sk-secret"), query={"key": "in-query"}
    )
    arguments = LLMArguments(api_key=Secret("sk-secret"), base_url=PASSWORD_URL, azure_endpoint=PASSWORD_URL)
    shown = repr(endpoint) + repr(arguments)
    assert not any(secret in shown for secret in ("sk-secret", "pass-word", "in-query"))


def test_secrets_are_redacted():
    """Keys, passwords and query values are redacted in a text; common words are not."""
    endpoint = Endpoint(
        provider="ollama", model="m", base_url=PASSWORD_URL, api_key=Secret("ollama"), query={"v": "1", "k": "in-query"}
    )
    text = endpoint.scrub("ollama: pass-word, in-query, c29tZW9uZTpwYXNzLXdvcmQ=")
    assert text == "ollama: ***, ***, ***"
    keyed = Endpoint(provider="openai", model="m", base_url="https://t%20oken@host/v1", api_key=Secret("sk-secret"))
    assert keyed.scrub("sk-secret t oken t%20oken dCBva2VuOg==") == "*** *** *** ***"


def test_origin_identifies_a_model_of_an_account():
    """Origins differ by host, port, path, protocol, model or account, and contain no secrets."""
    urls = ("http://host:1/v1", "http://host:2/v1", "http://host:1/v2", "http://other:1/v1")
    origins = {Endpoint(provider="openai", model="m", base_url=url).origin for url in urls}
    assert len(origins) == 4
    secretive = Endpoint(provider="openai", model="m", base_url=PASSWORD_URL, protocol="responses")
    assert secretive.origin == "responses:https://host.example:8443/v1#m"
    assert Endpoint(provider="offline", model="m").origin == "chat:offline#m"
    keyed = [Endpoint(provider="openai", model="m", api_key=Secret(key)).origin for key in ("sk-secret", "sk-other")]
    assert keyed[0] != keyed[1]
    assert "secret" not in keyed[0]


def test_description_prints_one_line_for_each_fact():
    """A description prints one line for each choice, its reason, ignored settings and adjustments."""
    description = Description(
        provider="azure",
        model="gpt",
        endpoint="https://host",
        protocol="chat",
        api_version="2024-02-01",
        decided_by="provider=",
        ignored=("OPENAI_API_KEY (names openai; provider= decides first)",),
        adjustments=("temperature is left out",),
    )
    assert str(description).splitlines() == [
        "provider     azure (decided by provider=)",
        "model        gpt",
        "endpoint     https://host",
        "protocol     chat",
        "api version  2024-02-01",
        "ignored      OPENAI_API_KEY (names openai; provider= decides first)",
        "adjusted     temperature is left out",
    ]


@pytest.mark.parametrize(
    "headers", [{}, {"X-Team": " blue "}, {"HTTP-Referer": "https://me.example/"}, {"x": "a b\tc"}]
)
def test_custom_headers_are_stripped(headers):
    """Custom headers are preserved, with surrounding whitespace stripped."""
    assert read_headers(headers) == {name: value.strip() for name, value in headers.items()}


@pytest.mark.for_each(
    ("headers", "message"),
    [
        ("X-Team: blue", "names and texts"),
        ([("X-Team", "blue")], "names and texts"),
        ({"X Team": "blue"}, "invalid name 'X Team'"),
        ({"": "blue"}, "invalid name ''"),
        ({3: "blue"}, "invalid name 3"),
        ({"X-Team\r\nX-Other": "blue"}, "invalid name"),
        ({"X-Team": "s3cret\r\nX-Other: 1"}, "a single line of ASCII text for 'X-Team'"),
        ({"X-Team": "s3cret\n"}, "a single line of ASCII text"),
        ({"X-Team": "s3crét"}, "a single line of ASCII text"),
        ({"X-Team": ""}, "a single line of ASCII text"),
        ({"X-Team": None}, "a single line of ASCII text"),
        ({"Host": "elsewhere.example"}, "cannot set 'Host'"),
        ({"content-LENGTH": "3"}, "cannot set 'content-LENGTH'"),
    ],
)
def test_invalid_header_raises_config_error(headers, message):
    """An invalid or reserved header raises ConfigError without showing its value."""
    with pytest.raises(ConfigError, match=message) as caught:
        read_headers(headers)
    assert "s3c" not in str(caught.value)


def test_header_values_are_redacted():
    """The last word of a header value is redacted as a possible key, unless it is short or common."""
    headers = {"X-Key": "Token gate-0123", "X-Team": "blue", "X-Model": "qwen-plus"}
    endpoint = Endpoint(provider="openai", model="qwen-plus", base_url="http://h/v1", headers=headers)
    assert endpoint.scrub("Token gate-0123, blue, qwen-plus") == "Token ***, blue, qwen-plus"
    assert "gate" not in repr(endpoint)


@pytest.mark.parametrize("key", ['"sk-0123456789"', "'sk-0123456789'", "sk-0123456789'", "\u201csk-0123456789\u201d"])
def test_key_in_quotes_is_rejected(key):
    """A key pasted with its quotation marks is rejected without being shown."""
    with pytest.raises(ConfigError, match="is in quotes") as caught:
        Endpoint(provider="openai", model="m", api_key=Secret(key))
    assert "0123" not in str(caught.value)
