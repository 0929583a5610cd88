"""Who may ask for what: the checks that come before everything else."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from email.message import Message
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

__all__ = ["HEADERS", "Guard", "is_loopback"]

#: With every answer: nothing from elsewhere, nothing inline, no text that becomes markup, no frame.
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


class Guard:
    """Knows the hosts that the page may be asked by, and the token.

    Without `writes` nobody can change anything. With `private` the token is needed to look, too.
    """

    def __init__(
        self,
        *,
        hosts: Iterable[str] = (),
        writes: bool = False,
        private: bool = False,
        token: str | None = None,
    ) -> None:
        self.writes = writes
        self.private = private
        self.token = token or secrets.token_urlsafe(24)
        self._hosts = {host.lower().strip("[]") for host in hosts}
        # What a browser keeps in order to look is not the token: it cannot act.
        self._pass = secrets.token_urlsafe(24)

    def knows_host(self, headers: Message) -> bool:
        """Whether the page was asked for by a name of ours.

        A foreign name that leads here is somebody's who wants a browser to read us for him (DNS
        rebinding). Ports are not compared, for a tunnel may have another one.
        """
        given = headers.get_all("Host", [])
        name = _host(given[0]) if len(given) == 1 else None
        return name is not None and (
            name == "localhost" or is_loopback(name) or name.lower() in self._hosts
        )

    def same_origin(self, headers: Message) -> bool:
        """Whether a request was made by our own page, or by no page at all."""
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("Origin")
        return origin is None or urlsplit(origin).netloc.lower() == headers["Host"].lower()

    def has_token(self, headers: Message) -> bool:
        """Whether a request carries the token, which no foreign page can make a browser send."""
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        return scheme == "Bearer" and hmac.compare_digest(given.encode(), self.token.encode())

    def may_look(self, headers: Message) -> bool:
        """Whether a request may be answered with what is in the queues."""
        return not self.private or self.has_token(headers) or self._has_pass(headers)

    def cookie(self, port: int) -> str:
        """Return the header that lets a browser look from now on."""
        return f"{_cookie_name(port)}={self._pass}; Path=/; HttpOnly; SameSite=Strict"

    def _has_pass(self, headers: Message) -> bool:
        try:
            jar = SimpleCookie(headers.get("Cookie", ""))
        except CookieError:
            return False
        return any(
            name.startswith("pgq_")
            and hmac.compare_digest(morsel.value.encode(), self._pass.encode())
            for name, morsel in jar.items()
        )


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
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


def _cookie_name(port: int) -> str:
    """Cookies do not know ports: the pages of two servers must not take each other's."""
    return f"pgq_{port}"
