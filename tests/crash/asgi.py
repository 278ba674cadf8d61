"""What a server of the tests runs."""

from __future__ import annotations

from django.core.asgi import get_asgi_application

django = get_asgi_application()

from allm_django.asgi import with_assistant  # noqa: E402 - apps must be loaded first

application = with_assistant(django)
