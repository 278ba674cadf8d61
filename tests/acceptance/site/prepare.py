"""Make the database of the browser tests' site: ``python -m tests.acceptance.site.prepare``.

Prints each person's login cookie, so that no test has to fill in the form.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import django

django.setup()

from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402

from allm_django.models import Engine, Tool  # noqa: E402
from allm_django.store.engines import save_engine  # noqa: E402
from allm_django.store.tools import save_tool  # noqa: E402

PEOPLE = {
    "ann": ("Ann Archer", ["chat"]),
    "ben": ("Ben Okafor", ["chat", "decide_toolcall", "view_session"]),
    "kim": ("Kim Berger", ["decide_toolcall", "view_session"]),
    "sam": ("Sam Solo", ["chat", "decide_toolcall", "decide_own_toolcall", "view_session"]),
    "eve": ("Eve Nobody", []),
    "ada": ("Ada Keeper", ["view_tool", "change_tool", "add_tool", "configure_tool", "try_tool"]),
}


def make_person(username: str, name: str, codenames: list[str]) -> str:
    """Someone with these permissions of ours, logged in; the cookie."""
    first, last = name.split()
    user = User.objects.create_user(username, password="secret", first_name=first, last_name=last)
    User.objects.filter(pk=user.pk).update(is_staff="configure_tool" in codenames)
    rights = Permission.objects.filter(content_type__app_label="allm_django", codename__in=codenames)
    user.user_permissions.set(rights)
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


if __name__ == "__main__":
    call_command("migrate", verbosity=0)
    call_command("sync_tools", verbosity=0)
    cookies = {username: make_person(username, *about) for username, about in PEOPLE.items()}
    till = Tool.objects.get(name="pay_out")
    till.quorum, till.four_eyes = 2, True
    till.expiry, till.escalate_after = timedelta(minutes=45), timedelta(minutes=30)
    groups = {name: Group.objects.create(name=name) for name in ("Tills", "Managers")}
    groups["Tills"].user_set.set(User.objects.filter(username__in=("ben", "kim", "sam")))
    save_tool(till, approver_groups=[groups["Tills"]], escalation_groups=[groups["Managers"]])
    notify = Tool.objects.get(name="notify")
    notify.grants = True
    save_tool(notify)
    engine = Engine(name="desk", title="The desk", model="script:scenes", notice="Follows a script")
    engine.examples = ["lookup 1042"]
    engine.max_turns = 100
    save_engine(engine)
    json.dump(cookies, sys.stdout)
