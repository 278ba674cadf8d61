"""One POST to an address that was looked at: pinned, bounded in time as a whole, no redirects followed."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping

from allm_django.tools.addresses import Target

STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r\n]")


async def post(target: Target, address: str, body: bytes, headers: Mapping[str, str], timeout: float) -> int:
    """POST ``body`` to ``target`` at ``address``; returns the status. What is answered besides is not read.

    Raises TimeoutError after ``timeout`` seconds in all, OSError, and ValueError for what is no HTTP.
    """
    context = ssl.create_default_context() if target.scheme == "https" else None
    name = target.host if context else None
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(address, target.port, ssl=context, server_hostname=name)
        try:
            writer.write(_head(target, body, headers) + body)
            await writer.drain()
            return await _status(reader)
        finally:
            writer.close()


def _head(target: Target, body: bytes, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {target.host_header}",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


async def _status(reader: asyncio.StreamReader) -> int:
    while True:
        found = STATUS.match(await reader.readline())
        if not found:
            raise ValueError("The answer is not HTTP.")
        if (status := int(found[1])) >= 200:
            return status
        while (await reader.readline()).strip():  # an interim answer; its headers say nothing to us
            pass
