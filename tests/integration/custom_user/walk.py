"""One walk through page, API and socket in that project; run in a process of its own, as settings can't be swapped."""

from __future__ import annotations

import asyncio
import os
import sys

import django


def main() -> None:
    """Set up, walk, say so."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.integration.custom_user.settings"
    django.setup()
    from django.core.management import call_command

    from tests.integration.cast import without_runner

    call_command("migrate", verbosity=0)
    with without_runner():
        call = decide()
        look(call)
        asyncio.run(watch(call))
    sys.stdout.write("walked\n")


def person(email: str, *permissions: str):  # type: ignore[no-untyped-def]
    """Someone with these permissions of ours."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Permission

    made = get_user_model().objects.create_user(email, "secret")
    made.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return made


def decide():  # type: ignore[no-untyped-def]
    """Ann asks, Kim decides, each is named by what they log in with."""
    from allm_django.models import Decision
    from tests.integration.cast import Browser, a_tool, waiting_call

    ann, kim = person("ann@shop.example", "chat"), person("kim@shop.example", "decide_toolcall")
    a_tool()
    call = waiting_call(ann)
    assert Browser(ann).client.get("/").status_code == 200
    listed = Browser(ann).get("sessions/").json()["results"]
    assert listed[0]["owner"] == {"id": str(ann.pk), "name": "ann@shop.example"}
    (card,) = Browser(kim).get("calls/").json()["results"]
    assert card["asked_by"]["name"] == "ann@shop.example"
    answer = Browser(kim).decide(call, "reject", reason="No.")
    assert answer.status_code == 200, answer.content
    assert answer.json()["decision"]["by"] == Decision.objects.get().who == "kim@shop.example"
    assert Browser(kim).get(f"sessions/{call.session_id}/").status_code == 404
    resent = [Browser(ann).post("sessions/", {"text": "Hi"}, **{"Idempotency-Key": "k"}) for _ in "ab"]
    assert resent[0].json()["session"]["id"] == resent[1].json()["session"]["id"]
    return call


def look(call) -> None:  # type: ignore[no-untyped-def]
    """A superuser looks at every list of the admin, finds Ann's conversation by her address, and reads it."""
    from django.contrib import admin
    from django.urls import reverse

    from tests.integration.cast import Browser

    boss = person("boss@shop.example")
    boss.is_superuser = True
    boss.save()
    browser = Browser(boss).client
    for model in admin.site._registry:
        if model._meta.app_label == "allm_django":
            address = reverse(f"admin:allm_django_{model._meta.model_name}_changelist")
            assert browser.get(address, {"q": "ann@"} if model.__name__ == "Session" else {}).status_code == 200, (
                address
            )
    found = browser.get(reverse("admin:allm_django_session_changelist"), {"q": "ann@"}).content.decode()
    assert str(call.session_id) in found
    for name, key in (("session", call.session_id), ("toolcall", call.pk)):
        page = browser.get(reverse(f"admin:allm_django_{name}_change", args=[key]))
        assert "ann@shop.example" in page.content.decode() or name == "toolcall"
        assert page.status_code == 200


async def watch(call) -> None:  # type: ignore[no-untyped-def]
    """Ann watches her session until her account is closed."""
    from asgiref.sync import sync_to_async
    from django.contrib.auth import get_user_model
    from django.db import connections

    from allm_django.runtime.tail import tail_check
    from tests.integration.sockets import open_socket

    people = get_user_model().objects
    ann = await people.aget(email="ann@shop.example")
    async with open_socket(f"sessions/{call.session_id}/", ann) as socket:
        assert await socket.hello()
        await people.filter(pk=ann.pk).aupdate(is_active=False)
        await sync_to_async(tail_check.look)()
        assert await socket.closed() == 4401
    await asyncio.to_thread(tail_check.stop)
    await sync_to_async(connections.close_all)()


if __name__ == "__main__":
    main()
