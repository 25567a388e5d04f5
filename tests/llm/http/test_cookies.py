"""The jar of a client keeps nothing that a server sets."""

from __future__ import annotations

from email.message import Message
from urllib.request import Request

from agentkit.llm.http.cookies import NoCookies


class Answer:
    """A response with a cookie that any jar would take."""

    def info(self) -> Message:
        """Its headers."""
        headers = Message()
        headers["Set-Cookie"] = "conversation=17; Path=/"
        return headers


def test_a_cookie_is_neither_kept_nor_sent() -> None:
    """What a server sets is forgotten at once, so that the next request has no cookie."""
    jar, request = NoCookies(), Request("https://models.example/v1/chat/completions")
    jar.extract_cookies(Answer(), request)
    jar.add_cookie_header(request)
    assert list(jar) == []
    assert not request.has_header("Cookie")
