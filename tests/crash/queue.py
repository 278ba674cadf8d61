"""The Celery app of the children, as a host project has one."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("children", broker=os.environ["ALLM_CRASH_BROKER"])
app.conf.update(task_ignore_result=True, worker_enable_remote_control=False, broker_connection_retry_on_startup=True)
app.autodiscover_tasks()
