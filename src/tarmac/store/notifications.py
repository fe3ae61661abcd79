"""`SqlNotifications`: the durable queue of messages about runs, and the subscriptions of people.

Made by `SqlStore`, on its database.
"""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from tarmac.model.actor import Lease
from tarmac.model.codec import decode, encode
from tarmac.model.notification import Notification, Subscription
from tarmac.store.account_schema import subscription
from tarmac.store.checks import check_texts
from tarmac.store.database import Database
from tarmac.store.rows import read_record, written
from tarmac.store.schema import notification
from tarmac.store.statements import insert_or_skip, put

_COLUMNS = ("id", "run_id", "key", "server", "at", "tries", "due_at", "sent_at", "error")
"""Fields with a column of their own; the rest is JSON in `body`."""

_OF_SERVER = (notification.c.server == bindparam("of_server")) & notification.c.due_at.is_not(None)
DUE = (
    select(notification)
    .where(_OF_SERVER & (notification.c.due_at <= bindparam("until")))
    .order_by(notification.c.due_at, notification.c.id)
    .limit(bindparam("at_most"))
)
NEXT = select(func.min(notification.c.due_at)).where(_OF_SERVER)
OF_RUN = select(notification).where(notification.c.run_id == bindparam("of_run")).order_by(notification.c.id)
SUBSCRIPTIONS = select(subscription.c.user_name, subscription.c.body)
_RECORD = update(notification).where(notification.c.id == bindparam("of_id"))


class SqlNotifications:
    """Implements `model.notification.Notifications` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._add = insert_or_skip(notification, database.dialect)
        self._subscribe = put(subscription, database.dialect)

    def add(self, new: Sequence[Notification]) -> None:
        if new:
            with self._database.writing() as connection:
                self.insert(connection, new)

    def insert(self, connection: Connection, new: Sequence[Notification]) -> None:
        """Add messages as a part of another transaction."""
        connection.execute(self._add, [_row(message) for message in new])

    def due(self, server: str, *, now: float, limit: int) -> list[Notification]:
        values = {"of_server": server, "until": now, "at_most": limit}
        return [_message(row._mapping) for row in self._database.rows(DUE, values)]

    def next_due_at(self, server: str) -> float | None:
        soonest: float | None = self._database.rows(NEXT, {"of_server": server})[0][0]
        return soonest

    def record(self, tried: Sequence[Notification], *, lease: Lease | None = None) -> None:
        changed = ("tries", "due_at", "sent_at", "error")
        results = [
            {"of_id": message.id, **{name: getattr(message, name) for name in changed}} for message in tried
        ]
        with self._database.writing(lease) as connection:
            if results:
                connection.execute(_RECORD, results)

    def of_run(self, run_id: str) -> list[Notification]:
        return [_message(row._mapping) for row in self._database.rows(OF_RUN, {"of_run": run_id})]

    def subscriptions(self) -> dict[str, tuple[Subscription, ...]]:
        found = self._database.rows(SUBSCRIPTIONS)
        return {user: read_record(tuple[Subscription, ...], text) for user, text in found}

    def subscribe(self, user: str, new: Sequence[Subscription]) -> None:
        check_texts({"the user": user})
        self._database.write(self._subscribe, {"user_name": user, "body": written(new)})


def _row(message: Notification) -> dict[str, Any]:
    body = {key: value for key, value in encode(message).items() if key not in _COLUMNS}
    values = {name: getattr(message, name) for name in _COLUMNS if name != "id"}
    return {**values, "body": json.dumps(body)}


def _message(row: Any) -> Notification:
    return decode(Notification, {**json.loads(row["body"]), **{name: row[name] for name in _COLUMNS}})
