"""Serve the site: ``python -m tests.acceptance.site.serve PORT``. Prints the port when it listens."""

from __future__ import annotations

import socket
import sys

import uvicorn
from django.conf import settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application
from django.core.management import call_command

django = get_asgi_application()

from allm_django.asgi import with_assistant  # noqa: E402

if __name__ == "__main__":
    if settings.STATIC_MODE != "plain":
        call_command("collectstatic", interactive=False, verbosity=0)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    listener.listen(128)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    http = ASGIStaticFilesHandler(django) if settings.STATIC_MODE == "plain" else django
    config = uvicorn.Config(with_assistant(http), lifespan="on", log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
