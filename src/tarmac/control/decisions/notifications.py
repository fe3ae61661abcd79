"""The messages that a change of a run requires, found at the commit of changes. Nothing here reads or writes.

occasion    meaning
---------   ----------------------------------------------------------------
started     every worker of an attempt runs, for the first time
waiting     the run has been in a queue for as long as the subscription says
completed,  the run has ended with this outcome
failed,
stopped
idle        the run uses none of its slots, for as long as the rules of its pool say
credits     most of the credits of its user or project are used
burst       its rented machines need approval, or end soon

People get messages about an array as a whole: `started` and `waiting` for its first member, and one when its
last member has ended. A program (a webhook) gets messages about each member.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tarmac.control.decisions.counting import doubled_s
from tarmac.model.changes import RunStep
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunEvent, RunState
from tarmac.model.notification import Channel, Failure, Notification, Occasion, Receiver, Subscription
from tarmac.model.people.limits import CreditAccount
from tarmac.model.progress import Outcome
from tarmac.model.run import Run

QUEUES = frozenset({RunState.QUEUED, RunState.SUBMITTED})
"""States in which a run waits for resources that other runs hold."""

FIRST_RETRY_S, LONGEST_RETRY_S = 30.0, 3600.0
GIVES_UP_S = 24 * 3600.0
"""The time after which an undelivered message is given up."""


SubscriptionsOf = Callable[[Run], Sequence[Subscription]]
"""All subscriptions to a run: see `control.state.subscriptions`."""


def calls_for_messages(step: RunStep, of: SubscriptionsOf) -> bool:
    """Whether a step may require messages."""
    return bool(step.events) and bool(of(step.after))


def with_notifications(
    step: RunStep, of: SubscriptionsOf, ended_array: Mapping[Outcome, int] | None = None
) -> RunStep:
    """The step with its messages.

    `ended_array`: the number of members per outcome, if this step ends the last member of an array.
    """
    if not calls_for_messages(step, of):
        return step
    messages = tuple(_messages(step, of, ended_array))
    return replace(step, notifications=messages) if messages else step


def credit_messages(
    runs: Iterable[Run], of: SubscriptionsOf, account: CreditAccount, now: float
) -> list[Notification]:
    """One message about an account to each receiver that wants it, about the first of the account's runs."""
    more = {"account": account.account, "used": account.used, "granted": account.granted}
    first: dict[Receiver, Run] = {}
    for run in runs:
        for each in of(run):
            if Occasion.CREDITS in each.on:
                first.setdefault(each.receiver, run)
    kind, since = Occasion.CREDITS, float(account.refill)
    return [_message(run, kind, to, now, more, since=since) for to, run in first.items()]


def after_try(message: Notification, failure: Failure | None, now: float) -> Notification:
    """The message after a try: sent, to be tried again, or given up."""
    tries = message.tries + 1
    if failure is None:
        return replace(message, tries=tries, due_at=None, sent_at=now, error=None)
    over = failure.final or now - message.at >= GIVES_UP_S
    pause_s = doubled_s(FIRST_RETRY_S, message.tries, LONGEST_RETRY_S)
    return replace(message, tries=tries, due_at=None if over else now + pause_s, error=failure.reason)


def idle_messages(run: Run, of: SubscriptionsOf, idle_s: float, now: float) -> tuple[Notification, ...]:
    """The messages about a run that uses none of its slots: each member of an array has its own."""
    receivers = dict.fromkeys(each.receiver for each in of(run) if Occasion.IDLE in each.on)
    more = {**_about(run), "idle_s": idle_s}
    return tuple(_message(run, Occasion.IDLE, each, now, more, since=now) for each in receivers)


def burst_messages(run: Run, of: SubscriptionsOf, text: str, about: str, now: float) -> list[Notification]:
    """The messages about the rented machines of a run: one to each receiver `about` each thing."""
    receivers = dict.fromkeys(each.receiver for each in of(run) if Occasion.BURST in each.on)
    more = {**_about(run), "text": text}
    return [_message(run, Occasion.BURST, each, now, more, thing=about) for each in receivers]


def _messages(
    step: RunStep, of: SubscriptionsOf, ended_array: Mapping[Outcome, int] | None
) -> Iterator[Notification]:
    run, subscriptions = step.after, of(step.after)
    for event in step.events:
        occasion = _occasion(step, event.event)
        if occasion is None:
            continue
        of_array = _occasion_of_array(run, occasion, ended_array)
        members = {each.value: count for each, count in sorted((ended_array or {}).items())}
        ended = {"members": members} if members else {}
        calls = {}  # in order, each receiver once
        for each in subscriptions:
            whole = _as_a_whole(run, each.receiver)
            due = of_array if whole else occasion
            if due is not None and due in each.on:
                calls[each.receiver] = due, ended if whole else {}
        for receiver, (due, more) in calls.items():
            yield _message(run, due, receiver, event.at, more)


def _as_a_whole(run: Run, receiver: Receiver) -> bool:
    """Whether a receiver gets messages about the array instead of its members."""
    return run.array_id is not None and receiver.channel is not Channel.WEBHOOK


def _is_first(run: Run) -> bool:
    """Whether the run is the first member of its array."""
    return run.spec.array is None or run.array_index == run.spec.array.values()[0]


