"""Who may see or do what; the only way an object reaches a view on a user's behalf (design.md, "Who may").

Host projects subclass :class:`Access` and name their class in ``ALLM["ACCESS"]`` (tenants, object permissions). The
functions below the class ask an instance of it. A rule is a queryset wherever it can be, so that one row and a
thousand cost the same number of queries.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar, cast

from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, Group
from django.db.models import Exists, Model, OuterRef, Q, QuerySet

from allm_django.conf import access_class
from allm_django.core.states import CallState, Outcome
from allm_django.errors import InvalidInputError, NotAllowedError, NotFoundError
from allm_django.logs import get_logger
from allm_django.models import Engine, Grant, Session, Tool, ToolCall
from allm_django.models.call import OPEN_CALLS
from allm_django.store import clock

Person: TypeAlias = AbstractBaseUser | AnonymousUser | None
M = TypeVar("M", bound=Model)

DECIDABLE_STATES = (CallState.PENDING, CallState.UNKNOWN)
PAGE_PERMISSIONS = ("chat", "decide_toolcall", "view_session")

logger = get_logger("allm_django.access")


class Access:
    """The rules. Override a method to change one; all others follow it.

    Inactive and anonymous users may nothing. A superuser has every permission, but is only in the groups that list
    them: approver groups and engine groups bind superusers too.
    """

    def may(self, user: Person, codename: str) -> bool:
        """Whether ``user`` is active and has the permission ``allm_django.<codename>``."""
        has_perm = getattr(user, "has_perm", None)
        return is_active(user) and has_perm is not None and bool(has_perm(f"allm_django.{codename}"))

    def groups(self, user: Person) -> QuerySet[Group]:
        """The groups ``user`` is in; none for user models without groups."""
        manager = getattr(user, "groups", None)
        return cast("QuerySet[Group]", manager.all()) if manager is not None else Group.objects.none()

    def may_use_page(self, user: Person) -> bool:
        """Whether page, API and sockets are open to ``user`` at all: to chat, to decide or to read."""
        return any(self.may(user, codename) for codename in PAGE_PERMISSIONS)

    def may_inspect(self, user: Person) -> bool:
        """Whether ``user`` sees the staff's details of errors."""
        return is_active(user) and bool(getattr(user, "is_staff", False))

    def usable_engines(self, user: Person) -> QuerySet[Engine]:
        """Enabled engines whose groups include ``user`` (no groups: all), for those who may chat."""
        engines = Engine.objects.filter(enabled=True)
        if not self.may(user, "chat"):
            return engines.none()
        listed = Engine.groups.through.objects.filter(engine=OuterRef("pk"))
        return engines.filter(~Exists(listed) | Exists(listed.filter(group__in=self.groups(user))))

    def visible_sessions(self, user: Person) -> QuerySet[Session]:
        """One's own sessions; with ``view_session`` all."""
        if not is_active(user):
            return Session.objects.none()
        return Session.objects.all() if self.may(user, "view_session") else Session.objects.filter(owner=_known(user))

    def rights_to_decide(self, user: Person) -> QuerySet[ToolCall]:
        """Calls, in whatever state, that ``user`` has the right to decide.

        It takes ``decide_toolcall``, and to be in one of the tool's approver groups if it has any, or in one of its
        escalation groups once the call has waited so long (H11). Calls of one's own
        sessions take ``decide_own_toolcall`` *in addition*. Four-eyes, on the version asked or on the tool now,
        forbids the asker whatever they hold (H10). A deleted tool's approvers are no longer known: who may
        configure tools stands in for them.
        """
        calls = ToolCall.objects.all()
        if not self.may(user, "decide_toolcall"):
            return calls.none()
        listed = Tool.approver_groups.through.objects.filter(tool=OuterRef("tool_version__tool"))
        approver = ~Exists(listed) | Exists(listed.filter(group__in=self.groups(user))) | self._escalated_to(user)
        if not self.may(user, "configure_tool"):
            approver &= Q(tool_version__tool__isnull=False)
        four_eyes = Q(tool_version__data__four_eyes=True) | Q(tool_version__tool__four_eyes=True)
        own = Q(session__owner=_known(user))
        mine = own & four_eyes if self.may(user, "decide_own_toolcall") else own
        return calls.filter(approver).exclude(mine)

    def _escalated_to(self, user: Person) -> Q:
        """Calls that have waited so long that a group of ``user`` may decide them, too."""
        listed = Tool.escalation_groups.through.objects.filter(
            tool=OuterRef("tool_version__tool"), group__in=self.groups(user)
        )
        return Q(Exists(listed), escalates_at__lte=clock.now())

    def deciders(self, tool: Tool) -> QuerySet[Any] | None:
        """Active people who may decide calls of ``tool`` from the start; None if the host's user model can't tell."""
        people = get_user_model()._default_manager
        if not hasattr(people, "with_perm"):
            return None
        try:
            able: QuerySet[Any] = people.with_perm("allm_django.decide_toolcall")
        except ValueError:  # several backends: each by its own rules
            return None
        groups = list(tool.approver_groups.all())
        return able.filter(groups__in=groups).distinct() if groups else able

    def decidable_calls(self, user: Person) -> QuerySet[ToolCall]:
        """Calls that wait for a decision ``user`` may make: pending ones, and those of unknown outcome."""
        return self.rights_to_decide(user).filter(OPEN_CALLS, state__in=DECIDABLE_STATES)

    def visible_calls(self, user: Person) -> QuerySet[ToolCall]:
        """Calls of visible sessions, and those that are or were a matter for ``user`` to decide."""
        sessions = self.visible_sessions(user)
        if leaves_nothing_out(sessions):
            return ToolCall.objects.all()
        asked = Q(state__in=DECIDABLE_STATES) | ~Q(decided_verb="") | Q(tool_version__data__manual=True)
        asked |= Q(outcome__in=(Outcome.EXPIRED, Outcome.SUPERSEDED))
        of_session = Exists(sessions.filter(pk=OuterRef("session_id")))
        to_decide = Exists(self.rights_to_decide(user).filter(asked, pk=OuterRef("pk")))
        return ToolCall.objects.filter(of_session | to_decide)

    def visible_grants(self, user: Person) -> QuerySet[Grant]:
        """Grants that ``user`` may see, and revoke: those they gave, those for their own conversations; all with
        ``configure_tool``.
        """
        if not is_active(user):
            return Grant.objects.none()
        if self.may(user, "configure_tool"):
            return Grant.objects.all()
        return Grant.objects.filter(Q(user=_known(user)) | Q(owner=_known(user)))

    def may_decide(self, user: Person, call: ToolCall) -> bool:
        """Whether ``user`` has the right to decide ``call``; whether it is still open is the store's matter."""
        return self.rights_to_decide(user).filter(pk=call.pk).exists()

    def check_write(self, user: Person, session: Session) -> None:
        """Raise unless ``user`` may write on in ``session``: its owner, who may chat with its engine.

        Raises NotFoundError when the session is invisible to ``user``, NotAllowedError otherwise.
        """
        self.check_owner(user, session)
        if not self.usable_engines(user).filter(pk=session.engine_id).exists():
            _refuse("write", user, session, "You may no longer use this session's assistant.")

    def check_owner(self, user: Person, session: Session) -> None:
        """Raise unless ``user`` owns ``session`` and may chat: enough to cancel, and to answer a question."""
        if not owns(user, session):
            self._check_visible(self.visible_sessions(user), user, session)
            _refuse("write", user, session, "Only the session's owner may do this.")
        if not self.may(user, "chat"):
            _refuse("write", user, session, "You may not chat.")

    def check_decide(self, user: Person, call: ToolCall) -> None:
        """Raise NotFoundError if ``user`` may not see ``call``, NotAllowedError if they may not decide it."""
        if not self.may_decide(user, call):
            self._check_visible(self.visible_calls(user), user, call)
            _refuse("decide", user, call, "You may not decide this call.")

    def check_answer(self, user: Person, call: ToolCall) -> None:
        """Raise unless ``user`` may answer the question that ``call`` asks: the session's owner alone."""
        if not owns(user, call.session):
            self._check_visible(self.visible_calls(user), user, call)
            _refuse("answer", user, call, "Only the session's owner may answer this question.")
        self.check_owner(user, call.session)

    def check_try(self, user: Person, tool: Tool) -> None:
        """Raise NotAllowedError unless ``user`` may run ``tool`` by hand (M03).

        It takes ``try_tool``, and to be in one of the tool's approver groups if it has any; what takes more than one
        person in a conversation is not run by one here.
        """
        if not self.may(user, "try_tool"):
            _refuse("try", user, tool, "You may not run tools from here.")
        if tool.four_eyes or tool.quorum > 1:
            _refuse("try", user, tool, "More than one person has to agree to calls of this tool: it can't be tried.")
        groups = tool.approver_groups.all()
        if groups.exists() and not groups.filter(pk__in=self.groups(user)).exists():
            _refuse("try", user, tool, "Only the tool's approver groups may try it.")

    def _check_visible(self, visible: QuerySet[M], user: Person, row: M) -> None:
        if not visible.filter(pk=row.pk).exists():
            _note("see", user, row)
            raise NotFoundError


