"""The lifecycle of a run and of an attempt: one table each, and everything derived from it. Also the modes of
runs, requests to leave, and the states of experiments and trials.

All decisions on which state may follow which are in this file: the sets of states, the SQL guards of `store`
and the diagram in `docs/using/lifecycle.md` are computed from the tables. The reasons of events are not:
those belong to `control`. A state exists only for a possibly long wait, and is named after what it waits for.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache

from tarmac.model.errors import Refused


class ExperimentState(StrEnum):
    """The state of an experiment. STOPPING: it waits for its trials to leave."""

    ACTIVE = "active"
    PAUSED = "paused"
    STOPPING = "stopping"
    ENDED = "ended"


class TrialState(StrEnum):
    """The state of a trial. WAITING: until the search lets it continue. CLOSING: it is being ended."""

    OPEN = "open"
    WAITING = "waiting"
    CLOSING = "closing"
    ENDED = "ended"


class RunState(StrEnum):
    """The state of a run, named after what it waits for."""

    PENDING = "pending"
    QUEUED = "queued"
    SUBMITTED = "submitted"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    PREEMPTING = "preempting"
    STOPPING = "stopping"
    ENDED = "ended"


class RunEvent(StrEnum):
    """An event of a run."""

    ACCEPTED = "accepted"  # submitted, durable
    STAGED = "staged"  # its code is in the snapshot store
    PLACED = "placed"  # granted an allocation: an attempt begins
    SUBMITTED = "submitted"  # given to a cluster with a queue of its own: an attempt begins, and waits there
    GRANTED = "granted"  # that cluster has given it nodes
    STARTED = "started"  # every worker of the attempt runs
    RELEASED = "released"  # replicas have ended while others continue: their slots are free
    PAUSE_REQUESTED = "pause_requested"
    ATTEMPT_PAUSED = "attempt_paused"  # the attempt left as requested
    RESUME_REQUESTED = "resume_requested"
    PREEMPT_REQUESTED = "preempt_requested"
    VACATED = "vacated"  # the preempted attempt left, or its cluster took it back: in the queue again
    RETRIED = "retried"  # failed, with retries left: in the queue again
    FAULTED = "faulted"  # the platform ended the attempt: in the queue again, from the last checkpoint
    DEPENDENCY_MET = "dependency_met"  # a run that it depends on has ended as required
    REORDERED = "reordered"  # a person moved it in the queue
    SESSION_OPENED = "session_opened"  # a person runs a command, or reaches a port, beside a worker
    STOP_REQUESTED = "stop_requested"
    FINISHED = "finished"  # nothing more follows


class AttemptState(StrEnum):
    """The state of an attempt, named after what it waits for."""

    SUBMITTED = "submitted"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class IllegalStep(Refused):
    """The table has no such event in this state."""


_S = RunState
_E = RunEvent

_OVER = {_E.VACATED: _S.QUEUED, _E.RETRIED: _S.QUEUED, _E.FAULTED: _S.QUEUED, _E.FINISHED: _S.ENDED}
"""The ends of an attempt without a request to pause or stop."""

_WORKS = {
    _E.PAUSE_REQUESTED: _S.PAUSING,
    _E.PREEMPT_REQUESTED: _S.PREEMPTING,
    _E.STOP_REQUESTED: _S.STOPPING,
    **_OVER,
}
"""The events of an attempt on its nodes."""


def _stays(state: RunState, *events: RunEvent) -> Mapping[RunEvent, RunState]:
    """The events that leave a run in its state."""
    return dict.fromkeys(events, state)


_ATTENDED = (_E.RELEASED, _E.SESSION_OPENED)

RUN_TABLE: Mapping[RunState, Mapping[RunEvent, RunState]] = {
    _S.PENDING: {
        _E.STAGED: _S.QUEUED,
        _E.STOP_REQUESTED: _S.ENDED,
        _E.FINISHED: _S.ENDED,
        **_stays(_S.PENDING, _E.REORDERED),
    },
    _S.QUEUED: {
        _E.PLACED: _S.STARTING,
        _E.SUBMITTED: _S.SUBMITTED,
        _E.PAUSE_REQUESTED: _S.PAUSED,
        _E.STOP_REQUESTED: _S.ENDED,
        _E.FINISHED: _S.ENDED,  # never fits, is busy and may not wait, or depends on a failed run
        **_stays(_S.QUEUED, _E.DEPENDENCY_MET, _E.REORDERED),
    },
    _S.SUBMITTED: {
        _E.GRANTED: _S.STARTING,
        _E.PAUSE_REQUESTED: _S.PAUSING,
        _E.STOP_REQUESTED: _S.STOPPING,
        **_OVER,
        **_stays(_S.SUBMITTED, _E.SESSION_OPENED),  # its workers run, and the next observation reports it
    },
    _S.STARTING: {_E.STARTED: _S.RUNNING, **_WORKS, **_stays(_S.STARTING, _E.REORDERED, *_ATTENDED)},
    _S.RUNNING: {**_WORKS, **_stays(_S.RUNNING, _E.REORDERED, *_ATTENDED)},
    _S.PAUSING: {
        _E.ATTEMPT_PAUSED: _S.PAUSED,
        _E.RESUME_REQUESTED: _S.PREEMPTING,  # the user resumes it: it leaves, and is queued again
        _E.STOP_REQUESTED: _S.STOPPING,
        _E.FINISHED: _S.ENDED,
        **_stays(_S.PAUSING, _E.REORDERED, *_ATTENDED),
    },
    _S.PAUSED: {
        _E.RESUME_REQUESTED: _S.QUEUED,
        _E.STOP_REQUESTED: _S.ENDED,
        **_stays(_S.PAUSED, _E.REORDERED),
    },
    _S.PREEMPTING: {
        _E.PAUSE_REQUESTED: _S.PAUSING,
        _E.STOP_REQUESTED: _S.STOPPING,
        **_OVER,
        **_stays(_S.PREEMPTING, _E.REORDERED, *_ATTENDED),
    },
    _S.STOPPING: {_E.FINISHED: _S.ENDED, **_stays(_S.STOPPING, *_ATTENDED)},
    _S.ENDED: {},
}

USER_ASKS = (RunEvent.PAUSE_REQUESTED, RunEvent.RESUME_REQUESTED, RunEvent.STOP_REQUESTED)
"""The events that a person causes."""

INITIAL_EVENT = RunEvent.ACCEPTED
INITIAL_STATE = RunState.PENDING

ATTEMPT_TABLE: Mapping[AttemptState, frozenset[AttemptState]] = {
    AttemptState.SUBMITTED: frozenset({AttemptState.STARTING, AttemptState.RUNNING, AttemptState.ENDED}),
    AttemptState.STARTING: frozenset({AttemptState.RUNNING, AttemptState.ENDED}),
    AttemptState.RUNNING: frozenset({AttemptState.ENDED}),
    AttemptState.ENDED: frozenset(),
}

TERMINAL_STATES = frozenset(state for state, steps in RUN_TABLE.items() if not steps)
LIVE_STATES = frozenset(RUN_TABLE) - TERMINAL_STATES
OCCUPYING_STATES = frozenset(
    state for state, steps in RUN_TABLE.items() if {_E.FAULTED, _E.VACATED, _E.ATTEMPT_PAUSED} & set(steps)
) | frozenset({_S.STOPPING})
"""States in which a run has a live attempt."""


def step(state: RunState, event: RunEvent) -> RunState:
    """The state after `event`; raises IllegalStep if the table has no such step."""
    following = RUN_TABLE[state].get(event)
    if following is None:
        asks = [_PHRASES[ask] for ask in USER_ASKS if ask in RUN_TABLE[state]]
        verb = "has" if state is _S.ENDED else "is"
        raise IllegalStep(
            f"a run that {verb} {state} cannot be {_PHRASES.get(event, event)}",
            hint=f"it can be {' or '.join(asks)}" if asks else None,
        )
    return following


def steps(state: RunState, events: Iterable[RunEvent]) -> RunState:
    """The state after several events in a row; raises IllegalStep at the first that is not in the table."""
    for event in events:
        state = step(state, event)
    return state


@cache
def sources(event: RunEvent) -> frozenset[RunState]:
    """The states in which `event` may happen: the guard of its SQL update."""
    return frozenset(state for state, following in RUN_TABLE.items() if event in following)


def attempt_step(state: AttemptState, following: AttemptState) -> AttemptState:
    """`following`, if an attempt may go there from `state`; raises IllegalStep otherwise."""
    if following not in ATTEMPT_TABLE[state]:
        raise IllegalStep(f"an attempt that is {state} cannot become {following}")
    return following


_PHRASES = {
    RunEvent.PAUSE_REQUESTED: "paused",
    RunEvent.RESUME_REQUESTED: "resumed",
    RunEvent.PREEMPT_REQUESTED: "preempted",
    RunEvent.STOP_REQUESTED: "stopped",
    RunEvent.PLACED: "placed",
    RunEvent.REORDERED: "given another place in the queue",
    RunEvent.SESSION_OPENED: "given a session",
}


class LeaveRequest(StrEnum):
    """A request to a live attempt to leave; the strongest one wins (stop over the others)."""

    PAUSE = "pause"
    PREEMPT = "preempt"
    STOP = "stop"
    STOP_NOW = "stop_now"  # without grace
    TIME_LIMIT = "time_limit"

    @property
    def ends(self) -> bool:
        """Whether a user ends the run for good with it."""
        return self in (LeaveRequest.STOP, LeaveRequest.STOP_NOW)


class Mode(StrEnum):
    """How a run shares its pool over time."""

    BATCH = "batch"
    CYCLE = "cycle"
    INTERRUPTIBLE = "interruptible"
    BURST = "burst"
