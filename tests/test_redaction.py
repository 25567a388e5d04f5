"""Tests for the redaction of secrets in texts, values and tool results."""

import dataclasses
import html
import json
import random
import re
import string
import time
import uuid
from base64 import b64encode, urlsafe_b64encode
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from urllib.parse import quote, quote_plus

import pydantic
import pytest

from agentkit import Tool
from agentkit.redaction import _SHAPES, _SHAPES_OF_ANY_CASE, MARK, _long_words, key_formats, redact, redact_value

SECRETS = [
    "sk-proj-" + "a1B2" * 8,
    "sk-ant-api03-" + "x9" * 20,
    "ghp_" + "A1" * 18,
    "github_pat_" + "11AA22" * 6,
    "glpat-" + "abcd1234EFGH5678",
    "xoxb-1234567890-abcdefghij",
    "AKIA" + "ABCDEFGHIJKLMNOP",
    "AIza" + "SyA1234567890abcdefghijklmnopqrstu",
    "ya29." + "a0AfH6SMBxxxxxxxxxxxxx",
    "hf_" + "abcdefghijABCDEFGHIJ12",
    "npm_" + "a1b2c3d4e5" * 4,
    "sk_live_" + "abcdef123456",
    "SG." + "a" * 22 + "." + "b" * 43,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk",
    "AccountKey=" + "A" * 86 + "==",
    *(f"{start}{'a1B2' * 10}" for start in ("xai-", "pplx-", "nvapi-", "tvly-", "r8_", "xapp-1-", "whsec_", "hvs.")),
    *("dckr_pat_" + "a1B2" * 7, "shpat_" + "0f" * 16, "123456789:AA" + "a1B" * 11),
]
HARMLESS = [
    "The task-list is sk-ipped.",
    "password: ask your administrator",
    "api_key = os.environ['OPENAI_API_KEY']",
    "token = tokenizer.next_token_of_the_long_stream",
    "https://example.com/a:b@c",
    "See https://user@example.com/ for the key.",
    "secret_santa_list_for_everybody = 12",
    "The AKIA prefix is not a key.",
    "commit 9f2c1d7e8a6b5c4d3e2f1a0b9c8d7e6f5a4b3c2d",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "access_token = fetch_token_from_oauth2_provider(request)",
    "access_token = settings_of_oauth2_provider.token",
    "the Bearer authentication/authorization scheme",
    'class="sk-folding-cube-and-container"',
    'id="sk-estimator-container-id-12"',
    "sk-learn-contrib-imbalanced-learn",
    "xai-explanations-of-models-in-practice",
    "the r8_quantised_weights_of_the_model_v2",
    "see pplx-evaluation and tvly-search-results-2",
    "at 12345678:AAB and 10.0.0.1:AAAA",
    "hvs.example.com/whsec_/shpat_handbook",
    "",
]


CHARACTERS = {
    "m": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "d": string.digits,
    "A": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "b": string.ascii_letters + string.digits + "+/",
}
SHAPES = json.loads((Path(__file__).parent / "redaction_shapes.json").read_text())


def filled(shape):
    """Return the shape with random characters: `{h40}` are 40 hexadecimal digits, `{u}` is a UUID; always the same."""
    chance = random.Random(shape)

    def text(found):
        kind, count = found[1][0], found[1][1:]
        if kind == "u":
            return str(uuid.UUID(int=chance.getrandbits(128), version=4))
        return "".join(chance.choices(CHARACTERS[kind], k=int(count) - 2)) + ("a1" if kind in "mhl" else "22")

    return re.sub(r"\{(\w+)\}", text, shape)


@pytest.mark.for_each("shape", SHAPES["keys"] + SHAPES["glued"])
def test_keys_of_many_providers_are_redacted(shape):
    """Keys of many providers are redacted in prose, settings and JSON, also after a prefix."""
    secret = filled(shape)
    random_part = max(re.findall(r"[A-Za-z0-9]+", secret.split("sig=")[-1]), key=len)
    for text in (f"before {secret} after", f"KEY={secret}\n", json.dumps({"a": f"x\n{secret}"}), f"({secret})"):
        hidden = redact(text)
        assert random_part not in hidden
        assert MARK in hidden


@pytest.mark.for_each("shape", SHAPES["harmless"])
def test_hashes_ids_and_names_are_unchanged(shape):
    """Digests, UUIDs, base64 and names that start like keys are unchanged."""
    text = f"see {filled(shape)} there"
    assert redact(text) == text


def test_large_random_data_is_not_redacted():
    """Random data is not redacted."""
    chance = random.Random(7)
    data = chance.randbytes(300_000)
    for text in (b64encode(data).decode(), urlsafe_b64encode(data).decode(), data.hex()):
        assert redact(text) == text