def leaves_nothing_out(rows: QuerySet[M]) -> bool:
    """Whether ``rows`` are all rows of their table, so that nobody needs to ask row by row."""
    query = rows.query
    return not (query.where or query.combinator or query.is_sliced or query.is_empty() or query.distinct)


def is_active(user: Person) -> bool:
    """Whether ``user`` is logged in and not deactivated."""
    return bool(user is not None and user.is_authenticated and getattr(user, "is_active", False))


def owns(user: Person, session: Session) -> bool:
    """Whether ``user`` is active and the session's owner."""
    return is_active(user) and session.owner_id is not None and session.owner_id == getattr(user, "pk", None)


def engine_for(user: Person, name: str | None) -> Engine:
    """The engine of that name, if ``user`` may use it; without a name the only one there is.

    Raises NotFoundError; InvalidInputError when there are several and none is named.
    """
    engines = usable_engines(user)
    if name is not None:
        return _get(engines, Q(name=name))
    found = list(engines[:2])
    if len(found) > 1:
        raise InvalidInputError("engine: there are several; say which one by its name.", field="engine")
    if not found:
        raise NotFoundError("There is no assistant that you may use.")
    return found[0]


def session_for(user: Person, session_id: object) -> Session:
    """The session, with owner, engine and run. Raises NotFoundError, for missing and invisible alike."""
    return _get(visible_sessions(user).select_related("owner", "engine", "active_run"), _by_id(session_id))


