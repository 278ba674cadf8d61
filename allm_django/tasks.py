"""Found by the autodiscovery of Celery and procrastinate: the tasks of the dispatch that ``ALLM["DISPATCH"]`` names."""

from __future__ import annotations

from allm_django.conf import dispatch_class

dispatch = dispatch_class()
