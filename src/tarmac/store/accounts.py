"""`SqlAccounts`: the durable record of accounts, tokens and the audit log. Made by `SqlStore`."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from tarmac.model.codec import decode
from tarmac.model.people.account import Account, AuditEntry, Membership, Organisation, People, Token
from tarmac.store import statements as sql
from tarmac.store.account_schema import (
    access_token,
    account,
    audit,
    membership,
    organisation,
    saved_view,
    subscription,
)
from tarmac.store.database import Database
from tarmac.store.rows import read_record, written

_TOKENS = select(access_token).order_by(access_token.c.id)
_OF_USER = _TOKENS.where(access_token.c.user_name == bindparam("of_user"))
_OF_DIGEST = _TOKENS.where(access_token.c.digest == bindparam("of_digest"))
_LIVE = access_token.c.revoked_at.is_(None)
_AUDIT = (
    select(audit)
    .where(audit.c.at >= bindparam("since"))
    .order_by(audit.c.at.desc(), audit.c.id.desc())
    .limit(bindparam("at_most"))
)


class SqlAccounts:
    """Implements `model.people.account.AccountRecords` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._put_account = sql.put(account, database.dialect)
        self._add_account = sql.insert_or_skip(account, database.dialect)
        self._add_token = sql.insert_or_skip(access_token, database.dialect)
        self._put_organisation = sql.put(organisation, database.dialect)
        self._put_membership = sql.put(membership, database.dialect)

    def people(self) -> People:
        with self._database.reading() as connection:
            accounts = [read_record(Account, row.body) for row in connection.execute(select(account))]
            groups = [read_record(Organisation, row.body) for row in connection.execute(select(organisation))]
            members = [
                Membership(project=row.project, user=row.user_name, role=row.role)
                for row in connection.execute(select(membership))
            ]
        return People(
            accounts={each.name: each for each in accounts},
            organisations={each.name: each for each in groups},
            memberships=members,
        )

    def put_account(self, new: Account, *, password: str | None = None) -> None:
        password = self.password(new.name) if password is None else password
        self._database.write(self._put_account, {**_row(new), "password": password})

    def add_account(self, new: Account) -> bool:
        return self._database.write(self._add_account, _row(new)) == 1

    def password(self, name: str) -> str | None:
        rows = self._database.rows(select(account.c.password).where(account.c.name == name))
        return rows[0][0] if rows else None

    def remove_account(self, name: str) -> None:
        with self._database.writing() as connection:
            connection.execute(delete(account).where(account.c.name == name))
            for table in (membership, access_token, subscription, saved_view):
                connection.execute(delete(table).where(table.c.user_name == name))

    def put_organisation(self, new: Organisation) -> None:
        self._database.write(self._put_organisation, _row(new))

    def put_membership(self, new: Membership) -> None:
        values = {"project": new.project, "user_name": new.user, "role": new.role}
        self._database.write(self._put_membership, values)

    def remove_membership(self, project: str, user: str) -> None:
        found = (membership.c.project == project) & (membership.c.user_name == user)
        self._database.write(delete(membership).where(found), {})

    def tokens(self, user: str | None = None) -> list[Token]:
        rows = (
            self._database.rows(_TOKENS) if user is None else self._database.rows(_OF_USER, {"of_user": user})
        )
        return sorted(map(_token, rows), key=lambda token: (token.created_at, token.id))

    def token(self, digest: str) -> Token | None:
        rows = self._database.rows(_OF_DIGEST, {"of_digest": digest})
        return _token(rows[0]) if rows else None

    def add_token(self, token: Token, *, digest: str) -> bool:
        values = {"id": token.id, "digest": digest, "user_name": token.user, "body": written(token)}
        return self._database.write(self._add_token, values) == 1

    def note_use(self, token_id: str, *, at: float) -> None:
        used = update(access_token).where(access_token.c.id == token_id).values(last_used_at=at)
        self._database.write(used, {})

    def revoke(self, *, at: float, token_id: str | None = None, user: str | None = None) -> int:
        of = access_token.c.id == token_id if token_id is not None else access_token.c.user_name == user
        return self._database.write(update(access_token).where(of & _LIVE).values(revoked_at=at), {})

    def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        rows = [{"at": each.at, "user_name": each.user, "body": written(each)} for each in entries]
        with self._database.writing() as connection:
            connection.execute(audit.insert(), rows)

    def audit(self, *, user: str | None = None, since: float = 0.0, limit: int) -> list[AuditEntry]:
        chosen = _AUDIT if user is None else _AUDIT.where(audit.c.user_name == user)
        rows = self._database.rows(chosen, {"since": since, "at_most": limit})
        return [decode(AuditEntry, {**json.loads(row.body), "id": row.id}) for row in rows]


def _row(record: Account | Organisation) -> dict[str, Any]:
    return {"name": record.name, "body": written(record)}


def _token(row: Any) -> Token:
    kept = {"last_used_at": row.last_used_at, "revoked_at": row.revoked_at}
    return decode(Token, {**json.loads(row.body), **kept})
