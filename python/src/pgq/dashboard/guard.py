"""Access rules: the checks that every request passes first."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request

from pgq.dashboard.failures import Refused

__all__ = ["HEADERS", "Guard", "Rules", "is_loopback"]

#: Headers of every response: no foreign or inline content, no text as markup, no frames.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Rules:
    """The rules of a page that is mounted in an application, which decides who reaches it.

    :param writes: whether the page can act: for everybody, or as a function of the request.
    """

    #: Whether the page needs a token: to act, and if it is private also to read.
    token_needed = False
    private = False

    def __init__(self, writes: bool | Callable[[Request], bool] = False) -> None:
        self._writes = writes

    def writes(self, request: Request) -> bool:
        """Whether the page of this request can act."""
        return self._writes if isinstance(self._writes, bool) else bool(self._writes(request))

    def knows_host(self, headers: Headers) -> bool:
        """Whether the Host header has a name of this page."""
        return True

    def same_origin(self, headers: Headers) -> bool:
        """Whether a request comes from our own page, or from no page at all.

        Sec-Fetch-Site is used if the browser sends it: a proxy may have changed the host.
        """
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site in ("same-origin", "none")
        origin = headers.get("origin")
        return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()

    def may_look(self, headers: Headers) -> bool:
        """Whether a request may read the content of queues."""
        return True

    def require_token(self, request: Request) -> None:
        """Refuse a request that acts without the token."""

    def session(self, request: Request) -> str:
        """Return the cookie that lets a browser read."""
        raise Refused(HTTPStatus.NOT_FOUND, "this page has no token")


class Guard(Rules):
    """The rules of a page with its own server: it checks the host name and a token.

    :param hosts: the names of the page, besides those of the loopback address.
    :param writes: whether the page can act, with the token.
    :param private: whether the token is needed for reading, too.
    :param token: the token; a new one if None.
    """

    token_needed = True

    def __init__(
        self,
        *,
        hosts: Iterable[str] = (),
        writes: bool = False,
        private: bool = False,
        token: str | None = None,
    ) -> None:
        super().__init__(writes)
        self.acts = writes
        self.private = private
        self.token = token or secrets.token_urlsafe(24)
        self._hosts = {host.lower().strip("[]") for host in hosts}
        # The cookie holds this value instead of the token: it allows reading, but no actions.
        self._pass = secrets.token_urlsafe(24)

    def knows_host(self, headers: Headers) -> bool:
        """Whether the Host header has a name of this page.

        A foreign name that resolves to this address is an attack: another page makes a browser
        read this one (DNS rebinding). Ports are not compared: a tunnel may have another port.
        """
        given = headers.getlist("host")
        name = _host(given[0]) if len(given) == 1 else None
        return name is not None and (
            name == "localhost" or is_loopback(name) or name.lower() in self._hosts
        )

    def has_token(self, headers: Headers) -> bool:
        """Whether a request has the token, which no foreign page can make a browser send."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme == "Bearer" and hmac.compare_digest(given.encode(), self.token.encode())

    def may_look(self, headers: Headers) -> bool:
        """Whether a request may read the content of queues."""
        return not self.private or self.has_token(headers) or self._has_pass(headers)

    def require_token(self, request: Request) -> None:
        """Refuse a request that acts without the token."""
        if not self.has_token(request.headers):
            raise Refused(
                HTTPStatus.UNAUTHORIZED,
                "the token is missing or wrong",
                "The command pgq dashboard has printed it when it started.",
            )

    def session(self, request: Request) -> str:
        """Return the cookie that lets a browser read."""
        # Browsers ignore ports for cookies: the name keeps the pages of two servers apart.
        port = (request.scope.get("server") or ("", 0))[1]
        return f"pgq_{port}={self._pass}; Path=/; HttpOnly; SameSite=Strict"

    def _has_pass(self, headers: Headers) -> bool:
        try:
            jar = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        return any(
            name.startswith("pgq_")
            and hmac.compare_digest(morsel.value.encode(), self._pass.encode())
            for name, morsel in jar.items()
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(netloc: str) -> str | None:
    try:
        return urlsplit(f"//{netloc}").hostname
    except ValueError:
        return None
