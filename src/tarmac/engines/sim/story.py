"""The story of one simulated attempt: a pure function of its behaviour and of the actions on it.

Tests and simulations give the engine a function from a launch to a `Behaviour`. Used by `world` and
`engine`. They store the facts (when it was submitted, which requests it got and when) and compute the
story here; time is not stepped, so a history costs nothing between its events.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor

from tarmac.model.codec import replace
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import NOTHING_SEEN, Cause, CauseCode, Milestones, Outcome, SavedWork
from tarmac.model.run import Release
from tarmac.node.attempt.document import Launch, WorkerLaunch
from tarmac.node.attempt.words import LEAVE_STRENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The behaviour of one attempt. The default works for a minute and exits 0.

    `duration_s` is the work of the whole run: with a `checkpoint_period_s`, an attempt continues from the
    last checkpoint of earlier ones, else it begins anew. `start_s` passes between submission and the first
    instruction; one that `hangs_at_start` never gets there. After a request to leave, it takes `leave_s`
    (never more than its grace), and all of its grace if it `ignores_requests`. Its first output comes
    `first_output_s` after the start. It exits with `exit_code` or by `exit_signal`; after `finished`, an exit
    0 is complete despite any request. Its node is lost `vanishes_after_s` after the start. A replica in
    `replicas_end_s`, by role and number, completes after that time, while the others continue. The attempt
    writes `output` to its first worker's log.
    """

    duration_s: float = 60.0
    start_s: float = 0.0
    hangs_at_start: bool = False
    checkpoint_period_s: float | None = None
    first_output_s: float = 0.0
    leave_s: float = 0.0
    ignores_requests: bool = False
    exit_code: int = 0
    exit_signal: str | None = None
    finished: bool = False
    vanishes_after_s: float | None = None
    replicas_end_s: Mapping[tuple[str, int], float] = field(default_factory=dict)
    output: bytes = b""


TAIL_LINES = 20


@dataclass(slots=True, kw_only=True)
class Facts:
    """The actions on an attempt. `launch` None: it was fenced before its submission.

    `progress_s` is the work that earlier attempts had saved; `requests` are (time, request), oldest first.
    """

    launch: Launch | None
    behaviour: Behaviour
    submitted_at: float
    progress_s: float = 0.0
    requests: list[tuple[float, LeaveRequest]] = field(default_factory=list)
    lost_at: float | None = None
    lost_node: str | None = None
    reaped_at: float | None = None


ENDLESS = Observation(state=ObservedState.ENDED)
"""The story of an attempt that never starts. A story has the times of an attempt (None: never, by the current
facts), and how it ends; `SimulatedEngine` derives the state by a moment.
"""


def tell(facts: Facts) -> Observation:
    """The complete story of an attempt, by the current facts."""
    story = _undisturbed(facts)
    losses = [at for at in (facts.lost_at, facts.reaped_at) if at is not None]
    if losses and (story.ended_at is None or min(losses) < story.ended_at):
        return _lost(facts, story, min(losses))
    return story


def releases(facts: Facts, story: Observation, by: float) -> tuple[Release, ...]:
    """The replicas that have ended by then, while the attempt is still running."""
    if facts.launch is None or story.started_at is None:
        return ()
    if story.ended_at is not None and story.ended_at <= by:
        return ()
    workers = {(worker.role, worker.replica) for node in facts.launch.nodes for worker in node.workers}
    ends = ((key, story.started_at + s) for key, s in facts.behaviour.replicas_end_s.items())
    return tuple(
        Release(role=role, replica=replica, at=at)
        for (role, replica), at in ends
        if at <= by and (role, replica) in workers
    )


def saved_s(facts: Facts, story: Observation) -> float:
    """The run's work in its checkpoints after this attempt and its story."""
    behaviour = facts.behaviour
    if behaviour.checkpoint_period_s is None:
        return 0.0
    if story.started_at is None or story.ended_at is None or story.ended_at <= story.started_at:
        return facts.progress_s
    done_s = min(story.ended_at - story.started_at, behaviour.duration_s - facts.progress_s)
    if story.outcome in (Outcome.PAUSED, Outcome.PREEMPTED) and not behaviour.ignores_requests:
        return facts.progress_s + done_s  # it saves its state before its exit
    periods = floor(done_s / behaviour.checkpoint_period_s)
    return facts.progress_s + periods * behaviour.checkpoint_period_s


def milestones(facts: Facts, story: Observation, by: float) -> Milestones:
    """The nodes' milestones of an attempt by then: output, checkpoints, and its restored checkpoint."""
    started_at, behaviour = story.started_at, facts.behaviour
    if started_at is None or started_at > by:
        return NOTHING_SEEN
    over = story.ended_at is not None and story.ended_at <= by
    until = story.ended_at if over and story.ended_at is not None else by
    output_at = started_at + behaviour.first_output_s
    checkpoint_at = None
    if behaviour.checkpoint_period_s is not None:
        periods = floor((until - started_at) / behaviour.checkpoint_period_s)
        checkpoint_at = started_at + periods * behaviour.checkpoint_period_s if periods else None
        if over and story.outcome in (Outcome.PAUSED, Outcome.PREEMPTED) and not behaviour.ignores_requests:
            checkpoint_at = until  # it saves its state before its exit
    return Milestones(
        first_output_at=output_at if output_at <= until else None,
        checkpoint_at=checkpoint_at,
        read_at=started_at if facts.progress_s > 0.0 else None,
        kept=SavedWork(checkpoint_at) if over and checkpoint_at is not None else None,
    )


