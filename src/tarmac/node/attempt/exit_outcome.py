"""The outcome of an attempt: a pure function of the request to leave, the exits and the SDK's report.

Called by the runner for its node; `engines/attempts/aggregate_outcome.py` combines those of all nodes.

    finished, as the SDK reports                      -> completed, regardless of the exits
    a failure ended the attempt, here or elsewhere    -> failed, by that
    asked to stop                                     -> stopped
    reached its time limit                            -> failed, time_limit
    asked to pause, or preempted, or its job ends
      soon, and every worker left with 0, by the
      signal, or by the runner's SIGKILL              -> paused or preempted
      otherwise                                       -> failed, by the first that left otherwise
    its lease expired: the node was cut off           -> lost, lease_expired
    the node ends the runner                          -> lost, platform_fault (retried automatically)
    not asked, a worker failed that ends no others    -> failed, by the first that did
    not asked, every worker left with 0               -> completed

A worker whose failure ends no others does not affect a pause: resuming the run starts that worker again.
"""

from __future__ import annotations

import signal
from typing import Any, NamedTuple, Optional, Sequence

from tarmac.node.attempt import words
from tarmac.node.attempt.document import WorkerLaunch

Cause = dict[str, Any]

LEFT_IN_TIME = "left before the end of its job's wall time"


class Exit(NamedTuple):
    """The exit of one worker. `fault` is the reason why it could not be started, if so.

    `leave_began`: the runner had asked the workers to leave, or was ending them for a peer's failure.
    `by_runner`: the runner's SIGKILL ended it. `by_launcher`: according to its last lines, a launcher
    (torchrun) left because of the signal. `memory` compares the worker's use with its limit, if it ran out of
    memory; `detail` gives the reason for an exit code other than 0, if known.
    """

    part: WorkerLaunch
    exit_code: Optional[int]
    signal: Optional[str]
    leave_began: bool = False
    by_runner: bool = False
    by_launcher: bool = False
    memory: Optional[str] = None
    detail: str = ""
    fault: Optional[str] = None
    tail: Sequence[str] = ()

    @property
    def good(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    @property
    def name(self) -> str:
        """The worker's name for messages."""
        name = f"worker {self.part.name}"
        return name if self.part.rank is None else f"rank {self.part.rank} ({name})"


class LeaveRequest(NamedTuple):
    """The reason why the workers were asked to leave, and the signal (None: by the pause file alone)."""

    kind: str
    signal: Optional[str]


class ExitOutcome(NamedTuple):
    """The outcome and its cause; a completed attempt has no cause."""

    outcome: str
    cause: Optional[Cause]


def node_outcome(
    exits: Sequence[Exit],
    *,
    node: str,
    request: Optional[LeaveRequest] = None,
    failure_cause: Optional[Cause] = None,
    node_leaves: bool = False,
    finished: bool = False,
    time_limit_s: Optional[float] = None,
) -> ExitOutcome:
    """The outcome of one node's part. `exits` are in the order in which the workers left.

    `failure_cause` is the failure that ended the attempt; `node_leaves`: the node asked the runner to leave.
    """
    if finished:
        return ExitOutcome(words.COMPLETED, None)
    if failure_cause is not None:
        at_fault = words.LOST if failure_cause.get("code") in words.PLATFORM_FAULTS else words.FAILED
        return ExitOutcome(at_fault, failure_cause)
    if exits and all(item.good and not item.leave_began for item in exits):
        return ExitOutcome(words.COMPLETED, None)  # all workers had completed before any request
    if request is None and node_leaves:
        message = f"{node} told its runner to leave"
        return ExitOutcome(words.LOST, cause_of(words.PLATFORM_FAULT, message, node=node))
    if request is None:
        bad = next((item for item in exits if not item.good), None)
        if bad is None:
            return ExitOutcome(words.COMPLETED, None)
        return ExitOutcome(words.FAILED, failure(bad, node=node))
    return _outcome_of_request(exits, node=node, request=request, time_limit_s=time_limit_s)


def failure(item: Exit, *, node: str) -> Cause:
    """The cause for a worker's failure."""
    if item.fault is not None:
        code, message = words.COMMAND_NOT_FOUND, f"{item.name} on {node} cannot start: {item.fault}"
    elif item.memory is not None:
        code, message = words.OUT_OF_MEMORY, f"{item.name} on {node} ran out of memory{item.memory}"
    elif item.signal is not None:
        code, message = words.SIGNAL, f"{item.name} on {node} was ended by {item.signal}"
    else:
        code, message = words.EXIT_CODE, f"{item.name} on {node} exited with {item.exit_code}{item.detail}"
    return cause_of(
        code,
        message,
        role=item.part.role,
        replica=item.part.replica,
        worker=item.part.worker,
        rank=item.part.rank,
        node=node,
        exit_code=item.exit_code,
        signal=item.signal,
        tail=list(item.tail),
    )


def cause_of(code: str, message: str, **fields: Any) -> Cause:
    """A cause, without fields that are None or empty lists."""
    known = {name: value for name, value in fields.items() if value is not None and value != []}
    return {"code": code, "message": message, **known}


def left_as_requested(item: Exit, by_signal: Optional[str]) -> bool:
    """Whether a worker left on request: with 0, by the signal, or by the runner's SIGKILL after the grace."""
    if item.good or item.by_runner:
        return True
    if by_signal is None:
        return False
    # 128 + n: a shell, or a program that handled the signal, passing it on.
    return item.signal == by_signal or item.exit_code == 128 + signal.Signals[by_signal] or item.by_launcher


def _outcome_of_request(
    exits: Sequence[Exit], *, node: str, request: LeaveRequest, time_limit_s: Optional[float]
) -> ExitOutcome:
    if request.kind in (words.STOP, words.STOP_NOW):
        return ExitOutcome(words.STOPPED, cause_of(words.USER_REQUEST, "stopped by request"))
    if request.kind == words.LEASE_EXPIRED:
        message = f"{node} was cut off: the server did not ask about the attempt for longer than its lease"
        return ExitOutcome(words.LOST, cause_of(words.LEASE_EXPIRED, message, node=node))
    if request.kind == words.TIME_LIMIT:
        limit = "its time limit" if time_limit_s is None else f"its time limit of {time_limit_s:g} s"
        return ExitOutcome(words.FAILED, cause_of(words.TIME_LIMIT, f"reached {limit}", node=node))
    otherwise = [item for item in exits if item.leave_began and not left_as_requested(item, request.signal)]
    if otherwise:
        return ExitOutcome(words.FAILED, failure(otherwise[0], node=node))
    if request.kind == words.WALL_TIME:
        return ExitOutcome(words.PREEMPTED, cause_of(words.WALL_TIME, LEFT_IN_TIME))
    if request.kind == words.PREEMPT:
        return ExitOutcome(words.PREEMPTED, cause_of(words.PREEMPTION, "preempted by another run"))
    return ExitOutcome(words.PAUSED, cause_of(words.USER_REQUEST, "paused by request"))
