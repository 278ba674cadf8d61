"""``manage.py demo``: prepare the database, say what to try, serve until Ctrl-C."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from allm_django.models import Engine
from project.support import demo, engine

HOST = "127.0.0.1"
TRIES = 50
STOP_SECONDS = 3

WORDS = """
  allm_django demo      http://{host}:{port}/        admin: http://{host}:{port}/admin/
  Model: {model}{notice}

  Log in as   agent      chats
              approver   chats, and decides what others asked for (use a second, private window)
              admin      may do everything, so one window is enough
  Password    {password} (for all three)

  Six things to try:
{examples}

  E-mails go to var/mail. Stop with Ctrl-C.
"""


class Command(BaseCommand):
    """Run the demo on this machine."""

    help = "Migrate, sync tools, make demo data, print the address, logins and six things to try, and serve."

    def add_arguments(self, parser: CommandParser) -> None:
        """``--port``: where to listen; the next free one if it is taken."""
        parser.add_argument("--port", type=int, default=8000)

    def handle(self, *args: Any, **options: Any) -> None:
        """Prepare, print, serve."""
        call_command("migrate", verbosity=0)
        call_command("sync_tools", verbosity=0)
        call_command("demo_data", verbosity=0)
        listener = listen(options["port"])
        self.stdout.write(introduction(listener.getsockname()[1]))
        self.stdout.flush()
        serve(listener)


def listen(port: int) -> socket.socket:
    """A listening socket on ``port`` or the first free one after it. Raises CommandError if there is none."""
    for candidate in range(port, min(port + TRIES, 65536)) if port else [0]:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, candidate))
            listener.listen(256)
        except OSError:
            listener.close()
        else:
            return listener
    raise CommandError(f"No free port from {port} on; say make demo PORT=… with another one.")


def introduction(port: int) -> str:
    """Address, logins, and what to try."""
    row = Engine.objects.get(name=engine.NAME)
    return WORDS.format(
        host=HOST,
        port=port,
        model=row.model,
        notice=f"  ({row.notice})" if row.notice else "",
        password=demo.PASSWORD,
        examples="\n".join(f"    {number}. {text}" for number, text in enumerate(row.examples, start=1)),
    )


def serve(listener: socket.socket) -> None:
    """Serve until a signal; then stop the runner cleanly, within a few seconds."""
    config = uvicorn.Config(
        "project.asgi:application",
        lifespan="on",
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=STOP_SECONDS,
        log_level="warning",
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        print("Stopped.")
