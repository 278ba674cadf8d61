"""The API's addresses, below wherever the host project includes ``allm_django.urls``."""

from __future__ import annotations

from django.urls import path

from allm_django.api import grants, transfer, views
from allm_django.api.base import NothingHere

urlpatterns = [
    path("sessions/", views.SessionList.as_view(), name="session-list"),
    # Any text as id: a wrong one is answered like a missing one.
    path("sessions/<str:session_id>/", views.SessionDetail.as_view(), name="session-detail"),
    path("sessions/<str:session_id>/messages/", views.MessageList.as_view(), name="message-list"),
    path("sessions/<str:session_id>/events/", views.EventList.as_view(), name="event-list"),
    path("sessions/<str:session_id>/cancel/", views.Cancel.as_view(), name="session-cancel"),
    path("sessions/<str:session_id>/resume/", views.Resume.as_view(), name="session-resume"),
    path("sessions/<str:session_id>/step/", views.Step.as_view(), name="session-step"),
    path("sessions/<str:session_id>/export/", transfer.SessionExport.as_view(), name="session-export"),
    path("sessions/<str:session_id>/transcript/", transfer.SessionTranscript.as_view(), name="session-transcript"),
    path("sessions/<str:session_id>/rename/", views.Rename.as_view(), name="session-rename"),
    path("calls/", views.CallList.as_view(), name="call-list"),
    path("calls/<str:call_id>/", views.CallDetail.as_view(), name="call-detail"),
    path("calls/<str:call_id>/decide/", views.Decide.as_view(), name="call-decide"),
    path("calls/<str:call_id>/result/", transfer.CallResult.as_view(), name="call-result"),
    path("grants/", grants.GrantList.as_view(), name="grant-list"),
    path("grants/<str:grant_id>/", grants.GrantDetail.as_view(), name="grant-detail"),
    path("grants/<str:grant_id>/revoke/", grants.GrantRevoke.as_view(), name="grant-revoke"),
    path("engines/", views.EngineList.as_view(), name="engine-list"),
    path("schema/", views.Schema.as_view(), name="schema"),
    path("<path:rest>", NothingHere.as_view()),
]
