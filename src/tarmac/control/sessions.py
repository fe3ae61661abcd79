"""Sessions: the choice of the worker, and the way to its far end. Called by `service`."""

from collections.abc import Sequence
from dataclasses import dataclass

from tarmac.api.history_operations import WorkerChoice
from tarmac.control.state.control_state import ControlState
from tarmac.model.abilities import OpensSessions
from tarmac.model.errors import Refused, listed
from tarmac.model.lifecycle import OCCUPYING_STATES, RunState
from tarmac.model.progress import WorkerStatus
from tarmac.model.run import Run

_NAMES_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session that can begin: the descriptor of the socket to its far end, and its worker."""

    channel: int
    worker: WorkerStatus
    address: str


def open_session(control: ControlState, run: Run, choice: WorkerChoice) -> Session:
    """Reach the far end of a session beside a worker of the run, without starting anything there.

    Raises Refused, with an alternative, if there is no such worker now.
    """
    attempt = control.attempt_of(run)
    if run.state not in OCCUPYING_STATES or attempt is None:
        raise _not_there(run)
    attached = control.engine_of(attempt.id)
    with attached.question() as engine:
        if not isinstance(engine, OpensSessions):
            raise Refused(
                f"sessions are not possible on this cluster yet (engine {attached.name})",
                hint=f"tarmac logs -f {run.id} shows what its workers write",
            )
        worker = _chosen(run, engine.workers(attempt.id), choice)
        channel = engine.open_session(attempt.id, worker)
    address = next(
        (one.address for one in control.nodes() if one.name == worker.node and one.address), "127.0.0.1"
    )
    return Session(channel=channel, worker=worker, address=address)


def _not_there(run: Run) -> Refused:
    if run.state is RunState.ENDED:
        outcome = f" ({run.outcome.value})" if run.outcome is not None else ""
        return Refused(
            f"run {run.name} ({run.id}) has ended{outcome}: there is nothing to open a session beside",
            hint=f"tarmac logs {run.id} shows what it wrote",
        )
    if run.state is RunState.PAUSED:
        return Refused(f"run {run.name} ({run.id}) is paused", hint=f"tarmac resume {run.id}")
    return Refused(
        f"run {run.name} ({run.id}) has no nodes yet: it is {run.state.value}",
        hint=f"tarmac why {run.id} says what it waits for",
    )


def _fits(choice: WorkerChoice, worker: WorkerStatus) -> bool:
    return (
        choice.role in (None, worker.role)
        and choice.replica in (None, worker.replica)
        and choice.worker in (None, worker.index)
        and choice.node in (None, worker.node)
    )


def _chosen(run: Run, workers: Sequence[WorkerStatus], choice: WorkerChoice) -> WorkerStatus:
    alive = [worker for worker in workers if worker.pid is not None and worker.ended_at is None]
    found = next((each for each in alive if _fits(choice, each)), None)
    if found is not None:
        return found
    names = listed([_name(worker) for worker in alive], _NAMES_SHOWN)
    chosen = next((each for each in workers if _fits(choice, each)), None)
    if chosen is not None:
        state = "has not started" if chosen.pid is None else "has ended"
        which = "its worker" if len(workers) == 1 else f"worker {_name(chosen)}"
        hint = f"these run: {names}" if alive else f"tarmac show {run.id}"
        raise Refused(f"{which} {state}", hint=hint)
    if not workers:
        raise Refused(f"no worker of {run.name} ({run.id}) is known yet", hint="try again in a moment")
    raise Refused("the run has no such worker", hint=f"these run: {names}" if alive else None)


def _name(worker: WorkerStatus) -> str:
    return f"{worker.role}.{worker.replica}.{worker.index} on {worker.node}"
