"""Which logins of open sockets still hold: login session there, user active, password unchanged (security row 23)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import HASH_SESSION_KEY, get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.signed_cookies import SessionStore as SignedCookies
from django.utils import timezone
from django.utils.crypto import constant_time_compare


@dataclass(frozen=True, slots=True)
class Login:
    """By what a socket is logged in. Without ``store`` it is not by a login session but, say, by a token."""

    user_id: Hashable
    store: type[SessionBase] | None = None
    key: str = ""
    auth_hash: str = ""


def login_of(user: AbstractBaseUser, session: Any) -> Login:
    """The login of ``user`` with the login session of an ASGI scope (None: there is none)."""
    if session is None or not session.session_key:
        return Login(user.pk)
    # __class__, as the scope holds a lazy object around the store.
    return Login(user.pk, session.__class__, session.session_key, session.get(HASH_SESSION_KEY, ""))


def standing_users(logins: Collection[Login]) -> dict[Login, AbstractBaseUser]:
    """The logins that still hold, each with its user as it is now. Two queries, however many logins."""
    users = get_user_model()._default_manager.in_bulk({login.user_id for login in logins})
    live = _live_keys(logins)
    return {
        login: users[login.user_id]
        for login in logins
        if login.user_id in users and (login.store is None or login.key in live) and _holds(login, users[login.user_id])
    }


def _holds(login: Login, user: AbstractBaseUser) -> bool:
    if not getattr(user, "is_active", False):
        return False
    if login.store is None or not hasattr(user, "get_session_auth_hash"):
        return True
    return any(constant_time_compare(login.auth_hash, current) for current in _hashes(user))


def _hashes(user: AbstractBaseUser) -> Iterator[str]:
    yield user.get_session_auth_hash()
    yield from user.get_session_auth_fallback_hash()


def _live_keys(logins: Iterable[Login]) -> set[str]:
    keys: dict[type[SessionBase], set[str]] = {}
    for login in logins:
        if login.store is not None:
            keys.setdefault(login.store, set()).add(login.key)
    return {key for store, found in keys.items() for key in _live_in(store, found)}


def _live_in(store: type[SessionBase], keys: set[str]) -> Iterable[str]:
    if model := getattr(store, "get_model_class", None):
        rows = model()._default_manager.filter(session_key__in=keys, expire_date__gt=timezone.now())
        return set(rows.values_list("session_key", flat=True))
    if issubclass(store, SignedCookies):
        return keys  # all of it is in the cookie: only the user's own state can end it
    return {key for key in keys if store().exists(key)}
