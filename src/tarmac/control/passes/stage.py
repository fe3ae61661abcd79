"""Stage: copies the code of accepted runs into the code store, and queues them. Run by the stage loop.

Idempotent: a snapshot is named by its content, so staging again after a crash finds it there.
"""

from __future__ import annotations

from tarmac.control import steps
from tarmac.control.world import World
from tarmac.model.changes import Lease, RunStep
from tarmac.model.errors import InvalidInput
from tarmac.model.run import Cause, CauseCode, Outcome, Run


def stage_pass(world: World, lease: Lease | None) -> None:
    """Stage every pending run; one whose code cannot be read ends as failed, with the reason."""
    with world.lock:
        pending = sorted(world.mirror().pending.values(), key=lambda run: run.id)
    for run in pending:
        world.commit([_staged(world, run)], lease=lease)


def _staged(world: World, run: Run) -> RunStep:
    assert run.spec.code is not None, "runs without code are accepted as queued"
    try:
        staged = world.code.stage(run.spec.code)
    except InvalidInput as error:
        cause = Cause(code=CauseCode.CODE_UNREADABLE, message=str(error))
        return steps.finished(run, Outcome.FAILED, cause, world.clock.now())
    return steps.staged(run, staged, world.clock.now())