def _occasion_of_array(run: Run, occasion: Occasion, ended: Mapping[Outcome, int] | None) -> Occasion | None:
    """The occasion for people subscribed to the array, for this occasion of its member."""
    if occasion is Occasion.STARTED:
        return occasion if _is_first(run) else None
    worst = (each for each in (Outcome.FAILED, Outcome.STOPPED, Outcome.COMPLETED) if (ended or {}).get(each))
    return next((Occasion(each.value) for each in worst), None)


def _occasion(step: RunStep, event: RunEvent) -> Occasion | None:
    if event is RunEvent.STARTED:
        return Occasion.STARTED if step.before.started_at is None else None
    ends = step.after.state is RunState.ENDED and event is step.events[-1].event
    return Occasion(step.after.outcome.value) if ends and step.after.outcome is not None else None


def _message(
    run: Run,
    occasion: Occasion,
    receiver: Receiver,
    at: float,
    more: dict[str, Any],
    *,
    since: float | None = None,
    thing: str = "",
) -> Notification:
    moment = f":{thing}" if thing else "" if since is None else f":{since:.3f}"
    whom = hashlib.sha256(repr(receiver).encode()).hexdigest()[:16]
    return Notification(
        run_id=run.id,
        key=f"{occasion}{moment}:{whom}",
        server=run.server,
        occasion=occasion,
        receiver=receiver,
        about=_about(run) | (_about_array(run) if _as_a_whole(run, receiver) else {}) | more,
        at=at,
        due_at=at,
    )


def _about(run: Run) -> dict[str, Any]:
    """The message content about a run: no variables, no command, no possible secret."""
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
        "array_id": run.array_id,
        "array_index": run.array_index,
    } | times


def _about_array(run: Run) -> dict[str, Any]:
    """The content that replaces the member's own in messages about its array."""
    of_member: tuple[str, ...] = ("state", "outcome", "cause", "started_at", "ended_at", "array_index")
    return {"id": run.array_id, "name": f"{run.name}[{run.spec.array}]"} | dict.fromkeys(of_member)


ArrayCounts = Callable[[str], Mapping[tuple[RunState, Outcome | None], int]]


def last_of_arrays(
    steps: Sequence[RunStep], of: SubscriptionsOf, live_members: Callable[[str], int]
) -> set[int]:
    """The indices of the steps that end an array if its other members end in this commit as planned.

    The effect of a step on its array is known only after the earlier steps are stored: one of them may be
    stale. So these steps are committed after the others, and an array gets one notification.
    """
    return {
        places[-1]
        for array_id, places in _ends(steps, of).items()
        if len(places) > 1 and live_members(array_id) <= len(places)
    }


def ended_arrays(
    steps: Sequence[RunStep],
    of: SubscriptionsOf,
    live_members: Callable[[str], int],
    array_counts: ArrayCounts,
) -> dict[str, Counter[Outcome]]:
    """The number of members per outcome for each array that ends; by the run that ends last."""
    ended: dict[str, Counter[Outcome]] = {}
    for array_id, places in _ends(steps, of).items():
        if live_members(array_id) <= len(places):
            members = [steps[at].after for at in places]
            counts = Counter(run.outcome for run in members if run.outcome)
            for (_, outcome), count in array_counts(array_id).items():
                counts += Counter({outcome: count} if outcome else {})
            ended[members[-1].id] = counts
    return ended


def _ends(steps: Sequence[RunStep], of: SubscriptionsOf) -> dict[str, list[int]]:
    """The indices of the steps that end members of arrays and require messages, by array."""
    found: dict[str, list[int]] = {}
    for at, step in enumerate(steps):
        array_id, ends = step.after.array_id, step.after.outcome and not step.before.outcome
        if array_id is not None and ends and calls_for_messages(step, of):
            found.setdefault(array_id, []).append(at)
    return found


class LongWaits:
    """Such runs by the time of their next message."""

    def __init__(self, of: SubscriptionsOf) -> None:
        self._of = of
        self._waiting: dict[str, Run] = {}
        self._noted: dict[str, set[str]] = {}

    def note(self, run: Run) -> None:
        """Record the current state of a run, or a change of the subscriptions to it."""
        if run.state in QUEUES and self._waits(run):
            self._waiting[run.id] = run
        else:
            self.forget(run.id)

    def forget(self, run_id: str) -> None:
        """The run waits no more."""
        self._waiting.pop(run_id, None)
        self._noted.pop(run_id, None)

    def messages(self, now: float) -> list[Notification]:
        """The messages due by now, equal on every call, less those recorded as written."""
        due = (
            _message(run, Occasion.WAITING, each.receiver, now, {"waiting_s": each.waiting_s}, since=since)
            for run in self._waiting.values()
            for each, since in self._waits(run)
            if now - since >= each.waiting_s
        )
        return [each for each in due if each.key not in self._noted.get(each.run_id, ())]

    def note_written(self, messages: Sequence[Notification]) -> None:
        """These messages are durable."""
        for message in messages:
            if message.run_id in self._waiting:
                self._noted.setdefault(message.run_id, set()).add(message.key)

    def next_at(self, now: float) -> float | None:
        """The time of the next message."""
        times = (since + each.waiting_s for run in self._waiting.values() for each, since in self._waits(run))
        return min((at for at in times if at > now), default=None)

    def _waits(self, run: Run) -> list[tuple[Subscription, float]]:
        """The subscriptions to the wait of a run, each with the time since which it waits."""
        return [
            (each, run.queued_at)
            for each in self._of(run)
            if run.queued_at is not None
            and Occasion.WAITING in each.on
            and (_is_first(run) or not _as_a_whole(run, each.receiver))
        ]
