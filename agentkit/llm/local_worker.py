"""The worker process that runs llama.cpp's HTTP server for one model file."""

from __future__ import annotations

import json
import os
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_SLOTS = 4
"""Number of requests that are answered at the same time; they share the context."""

_ERRORS = 1
"""The verbosity at which llama.cpp logs errors only."""


def serve() -> None:
    """Start the server for the line of JSON on standard input, reply on standard output, and run until input ends."""
    answers = os.dup(1)
    os.dup2(2, 1)  # output that llama.cpp prints must not mix with the reply
    options = json.loads(sys.stdin.buffer.readline())
    server = _server(options)
    url = server.listening_address
    reply = {"url": f"{url}/v1", "supports_tools": _supports_tools(url, options["api_key"])}
    os.write(answers, json.dumps(reply).encode() + b"\n")
    os.close(answers)
    devnull = os.open(os.devnull, os.O_WRONLY)  # the host reads the log of the start only
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    while sys.stdin.buffer.read(1):
        pass
    os._exit(0)  # the server's destructor waits for the requests that are being answered


def _server(options: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = options["path"]
    params.model_alias = {Path(options["path"]).name}
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [options["api_key"]]
    params.n_ctx, params.n_parallel, params.kv_unified = options["context_tokens"], _SLOTS, True
    threads = options["threads"] or os.cpu_count() or 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    if options["gpu_layers"] is not None:
        params.n_gpu_layers = options["gpu_layers"]
    params.offline, params.ui, params.warmup, params.endpoint_slots = True, False, False, False
    params.verbosity = _ERRORS
    return xllamacpp.Server(params)


def _supports_tools(url: str, api_key: str) -> bool:
    """Whether the model's chat template describes tools to the model."""
    connection = HTTPConnection(urlsplit(url).netloc)
    connection.request("GET", "/props", headers={"Authorization": f"Bearer {api_key}"})
    properties = json.loads(connection.getresponse().read())
    connection.close()
    return bool(properties["chat_template_caps"]["supports_tools"])