@pytest.mark.for_each("secret", SECRETS)
def test_known_key_formats_are_redacted(secret):
    """A key of a known format is redacted."""
    hidden = redact(f"before {secret} after")
    assert secret not in hidden
    assert hidden.startswith("before ")
    assert MARK in hidden
    assert secret not in redact(json.dumps(f"before\n{secret} after").replace("\\\\", "\\"))


@pytest.mark.for_each("text", HARMLESS)
def test_other_texts_are_unchanged(text):
    """Prose, code and hashes that resemble keys are unchanged."""
    assert redact(text) == text


@pytest.mark.for_each(
    ("text", "secret"),
    [
        ("postgres://admin:hunter2@db.example/x", "hunter2"),
        ("Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345", "abcdefghijklmnopqrstuvwxyz012345"),
        ('{"client_secret": "a1b2c3d4e5f6a7b8c9d0e1f2"}', "a1b2c3d4e5f6a7b8c9d0e1f2"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY1", "wJalrXUtnFEMI"),
        ("redis://:hunter2@db.example/x", "hunter2"),
        ("x-api-key: 0123456789abcdef0123", "0123456789abcdef0123"),
        ("clientSecret=a1b2c3d4e5f6a7b8c9d0e1f2", "a1b2c3d4e5f6a7b8c9d0e1f2"),
        ("api_key: '0123456789abcdef0123'", "0123456789abcdef0123"),
    ],
)
def test_secrets_are_detected_by_their_context(text, secret):
    """Passwords in URLs, bearer tokens and assigned keys are redacted."""
    hidden = redact(text)
    assert secret not in hidden
    assert hidden[:5] == text[:5]


def test_values_of_secret_variables_are_redacted(monkeypatch):
    """Values of secret environment variables are redacted in any text."""
    monkeypatch.setenv("SHOP_PASSWORD", "swordfish-77")
    monkeypatch.setenv("SHOP_AUTHOR", "Jane-Doe-77")
    monkeypatch.setenv("SHOP_TOKEN_FILE", "/run/shop/token-77")
    assert redact("log in with swordfish-77 by Jane-Doe-77 from /run/shop/token-77") == (
        f"log in with {MARK}value of a secret variable] by Jane-Doe-77 from /run/shop/token-77"
    )


WRITTEN = {
    "json": json.dumps,
    "json, not only in ASCII": lambda text: json.dumps(text, ensure_ascii=False),
    "json within json": lambda text: json.dumps({"body": json.dumps({"text": text})}),
    "a program": repr,
    "a program's bytes": lambda text: repr(text.encode()),
    "an address": lambda text: f"https://example.com/?at={quote(text, safe='')}",
    "an address in small letters": lambda text: re.sub("%..", lambda sign: sign[0].lower(), quote(text)),
    "a form": lambda text: f"at={quote_plus(text)}&other=1",
    "a page": html.escape,
    "digits": lambda text: text.encode().hex(),
    "large digits": lambda text: f"0x{text.encode().hex().upper()}",
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 of an address": lambda text: urlsafe_b64encode(text.encode()).decode().rstrip("="),
    **{
        f"base64 behind {before!r}": lambda text, before=before: b64encode(f"{before}:{text}:end".encode()).decode()
        for before in ("", "a", "us", "user")
    },
}


@pytest.mark.parametrize("mode", WRITTEN)
@pytest.mark.parametrize(
    "secret",
    [
        *("swordfish-77", "pa\"ss\\w0rd's", "tülip-äöü-9876", "abc/def+ghi=98?&x"),
        *("line1abc9\nline2def8", "<b>&'9876abcd", "s3cr3t~~~???>>>"),
    ],
)
def test_encoded_values_are_redacted(secret, mode, monkeypatch):
    """The value of a secret variable is redacted when it is quoted or encoded."""
    monkeypatch.setenv("SHOP_PASSWORD", secret)
    text = WRITTEN[mode](secret)
    assert text not in redact(f"It is {text} indeed.")
    assert MARK in redact(f"It is {text} indeed.")


@pytest.mark.parametrize("other", ["swordfish-97", "swordFish-77", "sword-fish77"])
def test_other_values_are_unchanged(other, monkeypatch):
    """Values that are not secret are unchanged, quoted or encoded."""
    monkeypatch.setenv("SHOP_PASSWORD", "swordfish-77")
    texts = [write(other) for write in WRITTEN.values()]
    assert [redact(text) for text in texts] == texts


@pytest.mark.parametrize("name", ["DB_PASS", "DB_PWD", "MYSQL_PWD", "PASS"])
@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_passwords_are_detected_by_short_names(name, blank, monkeypatch):
    """A password is detected by common short variable names, ignoring surrounding whitespace."""
    monkeypatch.setenv(name, f"swordfish-77{blank}")
    assert "swordfish" not in redact("log in with swordfish-77!")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AUTH_USER_MODEL", "accounts.User"),
        ("AUTH_CHECK", "accounts.checks.is_member"),
        ("SECRET_NAME", "prod-database-1"),
        ("JWT_KEY_ALGORITHM", "RS256-with-SHA"),
        ("SIGNING_KEY", "/etc/keys/signing-1.pem"),
        ("SIGNING_KEY", "/Users/anna/signing.pem"),
        ("TOKEN_URL", "https://login.example.com/oauth2/token"),
        ("DATABASE_URL", "postgres://db.example:5432/shop"),
        ("SSH_ASKPASS", "/usr/lib/ssh/ask-77"),
        ("OLDPWD", "swordfish-77"),
    ],
)
def test_settings_about_secrets_are_not_redacted(name, value, monkeypatch):
    """Variables that name, locate or describe a secret are not redacted."""
    monkeypatch.setenv(name, value)
    assert redact(f"see {value} there") == f"see {value} there"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DB_PASSWORD", "correct.horse.battery"),
        ("SIGNING_KEY", "/K7MDENG/bPxRfiCYzEXAMPLE"),
        ("BOT_TOKEN", "MTk4NjIy.Cl2FMQ.ZnCjm1XVW7v"),
        ("DATABASE_URL", "postgres://shop:pw1@db.example/shop"),
        ("SENTRY_DSN", "https://0123abcd@sentry.example/1"),
    ],
)
def test_secrets_that_look_like_names_are_redacted(name, value, monkeypatch):
    """Dotted passwords, keys that start with a slash and URLs with a user are redacted."""
    monkeypatch.setenv(name, value)
    assert value not in redact(f"see {value} there")


