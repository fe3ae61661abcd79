"""The control plane as the server sees it: commands and questions, thread-safe and synchronous.

Made in `server/wiring.py`, called by the HTTP routes; the loops beside it (`loops.Loops`) do the subsequent
work. A command is done when it is durable: its effect follows soon, after any crash.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

from tarmac import api
from tarmac.api.cluster_operations import NodeChoice, QueueChange
from tarmac.api.clusters import QueuePool
from tarmac.api.experiment_operations import MetricChoice
from tarmac.api.history_operations import WorkerChoice
from tarmac.api.operation import RunScope
from tarmac.api.placement import Why
from tarmac.control import draining, reports, sessions
from tarmac.control.admission import Accepted, Admission, Submission, completed, refuse_search, same_request
from tarmac.control.burst.renter import NOTHING_RENTED, BurstParts
from tarmac.control.burst.service import BurstService
from tarmac.control.cluster_machines import ClusterMachines
from tarmac.control.clusters import Clusters
from tarmac.control.decisions import steps
from tarmac.control.draining import ALL_NODES
from tarmac.control.experiments import ExperimentService
from tarmac.control.limits import LimitService, refuse_too_many
from tarmac.control.lookup import array_status, awaited_runs, find_run, live_members, means_all
from tarmac.control.metrics import ChosenSeries, chosen_series
from tarmac.control.permissions import Action, check, may_see
from tarmac.control.queue import queueing
from tarmac.control.queue.delegated_queue import delegated_pools, with_stuck
from tarmac.control.reports import DryRun, NodeReport, UsageReport
from tarmac.control.reserving import NodeReservations
from tarmac.control.run_tables import RunTables, visible
from tarmac.control.serving import whereabouts
from tarmac.control.sessions import Session
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.event_bus import Listener
from tarmac.control.state.searches import SearcherOf, Searches, own_searcher
from tarmac.control.why import why
from tarmac.model.abilities import FileEntry, KeepsFiles, KeepsImages
from tarmac.model.actor import Actor
from tarmac.model.changes import RunStep
from tarmac.model.cluster import Drain, Pool
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Refused, TarmacError, Unavailable
from tarmac.model.kinds.engines import StartsClusters
from tarmac.model.lifecycle import IllegalStep, RunState
from tarmac.model.notification import Notification, SendsNotifications
from tarmac.model.ports import ResolveReferences, no_references
from tarmac.model.progress import Event, Notice, WorkerStatus
from tarmac.model.run import Attempt, Run
from tarmac.model.summary import RunQuery, RunSummary
from tarmac.sched import WHOLE, Part

COMMAND_TRIES = 20
"""The number of attempts to decide a command if the run changes meanwhile."""

RESUMED = frozenset({RunState.PAUSED, RunState.PAUSING, RunState.STOPPING, RunState.ENDED})
"""States in which a run goes on only if a resume changes it, or in which that is refused."""


Decide = Callable[[Run, Attempt | None, float], RunStep | None]
"""The step of a command for a run with this live attempt, at this time; None if nothing has to change."""


class ControlPlane:
    """Commands and questions of actors. Every method may be called from any thread.

    `permissions` decides what an actor may do; a forbidden call raises Forbidden. Commands raise NotFound for
    an unknown run, Refused (IllegalStep) if its state forbids them, Unavailable if nothing was made durable.
    """

    def __init__(
        self,
        control: ControlState,
        *,
        starter: Callable[[], StartsClusters] | None = None,
        resolve: ResolveReferences = no_references,
        searcher_of: SearcherOf = own_searcher,
        sender: SendsNotifications | None = None,
        burst: BurstParts = NOTHING_RENTED,
    ) -> None:
        """`starter` creates what starts clusters on machines, `searcher_of` begins searches.

        `sender` sends the messages about runs, and `burst` rents machines for them.
        """
        self.control = control
        self.sender = sender
        self._resolve = resolve
        self.clusters = Clusters(self.control)
        self.cluster_machines = ClusterMachines(self.control, self.clusters, starter)
        self.burst = BurstService(self.control, self.clusters, burst)
        self._admission = Admission(self.control, self.burst.refuse)
        self.searches = Searches(self.control, searcher_of)
        self.experiments = ExperimentService(self.control, self._admission, self.searches, resolve)
        self.usage = UsageReport(self.control)
        self.reservations = NodeReservations(self.control)
        self.limits = LimitService(self.control)
        self.tables = RunTables(self.control)

    # --- commands

    def submit(self, submissions: Sequence[Submission]) -> list[Accepted]:
        """Accept runs, all or none, durably. Raises Refused for runs that can never fit, or for a reused key.

        All members of an array are accepted, and the answer has the first.
        """
        for submission in submissions:
            check(submission.actor, Action.SUBMIT, project=submission.spec.project)
            refuse_search(submission.spec)
        now = self.control.clock.now()
        new = [self._admission.new_runs(self._resolved(submission), now) for submission in submissions]
        fresh = [item for members in new for item in members]
        refuse_too_many(self.control, [item.run for item in fresh])
        stored = iter(self.control.accept(fresh))
        accepted = []
        for members in new:
            item, (run, *_) = members[0], [next(stored) for _ in members]
            created = run.id == item.run.id
            if not created and not same_request(run.spec, item.run.spec):
                raise Refused(
                    f"the idempotency key {run.idempotency_key!r} was used for another run, {run.id}",
                    hint="use a new key for a new run",
                )
            accepted.append(Accepted(run=run, created=created, warnings=self._admission.warnings(run)))
        return accepted

    def stop(self, actor: Actor, reference: str, *, at_once: bool = False) -> Run:
        """Stop the run for good; `at_once` gives it no grace. An ended or stopping run stays unchanged."""
        return self._command(actor, reference, partial(_stop, at_once=at_once))

    def pause(self, actor: Actor, reference: str) -> Run:
        """Pause the run until it is resumed. A paused or pausing run stays unchanged."""
        return self._command(actor, reference, _pause)

    def resume(self, actor: Actor, reference: str) -> Run:
        """Queue a paused run again; a pausing one queues once it has left.

        An active run stays unchanged.
        """
        return self._command(actor, reference, _resume)

    def command(
        self, actor: Actor, command: api.RunCommand, references: Sequence[str], *, at_once: bool = False
    ) -> list[Run | TarmacError]:
        """Stop, pause or resume many runs in one transaction: each run afterwards, or its refusal."""
        decide: dict[api.RunCommand, Decide] = {
            api.RunCommand.STOP: partial(_stop, at_once=at_once),
            api.RunCommand.PAUSE: _pause,
            api.RunCommand.RESUME: _resume,
        }
        return self._command_each(actor, references, decide[command])

    def open_session(self, actor: Actor, reference: str, choice: WorkerChoice) -> Session:
        """Reach the far end of a session beside a worker of a run; it begins once OPEN is sent to it."""
        run = self.find_here(actor, reference)
        check(actor, Action.CONTROL, owner=run.user, project=run.spec.project)
        return sessions.open_session(self.control, run, choice)

    def record_session(self, actor: Actor, run_id: str, detail: Mapping[str, Any]) -> None:
        """Record in the history of a run that the actor opens a session, and its purpose."""
        self._command(actor, run_id, partial(_open_session, detail=detail))

    def set_drained(
        self, actor: Actor, nodes: NodeChoice, drained: bool, reason: str = "", slot: int | None = None
    ) -> list[NodeReport]:
        """Drain nodes, or this slot of each (no new work; their runs continue), or take them back."""
        check(actor, Action.MANAGE)
        drain = Drain(user=actor.user, at=self.control.clock.now(), reason=reason) if drained else None
        return draining.set_drained(self.control, nodes, drain, slot)

    def reorder(
        self, actor: Actor, changes: Sequence[QueueChange], names: Mapping[str, str] | None = None
    ) -> list[Run]:
        """Change places in the queue: all or none; returns the named runs. `names`: for messages, by id."""
        return queueing.reorder(self.control, actor, changes, names or {})

    # --- questions

    def find(self, actor: Actor, reference: str) -> Run:
        """The run that an actor means: id, name (the newest, their own first) or unique prefix."""
        check(actor, Action.READ)
        return find_run(self.control.store, actor, reference)

    def array(self, actor: Actor, reference: str) -> api.Array:
        """The array that the reference means, or that contains the run; raises NotFound."""
        return array_status(self.control.store, self.find(actor, reference))

    def find_here(self, actor: Actor, reference: str) -> Run:
        """The run, for access to its files; raises Refused if another server has them."""
        run = self.find(actor, reference)
        if run.server != self.control.server:
            who = whereabouts(self.control.store, run.server, now=self.control.clock.now())
            raise Refused(
                f"logs and reports of {run.name} ({run.id}) are kept by {who}", hint="ask the server there"
            )
        return run

    def runs(self, actor: Actor, query: RunQuery, *, scope: RunScope = RunScope.ALL) -> list[RunSummary]:
        """A page of the list of runs in that scope, newest first."""
        return with_stuck(self.control, self.control.store.runs(visible(actor, query, scope)))

    def attempts(self, actor: Actor, run_id: str) -> list[Attempt]:
        """All attempts of a run, by number."""
        check(actor, Action.READ)
        return self.control.store.attempts(run_id)

    def workers(self, actor: Actor, attempt_id: str) -> Sequence[WorkerStatus]:
        """The workers of an attempt, as reported by its nodes."""
        check(actor, Action.READ)
        with self.control.engine_of(attempt_id).question() as engine:
            return engine.workers(attempt_id)

    def notices(self, actor: Actor, attempt_id: str) -> Sequence[Notice]:
        """The notices of an attempt's nodes to its user so far."""
        check(actor, Action.READ)
        with self.control.engine_of(attempt_id).question() as engine:
            return engine.notices(attempt_id)

    def notifications(self, actor: Actor, run_id: str) -> list[Notification]:
        """The messages about a run, oldest first."""
        check(actor, Action.READ)
        return self.control.store.notifications.of_run(run_id)

    def events(self, actor: Actor, run_id: str, after_seq: int = 0) -> list[Event]:
        """The history of a run."""
        check(actor, Action.READ)
        return self.control.store.events(run_id, after_seq=after_seq)

    def read(self, actor: Actor, attempt_id: str, path: str, offset: int = 0, limit: int = 65536) -> bytes:
        """Bytes of a file of the attempt directory; raises NotFound if it does not exist."""
        check(actor, Action.READ)
        with self.control.engine_of(attempt_id).question() as engine:
            return engine.read(attempt_id, path, offset=offset, limit=limit)

    def files(self, actor: Actor, attempt_id: str, path: str, *, limit: int) -> Sequence[FileEntry]:
        """The entries of a directory below that of an attempt; raises NotFound, Refused."""
        check(actor, Action.READ)
        with self.control.engine_of(attempt_id).question() as engine:
            if not isinstance(engine, KeepsFiles):
                raise Refused(f"the files of {attempt_id} cannot be listed on its cluster")
            return engine.files(attempt_id, path, limit=limit)

    def metrics(self, actor: Actor, references: Sequence[str], choice: MetricChoice) -> list[ChosenSeries]:
        """The metrics of these runs, in their order; raises NotFound for a name that no run has reported."""
        return chosen_series(self.control, [self.find(actor, each) for each in references], choice)

    def file_engines(self) -> Mapping[str, KeepsFiles]:
        """The engines whose nodes keep files of runs, by cluster; "" is the server's own."""
        engines = self.control.engines
        return {engine.key: engine.files for engine in engines if engine.files is not None}

    def image_keepers(self) -> Mapping[str, KeepsImages]:
        """The engines whose nodes cache images, by cluster; "" is the server's own."""
        adapters = {engine.key: engine.adapter for engine in self.control.engines}
        return {key: adapter for key, adapter in adapters.items() if isinstance(adapter, KeepsImages)}

    def read_period_s(self, attempt_id: str) -> float:
        """The shortest period for reading new content of an attempt's files."""
        return self.control.engine_of(attempt_id).pace.read_s

    def queue(self, actor: Actor, part: Part = WHOLE, **choice: Any) -> list[QueuePool]:
        """A part of the queue of each of these pools, in scheduling order; `choice`: see `queueing.queue`."""
        check(actor, Action.READ)
        found = queueing.queue(self.control, part, **choice)
        if actor.sees is None:
            return found
        return [replace(each, runs=tuple(run for run in each.runs if may_see(actor, run))) for each in found]

    def pools(self, actor: Actor) -> tuple[Pool, ...]:
        """All pools with their rules."""
        check(actor, Action.READ)
        return self.control.offer()[0] + delegated_pools(self.control)

    def why(self, actor: Actor, reference: str) -> Why:
        """The reason why the run waits."""
        run = self.find(actor, reference)
        found = self.burst.explained(run, why(self.control, run, actor.sees, self.burst.why(run)))
        return replace(found, hook_changes=run.spec.hook_changes)

    def nodes(self, actor: Actor, choice: NodeChoice = ALL_NODES) -> list[NodeReport]:
        """The chosen nodes with their load and visible runs; raises NotFound if there are none."""
        check(actor, Action.READ)
        return draining.chosen_reports(self.control, choice, actor)

    def dry_run(self, submission: Submission) -> DryRun:
        """The effect of a submission, even before everything that it names exists; nothing is stored."""
        check(submission.actor, Action.SUBMIT, project=submission.spec.project)
        try:
            awaited_runs(self.control.store, submission.actor, submission.spec.after)
            found = reports.dry_run(self.control, self._resolved(submission))
        except InvalidInput as refusal:
            found = replace(reports.dry_run(self.control, submission), missing=tuple(refusal.problems))
        return self.burst.priced(found)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener`, from any thread, with the runs that have changed; returns how to stop."""
        return self.control.event_bus.subscribe(listener)

    def _resolved(self, submission: Submission) -> Submission:
        """Resolve references; raises InvalidInput for an unknown dataset, artifact or secret."""
        submission = completed(submission, self.control)
        spec = self._resolve(submission.spec, submission.actor)
        return submission if spec is submission.spec else replace(submission, spec=spec)

    def _command(self, actor: Actor, reference: str, decide: Decide) -> Run:
        [found] = self._command_each(actor, [reference], decide)
        if isinstance(found, TarmacError):
            raise found
        return found

    def _command_each(
        self, actor: Actor, references: Sequence[str], decide: Decide
    ) -> list[Run | TarmacError]:
        """Apply the command to each run in one transaction; the answers are in the order of the references.

        A reference to an array means all its live members, except where a member's state forbids it.
        """
        answers: dict[str, Run | TarmacError] = {}
        waiting = dict.fromkeys(references, "")
        for _ in range(COMMAND_TRIES):
            requested: list[tuple[str, RunStep]] = []
            for reference, known in waiting.items():
                try:
                    answers[reference] = run = self._own(actor, known or reference)
                    found = self._decided(run, decide, every=means_all(run, reference))
                    requested += [(reference, steps.caused_by(actor, step)) for step in found]
                except TarmacError as refusal:
                    answers[reference] = refusal
            taken = self.control.commit([step for _, step in requested])
            stale: dict[str, str] = {}
            for (reference, step), done in zip(requested, taken, strict=True):
                answer = answers[reference]
                assert isinstance(answer, Run), "a step was decided for it"
                if not done:
                    stale[reference] = answer.id  # its name may refer to a newer run by now
                elif answer.id == step.after.id:
                    answers[reference] = step.after
            waiting = stale
            if not waiting:
                break
        busy = {each: Unavailable(f"{each} changes too quickly", hint="try again") for each in waiting}
        return [busy.get(each) or answers[each] for each in references]

    def _own(self, actor: Actor, reference: str) -> Run:
        """The run, which the actor may change."""
        run = self.find(actor, reference)
        check(actor, Action.CONTROL, owner=run.user, project=run.spec.project)
        return run

    def _decided(self, run: Run, decide: Decide, *, every: bool) -> Iterator[RunStep]:
        """The steps of a command for a run, or for every live member of its array that allows it."""
        now = self.control.clock.now()
        for each in live_members(self.control.store, run) if every else [run]:
            with suppress(IllegalStep) if every else nullcontext():
                if (step := decide(each, self.control.attempt_of(each), now)) is not None:
                    yield step


def _stop(run: Run, attempt: Attempt | None, now: float, *, at_once: bool) -> RunStep | None:
    if run.state is RunState.ENDED or (run.state is RunState.STOPPING and not at_once):
        return None
    return steps.stop_run(run, attempt, now, at_once=at_once)


def _pause(run: Run, attempt: Attempt | None, now: float) -> RunStep | None:
    if run.state in (RunState.PAUSED, RunState.PAUSING):
        return None
    return steps.pause_run(run, attempt, now)


def _open_session(run: Run, _attempt: Attempt | None, now: float, *, detail: Mapping[str, Any]) -> RunStep:
    return steps.session_opened(run, detail, now)


def _resume(run: Run, _attempt: Attempt | None, now: float) -> RunStep | None:
    if run.state not in RESUMED:
        return None
    if run.state is RunState.ENDED:
        raise IllegalStep(
            f"{run.name} ({run.id}) has ended ({run.outcome}) and cannot be resumed",
            hint=f"a new run begins from its last checkpoint: tarmac run --clone {run.id} --resume",
        )
    return steps.resume_run(run, now)
