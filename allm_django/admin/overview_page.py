"""All panels of the overview, in order (M07)."""

from __future__ import annotations

from allm_django import access
from allm_django.admin import overview_panels as panel
from allm_django.admin.overview_figures import Figures
from allm_django.admin.overview_workers import workers_panel


def panels(viewer: access.Person, days: int) -> list[panel.Panel]:
    """For the sessions that ``viewer`` may see, of the last ``days`` days."""
    figures = Figures.of(viewer, days)
    makers = (
        panel.waiting_panel,
        panel.times_panel,
        panel.decisions_panel,
        panel.tools_panel,
        panel.tokens_panel,
        panel.cost_panel,
        workers_panel,
    )
    return [make(figures) for make in makers]
