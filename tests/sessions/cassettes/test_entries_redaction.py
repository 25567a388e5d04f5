"""Tests for the redaction of secrets in cassettes."""

import json

import pytest

from agentkit.sessions.cassettes.entries import EntryRedactor
from agentkit.sessions.codec import to_line

KEY = "sk-" + "a1b2" * 8


@pytest.fixture
def hiding():
    """A redactor that knows the environment."""
    found = EntryRedactor()
    found.refresh()
    return found


@pytest.mark.parametrize(
    "data",
    [
        {"text": f"key {KEY}"},
        {"list": ["x", {"deep": [f"{KEY}"]}]},
        {"arguments": json.dumps({"headers": {"auth": f"Bearer {KEY}"}})},
        {"arguments": f"not json {KEY}"},
        {"arguments": {"plain": KEY}},
        {"content": json.dumps({"api_key": "Zx9" * 10})},
    ],
)
def test_secrets_are_redacted_at_any_depth(hiding, data):
    """A key is redacted in any string of an entry, at any depth."""
    shown = hiding.line(data)
    assert json.loads(shown) == hiding.redact(data)
    assert KEY not in shown
    assert "Zx9Zx9" not in shown
    assert "[redacted: " in shown


def test_arguments_stay_json(hiding):
    """The arguments of a call are redacted value by value, so that they stay JSON."""
    key = "-----BEGIN PRIVATE KEY-----\nMIIabc123"
    redacted = hiding.redact({"arguments": json.dumps({"pem": key, "path": "a.txt", "mode": 5})})
    assert json.loads(redacted["arguments"]) == {"pem": "[redacted: private key]", "path": "a.txt", "mode": 5}


def test_entry_without_secret_is_unchanged(hiding):
    """An entry without a secret is unchanged, including the formatting of its arguments."""
    data = {"arguments": '{"b":1,  "a":2}', "text": "long " * 100, "image": "data:image/png;base64,AKIA", "n": 1}
    assert hiding.line(data) == to_line(data)
    assert hiding.redact(data) == data
    other = hiding.redact({**data, "key": KEY})
    assert other["arguments"] == data["arguments"]


def test_secrets_of_the_environment_are_redacted(hiding, monkeypatch):
    """The value of a secret variable is redacted after the environment was read again, also in known texts."""
    text = "correct-horse-battery-staple-9 and so on " * 10
    assert hiding.redact({"text": text}) == {"text": text}
    monkeypatch.setenv("VAULT_PASSWORD", "correct-horse-battery-staple-9")
    hiding.refresh()
    hiding.refresh()
    assert "horse" not in hiding.redact({"text": text})["text"]


def test_cache_of_known_texts_is_bounded(hiding):
    """Secrets are redacted even after many long strings have been cached."""
    for number in range(1_002):
        hiding.redact({"text": f"{number} " * 100})
    assert hiding.redact({"text": KEY}) == {"text": "[redacted: API key]"}


@pytest.mark.parametrize(
    "data",
    [
        {"settings": {"metadata": {KEY: "v"}}},
        {"arguments": json.dumps({"d": {KEY: 1}})},
        {"arguments": '{"k": "\\u0073' + KEY[1:] + '"}'},
        {"arguments": '{"api_key": "\\u005a' + "x9Z" * 10 + '"}'},
        {"content": "data:image/png? My key is " + KEY},
        {"content": [{"url": f"data:image/png;base64,{KEY} {KEY}"}]},
    ],
)
def test_secrets_in_names_and_escapes_are_redacted(hiding, data):
    """A key is redacted in field names, in escaped strings and in text that only starts like an image."""
    hidden = hiding.redact(data)
    shown = json.dumps(hidden) + str(json.loads(hidden.get("arguments", "0")))
    assert KEY not in shown
    assert "x9Zx9Z" not in shown
    assert "[redacted: " in shown


def test_base64_data_is_not_redacted(hiding):
    """The base64 data of an image, a PDF or a recording is not redacted, even next to a secret."""
    data = "AKIA" + "A1B2" * 4 + "/"
    for shown in (
        {"url": f"data:image/png;base64,{data}", "detail": "low"},
        {"part": "file", "url": f"data:application/pdf;base64,{data}", "name": "a.pdf"},
        {"part": "file", "url": f"data:audio/mpeg;base64,{data}"},
    ):
        assert hiding.redact({"content": [shown]}) == {"content": [shown]}
        assert hiding.redact({"content": [shown, KEY]}) == {"content": [shown, "[redacted: API key]"]}


def test_text_urls_are_redacted(hiding):
    """A text data URL or a web address that contains a key is redacted like any other string."""
    for url in (f"data:text/plain,{KEY}", f"https://example.com/a.pdf?key={KEY}"):
        assert KEY not in json.dumps(hiding.redact({"part": "file", "url": url, "name": "a"}))


NAMED = [
    ({"settings": {"headers": {"X-Api-Key": "tulip"}}}, "tulip"),
    ({"settings": {"passwords": "fine", "password": ["tulip", "rose"]}}, "tulip"),
    ({"arguments": json.dumps({"user": "ann", "password": "tulip"})}, "tulip"),
    ({"arguments": json.dumps({"body": json.dumps({"dbPassword": 'tu"lip'})})}, "lip"),
    ({"arguments": '{"pass\\u0077ord": "tulip"}'}, "tulip"),
    ({"content": json.dumps({"client_secret": "tulip"}, indent=2)}, "tulip"),
    ({"content": "{'token': 'tulip', 'n': 1}"}, "tulip"),
    ({"content": "curl -H 'Authorization: Basic dHVsaXA=' https://x.example/"}, "dHVsaXA"),
    ({"content": "Cookie: session=tulip; b=c"}, "tulip"),
    ({"content": "mysql --password=tulip --host=x"}, "tulip"),
    ({"content": "GET https://x.example/?access_token=tulip&page=2"}, "tulip"),
]


@pytest.mark.parametrize(("data", "secret"), NAMED)
def test_value_of_a_secret_name_is_redacted(hiding, data, secret):
    """The value of an argument, key or header with a secret name is redacted, however short it is."""
    line = hiding.line(data)
    assert secret not in line
    assert "[redacted: secret]" in line
    arguments = json.loads(line).get("arguments")
    assert arguments is None or json.loads(arguments)


@pytest.mark.parametrize(
    "data",
    [
        {"usage": {"input_tokens": 5}, "arguments": '{"next_page_token": "abc", "max_tokens": "7"}'},
        {"output_schema": {"properties": {"password": {"type": "string"}}}},
        {"arguments": '{"password": 1234, "token": null, "secret": "", "key": "name"}'},
        {"text": "password: ask your administrator; token=tokenizer.next; password=$PASSWORD; secret=read()"},
    ],
)
def test_harmless_values_are_not_redacted(hiding, data):
    """Numbers, schemas, page tokens, token counts and placeholders are not redacted."""
    assert json.loads(hiding.line(data)) == data
