"""Changes to the store as data: `control` decides them, `store` applies each completely or not at all.

A change is guarded: it names the sequence number that it was decided on, and a store that has a newer one
drops it (stale). The result reports which changes were applied, so that `control` loads again and decides
again.
"""

from collections.abc import Callable

from msgspec import Struct

from tarmac.model.lifecycle import RunEvent
from tarmac.model.notification import Notification
from tarmac.model.progress import StepEvent
from tarmac.model.resources import UsageKey
from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch

HOUR_S = 3600.0


class NewRun(Struct, frozen=True, kw_only=True):
    """A run to accept. Its first events are ACCEPTED, then those in `events`: STAGED if it has no code, and
    PAUSE_REQUESTED if it is to start paused.

    `run.state` and `run.seq` are those after all of them.
    """

    run: Run
    events: tuple[RunEvent, ...]


def first_actor(new: NewRun, event: RunEvent) -> str | None:
    """The actor of one of the first events of a run: its user, or None for the platform's own STAGED."""
    return None if event is RunEvent.STAGED else new.run.user


class RunStep(Struct, frozen=True, kw_only=True):
    """One atomic change of one run: the record before and after, the events between, the changed attempt.

    Guard: the stored run still has `before.seq`, a state from which the first event may happen, and the
    `share` of `before`. `after.seq` = `before.seq` + len(events). `attempt` is inserted or replaced
    completely (same transaction). A step without events (a share is granted, or an attempt field alone
    changes) keeps `seq` and is guarded all the same. `notifications` are stored in the same transaction, to
    be sent.
    """

    before: Run
    after: Run
    events: tuple[StepEvent, ...]
    attempt: Attempt | None = None
    notifications: tuple[Notification, ...] = ()


class UsageBucket(UsageKey, frozen=True, kw_only=True):
    """The usage in a pool of attempts and replicas that ended in the hour from `hour_at`.

    In slot-seconds, divided by weight. `group` is their array or experiment ("": neither).
    """

    hour_at: float
    group: str = ""
    slot_s: float

    @property
    def key(self) -> tuple[float, str, str, str, str, str]:
        """All fields but the amount: buckets with equal keys add up."""
        return self.hour_at, self.cluster, self.pool, self.user, self.project, self.group


def group_of(run: Run) -> str | None:
    """The id of the array or experiment of a run."""
    trial = run.spec.trial
    return run.array_id if trial is None else trial.experiment


def usage_of(step: RunStep) -> UsageBucket | None:
    """The usage that a step adds: that of the attempt, or the replicas, that end with it.

    It counts once, because the step is guarded and has an event.
    """
    attempt = step.attempt
    if attempt is None:
        return None
    ended_at = attempt.ended_at
    if ended_at is None and attempt.released:
        ended_at = max(each.at for each in attempt.released)
    if ended_at is None:
        return None
    used_slot_s = step.after.attained_slot_s - step.before.attained_slot_s
    if used_slot_s <= 0.0:
        return None
    return UsageBucket(
        hour_at=ended_at // HOUR_S * HOUR_S,
        cluster=attempt.allocation.cluster,
        pool=attempt.allocation.pool,
        user=step.after.user,
        project=step.after.project,
        group=group_of(step.after) or "",
        slot_s=used_slot_s / step.after.place.weight,
    )


ApplyConventions = Callable[[Run, Attempt, Launch], Launch]
"""Adds what the conventions of the run's system promise to a launch: variables, files, mounts. Pure."""


def as_it_is(_run: Run, _attempt: Attempt, launch: Launch) -> Launch:
    """The `ApplyConventions` of no system: workers get only what tarmac itself promises."""
    return launch
