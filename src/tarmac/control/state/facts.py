"""Converts records to the scheduler's facts: runs to candidates and holdings.

Pure; used by `run_cache`, `admission`.
"""

from tarmac.model.changes import group_of
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunState
from tarmac.model.resources import Resources
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import Role, RunSpec, Target
from tarmac.sched import Candidate, Demand, Holding

LEAVING_STATES = frozenset({RunState.PAUSING, RunState.PREEMPTING, RunState.STOPPING})

Shape = tuple[tuple[Demand, ...], Target]
"""The demands of a run and their target: one shared object for all equal requests makes cycles quicker."""


def shape_of(spec: RunSpec) -> Shape:
    """The shape of a run of this spec."""
    return tuple(_demand(role) for role in spec.roles), spec.target


def candidate_of(run: Run, shape: Shape | None = None, *, over_limit: str | None = None) -> Candidate:
    """The run as the scheduler sees it; `shape` is that of its spec, if known already.

    `over_limit` is the reason why it has to wait for others of its group.
    """
    spec, place = run.spec, run.place
    demands, target = shape or shape_of(spec)
    if run.excluded_nodes:
        target = replace(target, excluded=(*target.excluded, *run.excluded_nodes))
    return Candidate(
        run_id=run.id,
        seq=run.seq,
        demands=demands,
        target=target,
        mode=spec.mode,
        queueing=spec.queueing,
        priority=place.priority,
        weight=place.weight,
        position=place.position,
        submitted_at=run.created_at,
        queued_at=run.queued_at if run.queued_at is not None else run.created_at,
        owner=run.user,
        project=spec.project,
        attempts=run.attempt,
        attained_slot_s=run.attained_slot_s,
        time_limit_s=spec.time_limit_s,
        name=spec.name,
        ran_s=run.ran_s,
        pool=place.pool,
        share=run.share,
        turns_left=spec.max_rapid_cycles - run.turns,
        not_before=None if run.retry is None else run.retry.at,
        awaits=tuple(each.run_id for each in run.awaits),
        group=group_of(run),
        over_limit=over_limit,
    )


def holding_of(run: Run, attempt: Attempt, shape: Shape | None = None) -> Holding:
    """The resources of a run with a live attempt."""
    return Holding(
        candidate=candidate_of(run, shape),
        allocation=attempt.current_allocation,
        granted_at=attempt.created_at,
        started_at=attempt.started_at,
        checkpoint_at=attempt.milestones.checkpoint_at,
        leaving=run.state in LEAVING_STATES,
        grace_s=run.spec.pause.grace_s,
        requeues=run.state is RunState.PREEMPTING,
        leave_requested_at=attempt.leave_requested_at,
        allotted_s=attempt.allotted_s,
    )


def _demand(role: Role) -> Demand:
    if role.slots is not None:
        per_slot = role.replica_resources
        each = Resources(slot_type=role.slot_type, cpus=per_slot.cpus, memory_bytes=per_slot.memory_bytes)
        return Demand(
            role=role.name, replicas=None, slots=role.slots, each=each, uneven=role.uneven, nodes=role.nodes
        )
    return Demand(role=role.name, replicas=role.replicas, slots=None, each=role.replica_resources)


MOST_SHAPES = 10_000

MOST_SPECS = 1000
"""The maximum of cached specs: a run is cached soon after its admission, so few are needed at a time."""


class Shapes:
    """Shapes by the objects of a spec that define its demands, by identity and by value.

    Runs with equal demands share one object, which makes cycles of the scheduler quicker. From any thread:
    two threads find equal values.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[tuple[Role, ...], Target, Shape]] = {}
        self._shared: dict[Shape, Shape] = {}

    def of(self, spec: RunSpec) -> Shape:
        """The shape of a run of this spec: the same object for all equal demands."""
        key = id(spec.roles), id(spec.target)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_SPECS:
                self._known.clear()
            if len(self._shared) >= MOST_SHAPES:
                self._shared.clear()
            shape = shape_of(spec)
            known = self._known[key] = spec.roles, spec.target, self._shared.setdefault(shape, shape)
        return known[2]  # the cache holds the objects, so that no others get their ids
