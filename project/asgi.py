"""What the server runs. While developing it serves static files too."""

from __future__ import annotations

import os

from django.conf import settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django = get_asgi_application()

from allm_django.asgi import with_assistant  # noqa: E402 - apps must be loaded first

application = with_assistant(ASGIStaticFilesHandler(django) if settings.DEBUG else django)
