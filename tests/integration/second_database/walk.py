"""One walk through loop, runner, API and admin in that project, in a process of its own."""

from __future__ import annotations

import os
import sys
from io import StringIO

import django


def main() -> None:
    """Set up, walk, say so."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.integration.second_database.settings"
    django.setup()
    from django.core.management import call_command
    from django.db import connections

    for alias in connections:
        call_command("migrate", database=alias, verbosity=0)
    assert not [name for name in connections["default"].introspection.table_names() if name.startswith("allm_")]
    call_command("check", databases=list(connections), fail_level="WARNING", stdout=StringIO())
    call_command("sync_tools", verbosity=0)
    decide()
    run()
    sys.stdout.write("walked\n")


def decide() -> None:
    """Ann asks, Kim decides, and the admin shows every list."""
    from django.contrib import admin
    from django.test import override_settings
    from django.urls import reverse

    from allm_django.testing import ScriptedModel, drive, say
    from tests.integration.cast import QUIET, Browser, a_tool, person, waiting_call, without_runner

    ann, kim = person("ann", "chat"), person("kim", "decide_toolcall", is_staff=True, is_superuser=True)
    with without_runner(), override_settings(ALLM=QUIET):
        a_tool()
        call = waiting_call(ann)
        assert Browser(kim).decide(call, "reject", reason="No.").status_code == 200
        assert drive(call.session, ScriptedModel([say("Never mind.")])).status == "completed"
        assert Browser(ann).get(f"sessions/{call.session_id}/export/").status_code == 200
        for model in admin.site._registry:
            if model._meta.app_label == "allm_django":
                address = reverse(f"admin:allm_django_{model._meta.model_name}_changelist")
                assert Browser(kim).client.get(address).status_code == 200, address


def run() -> None:
    """The runner takes a conversation up by itself."""
    from django.contrib.auth.models import User

    from allm_django import runtime, sessions
    from allm_django.testing import ScriptedModel, say
    from tests.integration.cast import an_engine

    model = ScriptedModel([say("Hello.")])
    session = sessions.start(an_engine("runner", model=model.id), user=User.objects.get(username="ann"), text="Hi")
    assert sessions.wait(session, timeout=30).status == "completed"
    runtime.shutdown()


if __name__ == "__main__":
    main()
