"""Which messages a change of a run calls for: pure functions, called where changes are committed.

occasion    what happened
---------   ----------------------------------------------------------------
started     every worker of an attempt runs, for the first time
waiting     the run has been in a queue for as long as the subscription says
completed,  the run has ended so
failed,
stopped
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tarmac.model.changes import RunStep
from tarmac.model.lifecycle import RunEvent, RunState
from tarmac.model.notification import Failure, Notification, Occasion, Receiver, Subscription
from tarmac.model.run import Outcome, Run

QUEUES = frozenset({RunState.QUEUED, RunState.SUBMITTED})
"""States in which a run waits for what others hold."""

FIRST_RETRY_S, LONGEST_RETRY_S = 30.0, 3600.0
GIVES_UP_S = 24 * 3600.0
"""How long a message is tried."""

_OF_OUTCOMES = {
    Outcome.COMPLETED: Occasion.COMPLETED,
    Outcome.FAILED: Occasion.FAILED,
    Outcome.STOPPED: Occasion.STOPPED,
}


def with_notifications(step: RunStep, always: Sequence[Subscription]) -> RunStep:
    """The step with the messages that it calls for; `always` are subscriptions to every run."""
    if not step.events or not (always or step.after.spec.notify):
        return step
    messages = tuple(_messages(step, always))
    return replace(step, notifications=messages) if messages else step


def overdue(run: Run, always: Sequence[Subscription], now: float) -> list[Notification]:
    """The messages about a run that has waited too long by now; the same ones each time it is asked."""
    since = run.queued_at
    if run.state not in QUEUES or since is None:
        return []
    return [
        _message(run, Occasion.WAITING, each.receiver, now, {"waiting_s": each.waiting_s}, since=since)
        for each in (*run.spec.notify, *always)
        if Occasion.WAITING in each.on and now - since >= each.waiting_s
    ]


def next_overdue_at(run: Run, always: Sequence[Subscription]) -> float | None:
    """When the next message about the wait of a run is called for, be it past or not; None: never."""
    since = run.queued_at
    if run.state not in QUEUES or since is None:
        return None
    waits = [each.waiting_s for each in (*run.spec.notify, *always) if Occasion.WAITING in each.on]
    return since + min(waits) if waits else None


def after_try(message: Notification, failure: Failure | None, now: float) -> Notification:
    """The message once it was tried: it is sent, will be tried again, or is given up."""
    tries = message.tries + 1
    if failure is None:
        return replace(message, tries=tries, due_at=None, sent_at=now, error=None)
    over = failure.final or now - message.at >= GIVES_UP_S
    pause_s = min(FIRST_RETRY_S * 2.0 ** min(message.tries, 16), LONGEST_RETRY_S)
    return replace(message, tries=tries, due_at=None if over else now + pause_s, error=failure.reason)


def _messages(step: RunStep, always: Sequence[Subscription]) -> Iterator[Notification]:
    for event in step.events:
        occasion = _occasion(step, event.event)
        if occasion is None:
            continue
        receivers = (each.receiver for each in (*step.after.spec.notify, *always) if occasion in each.on)
        for receiver in dict.fromkeys(receivers):
            yield _message(step.after, occasion, receiver, event.at, {})


def _occasion(step: RunStep, event: RunEvent) -> Occasion | None:
    if event is RunEvent.STARTED:
        return Occasion.STARTED if step.before.started_at is None else None
    ends = step.after.state is RunState.ENDED and event is step.events[-1].event
    return _OF_OUTCOMES[step.after.outcome] if ends and step.after.outcome is not None else None


def _message(
    run: Run,
    occasion: Occasion,
    receiver: Receiver,
    at: float,
    more: dict[str, Any],
    *,
    since: float | None = None,
) -> Notification:
    moment = "" if since is None else f":{since:.3f}"
    whom = hashlib.sha256(repr(receiver).encode()).hexdigest()[:16]
    return Notification(
        run_id=run.id,
        key=f"{occasion}{moment}:{whom}",
        server=run.server,
        occasion=occasion,
        receiver=receiver,
        about=_about(run) | more,
        at=at,
        due_at=at,
    )


def _about(run: Run) -> dict[str, Any]:
    """What a receiver is told of a run: no variables, no command, nothing that may be secret."""
    times = {"created_at": run.created_at, "started_at": run.started_at, "ended_at": run.ended_at}
    return {
        "id": run.id,
        "name": run.name,
        "project": run.project,
        "user": run.user,
        "state": run.state.value,
        "outcome": run.outcome.value if run.outcome is not None else None,
        "cause": {"code": run.cause.code.value, "message": run.cause.message} if run.cause else None,
        "slots": run.spec.slots,
        "attempt": run.attempt,
    } | times
