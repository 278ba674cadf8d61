"""The page below a prefix, as in a host project, and the collected static files."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.urls import include, path
from django.views.static import serve

urlpatterns = [
    path("admin/", admin.site.urls),
    path("accounts/", include("django.contrib.auth.urls")),
    path("assistant/", include("allm_django.urls")),
    path("static/<path:path>", serve, {"document_root": settings.STATIC_ROOT}),
]
