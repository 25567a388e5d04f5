"""Whom may a server name for its login? Hosts of the public web, its own host, and those that the developer named."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from agentkit.decisions import Decision
from agentkit.doors import is_local
from agentkit.errors import ToolError
from agentkit.mcp.target import is_sealed
from agentkit.safety.addresses import AddressRules, Url, read_url

_CAN_BE_NAMED = frozenset(("url.private-address", "url.local-name", "url.port"))
_THIS_MACHINE = ("localhost", "127.0.0.0/8", "::1/128")


class Reach:
    """The addresses that may take part in the login to one server.

    A server on the web must not have us call at what only this machine, or its network, can see. Raises ConfigError.
    """

    def __init__(self, server: str, hosts: Iterable[str] = ()) -> None:
        parts = urlsplit(server)
        host = parts.hostname or ""
        self.hosts = tuple(dict.fromkeys(hosts))
        self._is_local = is_local(host)
        self.server = parts.netloc
        own = f"[{host}]" if ":" in host else host
        self._rules = AddressRules((own, *self.hosts, *(_THIS_MACHINE if self._is_local else ())))

    def admitted(self, url: str) -> Url:
        """The address in parts. Raises ToolError when it must not take part, as far as that can be told of its name."""
        decision = self._rules.judge(url)
        parsed = read_url(url)
        if decision.denied or isinstance(parsed, Decision):
            raise self._refusal(decision)
        if not is_sealed(str(parsed)) or (parsed.scheme == "http" and not self._is_local):
            raise ToolError(f"The login to {self.server} would go to {parsed.host} unencrypted, so it was not tried.")
        return parsed

    def check(self, url: Url, address: str) -> None:
        """Raise ToolError when the host leads to an address that must not take part."""
        objection = self._rules.judge_address(url, address)
        if objection is not None:
            raise self._refusal(objection)

    def _refusal(self, decision: Decision) -> ToolError:
        remedy = " If you know that host, name it: Login(hosts=[...]), or --allow-host."
        return ToolError(
            f"The login to {self.server} was not tried, since it leads elsewhere: {decision.reason}"
            f"{remedy if decision.rule in _CAN_BE_NAMED else ''}"
        )
