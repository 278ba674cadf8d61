"""How much ``django.setup()`` with the app costs over that of the same project without it.

    python -m tests.benchmarks.bench_setup            bar: at most 150 ms more

Both start as new processes, in turn; what counts is the median of the pairs' differences in processor time.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

ROUNDS = 9
COMMON = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
]
SETUP = """
import sys, time
from django.conf import settings
settings.configure(
    INSTALLED_APPS={apps!r}, SECRET_KEY="x", USE_TZ=True, ROOT_URLCONF=None,
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
)
import django
before, wall = time.process_time(), time.perf_counter()
django.setup()
print(time.process_time() - before, time.perf_counter() - wall)
"""


def cost(apps: list[str]) -> tuple[float, float]:
    """Seconds of processor and wall time that ``django.setup()`` takes in a new process."""
    command = [sys.executable, "-c", SETUP.format(apps=apps)]
    cpu, wall = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(cpu), float(wall)


def main() -> None:
    """Print the figures."""
    cost(COMMON), cost([*COMMON, "allm_django"])  # the first runs fill the disk's cache
    pairs = [(cost(COMMON), cost([*COMMON, "allm_django"])) for _ in range(ROUNDS)]
    for place, word in enumerate(("processor", "wall")):
        without = statistics.median(base[place] for base, _ in pairs) * 1000
        more = statistics.median(app[place] - base[place] for base, app in pairs) * 1000
        sys.stdout.write(f"{word:9}  without {without:6.1f} ms   the app adds {more:6.1f} ms   (bar 150 ms)\n")


if __name__ == "__main__":
    main()
