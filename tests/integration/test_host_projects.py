"""Host projects have user models of their own, and may keep our tables in another database than ``default`` (M08)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.row("M08")]

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("project", ["custom_user", "second_database"])
def test_everything_works_in_a_project_with(project: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ALLM_TEST_DATABASE"}
    command = [sys.executable, "-W", "error", "-m", f"tests.integration.{project}.walk"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "walked\n"), done.stderr
