"""Django signals: what happened to stored sessions, sent once the outermost transaction has committed (L19, H15).

Each has as ``sender`` the model of the row that it is about, as ``id`` that row's primary key, and the ``session_id``;
some have a word or two more. None has arguments, results or text: read the row. docs/reference/signals.md.
"""

from __future__ import annotations

from django.dispatch import Signal

session_started = Signal()
run_started = Signal()
run_halted = Signal()
run_ended = Signal()
message_completed = Signal()
call_pending = Signal()
call_asked = Signal()
call_escalated = Signal()
call_decided = Signal()
call_settled = Signal()
