"""Baseline with http.client of the standard library, over one persistent connection."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from workload import KEY, Function, Message, converse, request

HEADERS = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
MISSING = {
    "respond": "written for Chat Completions only",
    "aask": "http.client is synchronous",
    "wait": "this loop runs one tool after the other",
}


def sender(url: str) -> Callable[[Message], HTTPResponse]:
    """Sends a body over one connection."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port)

    def send(body: Message) -> HTTPResponse:
        connection.request("POST", f"{parts.path}/chat/completions", json.dumps(body), HEADERS)
        return connection.getresponse()

    return send


def ask(url: str, functions: Sequence[Function], history: Sequence[Message] = ()) -> Callable[[], str]:
    """The handwritten loop."""
    send = sender(url)

    def post(body: Message) -> Any:
        return json.loads(send(body).read())

    return partial(converse, post, functions, history)


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One question after a long conversation."""
    return ask(url, (), history)


def stream(url: str) -> Callable[[], int]:
    """One question whose answer is read line by line."""
    send = sender(url)

    def counted() -> int:
        count = 0
        for line in send(request(streamed=True)):
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:])["choices"]
                count += bool(choices and choices[0]["delta"].get("content"))
        return count

    return counted
