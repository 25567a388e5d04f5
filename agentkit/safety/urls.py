"""Validation of URLs and addresses before they are fetched (pure)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import quote, urljoin

from agentkit.decisions import Decision, SafetyLevel, Verdict
from agentkit.errors import ConfigError

MAX_URL_CHARS = 2_048
DEFAULT_PORTS = frozenset({80, 443, 8080, 8443})

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network

_SCHEME_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?")
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[1-9][0-9]{0,4}))?")
_ALLOWED_HOST = re.compile(r"(?P<host>\[[^\]]+\]|[^:/]+)(?::(?P<port>[1-9][0-9]{0,4}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_ENCODED_CONTROL = re.compile(r"%0[0ad]", re.IGNORECASE)
_INVISIBLE = ("C", "Z")
_TARGET_SAFE = "%/?:@!$&'()*+,;=-._~[]"
_LOOK_ALIKE_SCRIPTS = frozenset({"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"})

_LOOPBACK_NAMES = frozenset(
    {
        *("localhost", "localhost4", "localhost6", "localdomain", "localdomain4", "localdomain6", "loopback"),
        *("ip6-localhost", "ip6-loopback", "broadcasthost"),
    }
)
_LOCAL_SUFFIXES = frozenset(
    {
        *("local", "localhost", "localdomain", "internal", "intranet", "lan", "home", "corp", "private"),
        *("svc", "consul", "arpa", "onion", "i2p", "invalid", "alt"),
    }
)

_METADATA = frozenset(
    map(
        ip_address,
        (
            *("169.254.169.254", "169.254.169.253", "169.254.169.250", "169.254.170.2", "169.254.170.23"),
            *("169.254.42.42", "169.254.0.23", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
            *("fd00:ec2::254", "fd00:ec2::253", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42"),
        ),
    )
)
"""Addresses of cloud metadata services: AWS, Google, Azure, Oracle, Alibaba, Tencent, Scaleway, Rancher."""

_NOT_PUBLIC: dict[_Network, str] = {
    ip_network(network): words
    for network, words in {
        "0.0.0.0/8": "this machine itself",
        "10.0.0.0/8": "a private network",
        "100.64.0.0/10": "a provider's inner network",
        "127.0.0.0/8": "this machine itself",
        "169.254.0.0/16": "the link of this machine",
        "172.16.0.0/12": "a private network",
        "192.0.0.0/24": "reserved for protocols",
        "192.0.2.0/24": "reserved for documentation",
        "192.88.99.0/24": "reserved for 6to4 relays",
        "192.168.0.0/16": "a private network",
        "198.18.0.0/15": "reserved for benchmarks",
        "198.51.100.0/24": "reserved for documentation",
        "203.0.113.0/24": "reserved for documentation",
        "224.0.0.0/4": "for multicast",
        "240.0.0.0/4": "reserved",
        "::/128": "this machine itself",
        "::1/128": "this machine itself",
        "fc00::/7": "a private network",
        "fe80::/10": "the link of this machine",
        "ff00::/8": "for multicast",
        "2001::/23": "reserved for protocols",
        "2001:db8::/32": "reserved for documentation",
        "3fff::/20": "reserved for documentation",
    }.items()
}
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_EMBEDDING_NETWORKS = (
    (IPv6Network("::ffff:0:0/96"), (12, 13, 14, 15)),
    (IPv6Network("64:ff9b::/96"), (12, 13, 14, 15)),
    (IPv6Network("2002::/16"), (2, 3, 4, 5)),
)
"""Networks whose addresses embed an IPv4 address in these four bytes: mapped, NAT64, 6to4."""

_EMBEDDED_AT = (
    (2, 3, 4, 5),
    (4, 5, 6, 7),
    (5, 6, 7, 9),
    (6, 7, 9, 10),
    (7, 9, 10, 11),
    (9, 10, 11, 12),
    (12, 13, 14, 15),
)
"""Positions where a translator can be configured to find an IPv4 address (RFC 3056, RFC 6052)."""

_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")


class Url(NamedTuple):
    """An unambiguous URL: ASCII host in lower case without brackets, port, path with query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def address(self) -> _Address | None:
        """The IP address if the host is one; None for a name."""
        return _address(self.host)

    @property
    def authority(self) -> str:
        """Host and port as in a Host header; the scheme's default port is omitted."""
        return _authority(self.host, None if self.port == _SCHEME_PORTS[self.scheme] else self.port)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def at(self, address: str) -> str:
        """The same URL with the host replaced by the address it was resolved to."""
        return f"{self.scheme}://{_authority(address, self.port)}{self.target}"

    def join(self, link: str) -> str:
        """Resolve a link relative to this URL; a link whose defects joining would hide is returned unchanged."""
        try:
            return link if re.search(r"[\\\s]", link) else urljoin(str(self), link)
        except ValueError:
            return link


