"""Sending one webhook: signed, so that the receiver knows who speaks. docs/how-to.md says how to check it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os

from allm_django import __version__
from allm_django.conf import conf, webhooks_inside
from allm_django.errors import ConfigurationError
from allm_django.models import Delivery, Webhook
from allm_django.notify.post import post
from allm_django.store import clock
from allm_django.tools.addresses import resolve, split_url


def send_webhook(row: Delivery, hook: Webhook) -> int:
    """Send it; returns the receiver's status. Raises AllmError when it may or can not be sent, OSError, ValueError."""
    secret = secret_of(hook)
    body = json.dumps({"id": str(row.pk), **row.payload}, separators=(",", ":")).encode()
    time = str(int(clock.now().timestamp()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"allm-django/{__version__}",
        "Allm-Id": str(row.pk),
        "Allm-Event": row.event,
        "Allm-Timestamp": time,
        "Allm-Signature": "sha256=" + sign(secret, time, body),
    }
    target = split_url(hook.url, inside=webhooks_inside())
    address = resolve(target, inside=webhooks_inside())
    return asyncio.run(post(target, address, body, headers, conf().NOTIFY_TIMEOUT))


def sign(secret: str, time: str, body: bytes) -> str:
    """HMAC-SHA256, in hex, over the timestamp, a dot and the body as it is sent."""
    return hmac.new(secret.encode(), time.encode() + b"." + body, hashlib.sha256).hexdigest()


def secret_of(hook: Webhook) -> str:
    """The webhook's secret. Raises ConfigurationError naming the variable that is not set."""
    secret = os.environ.get(hook.secret_env, "")
    if not secret:
        raise ConfigurationError(f"The environment variable {hook.secret_env} is not set.")
    return secret
