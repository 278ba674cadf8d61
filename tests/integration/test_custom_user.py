"""Host projects have user models of their own (M08)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.row("M08")]

ROOT = Path(__file__).resolve().parents[2]


def test_people_with_uuid_keys_and_without_usernames_can_do_everything() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ALLM_TEST_DATABASE"}
    command = [sys.executable, "-W", "error", "-m", "tests.integration.custom_user.walk"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "walked\n"), done.stderr
