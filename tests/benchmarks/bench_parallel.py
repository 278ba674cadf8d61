"""A recipe's parallel steps truly run at once: eight of half a second each, in the stateless loop.

Run: python -m tests.benchmarks.bench_parallel
"""

from __future__ import annotations

import time

import allm_django as allm
from allm_django.providers.scripted import ScriptedModel, call, say

STEPS, SECONDS, AT_MOST = 8, 0.5, 1.0


@allm.tool
def wait(seconds: float) -> float:
    """Take its time."""
    time.sleep(seconds)
    return seconds


@allm.recipe
def together() -> allm.Plan:
    """Wait many times at once."""
    return allm.Plan(parallel=[allm.Step(wait, {"seconds": SECONDS}) for _ in range(STEPS)])


def main() -> None:
    """Print the figure."""
    engine = allm.EngineSpec(model=ScriptedModel([call("together"), say("Done.")]), tools=[together])
    began = time.perf_counter()
    result = allm.chat(engine, [allm.user("Go.")])
    seconds = time.perf_counter() - began
    assert result.halted_reason == "completed"
    print(f"{STEPS} parallel steps of {SECONDS} s: {seconds:.2f} s in all (at most {AT_MOST} s)")
    if seconds >= AT_MOST:
        raise SystemExit("too slow")


if __name__ == "__main__":
    main()
