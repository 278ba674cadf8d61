"""Rows that are written once: the ORM refuses to change or delete them (security row 41)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from django.db import models

from allm_django.errors import StateError

M = TypeVar("M", bound=models.Model)


def _refuse(what: str) -> NoReturn:
    raise StateError(f"{what} are append-only: they can't be changed or deleted.", state="written")


class AppendOnlyQuerySet(models.QuerySet[M]):
    """A queryset that reads and inserts only."""

    def update(self, **kwargs: Any) -> int:
        """Refused."""
        _refuse(str(self.model._meta.verbose_name_plural))

    def delete(self) -> tuple[int, dict[str, int]]:
        """Refused."""
        _refuse(str(self.model._meta.verbose_name_plural))

    def bulk_create(self, objs: Iterable[M], *args: Any, **kwargs: Any) -> list[M]:
        """Insert; to write over rows that conflict is refused."""
        if len(args) > 1 or any(kwargs.get(name) for name in ("ignore_conflicts", "update_conflicts")):
            _refuse(str(self.model._meta.verbose_name_plural))
        return super().bulk_create(objs, *args, **kwargs)

    def bulk_update(self, *args: Any, **kwargs: Any) -> int:
        """Refused."""
        _refuse(str(self.model._meta.verbose_name_plural))


class AppendOnlyManager(models.Manager[M]):
    """Hands out querysets that read and insert only."""

    def get_queryset(self) -> AppendOnlyQuerySet[M]:
        """All rows, to be read."""
        return AppendOnlyQuerySet(self.model, using=self._db)


class AppendOnlyModel(models.Model):
    """A row that is inserted once. Raises StateError on any later save or delete."""

    objects: ClassVar[AppendOnlyManager[Self]] = AppendOnlyManager()

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert; a second save is refused."""
        if not self._state.adding:
            _refuse(str(self._meta.verbose_name_plural))
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Refused."""
        _refuse(str(self._meta.verbose_name_plural))
