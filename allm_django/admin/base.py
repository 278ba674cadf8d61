"""What all our admins share: writes go to the store, reads through access, lists stay fast at a million rows (M05)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.functional import cached_property
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from allm_django import access
from allm_django.admin.display import link_to
from allm_django.admin.search import id_range, people_named
from allm_django.errors import AllmError

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    AnyPaginator = Paginator[Any]
else:
    ModelAdmin = admin.ModelAdmin
    AnyPaginator = Paginator


class BoundedPaginator(AnyPaginator):
    """Counts no further than the rows anyone pages through; what lies beyond is found by search and filters."""

    MOST = 5_000

    @cached_property
    def count(self) -> int:
        """The number of rows, at most :attr:`MOST`."""
        rows = cast("QuerySet[Any]", self.object_list)
        return rows.order_by()[: self.MOST].count()

    @property
    def is_cut(self) -> bool:
        """Whether there may be more rows than are counted."""
        return self.count >= self.MOST


class ToldAdmin(ModelAdmin):
    """Turns our own errors into messages on the page that was left, never into a traceback."""

    class Media:
        css: ClassVar[Mapping[str, Iterable[str]]] = {
            "all": ["allm_django/admin/admin.css", "allm_django/admin/charts.css"]
        }

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Django's, with errors told."""
        return self._told(request, super().changeform_view, *args, **kwargs)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Django's, with errors told."""
        return self._told(request, super().changelist_view, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Django's, with errors told."""
        return self._told(request, super().delete_view, *args, **kwargs)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Django's, but whoever may not look is told so before they learn whether there is such a row (row 27)."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return super().history_view(request, object_id, extra_context)

    def _told(self, request: HttpRequest, view: Callable[..., HttpResponse], *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except AllmError as error:
            if request.method != "POST":
                raise
            self.message_user(request, error.message, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())


class StoreAdmin(ToldAdmin):
    """Every save, delete and action goes to the store: subclasses say how in ``write`` and ``remove``."""

    def write(self, request: HttpRequest, obj: Any, related: Mapping[str, Iterable[Any]]) -> None:
        """Write ``obj``; ``related`` holds what the form chose for its many-to-many fields."""
        raise NotImplementedError

    def remove(self, obj: Any) -> None:
        """Delete ``obj``."""
        raise NotImplementedError

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Give the object and its related ones to the store, in one."""
        many = {field.name for field in self.opts.many_to_many} & set(form.cleaned_data)
        self.write(request, obj, {name: form.cleaned_data[name] for name in many})

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Nothing: ``save_model`` did it."""

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Give it to the store."""
        self.remove(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """One by one, so that each is checked."""
        for obj in queryset:
            self.remove(obj)


class LightChangeList(ChangeList):
    """Leaves the long columns of a list in the database."""

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        """Django's, without the admin's ``list_defer``."""
        return super().get_queryset(request, *args, **kwargs).defer(*self.model_admin.list_defer)  # type: ignore[attr-defined]


class ReadOnlyAdmin(ToldAdmin):
    """Rows that the loop writes: to be looked at only, by those who may see the session they belong to."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # they count all rows
    list_per_page = 50
    list_max_show_all = 200
    sortable_by = ()
    actions: Sequence[Any] | None = None
    search_fields: ClassVar[tuple[str, ...]] = ("pk",)  # for the box; get_search_results does the work
    search_help_text = _("Start of an id (8 digits or more), or start of the owner's name.")
    list_defer: ClassVar[tuple[str, ...]] = ()
    id_fields: ClassVar[tuple[str, ...]] = ("id", "session__id")
    owner_field = "session__owner"

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """A page to read: nothing may be sent to it, of rows that are there or not."""
        if request.method == "POST":
            raise PermissionDenied
        return super().changeform_view(request, *args, **kwargs)

    @admin.display(description=_("session"))
    def session_link(self, row: Any) -> SafeString | str:
        """The session it belongs to."""
        return link_to(row.session)

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """``rows`` that the person may see. Subclasses ask access."""
        raise NotImplementedError

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """What the person may see."""
        return self.visible(request, super().get_queryset(request))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """The light one."""
        return LightChangeList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """The row, marked with who looks at it: masking hangs on that."""
        obj: Any = super().get_object(request, object_id, from_field)
        if obj is not None:
            obj.viewer = request.user
        return obj

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """By the start of an id if it looks like one, else by the start of the owner's name; both use an index."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if (bounds := id_range(term)) is not None:
            wanted = queryset.none()
            for field in self.id_fields:
                wanted = wanted | queryset.filter(**{f"{field}__range": bounds})
            return wanted, False
        return queryset.filter(**{f"{self.owner_field}__in": people_named(term)}), False


def of_visible_sessions(viewer: access.Person, rows: QuerySet[Any]) -> QuerySet[Any]:
    """``rows`` whose session ``viewer`` may see; asked row by row, so that a page reads no more rows than it shows."""
    sessions = access.visible_sessions(viewer)
    return (
        rows if access.leaves_nothing_out(sessions) else rows.filter(Exists(sessions.filter(pk=OuterRef("session_id"))))
    )
