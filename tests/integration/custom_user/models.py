"""The host project's own user model."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models


class PersonManager(BaseUserManager["Person"]):
    """Makes people by their e-mail address."""

    def create_user(self, email: str, password: str, **values: Any) -> Person:
        """A person with a password."""
        person = self.model(email=email, **values)
        person.set_password(password)
        person.save()
        return person


class Person(AbstractBaseUser, PermissionsMixin):
    """Neither username nor names nor a column for staff."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.EmailField(unique=True)
    is_active = models.BooleanField(default=True)

    objects = PersonManager()

    USERNAME_FIELD = "email"

    class Meta:
        app_label = "custom_user"

    @property
    def is_staff(self) -> bool:
        """Superusers may enter the admin."""
        return bool(self.is_superuser)