def test_common_words_are_not_redacted(monkeypatch):
    """A secret variable with a common word as its value is not redacted."""
    monkeypatch.setenv("SHOP_TOKEN", "enabled")
    monkeypatch.setenv("SHOP_KEY", "disabled")
    assert redact("enabled or disabled") == "enabled or disabled"


def test_nested_values_are_redacted():
    """Strings in nested containers are redacted in a copy, and values without secrets are not copied."""
    value = {"a": [1, ("x", SECRETS[0])], "b": None}
    hidden = redact_value(value)
    assert SECRETS[0] not in repr(hidden)
    assert (hidden["a"][0], hidden["a"][1][0], value["a"][1][1]) == (1, "x", SECRETS[0])
    assert SECRETS[0] not in repr(redact_value([{SECRETS[0]}, frozenset({SECRETS[0]})]))
    clean = {"a": [1, ("x", "y"), {"z"}]}
    assert redact_value(clean) is clean


@dataclasses.dataclass
class Plain:
    """A record."""

    name: str
    key: str
    inner: object = None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    """A frozen record with a field that is not an argument."""

    key: str
    made: str = dataclasses.field(init=False, default="")

    def __post_init__(self):
        object.__setattr__(self, "made", f"of {self.key}")


Pair = namedtuple("Pair", "name key")


class AsWithAttrs:
    """A class with the protocol of the attrs library."""

    __attrs_attrs__ = ("name", "key")
    __slots__ = ("__hidden", "key", "name")

    def __init__(self, name, key):
        self.name, self.key, self.__hidden = name, key, key

    def __repr__(self):
        return f"{self.name} {self.key} {self.__hidden}"


class Model(pydantic.BaseModel):
    """A pydantic model that accepts extra fields."""

    model_config = pydantic.ConfigDict(extra="allow", frozen=True)
    key: str
    inner: Plain | None = None


KEY = SECRETS[0]
RECORDS = {
    "dataclass": (Plain("a", KEY), lambda value: value.key),
    "nested": (Plain("a", "b", [Pair("c", Plain("d", KEY))]), lambda value: value.inner[0].key.key),
    "frozen": (Frozen(KEY), lambda value: value.key + value.made),
    "named tuple": (Pair("a", KEY), lambda value: value.key),
    "ordered": (OrderedDict(b=1, a=KEY), lambda value: value["a"]),
    "default": (defaultdict(list, a=[KEY]), lambda value: value["a"][0]),
    "counter": (Counter([KEY, "x"]), lambda value: next(iter(value))),
    "deque": (deque([KEY], maxlen=3), lambda value: value[0]),
    "proxy": (MappingProxyType({"a": KEY}), lambda value: value["a"]),
    "namespace": (SimpleNamespace(a=KEY), lambda value: value.a),
    "attrs": (AsWithAttrs("a", KEY), repr),
    "pydantic": (
        Model(key=KEY, other=KEY, inner=Plain("a", KEY)),
        lambda value: value.key + value.other + value.inner.key,
    ),
}


