"""Addresses that a request may go to: no way inside, whatever a host's name resolves to (security rows 32, 33)."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from allm_django.errors import InvalidInputError, NotAllowedError

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
PORTS = {"https": 443, "http": 80}
PLAIN = re.compile(r"[!-~]+")
# what cloud providers answer with a machine's own keys; never, not even where private addresses are allowed
METADATA = tuple(map(ipaddress.ip_network, ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "100.64.0.0/10")))
NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Target:
    """A URL taken apart. ``path`` has the query, ``host`` is as a Host header and a certificate name it."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def host_header(self) -> str:
        """The host as a request names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def split_url(url: str, *, inside: bool, field: str = "url") -> Target:
    """``url`` taken apart; https, or, with ``inside``, http as well. Raises InvalidInputError naming ``field``."""
    if not PLAIN.fullmatch(url):
        words = f"{field}: spaces, control characters and letters beyond ASCII are refused."
        raise InvalidInputError(words, field=field)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInputError(f"{field}: this is not a URL.", field=field) from error
    schemes = ("https", "http") if inside else ("https",)
    if parts.scheme not in schemes or not host:
        raise InvalidInputError(f"{field}: an address that starts with {schemes[0]}:// is needed.", field=field)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise InvalidInputError(f"{field}: names, passwords and fragments are refused.", field=field)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port or PORTS[parts.scheme], path)


def resolve(target: Target, *, inside: bool) -> str:
    """One address of the target's host, to connect to and no other. Every one of them has to be public.

    ``inside`` allows this machine and private networks, but never the link-local addresses that clouds give keys at.
    Raises NotAllowedError, OSError when the name is unknown.
    """
    found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    if not addresses or not all(is_allowed(address, inside=inside) for address in addresses):
        raise NotAllowedError("The host's address is not a public one.")
    return str(addresses[0])


def is_allowed(address: IP, *, inside: bool) -> bool:
    """Whether a request may go to ``address``."""
    address = _within(address)
    if address.is_unspecified or address.is_multicast or any(address in network for network in METADATA):
        return False
    if inside and (address.is_private or address.is_loopback):
        return True
    return address.is_global and not address.is_reserved


def _within(address: IP) -> IP:
    """The IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)
