"""`SqlSecrets`: the durable record of secrets, sealed. Made by `SqlStore`, on its database.

A reader of the database sees only sealed values, which cannot be opened without the key.
"""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from tarmac.model.codec import decode, encode
from tarmac.model.secret import SecretName, SecretVersion
from tarmac.store.checks import check_secret
from tarmac.store.database import Database
from tarmac.store.schema import secret
from tarmac.store.statements import insert_or_skip

COLUMNS = ("scope", "name", "number", "sealed", "key_id", "retired_at")
"""Fields with a column of their own; the rest is JSON in `body`."""

ALL = select(secret).order_by(secret.c.name, secret.c.scope, secret.c.number)
NAMED = ALL.where(secret.c.name.in_(bindparam("ids", expanding=True)))
_OF_NAME = (secret.c.scope == bindparam("of_scope")) & (secret.c.name == bindparam("of_name"))
_RESEAL = update(secret).where(_OF_NAME & (secret.c.number == bindparam("of_number")))
_RETIRE = update(secret).where(_OF_NAME & secret.c.retired_at.is_(None))
_PURGE = delete(secret).where(_OF_NAME)


class SqlSecrets:
    """Implements `model.secret.SecretRecords` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._add = insert_or_skip(secret, database.dialect).returning(secret.c.number)

    def versions(self, names: Sequence[str] | None = None) -> list[SecretVersion]:
        found = self._database.rows(ALL) if names is None else self._database.rows_of(NAMED, names)
        return [_version(row._mapping) for row in found]

    def add(self, version: SecretVersion) -> bool:
        check_secret(version)
        with self._database.writing() as connection:
            return connection.execute(self._add, _row(version)).first() is not None

    def reseal(self, versions: Sequence[SecretVersion]) -> None:
        if not versions:
            return
        rows = [
            {**_of(each), "of_number": each.number, "sealed": each.sealed, "key_id": each.key_id}
            for each in versions
        ]
        with self._database.writing() as connection:
            connection.execute(_RESEAL, rows)

    def retire(self, secret: SecretName, *, at: float) -> None:
        self._database.write(_RETIRE, {**_of(secret), "retired_at": at})

    def purge(self, secret: SecretName) -> None:
        self._database.write(_PURGE, _of(secret))


def _of(secret: SecretName) -> dict[str, Any]:
    return {"of_scope": secret.scope, "of_name": secret.name}


def _row(version: SecretVersion) -> dict[str, Any]:
    body = {key: value for key, value in encode(version).items() if key not in COLUMNS}
    return {**{name: getattr(version, name) for name in COLUMNS}, "body": json.dumps(body)}


def _version(row: Any) -> SecretVersion:
    return decode(SecretVersion, {**json.loads(row["body"]), **{name: row[name] for name in COLUMNS}})