def call_for(user: Person, call_id: object) -> ToolCall:
    """The call, with its session and tool version. Raises NotFoundError, for missing and invisible alike."""
    related = ("session__owner", "session__engine", "message", "tool_version__tool", "decided_by")
    return _get(visible_calls(user).select_related(*related), _by_id(call_id))


def decidable_among(user: Person, calls: Iterable[ToolCall]) -> set[uuid.UUID]:
    """The ids of those of ``calls`` that ``user`` has the right to decide; one query for all."""
    ids = [call.pk for call in calls]
    return set(_access().rights_to_decide(user).filter(pk__in=ids).values_list("pk", flat=True)) if ids else set()


def grant_for(user: Person, grant_id: object) -> Grant:
    """The grant, if ``user`` may see and so revoke it. Raises NotFoundError, for missing and invisible alike."""
    return _get(visible_grants(user), _by_id(grant_id))


def visible_grants(user: Person) -> QuerySet[Grant]:
    """See :meth:`Access.visible_grants`."""
    return _access().visible_grants(user)


def usable_engines(user: Person) -> QuerySet[Engine]:
    """See :meth:`Access.usable_engines`."""
    return _access().usable_engines(user)


def visible_sessions(user: Person) -> QuerySet[Session]:
    """See :meth:`Access.visible_sessions`."""
    return _access().visible_sessions(user)


def visible_calls(user: Person) -> QuerySet[ToolCall]:
    """See :meth:`Access.visible_calls`."""
    return _access().visible_calls(user)


def decidable_calls(user: Person) -> QuerySet[ToolCall]:
    """See :meth:`Access.decidable_calls`."""
    return _access().decidable_calls(user)


def deciders(tool: Tool) -> QuerySet[Any] | None:
    """See :meth:`Access.deciders`."""
    return _access().deciders(tool)


def may(user: Person, codename: str) -> bool:
    """See :meth:`Access.may`."""
    return _access().may(user, codename)


def may_use_page(user: Person) -> bool:
    """See :meth:`Access.may_use_page`."""
    return _access().may_use_page(user)


def may_inspect(user: Person) -> bool:
    """See :meth:`Access.may_inspect`."""
    return _access().may_inspect(user)


def may_decide(user: Person, call: ToolCall) -> bool:
    """See :meth:`Access.may_decide`."""
    return _access().may_decide(user, call)


def check_write(user: Person, session: Session) -> None:
    """See :meth:`Access.check_write`."""
    _access().check_write(user, session)


def check_owner(user: Person, session: Session) -> None:
    """See :meth:`Access.check_owner`."""
    _access().check_owner(user, session)


def check_decide(user: Person, call: ToolCall) -> None:
    """See :meth:`Access.check_decide`."""
    _access().check_decide(user, call)


def check_answer(user: Person, call: ToolCall) -> None:
    """See :meth:`Access.check_answer`."""
    _access().check_answer(user, call)


def check_try(user: Person, tool: Tool) -> None:
    """See :meth:`Access.check_try`."""
    _access().check_try(user, tool)


def _access() -> Access:
    made: Access = access_class()()
    return made


def _known(user: Person) -> Any:
    return user  # an active one: a row of the host's own user model


def _by_id(value: object) -> Q:
    try:
        return Q(pk=value if isinstance(value, uuid.UUID) else uuid.UUID(str(value)))
    except ValueError:
        raise NotFoundError from None


def _get(rows: QuerySet[M], condition: Q) -> M:
    found = rows.filter(condition).first()
    if found is None:
        raise NotFoundError
    return found


def _note(what: str, user: Person, row: Model) -> None:
    # Keys only: names are people's text and could forge a line (security row 40).
    logger.warning("refused: user %r may not %s %s %s", getattr(user, "pk", None), what, row._meta.label, row.pk)


def _refuse(what: str, user: Person, row: Model, words: str) -> None:
    _note(what, user, row)
    raise NotAllowedError(words)
