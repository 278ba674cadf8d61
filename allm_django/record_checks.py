"""System checks on the record of decisions and on notifications. docs/reference/checks.md lists them."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error

from allm_django import conf
from allm_django.errors import ConfigurationError
from allm_django.store.chain import audit_keys


def check_audit_key(**kwargs: Any) -> list[CheckMessage]:
    """E020: the key that signs decisions is not there, so none could be recorded."""
    if conf.problems():
        return []
    try:
        audit_keys()
    except ConfigurationError as error:
        return [Error(error.message, hint="Set it, in every process that decides.", id="allm_django.E020")]
    return []
