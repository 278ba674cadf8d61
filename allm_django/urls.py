"""The page and the API: ``path("assistant/", include("allm_django.urls"))``."""

from __future__ import annotations

from django.urls import include, path

from allm_django.chat import views

app_name = "allm_django"
urlpatterns = [
    path("", views.page, name="page"),
    path("<uuid:session_id>/", views.page, name="session"),
    path("api/", include("allm_django.api.urls")),
]
