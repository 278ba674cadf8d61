"""What the stateless use gives back: the fold of the stream of events (L01)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from allm_django.core import events
from allm_django.core.history import messages_from_json, recipe_of
from allm_django.core.states import HaltedReason
from allm_django.core.streaks import Used
from allm_django.core.types import JSON, JSONObject, Message, ToolCall, Usage
from allm_django.loop.steps import closed


@dataclass(frozen=True, slots=True)
class StepResult:
    """One trip round the loop. ``done``: the loop would not go on by itself; ``halted_reason`` says why.

    ``tool_results`` are tool messages in the calls' order; pending calls have none yet.
    """

    messages: tuple[Message, ...]
    message: Message | None
    tool_results: tuple[Message, ...] = ()
    done: bool = False
    halted_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    metadata: JSONObject = field(default_factory=dict)
    used: Used = field(default_factory=Used, compare=False)

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.message.content if self.message else ""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that the model made in this step."""
        return self.message.calls if self.message else ()


@dataclass(frozen=True, slots=True)
class ChatResult:
    """The end of a loop. ``messages`` is the whole conversation, ready to be sent again (L08).

    ``text`` is that of the last answer which this loop got. ``metadata["manual_tool_calls"]`` lists the pending
    ToolCalls in order (L04); ``metadata["questions"]`` all open questions; ``metadata["error"]`` what went wrong,
    ``metadata["limit"]`` which bound was reached, ``metadata["text"]`` that in words. ``used`` goes to the call that
    resumes this loop, so that its limits go on counting (L10). ``output`` is the structured answer
    (L13), or the arguments of the terminal tool (L11).
    """

    messages: tuple[Message, ...]
    text: str = ""
    halted_reason: str = ""
    steps: tuple[StepResult, ...] = ()
    usage: Usage = field(default_factory=Usage)
    pending_question: str | None = None
    pending_tool_call_id: str | None = None
    metadata: JSONObject = field(default_factory=dict)
    used: Used = field(default_factory=Used, compare=False)
    output: JSON = None

    @property
    def halted(self) -> bool:
        """Whether the loop stopped for another reason than being done."""
        return self.halted_reason != HaltedReason.COMPLETED


class Fold:
    """Folds events into a ChatResult: ``add`` each, then ``result``."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = closed(messages)
        self.steps: list[StepResult] = []
        self.pending: list[ToolCall] = []
        self.questions: list[JSONObject] = []
        self.unplaced: tuple[Usage, ...] = ()  # of answers that are no steps
        self.halt: events.RunHalted | None = None

    def add(self, event: events.StreamEvent) -> None:
        """Take one event."""
        match event:
            case events.MessageBroken():
                if event.message.content or event.message.thinking:
                    self.messages.append(event.message)
                    self.unplaced += (Usage(),)
            case events.StepCompleted():
                self.messages += [event.message, *event.results]
                usage = event.message.usage or Usage()
                self.steps.append(StepResult(tuple(self.messages), event.message, event.results, usage=usage))
            case events.AnswerFormatted():
                self.unplaced += (event.usage,)
            case events.CallPending():
                self.pending.append(event.call)
            case events.CallAsked():
                self.questions.append({"id": event.call.id, "text": event.question, "options": list(event.options)})
            case events.RunHalted():
                self.halt = event
            case _:
                pass

    def result(self) -> ChatResult:
        """The result of all that was added."""
        asked = [call.id for step in self.steps for call in step.tool_calls]
        self.questions.sort(key=lambda question: asked.index(recipe_of(question["id"]) or question["id"]))
        first = self.questions[0] if self.questions else None
        return ChatResult(
            tuple(self.messages),
            self.steps[-1].text if self.steps else "",
            self.halt.reason if self.halt else "",
            tuple(self.steps),
            sum((*(step.usage for step in self.steps), *self.unplaced), Usage()),
            first["text"] if first else None,
            first["id"] if first else None,
            self._metadata(),
            self.halt.used if self.halt else Used(),
            self.halt.output if self.halt else None,
        )

    def _metadata(self) -> JSONObject:
        metadata: JSONObject = dict(self.halt.metadata) if self.halt else {}
        if self.halt and self.halt.error:
            metadata["error"] = self.halt.error
        metadata["manual_tool_calls"] = list(self.pending)
        if self.questions:
            metadata["questions"] = self.questions
        return metadata


def fold(messages: Sequence[Message], stream: Iterable[events.StreamEvent]) -> ChatResult:
    """The result that a stream of events over ``messages`` amounts to."""
    folded = Fold(messages_from_json(messages))
    for event in stream:
        folded.add(event)
    return folded.result()
