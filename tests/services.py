"""Programs that some tests need: PostgreSQL, Redis, Chromium. The tests start them themselves, in temporary folders.

    python -m tests.services postgres -- pytest -m both_databases

runs a command with a new PostgreSQL cluster in ALLM_TEST_DATABASE, and removes the cluster afterwards.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from project.services import AbsentError as AbsentError
from project.services import Redis as Redis
from project.services import find as find
from project.services import free_port as free_port
from project.services import postgres as postgres
from project.services import redis as redis

CHROMIUM = "Chromium is not installed: apt-get install chromium"


def required() -> bool:
    """Whether an absent program is a failure, not a skip (ALLM_REQUIRE_ALL=1)."""
    return os.environ.get("ALLM_REQUIRE_ALL") == "1"


def chromium() -> Path:
    """Where Chromium is. Raises AbsentError."""
    return find(["chromium", "chromium-browser", "google-chrome"], [], CHROMIUM)


def main(arguments: list[str]) -> int:
    """Run a command with a database of its own; returns the command's exit status."""
    if len(arguments) < 3 or arguments[:2] != ["postgres", "--"]:
        sys.stderr.write("usage: python -m tests.services postgres -- COMMAND…\n")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster goes in any case
    try:
        with postgres() as url:
            return subprocess.run(arguments[2:], check=False, env=os.environ | {"ALLM_TEST_DATABASE": url}).returncode
    except AbsentError as absent:
        sys.stderr.write(f"SKIPPED on PostgreSQL: {absent}\n")
        return int(required())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
