"""The rows. Writing them is ``store``'s alone."""

from allm_django.models.approval import Approval
from allm_django.models.call import PendingCall, ToolCall
from allm_django.models.decision import Decision
from allm_django.models.engine import Engine
from allm_django.models.event import Event
from allm_django.models.grant import Grant
from allm_django.models.message import Message, MessageChunk
from allm_django.models.notice import Delivery, MailSubscription, Webhook
from allm_django.models.rule import Rule, RuleChange
from allm_django.models.run import Run
from allm_django.models.session import IdempotencyKey, Overview, Session
from allm_django.models.tombstone import Tombstone
from allm_django.models.tool import Tool, ToolVersion
from allm_django.models.worker import Worker

__all__ = [
    "Approval",
    "Decision",
    "Delivery",
    "Engine",
    "Event",
    "Grant",
    "IdempotencyKey",
    "MailSubscription",
    "Message",
    "MessageChunk",
    "Overview",
    "PendingCall",
    "Rule",
    "RuleChange",
    "Run",
    "Session",
    "Tombstone",
    "Tool",
    "ToolCall",
    "ToolVersion",
    "Webhook",
    "Worker",
]
