"""Results in stored sessions: the model's copy, and the whole for people (T24)."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from allm_django.testing import call, say
from tests.integration.cast import without_runner
from tests.integration.desk import Desk

pytestmark = [pytest.mark.django_db]
LINES = [f"line {number}" for number in range(10_000)]


@pytest.mark.row("T24")
def test_a_handlers_large_result_is_capped_with_a_marker_for_the_model_and_whole_on_its_row(desk: Desk) -> None:
    desk.noted(result=LINES)
    desk.run(call("work"), say("Done."))
    row = desk.call()
    assert row.result == LINES
    assert (desk.told(), len(row.content) <= 32_768) == ([row.content], True)
    assert "left out" in row.content[-80:]


@pytest.mark.row("T24")
def test_the_cap_is_a_setting(desk: Desk, settings: Any) -> None:
    settings.ALLM = {**getattr(settings, "ALLM", {}), "RESULT_CAP": 200}
    desk.noted(result=LINES)
    desk.run(call("work"), say("Done."))
    assert (len(desk.told()[0]), desk.call().result) == (200, LINES)


@pytest.mark.row("T24")
def test_the_whole_result_can_be_looked_at(desk: Desk, client: Client) -> None:
    desk.noted(result=LINES)
    desk.run(call("work"), say("Done."))
    client.force_login(User.objects.create_superuser("root"))
    with without_runner():
        page = client.get(reverse("admin:allm_django_toolcall_change", args=[desk.call().pk])).content.decode()
    assert LINES[-1] in page
    assert "left out" in page  # and the model's copy beside it
