"""What may be imported without Django."""

from __future__ import annotations

import os
import subprocess
import sys

PLAIN = """
import sys
import allm_django as allm
from allm_django.testing import ScriptedModel, call, say

@allm.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

model = ScriptedModel([[call("add", {"a": 1, "b": 2})], say("It is 3.")])
result = allm.chat(allm.EngineSpec(model=model, tools=[add]), [allm.user("What is 1 + 2?")])
assert (result.text, result.halted_reason) == ("It is 3.", "completed"), result
assert not [name for name in sys.modules if name == "django" or name.startswith("django.")]
"""


def run_alone(code: str, **environment: str) -> None:
    """Run ``code`` in a new interpreter; its words are shown if it fails."""
    kept = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_chat_and_the_scripted_model_never_import_django() -> None:
    run_alone(PLAIN)
