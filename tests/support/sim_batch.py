"""`SimBatchEngine`: a simulated batch system with a queue of its own, behind the port of every engine.

Used in place of a delegated engine's system: jobs are submitted for a number of
nodes, wait, get nodes whose names were unknown before, and may be forgotten. A job with nodes behaves like
any simulated attempt (`world`, `story`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sim_engine import Behaviour, KnobbedEngine
from tarmac.engines.sim import story
from tarmac.engines.sim.clock import VirtualClock
from tarmac.engines.sim.engine import SimRequest
from tarmac.model.cluster import HOLD_S, Node, QueueOffer
from tarmac.model.codec import replace
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.loss import LEFT_AS_REQUESTED, lost
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import NativeStatus, Outcome
from tarmac.model.run import attempt_id as attempt_id_of
from tarmac.node.attempt.document import Launch, NodeLaunch
from tarmac.node.attempt.words import LEAVE_STRENGTH


@dataclass(slots=True, kw_only=True)
class Job:
    """A job of the system. `leave_request`: it left the queue for that; `lost`: it was forgotten.

    `launch` None: it was fenced before its submission. A later turn is in the job of the one before.
    """

    number: int
    launch: Launch | None
    granted_at: float | None = None
    nodes: tuple[str, ...] = ()
    leave_request: LeaveRequest | None = None
    lost: bool = False
    ended_at: float | None = None


class SimBatchEngine(KnobbedEngine):
    """A batch system of these nodes: strictly first come, first served.

    Knobs as in `KnobbedEngine`, adjustable at any time, and one more: while `closed`, no job gets nodes.
    `forget` makes the system lose a waiting job.
    """

    name = "sim-batch"
    system = "batch system"

    def __init__(
        self,
        clock: VirtualClock,
        nodes: Sequence[Node],
        *,
        behaviour: Callable[[Launch], story.Behaviour] = lambda _launch: Behaviour(),
    ) -> None:
        super().__init__(clock, behaviour=behaviour)
        self.forgotten: set[str] = set()
        self._closed = False
        self._nodes = tuple(nodes)
        self._free = {node.name: list(range(node.capacity.slots)) for node in nodes}
        self._jobs: dict[str, Job] = {}
        self._queue: list[str] = []
        self._allocated: dict[str, list[tuple[str, tuple[int, ...]]]] = {}

    # --- optional abilities ----------------------------------------------------------------------

    def capacity(self) -> Sequence[Node]:
        return self._nodes

    def read_capacity(self) -> None:
        """Do nothing: the capacity is always known."""

    def queues(self) -> Sequence[QueueOffer]:
        return ()

    def script(self, request: SimRequest) -> None:
        """None: a simulated job has no script."""

    # --- the system behind it --------------------------------------------------------------------

    def waiting(self) -> tuple[str, ...]:
        """The attempts that wait in the queue, the next to start first."""
        return tuple(self._queue)

    @property
    def closed(self) -> bool:
        """Whether jobs are held in the queue, as in a maintenance."""
        return self._closed

    @closed.setter
    def closed(self, closed: bool) -> None:
        with self._lock:
            self._closed = closed
            self._serve()

    def forget(self, attempt_id: str) -> None:
        """Make the system lose a waiting job for ever."""
        with self._lock:
            job = self._jobs[attempt_id]
            if job.granted_at is None and job.ended_at is None:
                self.forgotten.add(attempt_id)
                self._lose(attempt_id, job)

    # --- inside ----------------------------------------------------------------------------------

    def _submit(self, request: SimRequest) -> None:
        if request.attempt_id not in self._jobs and not self._take_over(request.launch):
            self._add_job(request.attempt_id, request.launch)
            self._queue.append(request.attempt_id)
            self._serve()

    def _request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        job = self._jobs.get(attempt_id)
        if job is None and request.ends:
            job = self._add_job(attempt_id, None)
        if job is not None and job.granted_at is None:
            self._leave(attempt_id, job, request)
        elif job is not None:
            super()._request_leave(attempt_id, request)

    def _reap(self, attempt_id: str) -> None:
        job = self._jobs.get(attempt_id) or self._add_job(attempt_id, None)
        if job.granted_at is not None:
            job.lost = True
            super()._reap(attempt_id)
            self._serve()
        elif job.ended_at is None:
            self._lose(attempt_id, job)

    def _add_job(self, attempt_id: str, launch: Launch | None) -> Job:
        job = self._jobs[attempt_id] = Job(number=len(self._jobs) + 1, launch=launch)
        return job

    def _on_news(self, attempt_id: str) -> None:
        self._serve()
        super()._on_news(attempt_id)

    def _leave(self, attempt_id: str, job: Job, request: LeaveRequest) -> None:
        """Remove a job from the queue, as requested; a stop overrides earlier requests."""
        known = job.leave_request
        if job.lost or (known is not None and LEAVE_STRENGTH[request] <= LEAVE_STRENGTH[known]):
            return
        job.leave_request = request
        if job.ended_at is None:
            job.ended_at = self._clock.now()
            self._drop(attempt_id)

    def _lose(self, attempt_id: str, job: Job) -> None:
        job.lost, job.ended_at = True, self._clock.now()
        self._drop(attempt_id)

    def _drop(self, attempt_id: str) -> None:
        if attempt_id in self._queue:
            self._queue.remove(attempt_id)
        self._serve()
        super()._on_news(attempt_id)

    def _serve(self) -> None:
        """Give nodes to the jobs at the head of the queue, while there are enough."""
        self._take_back()
        while self._queue and not self._closed:
            attempt_id = self._queue[0]
            job = self._jobs[attempt_id]
            assert job.launch is not None, "what was fenced is in no queue"
            if not self._begin(attempt_id, job, job.launch):
                return
            self._queue.pop(0)

    def _begin(self, attempt_id: str, job: Job, unplaced: Launch) -> bool:
        """Give a job nodes, where there are enough."""
        launch = self._placed(attempt_id, unplaced)
        if launch is None:
            return False
        job.granted_at = self._clock.now()
        job.nodes = tuple(node.node for node in launch.nodes)
        self.world.begin(launch, self.behaviour(launch))
        super()._on_news(attempt_id)
        return True

    def _take_over(self, launch: Launch) -> bool:
        """Begin the next turn of a cycle run in the job of the one before, where that keeps its nodes."""
        self._take_back()
        before = attempt_id_of(launch.run_id, launch.number - 1)
        if not launch.batch.turns or before not in self._allocated:
            return False
        self._give_back(before)
        job = self._jobs[launch.attempt_id] = Job(number=self._jobs[before].number, launch=launch)
        return self._begin(launch.attempt_id, job, launch)

    def _take_back(self) -> None:
        """Free the nodes of jobs that are over; a job with more turns to come keeps them for a while."""
        live = self.world.live()
        for attempt_id in [each for each in self._allocated if each not in live]:
            seen, job = super()._observe(attempt_id), self._jobs[attempt_id]
            more = seen.outcome is Outcome.PREEMPTED and job.launch is not None and job.launch.batch.turns > 1
            until = (seen.ended_at or 0.0) + HOLD_S if more and not job.lost else 0.0
            if self._clock.now() < until:
                self._clock.call_at(until, self._serve)
            else:
                self._give_back(attempt_id)

    def _give_back(self, attempt_id: str) -> None:
        for name, slots in self._allocated.pop(attempt_id):
            self._free[name] = sorted([*self._free[name], *slots])

    def _placed(self, attempt_id: str, launch: Launch) -> Launch | None:
        """The launch on actual nodes, each part on another; None while there are not enough."""
        taken: list[tuple[str, tuple[int, ...]]] = []
        placed: list[NodeLaunch] = []
        for part in launch.nodes:
            needed = sorted({slot for worker in part.workers for slot in worker.slots})
            used = {name for name, _ in taken}
            found = (
                node.name
                for node in self._nodes
                if node.name not in used and len(self._free[node.name]) >= len(needed)
            )
            name = next(found, None)
            if name is None:
                return None
            mapping = dict(zip(needed, self._free[name], strict=False))
            taken.append((name, tuple(mapping.values())))
            workers = tuple(
                worker._replace(slots=tuple(mapping[slot] for slot in worker.slots))
                for worker in part.workers
            )
            placed.append(part._replace(node=name, workers=workers))
        for name, slots in taken:
            self._free[name] = [slot for slot in self._free[name] if slot not in slots]
        self._allocated[attempt_id] = taken
        return launch._replace(nodes=tuple(placed))

    def _observe(self, attempt_id: str) -> Observation:
        job = self._jobs.get(attempt_id)
        if job is None:
            return Observation(state=ObservedState.ABSENT)
        native = NativeStatus(id=str(job.number), state="PENDING", reason=self._reason(attempt_id))
        if job.granted_at is not None:
            seen = super()._observe(attempt_id)
            running = replace(native, state=seen.native_state.upper(), reason="")
            return replace(seen, native=running, granted_at=job.granted_at, nodes=job.nodes)
        if job.lost:
            return replace(lost(f"job {job.number} is gone from its queue"), ended_at=job.ended_at)
        if job.leave_request is not None:
            return Observation(
                state=ObservedState.ENDED, outcome=LEFT_AS_REQUESTED[job.leave_request], ended_at=job.ended_at
            )
        return Observation(state=ObservedState.SUBMITTED, native=native, native_state="PENDING")

    def _reason(self, attempt_id: str) -> str:
        if self._closed:
            return "Maintenance"
        return "Resources" if self._queue[:1] == [attempt_id] else "Priority"
