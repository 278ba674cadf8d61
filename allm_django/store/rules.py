"""Rules: loaded for a turn, written with a record of who changed what (H12)."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from allm_django.core.policy import denied
from allm_django.core.rules import RuleSpec
from allm_django.core.types import JSONObject
from allm_django.models import Rule, RuleChange
from allm_django.store.cleaning import check_row
from allm_django.store.grants import revoke_given_under
from allm_django.store.record import name_of
from allm_django.store.writing import alias


def rules_now() -> tuple[RuleSpec, ...]:
    """The rules that are switched on, in order; one query."""
    rows = Rule.objects.using(alias()).filter(enabled=True).select_related("tool")
    return tuple(row.spec for row in rows.order_by("position", "pk"))


def forbidden(name: str, arguments: JSONObject) -> str:
    """Why a rule forbids a call of the tool ``name`` with ``arguments``, whoever wants it, or ``""``."""
    return denied(rules_now(), name, arguments)


def save_rule(rule: Rule, *, by: Any = None) -> Rule:
    """Write ``rule`` and that ``by`` changed it. Grants that were given where it asked end, if it asks differently now.

    Raises InvalidInputError, naming the field.
    """
    check_row(rule)
    with transaction.atomic(using=alias()):
        before = Rule.objects.select_for_update(of=("self",)).select_related("tool").filter(pk=rule.pk).first()
        if before is not None and before.content() == rule.content():
            return rule
        rule.save()
        _note(rule, rule.content(), by)
        if before is not None:
            revoke_given_under(before.name, by)
    return rule


def delete_rule(rule: Rule, *, by: Any = None) -> None:
    """Delete ``rule``; its record stays, the grants given where it asked end."""
    with transaction.atomic(using=alias()):
        _note(rule, None, by)
        revoke_given_under(rule.name, by)
        rule.delete()


def _note(rule: Rule, data: JSONObject | None, by: Any) -> None:
    RuleChange.objects.create(rule=rule, name=rule.name, data=data, who=name_of(by))
