"""Notifications: subscriptions to the events of runs, the queue of messages, and the addresses that they may
reach. Used by `control` and `server`.

A spec has subscriptions, and so has each person, to all of their own runs. A message is a durable record,
stored in the transaction of the change that it reports (`RunStep.notifications`), and leaves the queue once
its receiver has it: a crash may send it twice, but never loses it.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from tarmac.model.actor import Lease
from tarmac.model.codec import StoredRecord
from tarmac.model.errors import InvalidInput
from tarmac.model.run_records import Delivery, Occasion
from tarmac.model.secret import SHARED

__all__ = ["Delivery", "Occasion"]


ENDED = (Occasion.COMPLETED, Occasion.FAILED, Occasion.STOPPED)
"""The meaning of `ended` in a run file."""

DEFAULT_WAIT_S = 3600.0
"""The seconds in a queue after which a run counts as waiting, unless the subscription has its own."""


class Channel(StrEnum):
    """The form of a message: mail, JSON to a URL, or the JSON for Slack (and Mattermost)."""

    EMAIL = "email"
    WEBHOOK = "webhook"
    SLACK = "slack"


class Receiver(StoredRecord, frozen=True, kw_only=True):
    """The address of messages. With `secret`, `address` is the name of a secret that holds the URL.

    `scope` is its owner, filled in when the run is submitted.
    """

    channel: Channel
    address: str
    secret: bool = False
    scope: str = SHARED

    def __str__(self) -> str:
        """Only the host of a URL: the rest of it is often a key."""
        if self.secret:
            return f"{self.channel} (secret {self.address})"
        if self.channel is Channel.EMAIL:
            return self.address
        return f"{self.channel} at {urlsplit(self.address).netloc.rpartition('@')[2]}"


class Subscription(StoredRecord, frozen=True, kw_only=True):
    """A receiver and its occasions; `waiting_s` is the wait after which `waiting` applies."""

    receiver: Receiver
    on: tuple[Occasion, ...] = ENDED
    waiting_s: float = DEFAULT_WAIT_S


class Notification(Delivery, frozen=True, kw_only=True):
    """One message about one run to one receiver.

    `key` is unique within the run: a second message with the same key is dropped. `about` is its content as
    of `at`.
    """

    run_id: str
    key: str
    server: str
    receiver: Receiver
    about: Mapping[str, Any]
    id: int = 0


class Notifications(Protocol):
    """The durable queue of messages, and the subscriptions of people. Errors are those of `ports.Store`.

    A removed run loses its messages, a removed account its subscriptions.
    """

    def add(self, new: Sequence[Notification]) -> None:
        """Store new messages; those with a known run and key are left out."""

    def due(self, server: str, *, now: float, limit: int) -> list[Notification]:
        """Messages about runs of this server that are due by `now`, the earliest first."""

    def next_due_at(self, server: str) -> float | None:
        """When the next message is due; None if there is none."""

    def record(self, tried: Sequence[Notification], *, lease: Lease | None = None) -> None:
        """Store the results of messages (`tries`, `due_at`, `sent_at`, `error`), except removed ones."""

    def of_run(self, run_id: str) -> list[Notification]:
        """Every message about a run, oldest first."""

    def subscriptions(self) -> Mapping[str, tuple[Subscription, ...]]:
        """The subscriptions of people to all of their own runs, by user."""

    def subscribe(self, user: str, new: Sequence[Subscription]) -> None:
        """Store the subscriptions of a user, in place of the present ones."""


class Failure(Struct, frozen=True, kw_only=True):
    """Why a message was not sent; with `final` it is not tried again."""

    reason: str
    final: bool = False


class SendsNotifications(Protocol):
    """Sends messages by mail and HTTP."""

    def check(self, receiver: Receiver) -> None:
        """Raise InvalidInput for a receiver that the server's settings do not allow."""

    def send(self, batches: Sequence[Sequence[Notification]]) -> Sequence[Failure | None]:
        """Send each batch to its one receiver, in parallel; returns a failure or None for each.

        Returns within a minute whatever receivers do. Never raises for a receiver's behaviour.
        """


def grouped(messages: Collection[Notification]) -> list[list[Notification]]:
    """Batches of messages that may travel together: one receiver each, in the order of their first message.

    A program gets one event at a time; people get a single message about several runs.
    """
    groups: dict[object, list[Notification]] = {}
    for message in messages:
        alone = message.receiver.channel is Channel.WEBHOOK
        groups.setdefault((message.run_id, message.key) if alone else message.receiver, []).append(message)
    return list(groups.values())


def check_address(address: str, name: str) -> None:
    """Raise InvalidInput if the address of a connection to `name` is this machine or its link."""
    found = ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    if found.is_loopback or found.is_link_local or found.is_unspecified:
        raise InvalidInput(f"{name} is {found}: the setting notifications.private_addresses forbids it")
