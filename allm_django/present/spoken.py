"""What the loop and the store say to people, in their language.

Rows, events and errors carry these texts in English, whoever will read them; whoever shows them looks them up here.
A text with {places} stands for all that fit it. What is not listed is shown as it is.
"""

from __future__ import annotations

import re
from functools import cache

from django.utils.translation import gettext, gettext_noop

PLACE = re.compile(r"\{(\w+)\}")
SPOKEN = (
    # why a call waits, or not
    gettext_noop("this tool always asks first"),
    gettext_noop("every call in this conversation asks first"),
    gettext_noop("this tool needs no decision"),
    gettext_noop("terminal tool"),
    gettext_noop("the model looked tools up"),
    gettext_noop("step “{label}”: {why}"),
    # why a run stands still
    gettext_noop("Stopped."),
    gettext_noop("Something went wrong. You can try again."),
    gettext_noop("Waiting for your answer."),
    gettext_noop("A tool failed, and this assistant stops on that. You can go on."),
    gettext_noop("A tool may or may not have taken effect. Someone must look."),
    gettext_noop("Waiting for a decision."),
    gettext_noop("Done."),
    gettext_noop("Stopped as this assistant is set up to."),
    gettext_noop("The most turns for one message were used up. Go on, and it starts counting anew."),
    gettext_noop("A limit of this assistant was reached. You can go on."),
    gettext_noop("One step is done. You can go on."),
    # what became of a call
    gettext_noop("The person cancelled. This call was not run."),
    gettext_noop("The person wrote on instead of deciding. This call was not run."),
    gettext_noop("Nobody decided in time. This call was not run."),
    gettext_noop("This tool is no longer available as it was offered. The call was not run."),
    gettext_noop(
        "The person cancelled while this call was running. It was stopped and may have done part of its work."
    ),
    # what is refused
    gettext_noop("You may not do this."),
    gettext_noop("There is no such object."),
    gettext_noop("The session is already at work. Wait until it halts, or cancel it."),
    gettext_noop("The session waits for a decision. Decide the open calls, or cancel the run, before writing on."),
    gettext_noop("Someone else was faster."),
    gettext_noop("This call was already decided."),
    gettext_noop("You have approved this already. It waits for others now."),
    gettext_noop("The call has changed since you saw it. Look at it again, then decide."),
    gettext_noop("This idempotency key was used for a different request."),
    gettext_noop("The model's answer broke off before it was complete."),
    gettext_noop("The model's provider did not answer as expected."),
    gettext_noop("There is no key for {provider}. Set the environment variable {variable}."),
    gettext_noop("There is no assistant that you may use."),
    gettext_noop("You may no longer use this session's assistant."),
    gettext_noop("Only the session's owner may do this."),
    gettext_noop("You may not chat."),
    gettext_noop("You may not decide this call."),
    gettext_noop("Only the session's owner may answer this question."),
    gettext_noop("This call was already settled by {who} ({verb}); it is {state} now."),
    gettext_noop("This call was already settled; it is {state} now."),
    gettext_noop("There is no tool that could run this; answer by hand or reject."),
    gettext_noop("The tool was changed and these arguments no longer fit. {problem}"),
    gettext_noop("A call's outcome is unknown; someone must settle it first."),
    gettext_noop("There is nothing to go on from; write a message first."),
    gettext_noop("The assistant has answered; write a message to go on."),
    gettext_noop("Nothing is running that could be cancelled."),
    gettext_noop("The engine {name} is switched off."),
    gettext_noop("{n} of your sessions are at work already. Wait for one to halt, or stop one."),
    gettext_noop("Something went wrong on the server. If you report it, name the request id."),
)


def spoken() -> dict[str, str]:
    """The texts that differ in the language of the request, for the page's scripts."""
    return {text: translated for text in SPOKEN if (translated := gettext(text)) != text}


def said(text: str) -> str:
    """``text`` in the language of the request, if it is one of :data:`SPOKEN`."""
    for pattern, template in _patterns():
        if found := pattern.fullmatch(text):
            return _filled(gettext(template), found.groupdict())
    return text


def _filled(template: str, places: dict[str, str]) -> str:
    return PLACE.sub(lambda match: said(places.get(match[1], "")), template)


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(_pattern(text), re.S), text) for text in SPOKEN]


def _pattern(text: str) -> str:
    parts = PLACE.split(text)
    return "".join(f"(?P<{part}>.+?)" if place % 2 else re.escape(part) for place, part in enumerate(parts))
