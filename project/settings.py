"""Settings of the demo project. It binds to this machine only, unless the environment says otherwise.

DJANGO_DEBUG (1 or 0, default 1) · DJANGO_SECRET_KEY (needed when DJANGO_DEBUG=0) · DJANGO_ALLOWED_HOSTS (with commas)
· DJANGO_BEHIND_PROXY (1: trust X-Forwarded-Proto) · ALLM_DATABASE (postgresql://…, default SQLite in var/)
· ALLM_REDIS (redis://…: news between processes) · ALLM_DISPATCH (the dotted path of a dispatch)
· ALLM_VAR (the folder for database, e-mails and key, default var/).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import django
from django.core.exceptions import ImproperlyConfigured

from project import databases

BASE_DIR = Path(__file__).resolve().parent.parent
VAR = Path(os.environ.get("ALLM_VAR") or BASE_DIR / "var")


def flag(name: str, default: str) -> bool:
    """The environment's ``name`` as a truth value; only 1 and 0 are known."""
    value = os.environ.get(name, default)
    if value not in ("0", "1"):
        raise ImproperlyConfigured(f"{name}={value!r}: write 1 or 0.")
    return value == "1"


def secret_key() -> str:
    """The key from the environment; while developing, one that is made once and kept in var/."""
    if key := os.environ.get("DJANGO_SECRET_KEY"):
        return key
    if not DEBUG:
        raise ImproperlyConfigured("DJANGO_SECRET_KEY: set it to a long random text when DJANGO_DEBUG=0.")
    path = VAR / "secret_key"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(50))
    return path.read_text()


DEBUG = flag("DJANGO_DEBUG", "1")
SECRET_KEY = secret_key()
ALLOWED_HOSTS = os.environ.get("DJANGO_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")
INTERNAL_IPS = ["127.0.0.1", "::1"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "allm_django",
    "project.support",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.debug",
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
CHANNEL_LAYERS: dict[str, Any] = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
if redis := os.environ.get("ALLM_REDIS"):
    CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [redis]}}
    }

DATABASES = {
    "default": databases.postgres(url)
    if (url := os.environ.get("ALLM_DATABASE"))
    else databases.sqlite(VAR / "demo.sqlite3")
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"
    },
}

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not DEBUG
SESSION_COOKIE_HTTPONLY = True
SECURE_SSL_REDIRECT = not DEBUG
SECURE_HSTS_SECONDS = 0 if DEBUG else 3600
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if flag("DJANGO_BEHIND_PROXY", "0") else None
X_FRAME_OPTIONS = "DENY"

FILE_MAIL = "django.core.mail.backends.filebased.EmailBackend"
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": FILE_MAIL, "OPTIONS": {"file_path": VAR / "mail"}}}
else:
    EMAIL_BACKEND, EMAIL_FILE_PATH = FILE_MAIL, VAR / "mail"
DEFAULT_FROM_EMAIL = "support@shop.example"

REST_FRAMEWORK = {"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"}
SPECTACULAR_SETTINGS = {"TITLE": "allm_django", "VERSION": "1", "SERVE_INCLUDE_SCHEMA": False}

ALLM: dict[str, Any] = {"PROVIDERS": {"planner": "project.support.planner.planner"}}
if dispatch := os.environ.get("ALLM_DISPATCH"):
    ALLM["DISPATCH"] = dispatch
    if ".procrastinate." in dispatch:
        INSTALLED_APPS.append("procrastinate.contrib.django")
