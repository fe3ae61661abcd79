"""Derives the state of an attempt from those of its nodes: pure, so that every mixture can be tested.

Called by engines and views. An attempt is running when all of its nodes are, and has ended when all of them
have.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import reduce
from typing import Any

from tarmac.model import codec
from tarmac.model.codec import replace
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import (
    NOTHING_SEEN,
    PLATFORM_FAULTS,
    AttemptImage,
    Cause,
    CauseCode,
    Outcome,
    Sighting,
    merge_milestones,
)


class PartState(StrEnum):
    """The state of a node's part of an attempt. `fenced`: its claim was taken, so it never starts."""

    UNCLAIMED = "unclaimed"
    FENCED = "fenced"
    CLAIMED = "claimed"
    RUNNING = "running"
    ENDED = "ended"


OVER = frozenset({PartState.FENCED, PartState.ENDED})


class NodeFacts(Sighting, frozen=True, kw_only=True):
    """The facts about one node's part.

    `ended` is the runner's last event, or the engine's replacement for it if the runner was lost; then
    `ended_at` is the last sign of life. `name` is the name of a node that was first known by its rank.
    """

    node: str
    state: PartState
    name: str | None = None
    ended: Mapping[str, Any] | None = None


def lost(cause: Cause) -> Mapping[str, Any]:
    """The last event of a runner that could not write one."""
    return {"outcome": Outcome.LOST, "cause": codec.encode(cause)}


def observation(facts: Sequence[NodeFacts], request: LeaveRequest | None) -> Observation:
    """The observation of an attempt, from its nodes and its request to leave."""
    native_state = ", ".join(f"{fact.node}: {fact.state}" for fact in facts)
    claimed_at = min((fact.claimed_at for fact in facts if fact.claimed_at is not None), default=None)
    started_at = _latest([fact.started_at for fact in facts])
    names = [fact.name for fact in facts if fact.name is not None]
    nodes = tuple(names) if len(names) == len(facts) else ()
    seen = reduce(merge_milestones, (fact.milestones for fact in facts), NOTHING_SEEN)
    seen = replace(
        seen, image=_image([each for fact in facts if (each := fact.milestones.image) is not None])
    )
    going_on = Observation(
        state=ObservedState.STARTING if started_at is None else ObservedState.RUNNING,
        claimed_at=claimed_at,
        started_at=started_at,
        milestones=replace(seen, over_at=None),
        nodes=nodes,
        native_state=native_state or PartState.FENCED,
    )
    if any(fact.state not in OVER for fact in facts):
        return going_on
    outcome, cause = _ending(facts, request)
    ended_at = max((fact.ended_at for fact in facts if fact.ended_at is not None), default=None)
    ended = replace(going_on, state=ObservedState.ENDED, outcome=outcome, cause=cause, ended_at=ended_at)
    return ended if outcome is Outcome.LOST else replace(ended, milestones=seen)


def _latest(times: Sequence[float | None]) -> float | None:
    """The last of the times; None if one is missing (or there are none)."""
    known = [at for at in times if at is not None]
    return max(known) if known and len(known) == len(times) else None


def _image(seen: Sequence[AttemptImage]) -> AttemptImage | None:
    """The image of the node with the slowest fetch: the others had it, or needed less time."""
    slowest = max(seen, key=lambda each: (each.fetch_s, each.digest), default=None)
    digest = next((each.digest for each in seen if each.digest), "")
    return None if slowest is None else replace(slowest, digest=slowest.digest or digest)


def _ending(facts: Sequence[NodeFacts], request: LeaveRequest | None) -> tuple[Outcome, Cause | None]:
    events = _explaining(facts)
    if events:
        outcome, found = combine(events)
        cause = codec.decode(Cause, found) if found else None
        if outcome is Outcome.FAILED and cause is not None and cause.code in PLATFORM_FAULTS:
            outcome = Outcome.LOST  # reported by a peer of the lost node
        matches = [match for event in events for match in event.get("log_matches", ())]
        if matches and cause is not None:
            cause = replace(cause, log_matches=tuple(matches))
        return outcome, cause
    if request is not None and request.ends:
        return Outcome.STOPPED, Cause(code=CauseCode.USER_REQUEST, message="stopped before it started")
    return Outcome.LOST, Cause(code=CauseCode.PLATFORM_FAULT, message="cleared away before it started")


def combine(ended: Sequence[Mapping[str, Any]]) -> tuple[Outcome, Mapping[str, Any] | None]:
    """The outcome of an attempt and its cause, from the `ended` events of all its nodes.

    The SDK's report on any node decides; otherwise the worst outcome counts: a failure, then the request to
    leave.
    """
    if not any(item.get("finished") for item in ended):
        for outcome in _WORST_FIRST:
            for item in ended:
                if item["outcome"] == outcome:
                    return outcome, item.get("cause")
    return Outcome.COMPLETED, None


_WORST_FIRST = (Outcome.FAILED, Outcome.LOST, Outcome.STOPPED, Outcome.PREEMPTED, Outcome.PAUSED)


def _explaining(facts: Sequence[NodeFacts]) -> list[Mapping[str, Any]]:
    """The last events that explain the end: after the loss of a runner, its peers' workers fail as well."""
    ends = [(fact.ended_at or 0.0, fact.ended) for fact in facts if fact.ended is not None]
    lost_at = min((at for at, ended in ends if ended["outcome"] == Outcome.LOST), default=None)
    if lost_at is None:
        return [ended for _, ended in ends]
    return [ended for at, ended in ends if ended["outcome"] != Outcome.FAILED or at < lost_at]
