"""A client for the official conformance suite: each scenario connects, lists the tools and calls them."""

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
    """Call a tool; log in again, at most once, if it needs a wider scope."""
    try:
        server.call(name, **ARGUMENTS.get(name, {}))
    except LoginNeeded:
        server.login()
        server.call(name)


def terms(scenario, given, url, folder):
    """Return the login of a scenario; None without one."""
    if not scenario.startswith("auth/"):
        return None
    client, secret = given.get("client_id"), given.get("client_secret")
    if scenario.startswith("auth/client-credentials"):
        key, algorithm = given.get("private_key_pem"), given.get("signing_algorithm", "RS256")
        return ClientCredentials(client, secret, issuer(url), private_key=key, algorithm=algorithm)
    if scenario.startswith("auth/cross-app-access"):
        return ClientCredentials(client, secret, issuer(url), assertion=lambda *about: exchanged(given, *about))
    if client is not None:
        return Login(opened, client_id=client, client_secret=secret, issuer=issuer(url), folder=folder)
    if scenario == "auth/2025-03-26-oauth-metadata-backcompat":
        return Login(opened, issuer=f"{origin(url)}/oauth", folder=folder)  # the metadata is at another path
    return Login(opened, client_metadata_url=CLIENT_METADATA, folder=folder)


def origin(url):
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def exchanged(given, audience, resource):
    """Return the assertion that an identity provider issues for a person's token (RFC 8693)."""
    data = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "subject_token": given["idp_id_token"],
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "client_id": given["idp_client_id"],
        "audience": audience,
        "resource": resource,
    }
    return httpx2.post(given["idp_token_endpoint"], data=data).json()["access_token"]


def issuer(url):
    """Return the authorization server, which the suite publishes."""
    answer = httpx2.get(f"{origin(url)}/.well-known/oauth-protected-resource{urlsplit(url).path}")
    return answer.json()["authorization_servers"][0]


def opened(address):
    """Open an address as a browser would, and return the one that it is redirected to."""
    return httpx2.get(address).headers["location"]


if __name__ == "__main__":
    try:
        main(sys.argv[-1])
    except AgentKitError as error:
        sys.exit(f"{type(error).__name__}: {error}")
