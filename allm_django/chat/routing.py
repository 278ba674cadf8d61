"""The addresses of the sockets, for a host project's URLRouter."""

from __future__ import annotations

from django.urls import path

from allm_django.chat.consumer import InboxConsumer, SessionConsumer

websocket_urlpatterns = [
    path("ws/allm/sessions/<str:session_id>/", SessionConsumer.as_asgi()),  # any text: a wrong id is answered 4404
    path("ws/allm/inbox/", InboxConsumer.as_asgi()),
]