class AddressRules:
    """Rules for URLs that can be fetched: the public web at the usual ports, and allowed hosts.

    `allow_hosts` takes "name", "name:port", "address", "[IPv6 address]:port" and networks such as "10.0.0.0/8"; an
    entry without a port applies to every port. Allowed hosts can also be the target of a redirect. Cloud metadata
    services are never allowed. `ports` are those of the public web. Raises ConfigError.
    """

    def __init__(self, allow_hosts: Iterable[str] = (), ports: Iterable[int] = DEFAULT_PORTS) -> None:
        self.ports = frozenset(ports)
        self._networks: list[tuple[_Network, int | None]] = []
        self._names: set[tuple[str, int | None]] = set()
        for entry in (allow_hosts,) if isinstance(allow_hosts, str) else allow_hosts:
            self._allow(entry)

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        """The hosts allowed in addition to the public web: networks, then names, with their port if one is given."""
        named = [*self._networks, *sorted(self._names, key=str)]
        return tuple(f"{host}" if port is None else f"{host}:{port}" for host, port in named)

    def judge(self, url: str) -> Decision:
        """Judge a URL without resolving its name; `evidence` is the part of the URL that decided."""
        parsed = read_url(url)
        if isinstance(parsed, Decision):
            return parsed
        return self._objection(url, parsed) or Decision(
            Verdict.ALLOW, "url.public", f"{parsed.host} is on the public web.", _span(url), egress=True
        )

    def judge_address(self, url: Url, address: str) -> Decision | None:
        """The denial of connecting to an address that the host of a URL was resolved to, or None."""
        words = objection(address)
        parsed = _address(address)
        if words is None or (parsed is not None and not _is_metadata(parsed) and self._names_host(url, parsed)):
            return None
        reason = f"{url.host} leads to {address}, which is {words}."
        return _denial("url.private-address", reason, url.host, _remedy(url))

    def _allow(self, entry: str) -> None:
        if "/" in entry or (entry.count(":") > 1 and not entry.startswith("[")):
            self._networks.append((_network(entry), None))
            return
        match = _ALLOWED_HOST.fullmatch(entry)
        host = _read_host(match["host"]) if match else None
        if not match or not isinstance(host, str):
            raise ConfigError(f"allow_hosts= takes hosts as in 'localhost:8000' or '10.0.0.0/8', not {entry!r}.")
        port = int(match["port"]) if match["port"] else None
        if _address(host):
            self._networks.append((_network(host), port))
        else:
            self._names.add((host, port))

    def _objection(self, text: str, url: Url) -> Decision | None:
        """The first objection to a parsed URL."""
        is_loopback = not _LOOPBACK_NAMES.isdisjoint({url.host, url.host.rpartition(".")[2]})
        address = IPv4Address("127.0.0.1") if is_loopback else url.address
        if address and _is_metadata(address):
            return _denial("url.metadata", f"{url.host} is {objection(str(address))}.", _span(text))
        if self._names_host(url, address):
            return None
        if address and (words := objection(str(address))):
            return _denial("url.private-address", f"{url.host} is {words}.", _span(text), _remedy(url))
        if _address(url.host) is None and ("." not in url.host or url.host.rpartition(".")[2] in _LOCAL_SUFFIXES):
            return _denial("url.local-name", f"{url.host} is a name of a local network.", _span(text), _remedy(url))
        if url.port not in self.ports:
            ports = ", ".join(map(str, sorted(self.ports)))
            return _denial("url.port", f"Port {url.port} is not a web port ({ports}).", _span(text), _remedy(url))
        return None

    def _names_host(self, url: Url, address: _Address | None) -> bool:
        """Whether this host at this port, or a network of its address, is allowed explicitly."""
        if not self._names.isdisjoint({(url.host, url.port), (url.host, None)}):
            return True
        fitting = (network for network, port in self._networks if port in {None, url.port})
        return address is not None and any(address in network for network in fitting)