def _undisturbed(facts: Facts) -> Observation:
    """The story of an attempt whose node stays, apart from the losses that its behaviour causes itself."""
    behaviour, launch = facts.behaviour, facts.launch
    stopped_at = next((at for at, request in facts.requests if request.ends), None)
    started_at = facts.submitted_at + behaviour.start_s
    never = launch is None or behaviour.hangs_at_start
    if stopped_at is not None and (never or stopped_at < started_at):
        cause = Cause(code=CauseCode.USER_REQUEST, message="stopped before it started")
        return replace(ENDLESS, ended_at=stopped_at, outcome=Outcome.STOPPED, cause=cause)
    if launch is None or behaviour.hangs_at_start:
        return ENDLESS
    requests = [(max(at, started_at), request) for at, request in facts.requests]
    if launch.time_limit_s is not None:
        requests.append((started_at + launch.time_limit_s, LeaveRequest.TIME_LIMIT))
        requests.sort(key=lambda item: item[0])
    finish_at = started_at + max(0.0, behaviour.duration_s - facts.progress_s)
    vanish_at = None if behaviour.vanishes_after_s is None else started_at + behaviour.vanishes_after_s
    leave_at = _leave_at(requests, behaviour, launch)
    end_at = finish_at if leave_at is None else min(finish_at, leave_at)
    if vanish_at is not None and vanish_at < end_at:
        begun = replace(ENDLESS, claimed_at=facts.submitted_at, started_at=started_at)
        return _lost(facts, begun, vanish_at)
    # A request at the very moment of the finish comes too late.
    heard = [request for at, request in requests if at < end_at or at == end_at != finish_at]
    request = max(reversed(heard), key=LEAVE_STRENGTH.__getitem__, default=None)  # the last of equals
    outcome, why = _judge(facts, launch, request, by_itself=end_at == finish_at)
    return Observation(
        state=ObservedState.ENDED,
        claimed_at=facts.submitted_at,
        started_at=started_at,
        ended_at=end_at,
        outcome=outcome,
        cause=why,
    )


def _leave_at(
    requests: list[tuple[float, LeaveRequest]], behaviour: Behaviour, launch: Launch
) -> float | None:
    if not requests:
        return None
    stay_s = launch.grace_s if behaviour.ignores_requests else min(behaviour.leave_s, launch.grace_s)
    ended_at = next((at for at, request in requests if request is LeaveRequest.STOP_NOW), float("inf"))
    return min(requests[0][0] + stay_s, ended_at)


def _judge(
    facts: Facts, launch: Launch, request: LeaveRequest | None, *, by_itself: bool
) -> tuple[Outcome, Cause | None]:
    """The outcome of an attempt that ended on its node: from its request, then from its exit."""
    if request is not None and request.ends:
        return Outcome.STOPPED, Cause(code=CauseCode.USER_REQUEST, message="stopped by a user")
    if request is LeaveRequest.TIME_LIMIT:
        return Outcome.FAILED, Cause(code=CauseCode.TIME_LIMIT, message="reached its time limit")
    if by_itself and (failure := _failure(facts.behaviour, launch)):
        return Outcome.FAILED, failure
    if request is None or (by_itself and facts.behaviour.finished):
        return Outcome.COMPLETED, None
    if request is LeaveRequest.PREEMPT:
        return Outcome.PREEMPTED, Cause(code=CauseCode.PREEMPTION, message="preempted by another run")
    return Outcome.PAUSED, Cause(code=CauseCode.USER_REQUEST, message="paused by a user")


def _failure(behaviour: Behaviour, launch: Launch) -> Cause | None:
    """The cause of a worker that fails by itself; the first worker of the launch is the one."""
    if behaviour.exit_code == 0 and behaviour.exit_signal is None:
        return None
    node, worker = first_worker(launch)
    how = f"exited with {behaviour.exit_code}"
    if behaviour.exit_signal is not None:
        how = f"was ended by {behaviour.exit_signal}"
    return Cause(
        code=CauseCode.EXIT_CODE if behaviour.exit_signal is None else CauseCode.SIGNAL,
        message=f"worker {worker.name} on node {node} {how}",
        role=worker.role,
        replica=worker.replica,
        worker=worker.worker,
        node=node,
        exit_code=behaviour.exit_code if behaviour.exit_signal is None else None,
        signal=behaviour.exit_signal,
        tail=tuple(behaviour.output.decode(errors="replace").splitlines()[-TAIL_LINES:]),
    )


def first_worker(launch: Launch) -> tuple[str, WorkerLaunch]:
    """The worker that writes the attempt's output and fails if required, and its node."""
    return next((node.node, worker) for node in launch.nodes for worker in node.workers)


def _lost(facts: Facts, story: Observation, at: float) -> Observation:
    begun = replace(ENDLESS, claimed_at=story.claimed_at)
    if story.started_at is not None and story.started_at <= at:
        begun = replace(begun, started_at=story.started_at)
    if at == facts.reaped_at:
        cause = Cause(code=CauseCode.PLATFORM_FAULT, message="what was left of the attempt was cleared away")
    else:
        node = facts.lost_node or (facts.launch.nodes[0].node if facts.launch else None)
        cause = Cause(code=CauseCode.NODE_LOST, message=f"node {node} was lost", node=node)
    return replace(begun, ended_at=at, outcome=Outcome.LOST, cause=cause)
