"""Hooks: start every worker of the node, limited to the processors and memory that it requests.

Called by `runner`, and by `watch`. Control groups enforce the limits if the node allows them. Otherwise the
runner watches memory, and a notice names the limits that are not enforced. Likewise a notice names the
commands that may end processes of others if the run has no process namespace.
"""

from __future__ import annotations

import re
import signal
import time
from typing import Iterator, Optional

from tarmac.node import environment
from tarmac.node.attempt import protocol
from tarmac.node.attempt.exit_outcome import Exit
from tarmac.node.files.logroom import size_text
from tarmac.node.kernel import procfs, signals, workergroup
from tarmac.node.kernel.system_users import as_server
from tarmac.node.kernel.workergroup import CPU, MEMORY
from tarmac.node.noderun import NodeRun, Worker
from tarmac.node.processes.meter import gpus_of
from tarmac.node.processes.spawn import CannotStart, Command
from tarmac.node.progress.torn import Torn
from tarmac.node.progress.watcher import ProgressWatcher, tree_below

_LIFT_AGAIN_S = 0.02
_LIFTS = 25

_REACHING = re.compile(r"(?:^|[\s;&|(`])(?:pkill|killall)\s")
_LONGEST = 120


def start_workers(run: NodeRun) -> None:
    """Start all workers, in order; one that cannot be started counts as failed at once."""
    run.check_leave()
    checkpoints = run.part.artifacts.get("checkpoint")
    # Runners of other nodes, possibly on this machine, may write to the same directory.
    shared = len(run.document.nodes) > 1 and not run.part.own_disk
    run.progress = ProgressWatcher(
        run.events,
        logs=[worker.log for worker in run.workers],
        reports=run.node.reports,
        tree=None if checkpoints is None else (run.spare.watch if run.spare else tree_below)(checkpoints),
        torn=None if checkpoints is None else Torn(checkpoints, run.children, shared=shared),
    )
    leave_at = run.leave_at()
    if leave_at is not None:
        run.node_env[protocol.LEAVE_VARIABLE] = f"{leave_at:.3f}"
    run.events.flush(quietly=True)  # the report is open before a worker can put anything in its place
    for worker in run.workers:
        _start(run, worker)
    if all(worker.child for worker in run.workers):
        run.events.append("running")
        leaders = [worker.child.pid for worker in run.workers if worker.child]
        run.meter.begin(leaders, gpus_of(worker.part.env for worker in run.workers))
    run.events.flush(quietly=True)  # a moment later the end of a short run may be news as well


def _start(run: NodeRun, worker: Worker) -> None:
    part = worker.part
    env = environment.complete(part.env, run)
    env[protocol.POLL_VARIABLE] = run.node.polls(part.name)
    try:
        groups = worker.group.members if worker.group is not None else ()
        worker.child = run.children.start(
            Command(part.argv, env, worker.directory, worker.log, groups=groups, place=run.place)
        )
    except CannotStart as problem:
        left = Exit(part, exit_code=problem.exit_code, signal=None, fault=str(problem))
        run.note_exit(left)
    else:
        pid = worker.child.pid
        run.events.append(
            "worker_started",
            role=part.role,
            replica=part.replica,
            index=part.worker,
            pid=pid if run.namespace is None else run.namespace.pid_of(pid),
        )


@as_server()
def limit_workers(run: NodeRun) -> None:
    """Make the control groups for workers, and report limits that cannot be enforced."""
    controllers = sorted({name for worker in run.workers for name in _controllers_of(worker)})
    if not controllers:
        return
    choice = workergroup.choose(controllers, workergroup.survey())
    why_not = dict(choice.why_not)
    for worker in run.workers:
        places = {name: choice.places[name] for name in _controllers_of(worker) if name in choice.places}
        if places:
            try:
                worker.group = workergroup.make(
                    f"{run.document.attempt_id}-{run.part.node}-{worker.part.name}",
                    places,
                    cpus=worker.part.cpus,
                    memory_bytes=worker.part.memory_bytes,
                )
            except OSError as error:
                why_not.update(dict.fromkeys(places, str(error)))
        worker.watched = MEMORY in _controllers_of(worker) and (worker.group is None or MEMORY not in places)
    watched = " (it is watched, and a worker that holds more is ended)"
    for name, text, but in ((CPU, "cpus", ""), (MEMORY, "memory", watched)):
        if name in why_not:
            run.events.notice(f"{text}: not enforced on {run.node_name}{but}: {why_not[name]}")


def end_those_over_limit(run: NodeRun) -> None:
    """End workers that exceed their memory limit where the runner watches memory."""
    for worker in run.workers:
        child = worker.child
        if not worker.watched or child is None or child.left or worker.over_limit_bytes is not None:
            continue
        worker.over_limit_bytes = workergroup.over_limit(child.pid, worker.part.memory_bytes)
        if worker.over_limit_bytes is not None:
            for process in procfs.descendants(child.pid):
                signals.send(process, signal.SIGKILL)
            child.send(signal.SIGKILL)


def ran_out(run: NodeRun, worker: Worker, *, struck: bool) -> Optional[str]:
    """The text about a failed worker that ran out of memory; None if it did not.

    `struck`: a SIGKILL that the runner did not send ended it.
    """
    may = size_text(worker.part.memory_bytes)
    if worker.over_limit_bytes is not None:
        return f": it held {size_text(worker.over_limit_bytes)}, and may use {may}"
    group = worker.group
    if group is not None and group.out_of_memory():
        peak_bytes = group.peak_bytes()
        return f": it may use {may}" + (f", and had used {size_text(peak_bytes)}" if peak_bytes else "")
    if struck and run.victims.grew():
        peak_bytes = worker.child.peak_bytes if worker.child is not None else 0
        return f": the node had none left; one of its processes had used {size_text(peak_bytes)}"
    return None


@as_server()
def lift(run: NodeRun) -> None:
    """Remove the groups after all workers have ended; the kernel may need a moment."""
    for worker in run.workers:
        for _ in range(_LIFTS):
            if worker.group is None or worker.group.remove():
                break
            run.wake_channel.wait(time.monotonic() + _LIFT_AGAIN_S)


def _controllers_of(worker: Worker) -> list[str]:
    part = worker.part
    return [name for name, amount in ((CPU, part.cpus), (MEMORY, part.memory_bytes)) if amount]


def report_shared_pids(run: NodeRun) -> None:
    """Append a notice for each line that ends processes by name; none if the run has its own namespace."""
    if run.namespace is not None:
        return
    for line in dict.fromkeys(_lines(run)):
        if _REACHING.search(f"{line} "):
            where = f"{run.node_name} cannot set a run's processes apart"
            run.events.notice(f"reaches processes of others too ({where}): {line[:_LONGEST]}")


def _lines(run: NodeRun) -> Iterator[str]:
    commands = [worker.argv for worker in run.part.workers]
    commands += [argv for hook in run.document.hooks.values() for argv in hook]
    for argv in commands:
        if argv and "\n" not in "".join(argv) and len(argv) > 1 and argv[-2] not in ("-c", "-ec"):
            yield " ".join(argv)
            continue
        for word in argv:
            yield from (line.strip() for line in word.splitlines())
