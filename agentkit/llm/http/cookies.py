"""Which cookies does a server set? None that come back: they would tell it which runs belong together."""

from __future__ import annotations

from http.cookiejar import CookieJar


class NoCookies(CookieJar):
    """A jar that stays empty. It does not even read what it is offered, which takes longer than all other headers."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Take nothing out of a response."""

    def add_cookie_header(self, request: object) -> None:
        """Add nothing to a request."""
