"""What a run leaves on the disk: as few files as it takes, fewer once it has had its time."""

from __future__ import annotations

from pathlib import Path

from engine_harness import LocalHarness, Work, ended
from scratch_store import ScratchStore
from simulated import spec
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome
from tarmac.model.run import Run
from tarmac.server.storage.cleaners import AttemptCleaner

AT_THE_END = 18
LATER = 11
LAST = 9


class OneRun(ScratchStore):
    """A store with one run, which has ended."""

    def load_runs(self, run_ids: list[str]) -> dict[str, Run]:  # type: ignore[override]
        run = Run(
            id="run1", user="ada", seq=1, spec=spec(), state=RunState.ENDED, created_at=0.0, ended_at=0.0
        )
        return {"run1": run} if "run1" in run_ids else {}


def test_a_run_that_does_nothing_leaves_few_files_and_fewer_later(local: LocalHarness) -> None:
    runs = local.home / "runs"
    launch = local.launch(Work(), run_id="run1")
    local.engine.submit(local.engine.render(launch))
    assert local.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED
    assert len(names(runs)) <= AT_THE_END, names(runs)

    tidy(local, days=31)
    assert len(names(runs)) <= LATER, names(runs)
    tidy(local, days=366)
    assert len(names(runs)) <= LAST, names(runs)

    local.reopen()
    assert [notice.text for notice in local.engine.notices(launch.attempt_id)] == [
        "its work directories, and what was installed for it, were removed 30 days after its end",
        "its logs were removed 365 days after its end",
    ]
    assert local.engine.observe([launch.attempt_id])[launch.attempt_id].outcome is Outcome.COMPLETED


def tidy(local: LocalHarness, *, days: float) -> None:
    clock = VirtualClock(days * 86_400.0)
    engines = {"": local.engine}
    AttemptCleaner(OneRun(), clock, engines=lambda: engines, work_days=30, log_days=365, answer_s=60.0).tidy()


def names(runs: Path) -> list[str]:
    return sorted(str(path.relative_to(runs)) for path in runs.rglob("*"))
