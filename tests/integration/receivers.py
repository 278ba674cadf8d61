"""Real receivers on loopback: a mail server, and an HTTP server that answers as it is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from aiosmtpd.smtp import SMTP


class Mailbox:
    """What the mail server took. While ``down`` it refuses every recipient."""

    def __init__(self) -> None:
        self.port = 0
        self.down = False
        self.mails: list[tuple[list[str], EmailMessage]] = []

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        """A recipient is named."""
        if self.down:
            return "451 Try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """A mail has come."""
        mail = cast(EmailMessage, message_from_bytes(envelope.content, policy=policy.default))
        self.mails.append((envelope.rcpt_tos, mail))
        return "250 OK"


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    """A mail server of our own, in a thread."""
    mailbox, loop = Mailbox(), asyncio.new_event_loop()
    server = loop.run_until_complete(
        loop.create_server(lambda: SMTP(mailbox, hostname="localhost", loop=loop), "127.0.0.1", 0)
    )
    mailbox.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield mailbox
    finally:
        loop.call_soon_threadsafe(server.close)  # in its own thread: a connection may be ending there just now
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


class Receiver:
    """What the HTTP server took: (headers, body) each. ``answers`` are the next statuses, then 204; 0: none at all."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}/hook?a=1"
        self.seen: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.over = threading.Event()


@contextmanager
def http_server() -> Iterator[Receiver]:
    """An HTTP server of our own, in threads."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.answers.pop(0) if receiver.answers else 204
            receiver.seen.append((dict(self.headers), body))
            if status == 0:
                receiver.over.wait(30)
                return
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
