"""The client that the official conformance suite tests: each scenario connects, lists the tools and calls them."""

import json
import os
import sys
import tempfile
from urllib.parse import urlsplit

import httpx2

from agentkit.errors import AgentKitError, LoginNeeded
from agentkit.mcp import ClientCredentials, Login, MCPServer

CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"
ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}}


def main(url):
    """Run the scenario named in the environment against this server."""
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with (
        tempfile.TemporaryDirectory() as folder,
        MCPServer(
            url, login=terms(scenario, given, url, folder), pins=f"{folder}/pins", approve=lambda _: True
        ) as server,
    ):
        for tool in server.tools:
            call(server, tool.remote_name)


def call(server, name):
    """Call a tool; a person logs in again when it needs a wider scope, but only once."""
    try:
        server.call(name, **ARGUMENTS.get(name, {}))
    except LoginNeeded:
        server.login()
        server.call(name)


def terms(scenario, given, url, folder):
    """The login of a scenario; None without one."""
    if not scenario.startswith("auth/"):
        return None
    if scenario.startswith("auth/client-credentials"):
        return ClientCredentials(given["client_id"], given["client_secret"], issuer(url))
    if "client_id" in given:
        return Login(
            opened,
            client_id=given["client_id"],
            client_secret=given["client_secret"],
            issuer=issuer(url),
            folder=folder,
        )
    return Login(opened, client_metadata_url=CLIENT_METADATA, folder=folder)


def issuer(url):
    """The authorization server, which a developer knows and the suite only publishes."""
    parts = urlsplit(url)
    answer = httpx2.get(f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}")
    return answer.json()["authorization_servers"][0]


def opened(address):
    """Open an address as a browser would, and return the one that it is redirected to."""
    return httpx2.get(address).headers["location"]


if __name__ == "__main__":
    try:
        main(sys.argv[-1])
    except AgentKitError as error:
        sys.exit(f"{type(error).__name__}: {error}")
