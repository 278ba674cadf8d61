"""The transactions of a run's structured answer (L13). It stands on the run; the thread keeps the answer in words."""

from __future__ import annotations

from allm_django.core.decide import Snapshot
from allm_django.core.encode import to_json, to_text
from allm_django.core.kinds import EventKind
from allm_django.core.output import Output, formatting
from allm_django.core.types import ModelRequest
from allm_django.errors import AllmError, StateError
from allm_django.models import Run
from allm_django.providers.base import Finished
from allm_django.store.known import Known, working
from allm_django.store.offers import offer_for
from allm_django.store.runs import add_usage
from allm_django.store.snapshots import output_so_far, snapshot_now
from allm_django.store.turns import error_record
from allm_django.store.writing import Lease


def begin_output(lease: Lease, known: Known) -> tuple[ModelRequest, bool]:
    """What to send for the structured answer, and whether a cancel was asked for."""
    with working(lease, known) as work:
        run, session = work.run, work.tx.session
        request = ModelRequest(
            work.history(known.answer),
            offer_for(session, run.settings).specs,
            run.settings["system"],
            "none",
            run.settings["params"],
            run.request_id,
        )
        return formatting(request, wanted(run)), session.cancel_requested


def take_output(lease: Lease, known: Known, finished: Finished | None, error: AllmError | None) -> Snapshot:
    """Record a try, or the error that ended it."""
    with working(lease, known) as work:
        run = work.run
        if error is not None:
            run.error = error_record(error)
        elif finished is not None:
            run.output = to_json(wanted(run).after(to_text(finished.text)).as_json())
            add_usage(run, work.tx.session, finished.usage)
            work.tx.tell(EventKind.ANSWER_FORMATTED, session=True)
        return snapshot_now(work, known)


def wanted(run: Run) -> Output:
    """The structured answer as far as it has come. Raises StateError for a run that is to have none."""
    output = output_so_far(run)
    if output is None:
        raise StateError("This run has no response schema.", state=run.state)
    return output
