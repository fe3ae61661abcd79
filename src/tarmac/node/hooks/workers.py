"""Hook: start every worker of the node, each with its log and environment. Called by `runner`."""

from __future__ import annotations

from tarmac.node import environment
from tarmac.node.attempt import protocol
from tarmac.node.attempt.exit_outcome import Exit
from tarmac.node.leave import check_leave
from tarmac.node.noderun import NodeRun, Worker
from tarmac.node.processes.meter import gpus_of
from tarmac.node.processes.spawn import CannotStart
from tarmac.node.progress.torn import Torn
from tarmac.node.progress.watcher import ProgressWatcher, tree_below


def start_workers(run: NodeRun) -> None:
    """Start all workers, in order; one that cannot be started counts as failed at once."""
    check_leave(run)
    checkpoints = run.part.artifacts.get("checkpoint")
    run.progress = ProgressWatcher(
        run.events,
        logs=[worker.log for worker in run.workers],
        reports=run.node.reports,
        tree=None if checkpoints is None else tree_below(checkpoints),
        checkpoints=checkpoints,
        torn=None if checkpoints is None else Torn(checkpoints, run.children, shared=run.shares_artifacts),
    )
    leave_at = run.leave_at()
    if leave_at is not None:
        run.node_env[protocol.LEAVE_VARIABLE] = f"{leave_at:.3f}"
    for worker in run.workers:
        _start(run, worker)
    if all(worker.child for worker in run.workers):
        run.events.append("running")
        leaders = [worker.child.pid for worker in run.workers if worker.child]
        run.meter.begin(leaders, gpus_of(worker.part.env for worker in run.workers))
    run.events.flush()


def _start(run: NodeRun, worker: Worker) -> None:
    part = worker.part
    who = {"role": part.role, "replica": part.replica, "index": part.worker}
    env = environment.complete(part.env, run)
    env[protocol.POLL_VARIABLE] = run.node.polls(part.name)
    try:
        worker.child = run.children.start(
            part.argv,
            env=env,
            directory=worker.directory,
            log=worker.log,
            groups=worker.group.members if worker.group is not None else (),
            place=run.container,
        )
    except CannotStart as problem:
        worker.exit = Exit(
            part.role,
            part.replica,
            part.worker,
            exit_code=problem.exit_code,
            signal=None,
            fault=str(problem),
            rank=part.rank,
        )
        run.exits.append(worker.exit)
        run.events.append("worker_ended", **who, exit_code=problem.exit_code, signal=None, tail=[])
    else:
        pid = worker.child.pid
        run.events.append(
            "worker_started", **who, pid=pid if run.namespace is None else run.namespace.pid_of(pid)
        )