def objection(address: str) -> str | None:
    """The reason why an IP address is not public ("a private network"), or None if it is.

    An IPv6 address that embeds an IPv4 address is judged by the embedded address.
    """
    parsed = _address(address)
    if parsed is None:
        return "not an IP address"
    if _is_metadata(parsed):
        return "where a cloud hands out credentials"
    return _range_words(parsed) if isinstance(parsed, IPv4Address) else _ipv6_words(parsed)


def _ipv6_words(address: IPv6Address) -> str | None:
    offsets = next((offsets for network, offsets in _EMBEDDING_NETWORKS if address in network), None)
    if offsets is not None:
        return _embedded_range(address, offsets)
    if address not in _PUBLIC_IPV6:
        return _range_words(address) or "outside the public IPv6 network"
    is_isatap = address.packed[8:12] in _ISATAP
    return _range_words(address) or (_embedded_range(address, (12, 13, 14, 15)) if is_isatap else None)


def read_url(url: str) -> Url | Decision:
    """Parse a URL, or return the denial of one that two programs could parse differently."""
    return _character_fault(url) or _read_parts(url)


def _character_fault(url: str) -> Decision | None:
    if len(url) > MAX_URL_CHARS:
        reason = f"The URL has {len(url):,} characters; at most {MAX_URL_CHARS:,} are read."
        return _denial("url.length", reason, url[:100], "Give a shorter URL.")
    bad = next((char for char in url if char == "\\" or unicodedata.category(char)[0] in _INVISIBLE), None)
    if bad is not None:
        name = unicodedata.name(bad, f"character U+{ord(bad):04X}").lower()
        return _denial("url.characters", f"A URL cannot contain a {name}.", bad, "Percent-encode it, or leave it out.")
    encoded = _ENCODED_CONTROL.search(url)
    if encoded:
        reason = "An encoded line break or NUL can split a request in two."
        return _denial("url.characters", reason, encoded[0], "Leave it out.")
    return None


def _read_parts(url: str) -> Url | Decision:
    match = _URL.match(url)
    scheme = match["scheme"].lower() if match else ""
    if not match or scheme not in _SCHEME_PORTS:
        return _denial("url.scheme", "Only http:// and https:// are fetched.", url[:40], "Give a full http(s) URL.")
    authority = match["authority"]
    if "@" in authority:
        name, colon, _ = authority[: authority.rindex("@")].partition(":")
        evidence = f"{name}{colon or '@'}"  # decisions are shown and stored: omit the password
        return _denial("url.userinfo", "A user name or password in a URL hides its host.", evidence, "Leave it out.")
    parts = _AUTHORITY.fullmatch(authority)
    port = int(parts["port"] or _SCHEME_PORTS[scheme]) if parts else 0
    if not parts or port > 65_535:
        return _denial("url.authority", "Host and port cannot be read.", authority, "Write it as host or host:port.")
    host = _read_host(parts["host"])
    if isinstance(host, Decision):
        return host
    target = (match["path"] or "/") + (match["query"] or "")
    return Url(scheme, host, port, quote(target, safe=_TARGET_SAFE))


