"""The answers' shapes, for the OpenAPI document. ``present`` makes them; nothing is converted here."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s


class PersonShape(s.Serializer[Any]):
    """A person."""

    id = s.CharField()
    name = s.CharField()


class UsageShape(s.Serializer[Any]):
    """What the provider counted; an absent figure is unknown, not 0; one in ``partial`` is "at least"."""

    input_tokens = s.IntegerField(required=False)
    output_tokens = s.IntegerField(required=False)
    cached_tokens = s.IntegerField(required=False)
    reasoning_tokens = s.IntegerField(required=False)
    cost = s.CharField(required=False)
    partial = s.ListField(child=s.CharField(), required=False)  # type: ignore[assignment]  # DRF takes fields off


class FailureShape(s.Serializer[Any]):
    """What went wrong; ``detail`` for staff only."""

    code = s.CharField()
    message = s.CharField()
    retryable = s.BooleanField(required=False)
    detail = s.CharField(required=False)


class RunShape(s.Serializer[Any]):
    """One drive of the loop."""

    id = s.UUIDField()
    kind = s.CharField()
    request_id = s.CharField()
    state = s.CharField()
    halted_reason = s.CharField()
    halted_text = s.CharField()
    turns = s.IntegerField()
    calls_used = s.IntegerField()
    seconds = s.FloatField()
    limit = s.CharField(allow_null=True)
    error = FailureShape(allow_null=True)
    output = s.JSONField(allow_null=True)
    usage = UsageShape()
    created_at = s.DateTimeField()
    ended_at = s.DateTimeField(allow_null=True)


class EngineName(s.Serializer[Any]):
    """A session's engine."""

    name = s.CharField()
    title = s.CharField()
    notice = s.CharField()


class CanShape(s.Serializer[Any]):
    """What the viewer may do with the session now; ``supersede``: a message closes the calls that wait (H09)."""

    reply = s.BooleanField()
    cancel = s.BooleanField()
    resume = s.BooleanField()
    supersede = s.BooleanField()


class SessionShape(s.Serializer[Any]):
    """A session. ``can`` only where one session is asked for."""

    id = s.UUIDField()
    title = s.CharField()
    status = s.CharField()
    owner = PersonShape()
    engine = EngineName()
    cancel_requested = s.BooleanField()
    run = RunShape(allow_null=True)
    usage = UsageShape()
    waiting = s.IntegerField()
    event = s.IntegerField()
    created_at = s.DateTimeField()
    updated_at = s.DateTimeField()
    can = CanShape(required=False)


class MessageShape(s.Serializer[Any]):
    """A message; ``calls`` are the ids of its calls."""

    id = s.UUIDField()
    session = s.UUIDField()
    run = s.UUIDField(allow_null=True)
    position = s.IntegerField()
    role = s.CharField()
    text = s.CharField()
    thinking = s.CharField()
    complete = s.BooleanField()
    streaming = s.BooleanField()
    broken = s.CharField()
    model = s.CharField()
    created_at = s.DateTimeField()
    calls = s.ListField(child=s.UUIDField())


class QuestionShape(s.Serializer[Any]):
    """What a tool asks the session's owner."""

    text = s.CharField()
    options = s.ListField(child=s.CharField())


class ResultShape(s.Serializer[Any]):
    """The model's copy of a result."""

    text = s.CharField()
    truncated = s.BooleanField()


class DecidedShape(s.Serializer[Any]):
    """Who decided."""

    by = s.CharField()
    verb = s.CharField()
    at = s.DateTimeField()
    reason = s.CharField()


class ApprovalShape(s.Serializer[Any]):
    """One of several approvals."""

    by = s.CharField()
    at = s.DateTimeField()


class ProgressShape(s.Serializer[Any]):
    """How far a handler is; null = unknown."""

    fraction = s.FloatField(allow_null=True)
    text = s.CharField()


class ChangeShape(s.Serializer[Any]):
    """What changed of the tool since the call was asked; null: nothing stood or stands there."""

    field = s.CharField()
    label = s.CharField()  # type: ignore[assignment]  # DRF takes fields off the class
    before = s.CharField(allow_null=True)
    after = s.CharField(allow_null=True)


class KnownShape(s.Serializer[Any]):
    """What is known of a call of unknown outcome: when, how often, under which key and in which process it ran."""

    started_at = s.DateTimeField(allow_null=True)
    attempt = s.IntegerField()
    idempotency_key = s.CharField()
    worker = s.CharField()
    host = s.CharField()
    pid = s.IntegerField(allow_null=True)
    seen_at = s.DateTimeField(allow_null=True)


