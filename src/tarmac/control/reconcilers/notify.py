"""Sends subscribed messages to people and programs: mails, webhooks. Run by its own loop.

A message is durable before it is sent, and recorded as sent afterwards: a crash between the two sends it
again, with the same id. Messages to an unreachable receiver are retried at growing intervals for a day.
"""

from collections.abc import Sequence

from tarmac.control.decisions.notifications import after_try
from tarmac.control.state.control_state import ControlState
from tarmac.model import notification as model
from tarmac.model.codec import replace

PAUSE_S = 60.0
"""The time between two messages to one person: events in between share one message."""

_MOST_BATCHES = 16
_MOST_MESSAGES = 500


class NotifyPass:
    """One turn: reads people's subscriptions, records waits that have become long, and sends due messages."""

    def __init__(self, sender: model.SendsNotifications) -> None:
        self._sender = sender
        self._sent_at: dict[model.Receiver, float] = {}

    def __call__(self, control: ControlState) -> float | None:
        now, store = control.clock.now(), control.store.notifications
        self._keep_long_waits(control, now)
        batches = model.grouped(store.due(control.server, now=now, limit=_MOST_MESSAGES))
        soon = [batch for batch in batches if self._free_at(batch[0].receiver) > now]
        ready = [batch for batch in batches if self._free_at(batch[0].receiver) <= now][:_MOST_BATCHES]
        if ready:
            control.check_lease()
        tried = self._send(ready, control)
        later = [
            replace(message, due_at=self._free_at(message.receiver)) for batch in soon for message in batch
        ]
        if tried or later:
            store.record([*tried, *later], lease=control.serving)
        with control.lock:
            next_wait_at = control.run_cache().long_waits.next_at(now)
        times = [at for at in (store.next_due_at(control.server), next_wait_at) if at is not None]
        return min(times, default=None)

    def _send(
        self, batches: Sequence[Sequence[model.Notification]], control: ControlState
    ) -> list[model.Notification]:
        """Send the messages; returns their new state."""
        if not batches:
            return []
        results: Sequence[model.Failure | None] = self._sender.send(batches)
        now = control.clock.now()
        tried = []
        for batch, failure in zip(batches, results, strict=True):
            if failure is None:
                self._note_sent(batch[0].receiver, now)
            tried += [after_try(message, failure, now) for message in batch]
        return tried

    def _keep_long_waits(self, control: ControlState, now: float) -> None:
        with control.lock:
            cache = control.run_cache()
            long_waits = cache.long_waits
            control.subscriptions.refresh(cache)
            messages = long_waits.messages(now)
        if messages:
            control.store.notifications.add(messages)
            with control.lock:
                long_waits.note_written(messages)

    def _note_sent(self, receiver: model.Receiver, now: float) -> None:
        self._sent_at = {known: at for known, at in self._sent_at.items() if at + PAUSE_S > now}
        if receiver.channel is not model.Channel.WEBHOOK:
            self._sent_at[receiver] = now

    def _free_at(self, receiver: model.Receiver) -> float:
        """The time at which the next message may go to a receiver."""
        sent_at = self._sent_at.get(receiver)
        return float("-inf") if sent_at is None else sent_at + PAUSE_S