def _read_host(written: str) -> str | Decision:
    """Normalise a host to its only ASCII form, without a final dot."""
    try:
        labels = _labels(written)
    except ValueError as error:
        return _denial(
            "url.host",
            f"{written[:80] or 'The empty text'} is not a host name: {error}.",
            written,
            "Use its exact name.",
        )
    if _NUMBER.fullmatch(labels[-1]):
        # Accept four decimal numbers only: programs disagree on 127.1, 0x7f.1, 017700000001 and 2130706433.
        if written.isascii() and isinstance(_address(written), IPv4Address):
            return written
        remedy = "Write an address as four decimal numbers, or use the name of the host."
        return _denial(
            "url.numeric-host", f"{written} is a number that programs interpret differently.", written, remedy
        )
    return ".".join(labels)


def _labels(written: str) -> list[str]:
    """The labels of a host name, or an IPv6 address as a single label. Raises ValueError."""
    if written.startswith("["):
        if "%" in written:
            raise ValueError("a zone index is valid on this machine only")
        return [str(IPv6Address(written[1:-1]))]
    host = written.lower() if written.isascii() else _punycode(written)
    labels = host.removesuffix(".").split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("a name has letters, digits, hyphens and dots")
    if any(map(_mixes_scripts, labels)):
        raise ValueError("it mixes alphabets that look alike")
    return labels


def _punycode(written: str) -> str:
    """Encode a non-ASCII name as it is looked up in DNS. Raises ValueError for characters not allowed in names."""
    import idna

    if unicodedata.normalize("NFKC", written) != written or "\N{IDEOGRAPHIC FULL STOP}" in written:
        raise ValueError("it contains compatibility characters")
    return idna.encode(written.lower()).decode("ascii")


def _mixes_scripts(label: str) -> bool:
    """Whether a label mixes letters of similar scripts. Raises ValueError for broken punycode."""
    if not label.startswith("xn--"):
        return False
    import idna

    letters = {unicodedata.name(char, "").partition(" ")[0] for char in idna.decode(label)}
    return len(letters & _LOOK_ALIKE_SCRIPTS) > 1


def _address(text: str) -> _Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _network(entry: str) -> _Network:
    try:
        return ip_network(entry.strip("[]"))
    except ValueError as error:
        raise ConfigError(f"allow_hosts= cannot read the network {entry!r}: {error}.") from None


def _is_metadata(address: _Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in _METADATA
    return address in _METADATA or any(_embedded_address(address, offsets) in _METADATA for offsets in _EMBEDDED_AT)


def _embedded_address(address: IPv6Address, offsets: tuple[int, ...]) -> IPv4Address:
    return IPv4Address(bytes(address.packed[offset] for offset in offsets))


def _embedded_range(address: IPv6Address, offsets: tuple[int, ...]) -> str | None:
    embedded = _embedded_address(address, offsets)
    words = _range_words(embedded)
    return f"{words}, embedded as {embedded}" if words else None


def _range_words(address: _Address) -> str | None:
    return next((words for network, words in _NOT_PUBLIC.items() if address in network), None)


def _authority(host: str, port: int | None) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def _span(url: str) -> str:
    """The host and port as written: the part of a URL that decides where a request goes."""
    match = _URL.match(url)
    return match["authority"] if match else ""


def _remedy(url: Url) -> str:
    return (
        f"Fetch from the public web, or let the developer allow it: allow_hosts=['{_authority(url.host, url.port)}']."
    )


def _denial(rule: str, reason: str, evidence: str, remedy: str = "Fetch from the public web.") -> Decision:
    return Decision(Verdict.DENY, rule, reason, evidence, remedy, SafetyLevel.NETWORK, egress=True)