class CardShape(s.Serializer[Any]):
    """A call as the viewer may see it, and what they may do."""

    id = s.UUIDField()
    session = s.UUIDField()
    run = s.UUIDField()
    message = s.UUIDField()
    parent = s.UUIDField(allow_null=True)  # type: ignore[assignment]  # DRF takes fields off the class
    label = s.CharField()  # type: ignore[assignment]
    position = s.IntegerField()
    call_id = s.CharField()
    name = s.CharField()
    title = s.CharField()
    headline = s.CharField()
    arguments = s.JSONField(allow_null=True)
    asked_arguments = s.JSONField(allow_null=True)
    raw_arguments = s.CharField()
    edited = s.BooleanField()
    state = s.CharField()
    outcome = s.CharField()
    version = s.IntegerField()
    manual = s.BooleanField()
    why = s.CharField()
    rule = s.CharField()
    question = QuestionShape(allow_null=True)
    result = ResultShape(allow_null=True)
    error = FailureShape(allow_null=True)
    late_result = s.JSONField(allow_null=True)
    decided = DecidedShape(allow_null=True)
    progress = ProgressShape(allow_null=True)
    attempt = s.IntegerField()
    created_at = s.DateTimeField()
    started_at = s.DateTimeField(allow_null=True)
    finished_at = s.DateTimeField(allow_null=True)
    expires_at = s.DateTimeField(allow_null=True)
    escalates_at = s.DateTimeField(allow_null=True)
    escalated = s.BooleanField()
    quorum = s.IntegerField()
    four_eyes = s.BooleanField()
    approvals = ApprovalShape(many=True)
    schema = s.JSONField()
    description = s.CharField()
    sensitive = s.ListField(child=s.CharField())
    may_decide = s.BooleanField()
    may_answer = s.BooleanField()
    verbs = s.ListField(child=s.CharField())
    waiting_for = s.CharField()
    groups = s.ListField(child=s.CharField())
    escalation_groups = s.ListField(child=s.CharField())
    approved = s.BooleanField()
    asked_by = PersonShape()
    session_title = s.CharField()
    said = s.CharField()
    changed = s.CharField()
    changes = ChangeShape(many=True)
    known = KnownShape(allow_null=True)
    hidden_characters = s.BooleanField()
    may_grant = s.BooleanField()


class GrantShape(s.Serializer[Any]):
    """What someone has allowed beforehand; ``arguments`` masked, with match ``exact`` only."""

    id = s.UUIDField()
    by = s.CharField()
    name = s.CharField()
    title = s.CharField()
    scope = s.CharField()
    match = s.CharField()
    arguments = s.JSONField(allow_null=True)
    pattern = s.JSONField(allow_null=True)
    rule = s.CharField()
    session = s.UUIDField()
    owner = PersonShape()
    uses_left = s.IntegerField(allow_null=True)
    used = s.IntegerField()
    created_at = s.DateTimeField()
    expires_at = s.DateTimeField()
    state = s.CharField()
    revoked_by = s.CharField()


class EventShape(s.Serializer[Any]):
    """One event, as the socket tells it; ``session``, ``messages`` and ``calls`` hold what changed."""

    type = s.CharField()
    n = s.IntegerField()
    kind = s.CharField()
    at = s.DateTimeField()
    session = s.JSONField()
    messages = s.ListField(child=s.JSONField())
    calls = s.ListField(child=s.JSONField())


class DecisionShape(s.Serializer[Any]):
    """A decision on record."""

    number = s.IntegerField()
    by = s.CharField()
    verb = s.CharField()
    version = s.IntegerField()
    outcome = s.CharField()
    reason = s.CharField()
    at = s.DateTimeField()


class ToolName(s.Serializer[Any]):
    """A tool on offer."""

    name = s.CharField()
    title = s.CharField()
    manual = s.BooleanField()


class EngineShape(s.Serializer[Any]):
    """An engine on offer."""

    name = s.CharField()
    title = s.CharField()
    description = s.CharField()
    notice = s.CharField()
    tools = ToolName(many=True)
    examples = s.ListField(child=s.CharField())
    ready = s.BooleanField()


class FieldProblem(s.Serializer[Any]):
    """What is wrong with one field."""

    field = s.CharField()
    message = s.CharField()


class ProblemShape(s.Serializer[Any]):
    """An error (RFC 9457). ``call``: on a conflict, the call as the winner left it."""

    type = s.CharField()
    title = s.CharField()
    status = s.IntegerField()
    detail = s.CharField()
    code = s.CharField()
    field = s.CharField(required=False)
    errors = FieldProblem(many=True, required=False)  # type: ignore[assignment]
    call = CardShape(required=False)
    request_id = s.CharField()


class SessionsAnswer(s.Serializer[Any]):
    """A page of sessions; ``next`` is the cursor of the following one."""

    results = SessionShape(many=True)
    next = s.CharField(allow_null=True)


class SessionAnswer(s.Serializer[Any]):
    """One session."""

    session = SessionShape()


class ResultAnswer(s.Serializer[Any]):
    """A call's whole result, as text; what is not text as JSON."""

    text = s.CharField()


class ThreadAnswer(s.Serializer[Any]):
    """Messages with their calls; ``older``: there are earlier ones."""

    messages = MessageShape(many=True)
    calls = CardShape(many=True)
    older = s.BooleanField()


class DetailAnswer(ThreadAnswer):
    """A session with its last messages; ``event`` is the number to go on from."""

    session = SessionShape()
    event = s.IntegerField()


class MessageAnswer(s.Serializer[Any]):
    """The message that was written; null when the text answered a question."""

    session = SessionShape()
    message = MessageShape(allow_null=True)


class EventsAnswer(s.Serializer[Any]):
    """Events in order; ``last`` is the number to ask on from."""

    events = EventShape(many=True)
    last = s.IntegerField()


class CallsAnswer(s.Serializer[Any]):
    """Open calls, oldest first; ``count`` is how many there are in all."""

    results = CardShape(many=True)
    count = s.IntegerField()


class GrantsAnswer(s.Serializer[Any]):
    """Grants, the latest first."""

    results = GrantShape(many=True)


class GrantAnswer(s.Serializer[Any]):
    """One grant."""

    grant = GrantShape()


class DecideAnswer(s.Serializer[Any]):
    """The call after the decision, and the decision as it stands on record."""

    call = CardShape()
    decision = DecisionShape(allow_null=True)


class EnginesAnswer(s.Serializer[Any]):
    """Engines on offer."""

    results = EngineShape(many=True)
