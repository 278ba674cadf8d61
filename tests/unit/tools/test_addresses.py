"""Addresses that a request may go to (security rows 32 and 33)."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest

from allm_django.errors import InvalidInputError, NotAllowedError
from allm_django.tools.addresses import is_allowed, resolve, split_url

PUBLIC = ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::5db8:d822"]
INSIDE = ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "::1", "fd12::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
NEVER = [
    "0.0.0.0",
    "::",
    "169.254.169.254",
    "fe80::1",
    "fd00:ec2::254",
    "100.100.100.200",
    "224.0.0.1",
    "ff02::1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
]


def test_private_addresses_take_a_setting_and_metadata_is_never_to_be_had() -> None:
    addresses = {text: ipaddress.ip_address(text) for text in PUBLIC + INSIDE + NEVER}
    assert [text for text, address in addresses.items() if is_allowed(address, inside=False)] == PUBLIC
    assert [text for text, address in addresses.items() if is_allowed(address, inside=True)] == PUBLIC + INSIDE


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f.1", "2130706433", "017700000001", "[::1]", "localhost", "127.1"])
def test_no_spelling_of_this_machine_gets_through(host: str) -> None:
    with pytest.raises((NotAllowedError, OSError)):
        resolve(split_url(f"https://{host}/", inside=False), inside=False)


def test_a_name_with_one_private_address_among_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(*args: Any, **kwargs: Any) -> list[Any]:
        return [(socket.AF_INET, 1, 6, "", (text, 443)) for text in ("93.184.216.34", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with pytest.raises(NotAllowedError):
        resolve(split_url("https://shop.example/", inside=False), inside=False)


def test_a_url_is_taken_apart_as_a_request_needs_it() -> None:
    target = split_url("https://shop.example:8443/a/b?c=d", inside=False)
    assert (target.host_header, target.port, target.path) == ("shop.example:8443", 8443, "/a/b?c=d")
    assert split_url("https://[2001:db8::1]", inside=False).host_header == "[2001:db8::1]"


@pytest.mark.parametrize(
    "url",
    [
        "http://shop.example/",
        "file:///etc/passwd",
        "https://a@shop.example/",
        "https://shop.example/ x",
        "https://shöp.example/",
        "https://shop.example/#a",
        "https://",
        "shop.example",
        "",
    ],
)
def test_other_urls_are_refused_by_name(url: str) -> None:
    with pytest.raises(InvalidInputError, match="url: ") as caught:
        split_url(url, inside=False)
    assert caught.value.field == "url"
