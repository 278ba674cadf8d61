"""The admin over rows as the benchmark makes them, in small: each list in under ten queries, whatever it is asked."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from allm_django.models import Engine, Event, Run, ToolCall
from tests.benchmarks.million import make
from tests.integration.admin_rows import LOOKUP, REFUND, make_tool
from tests.integration.cast import without_runner

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.row("M05")]

LISTS = {
    "session": ("", "?status__exact=awaiting_tools", "?q=reader"),
    "run": ("", "?state__exact=waiting"),
    "toolcall": ("", "?p=2", "?outcome=failed", "?q=reader"),
    "pendingcall": ("", "?mine=yes&age=1", "?tool=refund"),
    "decision": ("", "?verb=reject"),
    "event": ("",),
}


def test_each_list_and_page_opens_in_a_few_queries(client: Client, django_assert_max_num_queries: Any) -> None:
    reader = User.objects.create_user("reader", is_staff=True)
    reader.user_permissions.set(Permission.objects.filter(content_type__app_label="allm_django"))
    tools = [make_tool("look", handler=LOOKUP), make_tool("refund", handler=REFUND, manual=True)]
    people = [reader, User.objects.create_user("other")]
    make(150, tools=tools, people=people, engine=Engine.objects.create(name="desk", model="planner:desk"))
    assert ToolCall.objects.count() >= 150
    client.force_login(reader)
    with without_runner():
        for name, queries in LISTS.items():
            for query in queries:
                with django_assert_max_num_queries(9):
                    answer = client.get(reverse(f"admin:allm_django_{name}_changelist") + query)
                assert answer.status_code == 200
                assert answer.context["cl"].result_count >= (1 if query in ("", "?p=2") else 0), (name, query)
        told = Run.objects.filter(pk__in=ToolCall.objects.exclude(decided_verb="").values("run")).first()
        assert told is not None
        assert Event.objects.filter(session=told.session).exists()
        page = client.get(reverse("admin:allm_django_run_change", args=[told.pk])).content.decode()
        assert all(f"allm-tone-{tone} allm-span" in page for tone in ("model", "people"))
