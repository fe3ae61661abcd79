"""`SlurmEngine`: attempts as jobs of a Slurm, whose commands run on a host with access to its nodes' files.

Made by `SlurmKind`, one for each cluster. All state that must outlive the server is in the attempt
directories and in Slurm's own queue: the job's name is the attempt's id.
"""

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Timer

from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import render
from tarmac.engines.attempts.view import AttemptView
from tarmac.engines.hosts.engine import AttemptEngine
from tarmac.engines.hosts.host import Host, local_host
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.slurm import observing
from tarmac.engines.slurm.access import Examined, SlurmAccess
from tarmac.engines.slurm.by_commands import CommandAccess
from tarmac.engines.slurm.delivery import Delivery
from tarmac.engines.slurm.partition import Site
from tarmac.engines.slurm.queue import Job, Queue, Snapshot
from tarmac.engines.slurm.script import SlurmRequest, job_script, with_variables
from tarmac.engines.slurm.settings import DEFAULT_TEMPO, SlurmSettings, Tempo
from tarmac.engines.slurm.states import Stage, meaning
from tarmac.model.abilities import Pace, StoreFiles
from tarmac.model.cluster import Cluster, Finding, Node, QueueOffer
from tarmac.model.errors import Refused, Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.loss import lost
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import WorkerStatus
from tarmac.model.run import attempt_id as attempt_id_of
from tarmac.node.attempt.document import Launch

NO_ANSWER = Observation(state=ObservedState.UNKNOWN, native_state="Slurm does not answer")
NOT_SUBMITTED = Observation(state=ObservedState.UNKNOWN, native_state="no job of it is known yet")

LOOK_S = 1.0
"""The interval in which runners poll for requests: no process can wake them on another machine."""

GONE_STATE = "gone"
"""Replaces the state of a job that Slurm no longer knows."""

SESSION_OVER = ("invalid job id", "already completing or completed", "expired", "job is not running")
"""srun's messages for ended jobs, by version."""


