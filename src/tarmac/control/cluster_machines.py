"""Clusters started on machines over SSH: their start, their end and their status. Called by `service`.

Only the machines know what runs on them, and the cluster is recorded before anything starts: after a crash in
the middle, the same command completes the start.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from threading import Condition, Event, Lock, Thread
from typing import TypeVar

from tarmac import api
from tarmac.api import ChangeKind, ChangeLine, ChangeState, error_form
from tarmac.control.clusters import NAMED, Clusters
from tarmac.control.decisions import steps
from tarmac.control.permissions import Action, check
from tarmac.control.state.control_state import ControlState
from tarmac.model.actor import Actor
from tarmac.model.cluster import Cluster, Drain, Machine, MachineProgress, MachineStatus, Node, NodeState
from tarmac.model.codec import common, inherited, replace
from tarmac.model.errors import (
    InvalidInput,
    NotFound,
    Problem,
    Refused,
    TarmacError,
    Unavailable,
    listed,
    suggestion,
)
from tarmac.model.kinds.engines import StartsClusters
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Attempt, Run
from tarmac.sched import Preemption, PreemptionReason

log = logging.getLogger(__name__)

E = TypeVar("E", bound="Attempt | None")

LOOK_EVERY_S = 1.0

LEAVE_S = 1800.0
"""The time for runs to leave: their grace, their saving, and the fence of a run on a lost machine."""

JOIN_S = 90.0
"""The time in which the engine finds a started machine."""

FIXED = ("slots", "cpus", "directory", "port")
"""The properties of a machine that cannot change while it is in the cluster."""


class _Change:
    """The progress of a cluster change that takes minutes; `request` identifies equal changes. Thread-safe.

    The change continues in its own thread even if no client waits, and its record is lost with the process.
    """

    def __init__(self, cluster: str, kind: ChangeKind, request: object, *, began_at: float) -> None:
        self.cluster = cluster
        self.kind = kind
        self.request = request
        self._began_at = began_at
        self._lines: list[ChangeLine] = []
        self._state = ChangeState.WORKING
        self._error: TarmacError | None = None
        self._changed = Condition()

    @property
    def working(self) -> bool:
        """Whether the change is still running."""
        return self._state is ChangeState.WORKING

    def begin(self, body: Callable[[], None]) -> None:
        """Run the change in its own thread."""
        name = f"cluster-{self.kind}-{self.cluster}"
        Thread(target=self._do, args=(body,), name=name, daemon=True).start()

    def progress(self, machine: str, text: str) -> None:
        """Record an action."""
        with self._changed:
            self._lines.append(ChangeLine(machine, text))
            self._changed.notify_all()

    def report(self, after: int, *, wait_s: float) -> api.ClusterChange:
        """Report the change: at line number `after` or at its end, after at most `wait_s`."""
        deadline = time.monotonic() + wait_s
        with self._changed:
            while self.working and len(self._lines) <= after:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    break
            return api.ClusterChange(
                cluster=self.cluster,
                kind=self.kind,
                state=self._state,
                began_at=self._began_at,
                lines=tuple(self._lines[after:]),
                next=len(self._lines),
                error=error_form(self._error) if self._error is not None else None,
            )

    def _do(self, body: Callable[[], None]) -> None:
        error: TarmacError | None = None
        try:
            body()
        except TarmacError as failure:
            error = failure
        except Exception as failure:
            log.exception("the %s of cluster %s failed", self.kind, self.cluster)
            error = TarmacError(
                f"tarmac itself failed ({type(failure).__name__})", hint="the details are in the server's log"
            )
        with self._changed:
            self._error = error
            self._state = ChangeState.DONE if error is None else ChangeState.FAILED
            self._changed.notify_all()


class ClusterMachines:
    """Commands and questions about started clusters. From any thread.

    `open_starter` creates the cluster starter; None if this server cannot start clusters.
    """

    def __init__(
        self, control: ControlState, clusters: Clusters, open_starter: Callable[[], StartsClusters] | None
    ) -> None:
        self._control = control
        self._clusters = clusters
        self._open_starter = open_starter
        self._starter: StartsClusters | None = None
        self._changes: dict[str, _Change] = {}
        self._lock = Lock()

    def up(self, actor: Actor, name: str, machines: Sequence[Machine], *, install: bool) -> api.ClusterChange:
        """Begin to run the cluster on exactly these machines; a repeated command joins the current change.

        Raises Refused for a change of fixed properties, or while another change is running.
        """
        check(actor, Action.MANAGE)
        old = self._described(name)
        self._clusters.check_start(name, old)
        if old is not None:
            _refuse_changes(old, machines)
        request = (tuple(machines), install)
        return self._begin(
            name, ChangeKind.UP, request, lambda progress: self._up(name, old, machines, install, progress)
        )

    def down(self, actor: Actor, name: str, *, force: bool, purge: bool) -> api.ClusterChange:
        """Begin to end the cluster; with `force`, stop its runs and give up lost machines.

        Raises Refused while runs hold or need it, and NotFound for an unknown cluster.
        """
        check(actor, Action.MANAGE)
        cluster = self._started(name)
        if not force:
            self._clusters.refuse_removal(name, hint="--force stops these runs")
        return self._begin(
            name,
            ChangeKind.DOWN,
            (force, purge),
            lambda progress: self._down(actor, cluster, force=force, purge=purge, progress=progress),
        )

    def status(self, actor: Actor, name: str) -> api.ClusterStatus:
        """Ask the machines of the cluster for their status. May take long; raises NotFound for an unknown
        cluster.
        """
        check(actor, Action.READ)
        cluster = self._started(name)
        change = self._changes.get(name)
        report = change.report(0, wait_s=0) if change is not None and change.working else None
        machines = [
            api.ClusterMachine(**inherited(MachineStatus, found), **common(api.ClusterMachine, found.machine))
            for found in self._need_starter().look(name, cluster.machines)
        ]
        return api.ClusterStatus(cluster=name, engine=cluster.engine, machines=machines, change=report)

    def progress(self, actor: Actor, name: str, after: int, *, wait_s: float) -> api.ClusterChange:
        """The newest change of a cluster; raises NotFound if this process has begun none."""
        check(actor, Action.READ)
        change = self._changes.get(name)
        if change is None:
            raise NotFound(
                f"nothing is done to cluster {name!r} now",
                hint="if the server was restarted in the middle: the same command again completes it",
            )
        return change.report(after, wait_s=wait_s)

    # --- inside

    def _begin(
        self, name: str, kind: ChangeKind, request: object, body: Callable[[MachineProgress], None]
    ) -> api.ClusterChange:
        self._need_starter()
        with self._lock:
            known = self._changes.get(name)
            if known is not None and known.working:
                if (known.kind, known.request) == (kind, request):
                    return known.report(0, wait_s=0)
                raise Refused(
                    f"{known.kind} is at work on cluster {name}", hint=f"tarmac cluster status {name}"
                )
            change = _Change(name, kind, request, began_at=self._control.clock.now())
            self._changes[name] = change
        change.begin(lambda: body(change.progress))
        return change.report(0, wait_s=0)

    def _up(
        self,
        name: str,
        old: Cluster | None,
        machines: Sequence[Machine],
        install: bool,
        progress: MachineProgress,
    ) -> None:
        start = self._need_starter().prepare(name, machines, install=install, progress=progress)
        cluster = replace(start.cluster, server=self._control.server)
        kept = {machine.name for machine in cluster.machines}
        known = old.machines if old is not None else ()
        leaving = [machine for machine in known if machine.name not in kept]
        if old is not None:
            cluster = replace(cluster, pools=old.pools)
        self._clusters.record(replace(cluster, machines=(*cluster.machines, *leaving)))
        try:
            start.begin()
        except BaseException:
            self._clusters.record(old) if old is not None else self._clusters.forget(name)
            raise
        if leaving:
            self._take_out(name, leaving, progress)
            self._clusters.record(cluster)
        added = {machine.name for machine in known} ^ kept
        self._await_nodes(cluster, added, progress)

    def _take_out(self, name: str, leaving: Sequence[Machine], progress: MachineProgress) -> None:
        """Move runs from these machines to others, and end the processes started there."""
        nodes = {node.name: machine for node, machine in self._nodes_of(name, leaving)}
        self._control.set_drained(set(nodes), self._drain("its machine is taken out of the cluster"))

        def preempt(run: Run, attempt: Attempt) -> None:
            if run.state not in (RunState.STARTING, RunState.RUNNING):
                return
            preemption = Preemption(run_id=run.id, seq=run.seq, reason=PreemptionReason.NODE_LEAVES)
            step = steps.preempt_run(run, attempt, preemption, self._control.clock.now())
            if self._control.commit([step])[0]:
                node = next(node for node in attempt.current_allocation.nodes if node in nodes)
                text = f"{run.name} ({run.id}) saves, leaves and is queued again"
                progress(nodes[node].name, text)

        self._empty(lambda: self._on(nodes), preempt)
        for problem in self._need_starter().end(name, leaving, purge=False, progress=progress):
            machine, _, text = problem.message.partition(": ")
            progress(machine, f"taken out, but what ran there may run on: {text}")

    def _drain(self, reason: str, actor: Actor | None = None) -> Drain:
        user = actor.user if actor is not None else None
        return Drain(user=user, at=self._control.clock.now(), reason=reason)

    def _down(
        self, actor: Actor, cluster: Cluster, *, force: bool, purge: bool, progress: MachineProgress
    ) -> None:
        name, control = cluster.name, self._control
        nodes = {node.name for node in control.lasting_nodes() if node.cluster == name}
        drained = nodes - control.wholly_drained()
        control.set_drained(drained, self._drain("the cluster is ending", actor))
        try:
            if force:
                self._stop_runs(actor, name, progress)
            self._clusters.refuse_removal(name, hint="--force stops these runs")
            problems = self._need_starter().end(name, cluster.machines, purge=purge, progress=progress)
            if problems and not force:
                hint = "again later, or --force to forget them: what runs there is then for you to end"
                raise InvalidInput([*problems, Problem(message=f"cluster {name} stays", hint=hint)])
        except BaseException:
            control.set_drained(drained, None)
            raise
        for problem in problems:
            machine, _, text = problem.message.partition(": ")
            progress(machine, f"given up, what ran there may run on: {text}")
        self._clusters.forget(name)

    def _stop_runs(self, actor: Actor, name: str, progress: MachineProgress) -> None:
        """Stop every run that holds nodes of the cluster or names it."""
        first = self._started(name).machines[0].name

        def remaining() -> list[tuple[Run, Attempt | None]]:
            with self._control.lock:
                cache = self._control.run_cache()
                return [
                    (run, attempt)
                    for run in cache.runs.values()
                    for attempt in [cache.attempts.get(run.id)]
                    if run.spec.target.cluster == name
                    or (attempt is not None and attempt.allocation.cluster == name)
                ]

        def stop(run: Run, attempt: Attempt | None) -> None:
            if run.state in (RunState.STOPPING, RunState.ENDED):
                return
            step = steps.caused_by(actor, steps.stop_run(run, attempt, self._control.clock.now()))
            if self._control.commit([step])[0]:
                progress(first, f"{run.name} ({run.id}) is stopped")

        self._empty(remaining, stop)

    def _empty(self, remaining: Callable[[], Sequence[tuple[Run, E]]], act: Callable[[Run, E], None]) -> None:
        """Act on these runs until none remains. Raises Unavailable if that takes too long."""
        changed = Event()
        unsubscribe = self._control.event_bus.subscribe(lambda _: changed.set())
        try:
            for _ in range(int(LEAVE_S / LOOK_EVERY_S)):
                changed.clear()
                runs = remaining()
                if not runs:
                    return
                for run, attempt in runs:
                    act(run, attempt)
                changed.wait(LOOK_EVERY_S)
        finally:
            unsubscribe()
        names = listed([f"{run.name} ({run.id})" for run, _ in runs], NAMED)
        raise Unavailable(f"runs have not left within {LEAVE_S:g} s: {names}", hint="the same command again")

    def _await_nodes(self, cluster: Cluster, added: set[str], progress: MachineProgress) -> None:
        """Wait until the engine has found all machines; report the missing ones."""
        waiting: dict[str, Machine] = {machine.name: machine for machine in cluster.machines}
        pause = Event()
        for _ in range(int(JOIN_S / LOOK_EVERY_S)):
            for node, machine in self._nodes_of(cluster.name, cluster.machines):
                if node.state in (NodeState.UP, NodeState.DRAINED) and machine.name in waiting:
                    del waiting[machine.name]
                    if machine.name in added:
                        self._control.set_drained([node.name], None)
                    progress(machine.name, f"is node {node.name}, {node.capacity.slots} slots")
            if not waiting:
                return
            pause.wait(LOOK_EVERY_S)
        for name in waiting:
            progress(name, f"is not a node yet: tarmac clusters check {cluster.name} says why")

    def _nodes_of(self, name: str, machines: Sequence[Machine]) -> Iterator[tuple[Node, Machine]]:
        """The nodes on these machines, matched by address."""
        by_address = {machine.address: machine for machine in machines}
        for node in self._control.nodes():
            if node.cluster == name and node.address in by_address:
                yield node, by_address[node.address]

    def _on(self, nodes: dict[str, Machine]) -> list[tuple[Run, Attempt]]:
        return [
            (run, attempt)
            for run, attempt in self._control.live()
            if nodes.keys() & set(attempt.current_allocation.nodes)
        ]

    def _described(self, name: str) -> Cluster | None:
        with self._control.lock:
            self._control.look_at_clusters()
            return self._control.inventory.described(name)

    def _started(self, name: str) -> Cluster:
        cluster = self._described(name)
        if cluster is None or not cluster.machines:
            known = [each.name for each in self._control.inventory.clusters if each.machines]
            if cluster is not None:
                hint = f"tarmac clusters check {name} looks at it, tarmac clusters rm {name} forgets it"
                raise Refused(f"cluster {name} was not started by tarmac cluster up", hint=hint)
            hint = suggestion(name, known, f"started: {', '.join(known) or 'none'}")
            raise NotFound(f"there is no cluster {name!r} that was started by tarmac cluster up", hint=hint)
        return cluster

    def _need_starter(self) -> StartsClusters:
        if self._open_starter is None:
            raise Refused("this server cannot start clusters")
        with self._lock:
            if self._starter is None:
                self._starter = self._open_starter()
            return self._starter


def _refuse_changes(old: Cluster, machines: Sequence[Machine]) -> None:
    """Raise Refused with all properties that cannot change while a cluster runs."""
    known = {machine.name: machine for machine in old.machines}
    found = []
    for machine in machines:
        was = known.get(machine.name)
        if machine.head and (was is None or not was.head):
            head = next(each.name for each in old.machines if each.head)
            found.append(f"the head is {head}, not {machine.name}: another one takes down and up")
        for field in FIXED if was is not None else ():
            new = getattr(machine, field)
            if new != getattr(was, field) and not (field == "directory" and new is None):
                found.append(f"{machine.name} has {field}={getattr(was, field)}, not {new}")
        if was is not None and machine.address not in (None, was.address):
            found.append(f"{machine.name} has address={was.address}, not {machine.address}")
    if found:
        hint = "take a host out with one up and back with the next to change it"
        raise Refused(f"cluster {old.name} runs: {'; '.join(found)}", hint=hint)
