"""Settings of the browser tests' site. SITE_STATIC: plain, manifest, or modules (that also renames imports)."""

from __future__ import annotations

import os

from django.contrib.staticfiles.storage import ManifestStaticFilesStorage

from project.settings import *  # noqa: F403
from project.settings import VAR

DEBUG = False
SECRET_KEY = "only for the browser tests, and long enough for the checks that look at it"
ALLOWED_HOSTS = ["127.0.0.1"]
SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = False
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ROOT_URLCONF = "tests.acceptance.site.urls"
ALLM = {
    "PROVIDERS": {"script": "tests.acceptance.site.script.model"},
    "TOOL_MODULES": ["tests.acceptance.site.tools"],
    "REQUESTS_PER_MINUTE": 100_000,
    "SOCKETS_PER_USER": 200,
}


class RenamedModules(ManifestStaticFilesStorage):
    """The manifest storage with renamed imports, which Django has but does not switch on by itself."""

    support_js_module_import_aggregation = True


STATIC_MODE = os.environ.get("SITE_STATIC", "plain")
STATIC_ROOT = VAR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": {
            "plain": "django.contrib.staticfiles.storage.StaticFilesStorage",
            "manifest": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage",
            "modules": "tests.acceptance.site.settings.RenamedModules",
        }[STATIC_MODE]
    },
}
