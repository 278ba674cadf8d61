"""The processes that run sessions, and what is wrong with them (M07)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _

from allm_django.admin.display import age, shown
from allm_django.admin.overview_figures import Figures
from allm_django.admin.overview_panels import Panel, whole
from allm_django.conf import MEMORY_LAYER, conf
from allm_django.models import Worker
from allm_django.store import clock

MISSED = 3  # heartbeats, until a process counts as silent


def workers_panel(figures: Figures) -> Panel:
    """The workers, those alive first, with warnings."""
    limit = clock.now() - timedelta(seconds=conf().RENEW_SECONDS * MISSED)
    alive = [worker for worker in figures.workers if worker.seen_at > limit]
    silent = [worker for worker in figures.workers if worker.seen_at <= limit]
    return Panel(
        "workers",
        _("Workers"),
        [
            _("Process"),
            _("State"),
            _("Sessions at work"),
            _("Hung threads"),
            _("Sweeps"),
            _("Channel layer"),
            _("Version"),
        ],
        [_row(worker, worker.seen_at > limit) for worker in [*alive, *silent]],
        _("No process has shown a sign of life in the last hour."),
        facts=[(whole(len(alive)), _("alive"))],
        wide=True,
        warnings=warnings(alive),
    )


def warnings(alive: Sequence[Worker]) -> list[str]:
    """What is wrong with the processes that are alive, in words one can act on."""
    found = []
    if not alive:
        found.append(_("No worker is alive: no conversation goes on until a web process or a worker is started."))
    elif not any(worker.sweeps for worker in alive):
        found.append(
            _("No worker sweeps: what a dead process left stays. Set ALLM[“SWEEPER”] to True for one of them.")
        )
    if len([worker for worker in alive if worker.layer == MEMORY_LAYER]) > 1:
        found.append(
            _(
                "Several processes use the in-memory channel layer, which does not reach from one to another: pages "
                "see news of other processes late. Use channels_redis.pubsub.RedisPubSubChannelLayer."
            )
        )
    if hung := sum(worker.hung_threads for worker in alive):
        found.append(
            _("%(n)d threads hang in handlers past their timeout. Look at the calls whose outcome is unknown.")
            % {"n": hung}
        )
    if len({worker.version for worker in alive}) > 1:
        found.append(_("The processes run different versions; finish the update."))
    return found


def _row(worker: Worker, alive: bool) -> list[object]:
    url = reverse("admin:allm_django_worker_change", args=[worker.pk])
    state = _("alive") if alive else _("silent for %(age)s") % {"age": age(worker.seen_at)}
    return [
        format_html('<a href="{}">{}</a>', url, shown(worker)),
        format_html('<span class="allm-health {}">{}</span>', "allm-ok" if alive else "allm-missing", state),
        whole(worker.sessions),
        whole(worker.hung_threads),
        _("yes") if worker.sweeps else _("no"),
        shown(worker.layer.rpartition(".")[2]) or "–",
        shown(worker.version),
    ]
