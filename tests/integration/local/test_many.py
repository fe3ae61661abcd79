"""Many attempts from many threads at once: each starts once, and each is told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from engine_harness import LocalHarness, Work, ended
from tarmac.model.progress import Outcome

ATTEMPTS = 60


def test_threads_do_not_disturb_one_another(local: LocalHarness) -> None:
    launches = [local.launch(Work(output="once"), run_id=f"run{number}") for number in range(ATTEMPTS)]
    requests = [local.engine.render(launch) for launch in launches]
    ids = [launch.attempt_id for launch in launches]
    with ThreadPoolExecutor(8) as threads:
        twice = [threads.submit(local.engine.submit, request) for request in requests * 2]
        looks = [threads.submit(local.engine.observe, ids) for _ in range(20)]
        for done in (*twice, *looks):
            done.result()
    for attempt in ids:
        assert local.settle(attempt, ended).outcome is Outcome.COMPLETED
        assert local.engine.read(attempt, "logs/main.0.0.log") == b"once"