class SlurmEngine(AttemptEngine):
    """The engine of one cluster. See `SlurmSettings`; `host` has its commands, None: this machine.

    `access` None: by these commands. `beside`: the engine of the server's account, which knows the site and
    shows the attempts, for one of a system user.
    """

    name = "slurm"

    def __init__(
        self,
        cluster: str,
        settings: SlurmSettings,
        supplies: Supplies,
        *,
        host: Host | None = None,
        access: SlurmAccess | None = None,
        tempo: Tempo = DEFAULT_TEMPO,
        beside: "SlurmEngine | None" = None,
    ) -> None:
        self._settings = settings
        self._host = host or local_host(settings.directory)
        super().__init__(self._host.seen, Layout(supplies.copies / cluster))
        if beside is not None:
            self._views = beside._views
        self._access: SlurmAccess = access or CommandAccess(
            cluster, settings, self._host, self._tell, every_s=tempo.places_s
        )
        self._tempo = tempo
        self._queue = Queue(self._access, every_s=tempo.query_s)
        self._following = observing.Following(self._host, self._views, self._tell, every_s=tempo.look_s)
        self._site: Site = (
            beside._site if beside is not None else Site(cluster, settings, self._access.partitions)
        )
        sidecar = self._sidecar = supplies.sidecar
        self._delivery = Delivery(settings, self._host, self._access, self._queue, supplies)
        self._version = self._delivery.version.name
        installation, attempts = self._delivery.installation, supplies.attempts_of(cluster)
        self._attempts = replace(
            attempts,
            node=attempts.node._replace(sdk=installation.sdk, look_s=LOOK_S),
            keeping=sidecar.at(installation) if sidecar is not None else None,
        )
        self._over_since: dict[str, float] = {}
        self._claimed_at: dict[str, float] = {}

    # --- the port --------------------------------------------------------------------------------

    def render(self, launch: Launch) -> SlurmRequest:
        """Pure, except for one fact about the partition: its type of slots."""
        pool = self._settings.pool(launch.batch.pool)
        partition = self._site.partition(pool.name)
        attempt = render(with_variables(launch, self._host.layout), self._host.layout, self._attempts)
        script = job_script(
            launch,
            attempt.directory,
            pool=pool,
            partition=partition,
            installation=self._delivery.installation,
            preparation=self._preparation(launch),
        )
        again = launch.batch.turns and launch.number > 1
        follows = attempt_id_of(launch.run_id, launch.number - 1) if again else ""
        return SlurmRequest(
            directory=attempt.directory, document=attempt.document, script=script, follows=follows
        )

    def submit(self, request: SlurmRequest) -> None:
        self._delivery.deliver(request)
        self._tell(request.attempt_id)

    # --- for the verbs of every engine -----------------------------------------------------------

    def _observe_open(self, views: Mapping[str, AttemptView]) -> Mapping[str, Observation]:
        try:
            snapshot = self._queue.now()
        except Unavailable as error:
            return self._left(views, error)
        self._host.refresh(list(views))  # after the queue: then reports of ended jobs are complete
        recorded = self._recorded(views, snapshot)
        found: dict[str, Observation] = {}
        for attempt_id, view in views.items():
            seen = found[attempt_id] = self._observe(view, snapshot, recorded)
            if view.secrets and seen.state is ObservedState.ENDED:
                self._host.remove_sealed(self._host.directory(attempt_id))  # if not all nodes read them
            self._following.note(attempt_id, runs=seen.state is ObservedState.RUNNING)
        return found

    def _make_directory(self, directory: Path, files: Mapping[str, bytes]) -> bool:
        self._delivery.prepare()
        there = self._host.layout.home / directory.relative_to(self._host.seen.home)
        return self._host.make_directory(there, files)

    def _leave(self, view: AttemptView, request: LeaveRequest) -> bool:
        self._delivery.pass_on(view, request)
        never_begins = self._delivery.take_back(view)
        if request.ends:
            self._delivery.fence(view)
        return never_begins

    def _end(self, view: AttemptView) -> None:
        self._delivery.take_back(view)
        self._delivery.fence(view)
        if not view.over:
            self._delivery.pass_on(view, LeaveRequest.STOP)  # for runners whose job Slurm no longer knows
        view.reaped = True

    def _open_session(self, view: AttemptView, worker: WorkerStatus) -> socket.socket:
        job_id = observing.job_id(view.directory)
        if job_id is None:
            raise Refused("the worker has not started")
        try:
            return self._access.open_session(job_id, worker.node, self._delivery.installation)
        except Unavailable as error:
            with view.lock:
                view.refresh()  # a step that is just starting ends with the runners' job
                if view.over or any(words in error.message.lower() for words in SESSION_OVER):
                    raise Refused("the worker has ended") from None
            raise

    # --- optional abilities ----------------------------------------------------------------------

    def capacity(self) -> Sequence[Node]:
        return self._site.nodes()

    def queues(self) -> Sequence[QueueOffer]:
        return self._site.queues()

    def read_capacity(self) -> None:
        """Read the partition now, before its next scheduled read. Raises Unavailable."""
        self._site.read()

    def script(self, request: SlurmRequest) -> str:
        return request.script

    def close(self) -> None:
        """Do nothing: connections end with the process."""

    def pace(self) -> Pace:
        return Pace(
            observe_s=self._tempo.query_s,
            idle_s=self._tempo.idle_s,
            read_s=0.5,
            rest_s=2.0,
            longest_rest_s=60.0,
        )

    def examine(self, cluster: Cluster) -> Sequence[Finding]:  # noqa: ARG002 - there is one
        return self._access.examine(
            Examined(
                site=self._site,
                installation=self._delivery.installation,
                prepare=self._delivery.prepare,
                sidecar=self._sidecar,
                driver=self._attempts.containers.driver,
            )
        )

    def artifact_files(self, system_user: str | None = None) -> StoreFiles | None:  # noqa: ARG002 - one for all
        return self._delivery.store_files

    # --- inside ----------------------------------------------------------------------------------

    def _preparation(self, launch: Launch) -> str:  # noqa: ARG002 - for engines of other sites
        """The lines of a job before its runners start."""
        return ""

    def _reachable(self) -> Mapping[str, Host]:
        return {"": self._host}

    def _host_with(self, attempt_id: str, path: str) -> Host:  # noqa: ARG002 - it has all files
        return self._host

    def _tell_later(self, attempt_id: str) -> None:
        """Notify after the next query: the attempt has almost ended, and the missing facts are known then."""
        if self._listeners:
            timer = Timer(self._tempo.query_s, self._tell, (attempt_id,))
            timer.daemon = True
            timer.start()

    def _left(self, views: Mapping[str, AttemptView], error: Unavailable) -> Mapping[str, Observation]:
        """While Slurm does not answer: the attempts that left on request. Raises the error if none did."""
        self._host.refresh(list(views))
        for view in views.values():
            with view.lock:
                view.final = observing.left(view, observing.job_id(view.directory) or "")
        if all(view.final is None for view in views.values()):
            raise error
        return {attempt_id: view.final or NO_ANSWER for attempt_id, view in views.items()}

    def _recorded(self, views: Mapping[str, AttemptView], snapshot: Snapshot) -> Snapshot:
        """The records in accounting of jobs missing from the queue, in one query."""
        missing = []
        for attempt_id, view in views.items():
            job_id = observing.job_id(view.directory)
            if job_id is not None and snapshot.job(attempt_id, job_id) is None:
                missing.append(job_id)
        return self._queue.recorded(missing)

    def _observe(self, view: AttemptView, snapshot: Snapshot, recorded: Snapshot) -> Observation:
        with view.lock:
            if view.damage is not None:
                return lost(view.damage)
            if observing.begun(view.directory) == observing.TAKEN_BACK:
                return observing.taken_back(view)
            job_id = observing.job_id(view.directory)
            job = snapshot.job(view.attempt_id, job_id) or recorded.job(view.attempt_id, job_id)
            seen = observing.reported(view)
            if not observing.left_as_requested(view, seen):
                judged = self._judge(view, snapshot, job, job_id, seen)
                if judged.state is not ObservedState.ENDED:
                    if seen.state is ObservedState.ENDED or view.attempt_id in self._over_since:
                        self._tell_later(view.attempt_id)
                    return judged
                seen = judged
            if seen.native is None and job_id is not None:
                seen = observing.with_job(seen, job, job_id)
            view.final = seen
            self._over_since.pop(view.attempt_id, None)
            self._claimed_at.pop(view.attempt_id, None)
            return seen

    def _judge(
        self, view: AttemptView, snapshot: Snapshot, job: Job | None, job_id: str | None, seen: Observation
    ) -> Observation:
        """The state of an attempt whose runners have not reported its end."""
        if job is None:
            if job_id is None:
                return NOT_SUBMITTED
            if self._delivery.submitted_after(view.attempt_id, snapshot.began_at):
                return observing.just_submitted(job_id)
        stage = Stage.OVER if job is None else meaning(job.state).stage
        claimed = any(node.facts.state is not PartState.UNCLAIMED for node in view.nodes)
        if job is not None and stage is Stage.WAITS and claimed:
            claimed_at = self._claimed_at.setdefault(view.attempt_id, time.monotonic())
            if snapshot.began_at > claimed_at:
                # First, because the cancellation is not its end. Slurm would start the job again: the next
                # attempt has its own.
                self._delivery.end_survivors(view, observing.REQUEUED)
                self._access.cancel([job.id])
                return observing.requeued(job.id)
            # The query preceded the start of the job: the next answer shows whether it still waits.
        if job is not None and stage in (Stage.WAITS, Stage.ACTIVE):
            if observing.stop_is_overdue(view):
                self._access.cancel([job.id])
            if stage is Stage.ACTIVE:
                found = observing.going_on(view, job, seen, forgotten_s=self._tempo.forgotten_s)
                if found.state is ObservedState.ENDED:  # Slurm keeps its nodes until the job is cancelled
                    self._access.cancel([job.id])
                return found
            place, reason = self._access.place_of(job.id), self._access.exceeded_by(job)
            return observing.going_on(view, job, seen, place=place, reason=reason)
        if job is not None and stage is Stage.UNKNOWN:
            return Observation(state=ObservedState.UNKNOWN, native_state=job.state)
        state = job.state if job is not None else GONE_STATE
        now = time.monotonic()
        over_s, lag_s = now - self._over_since.setdefault(view.attempt_id, now), self._tempo.report_lag_s
        late = seen.state is not ObservedState.ENDED
        if late and self._delivery.may_say_more(view, state, over_s=over_s, lag_s=lag_s):
            return Observation(state=ObservedState.UNKNOWN, native_state=state)
        assert job is not None or job_id is not None
        found_id = job.id if job is not None else job_id or ""
        if observing.over_as(view.directory) == observing.REQUEUED:
            return observing.requeued(found_id)
        log = observing.JobLog(self._host, self._host.directory(view.attempt_id))
        return observing.ended(view, job, found_id, seen, log=log)

    def _withdraw(self, view: AttemptView) -> None:
        """Cancel the jobs that an attempt has in the queue. Raises Unavailable.

        Jobs are identified by name: if a controller has lost its state, the number may be another job's.
        """
        job_id = observing.job_id(view.directory)
        found = self._queue.now(fresh=True).of(view.attempt_id, job_id)
        open_jobs = [job.id for job in found if meaning(job.state).stage is not Stage.OVER]
        if open_jobs:
            self._access.cancel(open_jobs)

    def _known(self, attempt_ids: Sequence[str]) -> dict[str, AttemptView | None]:
        """The views of attempts; the host is queried for unknown ones."""
        views = {attempt_id: self._views.find(attempt_id) for attempt_id in attempt_ids}
        new = [attempt_id for attempt_id, view in views.items() if view is None]
        if new:
            self._host.refresh(new)
        return views | {attempt_id: self._views.find(attempt_id) for attempt_id in new}

    def _find(self, attempt_id: str) -> AttemptView | None:
        """The view of an attempt, with the host's current facts; None if it is unknown."""
        self._host.refresh([attempt_id])
        return self._views.find(attempt_id)
