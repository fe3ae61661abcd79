"""Notifications: who is told what happens to a run, and what is still to be sent.

A spec says it by subscriptions. What has to be sent is a durable record, written in the transaction of the
change that it tells of (`RunStep.notifications`), and taken out of the queue once its receiver has it: a
message may come twice after a crash, and is never lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from tarmac.model.serving import Lease


class Occasion(StrEnum):
    """What somebody may be told of. `waiting`: the run has been in a queue for long."""

    STARTED = "started"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"


ENDED = (Occasion.COMPLETED, Occasion.FAILED, Occasion.STOPPED)
"""What the word `ended` in a run file stands for."""

DEFAULT_WAIT_S = 3600.0
"""After how long in a queue a run is said to wait, where the subscription does not say."""


class Channel(StrEnum):
    """How a message travels: by mail, as JSON to a URL, or as the JSON that Slack takes (Mattermost too)."""

    EMAIL = "email"
    WEBHOOK = "webhook"
    SLACK = "slack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Where messages go. With `secret`, `address` is the name of a secret that holds the URL."""

    channel: Channel
    address: str
    secret: bool = False

    def __str__(self) -> str:
        """Without what a URL holds beyond its host: the rest of it is often a key."""
        if self.secret:
            return f"{self.channel} (secret {self.address})"
        if self.channel is Channel.EMAIL:
            return self.address
        return f"{self.channel} at {self.address.split('/')[2].rpartition('@')[2]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Whom to tell, and of what; `waiting_s` is how long a wait is told of."""

    receiver: Receiver
    on: tuple[Occasion, ...] = ENDED
    waiting_s: float = DEFAULT_WAIT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One message about one run to one receiver.

    `key` tells it from others of the run: a second one with the same key is not kept. `about` is what the
    receiver is told, as it was at `at`. `due_at` is when it is to be sent (None: not any more); `sent_at` is
    when the receiver took it, `error` why the last of so many `tries` failed.
    """

    run_id: str
    key: str
    server: str
    occasion: Occasion
    receiver: Receiver
    about: Mapping[str, Any]
    at: float
    id: int = 0
    tries: int = 0
    due_at: float | None = None
    sent_at: float | None = None
    error: str | None = None


class Notifications(Protocol):
    """The durable queue of messages. Errors are those of `ports.Store`.

    Messages of a run go with it when it is removed.
    """

    def add(self, new: Sequence[Notification]) -> None:
        """Keep new messages; those whose run and key are known already are left out."""
        ...

    def due(self, server: str, *, now: float, limit: int) -> list[Notification]:
        """Messages about runs of this server that are to be sent by `now`, those due first before others."""
        ...

    def next_due_at(self, server: str) -> float | None:
        """When the next message is to be sent; None where there is none."""
        ...

    def record(self, tried: Sequence[Notification], *, lease: Lease | None = None) -> None:
        """Keep what became of messages (`tries`, `due_at`, `sent_at`, `error`), less those that are gone."""
        ...

    def of_run(self, run_id: str) -> list[Notification]:
        """Every message about a run, oldest first."""
        ...


class KeepsNotifications(Protocol):
    """A store that has the queue of messages in the same database as the runs."""

    @property
    def notifications(self) -> Notifications:
        """Messages about runs that are to be sent, or were."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a message could not be sent; with `final` it is not tried again."""

    reason: str
    final: bool = False


class SendsNotifications(Protocol):
    """The way out of the server: by mail and HTTP."""

    def send(self, batches: Sequence[Sequence[Notification]]) -> Sequence[Failure | None]:
        """Send each batch to its one receiver, side by side; for each, why it failed.

        Returns within a minute whatever receivers do. Never raises for what a receiver does.
        """
        ...


def grouped(messages: Collection[Notification]) -> list[list[Notification]]:
    """Batches of messages that may travel together: one receiver each, in the order of their first message.

    A program reads one event at a time; people get a single message about several runs.
    """
    groups: dict[object, list[Notification]] = {}
    for message in messages:
        alone = message.receiver.channel is Channel.WEBHOOK
        groups.setdefault((message.run_id, message.key) if alone else message.receiver, []).append(message)
    return list(groups.values())
