"""Does nothing secret get into a cassette?"""

import json

import pytest

from agentkit.memory.cassettes.hiding import Hiding

KEY = "sk-" + "a1b2" * 8


@pytest.fixture
def hiding():
    """What redacts, knowing the environment."""
    found = Hiding()
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
def test_secrets_are_redacted_wherever_they_stand(hiding, data):
    """A key is redacted in any text of an entry, however deep."""
    shown = json.dumps(hiding.hidden(data))
    assert KEY not in shown
    assert "Zx9Zx9" not in shown
    assert "[redacted: " in shown


def test_arguments_stay_json(hiding):
    """The arguments of a call are redacted value by value, so that they stay JSON."""
    key = "-----BEGIN PRIVATE KEY-----\nMIIabc123"
    redacted = hiding.hidden({"arguments": json.dumps({"pem": key, "path": "a.txt", "mode": 5})})
    assert json.loads(redacted["arguments"]) == {"pem": "[redacted: private key]", "path": "a.txt", "mode": 5}


def test_what_holds_no_secret_is_left_as_it_is(hiding):
    """An entry without a secret is the same object, and its arguments keep their spelling."""
    data = {"arguments": '{"b":1,  "a":2}', "text": "long " * 100, "image": "data:image/png;base64,AKIA", "n": 1}
    assert hiding.hidden(data) is data
    assert hiding.hidden(data) is data
    other = hiding.hidden({**data, "key": KEY})
    assert other["arguments"] == data["arguments"]


def test_secrets_of_the_environment_are_redacted(hiding, monkeypatch):
    """The value of a secret variable is redacted from the next look at the environment on, in known texts too."""
    text = "correct-horse-battery-staple-9 and so on " * 10
    assert hiding.hidden({"text": text}) == {"text": text}
    monkeypatch.setenv("VAULT_PASSWORD", "correct-horse-battery-staple-9")
    hiding.refresh()
    hiding.refresh()
    assert "horse" not in hiding.hidden({"text": text})["text"]


def test_known_texts_are_forgotten_in_time(hiding):
    """A great many long texts do not fill the memory, and are redacted all the same."""
    for number in range(1_002):
        hiding.hidden({"text": f"{number} " * 100})
    assert hiding.hidden({"text": KEY}) == {"text": "[redacted: API key]"}


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
def test_secrets_are_redacted_in_keys_behind_escapes_and_beside_pictures(hiding, data):
    """A key is redacted as the name of a field, spelled with escapes, and in text that only begins like a picture."""
    hidden = hiding.hidden(data)
    shown = json.dumps(hidden) + str(json.loads(hidden.get("arguments", "0")))
    assert KEY not in shown
    assert "x9Zx9Z" not in shown
    assert "[redacted: " in shown


def test_pictures_are_left_as_they_are(hiding):
    """The base64 of an image is never taken for a secret, even beside one."""
    picture = {"url": "data:image/png;base64,AKIA" + "A1B2" * 4 + "/", "detail": "low"}
    assert hiding.hidden({"content": [picture]}) == {"content": [picture]}
    assert hiding.hidden({"content": [picture, KEY]}) == {"content": [picture, "[redacted: API key]"]}
