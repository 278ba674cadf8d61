"""Every error of the project, in one tree with :class:`AllmError` at its root.

A class's docstring is its default message. ``code`` is the stable word that API answers, events and
results carry; ``message`` is safe to show to a user; ``detail`` is for staff only.
"""

from __future__ import annotations

import inspect
from typing import Any


class AllmError(Exception):
    """Something went wrong in allm_django."""

    code = "error"

    def __init__(self, message: str = "", *, detail: str = "", **info: Any) -> None:
        self.message = message or inspect.cleandoc(type(self).__doc__ or "")
        self.detail = detail
        self.info = info
        super().__init__(self.message)


class ConfigurationError(AllmError):
    """A setting is wrong."""

    code = "configuration"


class MissingExtraError(ConfigurationError):
    """An optional dependency is not installed."""

    code = "missing_extra"


class InvalidInputError(AllmError):
    """A value is not allowed here. ``info["field"]`` names it (a dotted path)."""

    code = "invalid_input"

    def __init__(self, message: str = "", *, field: str = "", **info: Any) -> None:
        super().__init__(message, field=field, **info)

    @property
    def field(self) -> str:
        """The dotted path of the offending field, or ``""``."""
        return str(self.info["field"])


class ToolDefinitionError(InvalidInputError):
    """A tool is declared wrongly."""

    code = "tool_definition"


class SchemaError(InvalidInputError):
    """A JSON Schema is not one that this project accepts."""

    code = "schema"


class EncodingError(AllmError):
    """A value can't be written as JSON."""

    code = "encoding_failed"


class HistoryError(InvalidInputError):
    """The messages do not form a valid history."""

    code = "history"


class NotAllowedError(AllmError):
    """You may not do this."""

    code = "not_allowed"


class NotFoundError(AllmError):
    """There is no such object."""

    code = "not_found"


class StateError(AllmError):
    """This is not possible in the present state. ``info["state"]`` names it."""

    code = "state"


class SessionBusyError(StateError):
    """The session is already at work. Wait until it halts, or cancel it."""

    code = "session_busy"


class AwaitingDecisionError(SessionBusyError):
    """The session waits for a decision. Decide the open calls, or cancel the run, before writing on."""

    code = "awaiting_decision"


class ConflictError(StateError):
    """Someone else was faster."""

    code = "conflict"


class AlreadyDecidedError(ConflictError):
    """This call was already decided."""

    code = "already_decided"


class AlreadyApprovedError(ConflictError):
    """You have approved this already. It waits for others now."""

    code = "already_approved"


class VersionMismatchError(ConflictError):
    """The call has changed since you saw it. Look at it again, then decide."""

    code = "version_mismatch"


class KeyReusedError(ConflictError):
    """This idempotency key was used for a different request."""

    code = "key_reused"


class LeaseLostError(AllmError):
    """Another worker has taken over this session; what this one still wanted to write is dropped."""

    code = "lease_lost"


class LoopContextError(AllmError):
    """This function can't be called here."""

    code = "loop_context"


class ProviderError(AllmError):
    """The model's provider did not answer as expected."""

    code = "provider"

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        **info: Any,
    ) -> None:
        super().__init__(message, **info)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after


class StreamBrokenError(ProviderError):
    """The model's answer broke off before it was complete."""

    code = "stream_broken"


class ToolError(AllmError):
    """A tool could not do its work. Returned or raised by a handler; its text reaches the model (T12)."""

    code = "tool_error"


class InvalidArgumentsError(ToolError):
    """The arguments do not fit this tool. Mend them and call again."""

    code = "invalid_arguments"
