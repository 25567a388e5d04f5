"""Tests for URLs and addresses outside of the public web, which are denied."""

import ipaddress
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.decisions import Decision, SafetyLevel, Verdict
from agentkit.errors import ConfigError
from agentkit.safety.urls import MAX_URL_CHARS, AddressRules, objection, read_url

ROWS = [json.loads(line) for line in (Path(__file__).parent / "urls.jsonl").read_text("utf-8").splitlines()]
V4 = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)


def test_urls_are_judged_by_their_rules(subtests):
    """Each URL is allowed or denied by the rule for its kind, with a part of it as evidence and a remedy if denied."""
    for row in ROWS:
        with subtests.test(url=row["url"][:60]):
            decision = AddressRules(row.get("allow_hosts", ())).judge(row["url"])
            assert (decision.rule, decision.allowed) == (row["rule"], row["rule"] == "url.public"), decision
            assert decision.evidence in row["url"]
            assert decision.reason
            assert bool(decision.remedy) == decision.denied
            assert decision.egress


def test_parsing_is_stable(subtests):
    """Parsing the string form of a parsed URL returns the same result."""
    for row in ROWS:
        if row["rule"] == "url.public":
            with subtests.test(url=row["url"][:60]):
                parsed = read_url(row["url"])
                assert read_url(str(parsed)) == parsed
                assert str(parsed).isascii()


def test_url_parts():
    """A URL is parsed into scheme, lower-case ASCII host, port, and path with query, without the fragment."""
    assert read_url("HTTPS://München.DE:8443/ä?q=ü&r=%20#f") == (
        "https",
        "xn--mnchen-3ya.de",
        8443,
        "/%C3%A4?q=%C3%BC&r=%20",
    )
    assert read_url("http://example.com.")[1:] == ("example.com", 80, "/")


@pytest.mark.parametrize(
    ("url", "address", "authority", "at"),
    [
        ("http://a.com/x", "1.2.3.4", "a.com", "http://1.2.3.4:80/x"),
        ("https://a.com:8443/", "2606::1", "a.com:8443", "https://[2606::1]:8443/"),
        ("http://[2606::1]/", "2606::1", "[2606::1]", "http://[2606::1]:80/"),
    ],
)
def test_url_at_an_address(url, address, authority, at):
    """A URL can be requested at a fixed address; the Host header still names the host."""
    parsed = read_url(url)
    assert (parsed.authority, parsed.at(address)) == (authority, at)


@pytest.mark.for_each(
    ("address", "words"),
    [
        ("8.8.8.8", None),
        ("2606:4700:4700::1111", None),
        ("::ffff:8.8.8.8", None),
        ("64:ff9b::808:808", None),
        ("10.0.0.1", "a private network"),
        ("::1", "this machine itself"),
        ("fe80::1%eth0", "the link of this machine"),
        ("::ffff:10.0.0.1", "a private network, embedded as 10.0.0.1"),
        ("2606::5efe:127.0.0.1", "this machine itself, embedded as 127.0.0.1"),
        ("168.63.129.16", "where a cloud hands out credentials"),
        ("::7", "outside the public IPv6 network"),
        ("localhost", "not an IP address"),
        ("", "not an IP address"),
    ],
)
def test_objection_says_where_an_address_leads(address, words):
    """Objections to an address are explained; public addresses have none."""
    assert objection(address) == words


@given(V4)
def test_private_addresses_are_rejected(address):
    """Every address that the standard library calls private, multicast or reserved is rejected, also inside IPv6."""
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert objection(str(address))
    forms = [
        f"::ffff:{address}",
        f"64:ff9b::{address}",
        str(ipaddress.IPv6Address((0x2002 << 112) | int(address) << 80)),
    ]
    assert {bool(objection(form)) for form in forms} == {bool(objection(str(address)))}


@given(st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address))
def test_private_ipv6_addresses_are_rejected(address):
    """Every IPv6 address that the standard library calls private is rejected."""
    if not address.is_global and not address.ipv4_mapped:
        assert objection(str(address))


@given(st.text(max_size=80).map("http://{}".format) | st.text(max_size=80))
def test_any_text_has_a_verdict(text):
    """Any text has a verdict, with evidence from the text."""
    decision = AddressRules().judge(text)
    assert decision.evidence in text
    assert decision.verdict in {Verdict.ALLOW, Verdict.DENY}


@given(st.from_regex(r"[0-9a-fx]{1,5}(\.[0-9a-fx]{1,5}){0,3}", fullmatch=True))
def test_numeric_hosts_are_rejected(host):
    """A number as host is rejected in any notation unless it is a public address in dotted decimals."""
    decision = AddressRules().judge(f"http://{host}/")
    last = host.rpartition(".")[2]
    if decision.allowed and last.isdigit():
        assert ipaddress.IPv4Address(host).is_global


@pytest.mark.for_each(
    ("address", "hosts", "is_refused"),
    [
        ("8.8.8.8", [], False),
        ("10.0.0.1", [], True),
        ("10.0.0.1", ["name.example.org"], False),
        ("10.0.0.1", ["name.example.org:81"], True),
        ("10.0.0.1", ["10.0.0.0/8"], False),
        ("10.0.0.1", ["name.example.net"], True),
        ("169.254.169.254", ["name.example.org"], True),
        ("nonsense", ["name.example.org"], True),
    ],
)
def test_resolved_addresses_are_judged(address, hosts, is_refused):
    """Resolved addresses are rejected unless public or allowed; metadata services are always rejected."""
    decision = AddressRules(hosts).judge_address(read_url("http://name.example.org/"), address)
    assert (decision is not None) == is_refused
    assert decision is None or (decision.denied and address in decision.reason)


@pytest.mark.for_each(
    "entry", ["", "a b/c", "http://localhost", "localhost:", "localhost:0", "10.0.0.1/8", "127.1", "a_b!", "1::2::3"]
)
def test_invalid_allow_hosts_entry_raises_an_error(entry):
    """An invalid entry of allow_hosts= raises an error before a request is sent."""
    with pytest.raises(ConfigError, match="allow_hosts"):
        AddressRules([entry])


def test_single_host_may_be_a_string():
    """A single host may be a string instead of a list; ports can be chosen."""
    assert AddressRules("localhost:8000").judge("http://localhost:8000/").allowed
    assert AddressRules(["MÜNCHEN.de:3000"]).judge("http://xn--mnchen-3ya.de:3000/").allowed
    assert AddressRules(ports=[3000]).judge("http://example.com:3000/").allowed
    assert AddressRules(ports=[3000]).judge("http://example.com/").rule == "url.port"


def test_denied_url_has_the_network_level():
    """A denied URL has the level NETWORK."""
    decision = AddressRules().judge("http://localhost/")
    assert isinstance(decision, Decision)
    assert decision.level is SafetyLevel.NETWORK


def test_long_urls_are_rejected():
    """A URL of several megabytes is rejected because of its length."""
    decision = AddressRules().judge("http://" + "a" * 5_000_000)
    assert (decision.rule, len(decision.evidence) < MAX_URL_CHARS) == ("url.length", True)


def test_address_rules_list_ports_and_hosts():
    """Address rules list the configured ports and the additional hosts."""
    rules = AddressRules(("localhost:8000", "10.0.0.0/8", "wiki", "127.0.0.1:81"), ports=(443,))
    assert rules.ports == {443}
    assert rules.allowed_hosts == ("10.0.0.0/8", "127.0.0.1/32:81", "localhost:8000", "wiki")
    assert AddressRules().allowed_hosts == ()
