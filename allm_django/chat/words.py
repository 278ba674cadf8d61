"""The words that the page's scripts show, in the language of the request. ``{braces}`` are filled in by the scripts."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

_PAGE = {
    "new_chat": _("New chat"),
    "untitled": _("Untitled"),
    "loading": _("Loading…"),
    "older": _("Show older messages"),
    "copy": _("Copy"),
    "copied": _("Copied"),
    "copy_failed": _("Copying failed"),
    "close": _("Close"),
    "cancel": _("Cancel"),
    "retry": _("Try again"),
    "go_on": _("Continue"),
    "table": _("Table"),
    "thinking": _("Reasoning"),
    "role_user": _("You said"),
    "role_assistant": _("The assistant said"),
    "role_system": _("Note"),
    "today": _("Today"),
    "yesterday": _("Yesterday"),
    "seconds": _("{n} s"),
    "minutes": _("{n} min"),
    "hours": _("{n} h"),
    "days": _("{n} d"),
    "ago": _("{time} ago"),
    "just_now": _("just now"),
    "usage_tokens": _("Tokens: {input} in, {output} out"),
    "usage_cost": _("Cost: {cost}"),
    "usage_unknown": _("Tokens and cost: unknown"),
    "unknown": _("unknown"),
    "no_matches": _("Nothing found. Try another word."),
    "no_sessions": _("No conversations yet."),
    "waiting": pgettext_lazy("badge", "waiting"),
}

_START = {
    "engine": _("Assistant"),
    "can_do": _("What it can do"),
    "asks_first": _("asks first"),
    "try": _("Try"),
    "no_engines": _("There is no assistant that you may use. Ask an administrator to set one up."),
    "may_not_chat": _("You may decide calls here, but not chat."),
    "not_yours": _("This conversation belongs to someone else. You may read it, but not write in it."),
    "reply_blocked": _("Something waits for a decision. Once it is made, you can write on."),
}

_ERRORS = {
    "error_network": _("The server could not be reached. Check the connection, then try again."),
    "error_unknown": _("The server's answer could not be understood. Try again in a moment."),
    "no_such_session": _("There is no such conversation, or you may not see it."),
    "login_ended": _("Your login has ended."),
    "login_again": _("Log in again"),
    "refused_origin": _("The server refused the live connection from this address. Reload to see news."),
}

_STATES = {
    "state_ready": _("About to run"),
    "state_pending": _("Waiting for a decision"),
    "state_executing": _("Running"),
    "state_asking": _("Has a question"),
    "state_delegated": _("Running in steps"),
    "state_unknown": _("Outcome unknown"),
    "outcome_succeeded": _("Done"),
    "outcome_answered": _("Answered by a person"),
    "outcome_failed": _("Failed"),
    "outcome_invalid": _("Not run: wrong arguments"),
    "outcome_rejected": _("Rejected"),
    "outcome_denied": _("Not run: a rule forbids it"),
    "outcome_unavailable": _("Not run: tool not available"),
    "outcome_expired": _("Not run: nobody decided in time"),
    "outcome_superseded": _("Not run: a new message came"),
    "outcome_cancelled": _("Cancelled"),
    "status_idle": _("New"),
    "status_running": _("Running"),
    "status_awaiting_user": _("Waiting for an answer"),
    "status_awaiting_tools": _("Waiting for a decision"),
    "status_completed": _("Done"),
    "status_error": _("Stopped by an error"),
    "announce_idle": _("Ready."),
    "announce_running": _("The assistant is working."),
    "announce_awaiting_user": _("The assistant has a question."),
    "announce_awaiting_tools": _("The assistant waits for a decision."),
    "announce_completed": _("The assistant has finished."),
    "announce_error": _("The assistant stopped with an error."),
    "announce_waiting": _("Waiting for your decision: {thing}"),
}

_CALLS = {
    "calls": _("{n} calls"),
    "arguments": _("Arguments"),
    "result": _("Result"),
    "error": _("Error"),
    "late_result": _("Result that came late"),
    "decision": _("Decision"),
    "result_cut": _("This is the model's copy, which was cut. The whole result is kept with the call."),
    "asked_at": _("asked {time}"),
    "started_at": _("started {time}"),
    "finished_at": _("finished {time}"),
    "attempt": _("attempt {n}"),
    "someone": _("Someone"),
    "decided_approve": _("{name} approved it"),
    "decided_edit": _("{name} changed and approved it"),
    "decided_reject": _("{name} rejected it"),
    "decided_answer": _("{name} gave the result by hand"),
    "decided_retry": _("{name} had it run again"),
    "form_invalid": _("Mend the marked fields first."),
    "arguments_unreadable": _("The model's arguments are not valid JSON. This is what it wrote:"),
    "edited_before": _("A person changed what the model asked for:"),
    "nothing": _("nothing"),
}

_CARD = {
    "asked_by": _("Asked by {name}"),
    "asked_by_in": _("Asked by {name} in “{session}”"),
    "until": _("until {time}"),
    "unknown_explained": _(
        "This call was started, but its end was never seen: it may or may not have taken effect. It is not run again "
        "by itself. Look where it would have taken effect, then say what is true."
    ),
    "hidden_characters": _("These arguments hold invisible characters. They are shown as labels such as U+200B."),
    "hidden_in_field": _("With its invisible characters:"),
    "said_before": _("What the assistant said"),
    "waiting_for_someone": _("Waiting for someone who may decide this."),
    "approve_thing": _("Approve: {thing}"),
    "approve_edited": _("Edit and approve"),
    "discard_changes": _("Discard changes"),
    "edit_arguments": _("Edit"),
    "answer_instead": _("Answer instead"),
    "reject": _("Reject"),
    "reject_now": _("Reject"),
    "mark_done": _("It took effect"),
    "run_again": _("Run it again"),
    "retry_now": _("Run it again"),
    "reason": _("Reason"),
    "reason_hint": _("The assistant reads this. It may be left empty."),
    "retry_hint": _(
        "Only when you are sure that it did not take effect: it will run a second time. Say why, if you like."
    ),
    "answer_label": _("Result"),
    "answer_hint": _("The tool is not run. The assistant gets this as its result."),
    "answer_now": _("Send answer"),
    "answer_as_json": _("Send as JSON"),
    "done_label": _("What was the result?"),
    "done_hint": _("The tool is not run again. The assistant gets this as its result."),
    "done_now": _("Mark as done"),
    "own_answer": _("Your answer"),
    "sending": _("Sending…"),
    "someone_faster": _("Someone else was faster:"),
    "changed_meanwhile": _("The call has changed since you saw it. This is how it stands now; nothing was sent."),
    "kept": _("What you had typed, not sent:"),
    "open_session": _("Open the conversation"),
    "view_as": _("Show arguments as"),
    "view_form": _("Form"),
    "view_reading": _("List"),
    "view_json": _("JSON"),
    "arguments_json": _("Arguments as JSON"),
    "form_not_exact": _("A form can't show these arguments exactly, so here they are as JSON."),
    "json_not_object": _("The arguments must be one JSON object, in { }."),
    "json_wrong": _("This is not valid JSON yet: {problem}"),
    "was": _("was"),
    "your_changes": _("Your changes:"),
}


def page_words() -> dict[str, str]:
    """Every word of the page's scripts, translated now."""
    return {key: str(words) for part in (_PAGE, _START, _ERRORS, _STATES, _CALLS, _CARD) for key, words in part.items()}