@pytest.mark.for_each("kind", RECORDS)
def test_records_are_redacted_like_dictionaries(kind):
    """A record is redacted in a copy of the same class."""
    value, key_in = RECORDS[kind]
    result = Tool(lambda: value, "leak", "Leak.").invoke({}).value
    assert type(result) is (dict if kind == "proxy" else type(value))
    assert KEY not in key_in(result)
    assert MARK in key_in(result)
    assert KEY in key_in(value)
    assert getattr(result, "maxlen", None) == getattr(value, "maxlen", None)
    assert getattr(result, "default_factory", None) == getattr(value, "default_factory", None)


@pytest.mark.for_each(
    "value",
    [
        *(Plain("a", "b", Pair("c", "d")), OrderedDict(a="b"), SimpleNamespace(a="b"), Model(key="b"), Counter("ab")),
        *(time.gmtime(0), Path("/a/b"), uuid.UUID(int=1), re.compile("a")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_records_without_secrets_are_not_copied(value):
    """Records without secrets are not copied."""
    assert redact_value(value) is value


def test_record_that_cannot_be_copied_is_redacted_as_text():
    """A dataclass that cannot be copied is redacted as text."""

    @dataclasses.dataclass
    class Own:
        key: str

        def __new__(cls, key):
            assert key
            return super().__new__(cls)

    assert redact_value(Own(KEY)) == redact(str(Own(KEY)))


def test_recursive_values_are_redacted():
    """Recursive and deeply nested values are redacted without an error."""
    value: list = [SECRETS[0]]
    value.append(value)
    assert redact_value(value)[0] != SECRETS[0]


def test_results_of_tools_are_redacted():
    """Secrets in results and errors of a tool are redacted, but not if it is called directly."""

    def leak(how: str) -> dict:
        """Leak."""
        if how == "raise":
            raise RuntimeError(f"bad key {SECRETS[0]}")
        return {"content": SECRETS[0], "error": SECRETS[0] if how == "error" else None}

    leaky = Tool(leak)
    for how in ("return", "error", "raise"):
        result = leaky.invoke({"how": how})
        assert SECRETS[0] not in f"{result.content} {result.value} {result.error}"
    assert leaky(how="return")["content"] == SECRETS[0]


ALMOST_KEYS = [
    *(needle for needle, *_ in key_formats()),
    *(needle for needles, *_ in (*_SHAPES, *_SHAPES_OF_ANY_CASE) for needle in needles),
    *("eyJ-", "eyJaaaaaaaa.", "eyJ" + "a" * 4_000 + ".", "eyJaaaaaaaa.eyJaaaaaaaa-", "SG." + "a" * 200 + "."),
    *("password=", "password=a1", "api_key: 'a", "secret_key=", "://a:", "bearer ", "Bearer a", "sk-.", "a-", "a_"),
    *(
        "xsk-",
        "xsk-a1/",
        "keyghp_",
        "N" * 3,
        "a" * 32 + "-",
        "0" * 32 + "-us",
        "M" * 26 + ".",
        "a" * 76 + "AZDO",
        "aaaQ~",
    ),
    *("Q~Q~", "AZDO" * 3, "A.atlasv1.", "dp.st.", "pat" + "A1" * 7 + ".", "lsv2_pt_", "sig=aa%2B", "AGE-SECRET-KEY-1A"),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN A PRIVATE KEY", "-----BEGIN PRIVATE KEY-----" + "a" * 20_000),
]


@pytest.mark.for_each("piece", ALMOST_KEYS, ids=lambda piece: piece[:32])
def test_long_texts_are_processed_in_linear_time(piece):
    """A long text that resembles keys is processed in linear time."""
    started = time.process_time()
    redact(piece * (50_000 // len(piece)))
    assert time.process_time() - started < 3


def test_start_of_a_very_large_value_is_redacted():
    """The start of a very large value is redacted."""
    value = [SECRETS[0], *range(200_000)]
    assert redact_value(value)[0] != SECRETS[0]


def test_texts_without_a_secret_are_unchanged(monkeypatch):
    """Only texts that contain a secret value are changed."""
    monkeypatch.setenv("SERVICE_TOKEN", "correct-horse-battery")
    assert redact("The horse is correct, and the staple has a battery.") == (
        "The horse is correct, and the staple has a battery."
    )


def test_numbers_are_not_searched_for_keys():
    """Of the long words of a text, only those with a letter are searched for keys."""
    text = "1795843703.2972956, 0.0005827079949085601 ==================== response_received"
    assert _long_words(text) == ["response_received"]
