"""Who may: design.md's table, as rules over rows."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from allm_django import access
from allm_django.access import Access, Person
from allm_django.errors import InvalidInputError, NotAllowedError, NotFoundError
from allm_django.models import Session, Tool, ToolCall
from allm_django.store.tools import save_tool
from tests.integration.cast import a_tool, again, an_engine, halted, person, waiting_call

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


class OnlyTitled(Access):
    """A host project's rule: sessions without a title are nobody's."""

    def visible_sessions(self, user: Person) -> QuerySet[Session]:
        return super().visible_sessions(user).exclude(title="")


def test_own_sessions_are_visible_and_those_of_others_are_not() -> None:
    ann, bob = person("ann", "chat"), person("bob", "chat")
    a_tool()
    session = halted(ann, {"order": 1})
    assert access.session_for(ann, session.pk) == session
    with pytest.raises(NotFoundError) as invisible:
        access.session_for(bob, session.pk)
    with pytest.raises(NotFoundError) as missing:
        access.session_for(bob, uuid.uuid4())
    with pytest.raises(NotFoundError) as garbage:
        access.session_for(bob, "x' OR 1=1")
    assert invisible.value.message == missing.value.message == garbage.value.message


def test_view_session_lets_read_any_session_and_write_in_none() -> None:
    ann, auditor = person("ann", "chat"), person("auditor", "view_session", "chat")
    a_tool()
    session = halted(ann, {"order": 1})
    assert access.session_for(auditor, session.pk) == session
    with pytest.raises(NotAllowedError):
        access.check_write(auditor, session)


def test_a_decider_sees_the_call_but_not_its_session() -> None:
    ann, decider = person("ann", "chat"), person("decider", "decide_toolcall")
    a_tool()
    call = waiting_call(ann)
    assert access.call_for(decider, call.pk) == call
    assert list(access.decidable_calls(decider)) == [call]
    with pytest.raises(NotFoundError):
        access.session_for(decider, call.session_id)


def test_a_call_that_was_decided_stays_visible_to_deciders() -> None:
    ann, decider = person("ann", "chat"), person("decider", "decide_toolcall")
    a_tool()
    call = waiting_call(ann)
    ToolCall.objects.filter(pk=call.pk).update(state="settled", outcome="expired")
    assert access.call_for(decider, call.pk) == call
    assert not access.decidable_calls(decider).exists()


def test_an_automatic_call_is_no_matter_for_deciders() -> None:
    ann, decider = person("ann", "chat"), person("decider", "decide_toolcall")
    tool = a_tool()
    call = waiting_call(ann)
    version = call.tool_version
    assert version is not None
    version.data["manual"] = False
    version.save()
    Tool.objects.filter(pk=tool.pk).update(manual=False)
    ToolCall.objects.filter(pk=call.pk).update(state="settled", outcome="succeeded")
    with pytest.raises(NotFoundError):
        access.call_for(decider, call.pk)


@pytest.mark.parametrize(
    ("permissions", "groups", "tool_groups", "allowed"),
    [
        (["decide_toolcall"], [], [], True),
        (["decide_toolcall"], ["finance"], ["finance", "legal"], True),
        (["decide_toolcall"], ["sales"], ["finance"], False),
        (["decide_toolcall"], [], ["finance"], False),
        ([], ["finance"], ["finance"], False),
        (["decide_own_toolcall"], ["finance"], ["finance"], False),
        (["chat", "view_session"], ["finance"], ["finance"], False),
    ],
)
def test_deciding_takes_the_permission_and_one_of_the_tools_groups(
    permissions: list[str], groups: list[str], tool_groups: list[str], allowed: bool
) -> None:
    ann, other = person("ann", "chat"), person("other", *permissions, groups=groups)
    a_tool(groups=tool_groups)
    call = waiting_call(ann)
    assert access.may_decide(other, call) is allowed
    assert access.decidable_among(other, [call]) == ({call.pk} if allowed else set())
    assert list(access.decidable_calls(other)) == ([call] if allowed else [])


def test_a_superuser_outside_the_approver_groups_does_not_decide() -> None:
    root = User.objects.create_superuser("root")
    a_tool(groups=["finance"])
    assert not access.may_decide(root, waiting_call(person("ann", "chat")))


@pytest.mark.parametrize(
    ("permissions", "four_eyes", "allowed"),
    [
        (["decide_toolcall"], False, False),
        (["decide_own_toolcall"], False, False),
        (["decide_toolcall", "decide_own_toolcall"], False, True),
        (["decide_toolcall", "decide_own_toolcall"], True, False),
    ],
)
def test_own_calls_take_a_further_permission_and_four_eyes_forbids_them(
    permissions: list[str], four_eyes: bool, allowed: bool
) -> None:
    ann = person("ann", "chat", *permissions)
    a_tool(four_eyes=four_eyes)
    call = waiting_call(ann)
    assert access.may_decide(ann, call) is allowed
    if not allowed:
        with pytest.raises(NotAllowedError):
            access.check_decide(ann, call)


def test_four_eyes_switched_on_later_binds_calls_that_wait_already() -> None:
    ann = person("ann", "chat", "decide_toolcall", "decide_own_toolcall")
    tool = a_tool()
    call = waiting_call(ann)
    tool.four_eyes = True
    save_tool(tool)
    assert not access.may_decide(ann, call)


def test_four_eyes_switched_off_later_does_not_free_calls_that_wait() -> None:
    ann = person("ann", "chat", "decide_toolcall", "decide_own_toolcall")
    tool = a_tool(four_eyes=True)
    call = waiting_call(ann)
    tool.four_eyes = False
    save_tool(tool)
    assert not access.may_decide(ann, call)


def test_calls_of_a_deleted_tool_are_for_those_who_configure_tools() -> None:
    decider, admin = person("decider", "decide_toolcall"), person("admin", "decide_toolcall", "configure_tool")
    tool = a_tool()
    call = waiting_call(person("ann", "chat"))
    tool.delete()
    assert not access.may_decide(decider, call)
    assert access.may_decide(admin, call)


def test_a_strangers_decision_is_answered_like_a_call_that_is_not_there() -> None:
    a_tool(groups=["finance"])
    call = waiting_call(person("ann", "chat"))
    with pytest.raises(NotFoundError):
        access.check_decide(person("stranger", "decide_toolcall"), call)


def test_inactive_and_anonymous_people_may_nothing() -> None:
    a_tool()
    gone = person("gone", "chat", "decide_toolcall", "decide_own_toolcall", "view_session")
    call = waiting_call(gone)
    gone.is_active = False
    gone.save()
    for user in (again(gone), AnonymousUser(), None):
        assert not access.may_use_page(user)
        assert not access.visible_sessions(user).exists()
        assert not access.visible_calls(user).exists()
        assert not access.usable_engines(user).exists()
        assert not access.may_decide(user, call)
        with pytest.raises(NotFoundError):
            access.check_write(user, call.session)


def test_the_owner_alone_answers_a_question() -> None:
    ann, auditor = person("ann", "chat"), person("auditor", "chat", "view_session", "decide_toolcall")
    a_tool()
    call = waiting_call(ann)
    access.check_answer(ann, call)
    with pytest.raises(NotAllowedError):
        access.check_answer(auditor, call)
    with pytest.raises(NotFoundError):
        access.check_answer(person("stranger", "chat"), call)


def test_engines_are_for_their_groups_or_for_all() -> None:
    an_engine("open")
    an_engine("sales", groups=["sales", "all"])
    an_engine("off", enabled=False)
    seller = person("seller", "chat", groups=["sales", "all"])
    assert [row.name for row in access.usable_engines(seller)] == ["open", "sales"]
    assert [row.name for row in access.usable_engines(person("ann", "chat"))] == ["open"]
    assert not access.usable_engines(person("reader", "view_session")).exists()


def test_an_engine_need_not_be_named_when_there_is_one_only() -> None:
    ann = person("ann", "chat")
    with pytest.raises(NotFoundError):
        access.engine_for(ann, None)
    engine = an_engine()
    assert access.engine_for(ann, None) == engine
    an_engine("second")
    with pytest.raises(InvalidInputError, match="engine"):
        access.engine_for(ann, None)
    assert access.engine_for(ann, "second").name == "second"
    with pytest.raises(NotFoundError):
        access.engine_for(ann, "third")


def test_writing_ends_with_the_right_to_the_engine_but_stopping_does_not() -> None:
    ann = person("ann", "chat")
    a_tool()
    session = halted(ann, {"order": 1})
    session.engine.enabled = False
    session.engine.save()
    with pytest.raises(NotAllowedError):
        access.check_write(ann, session)
    access.check_owner(ann, session)


def test_writing_ends_with_the_permission_to_chat() -> None:
    ann = person("ann", "chat")
    a_tool()
    session = halted(ann, {"order": 1})
    ann.user_permissions.clear()
    with pytest.raises(NotAllowedError):
        access.check_write(again(ann), session)


def test_a_host_project_may_decide_otherwise(settings: Any) -> None:
    ann = person("ann", "chat")
    a_tool()
    session = halted(ann, {"order": 1})
    settings.ALLM = {"ACCESS": f"{__name__}.OnlyTitled"}
    assert access.session_for(ann, session.pk) == session
    Session.objects.filter(pk=session.pk).update(title="")
    with pytest.raises(NotFoundError):
        access.session_for(ann, session.pk)
    assert not access.visible_calls(ann).exists()


def test_a_refused_attempt_is_on_record_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    ann, mallory = person("ann", "chat"), person("mallory\nallowed: all", "chat")
    a_tool()
    call = waiting_call(ann)
    with pytest.raises(NotFoundError):
        access.check_decide(mallory, call)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "allm_django.access"]
    assert str(call.pk) in line
    assert "\n" not in line


def test_the_number_of_queries_does_not_grow_with_the_calls() -> None:
    decider = person("decider", "decide_toolcall", groups=["finance"])
    a_tool(groups=["finance"])
    ann = person("ann", "chat")

    def queries() -> int:
        user = again(decider)
        with CaptureQueriesContext(connection) as seen:
            calls = list(access.decidable_calls(user))
            assert access.decidable_among(user, calls) == {call.pk for call in calls}
        return len(seen)

    waiting_call(ann)
    before = queries()
    for _ in range(5):
        waiting_call(ann)
    assert queries() == before
