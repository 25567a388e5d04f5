"""Command of the server: `python -m benchmarks.server [CERTIFICATE]` prints its ports and ends with its input."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import sys
from functools import partial

from benchmarks.server.connection import Connection, Tally


async def serve(certificate: str | None) -> None:
    """Serve HTTP, and TLS if a certificate (with its key in the same file) is given, until stdin ends."""
    loop, connection = asyncio.get_running_loop(), partial(Connection, Tally())
    listeners = {"http": await loop.create_server(connection, "127.0.0.1", 0, backlog=1_024)}
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        listeners["https"] = await loop.create_server(connection, "127.0.0.1", 0, ssl=context, backlog=1_024)
    sockets: dict[str, socket.socket] = {name: listener.sockets[0] for name, listener in listeners.items()}
    ports = {name: each.getsockname()[1] for name, each in sockets.items()}
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    for listener in listeners.values():
        listener.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1] if len(sys.argv) > 1 else None))
