"""`SqlLimits`: the durable record of limits and credits. Made by `SqlStore`, on its database."""

from collections.abc import Sequence

from sqlalchemy import Integer, bindparam, case, delete, func, select

from tarmac.model.codec import decode
from tarmac.model.people.limits import Charged, CreditAccount, CreditEntry, EntryKind, Limit
from tarmac.store.account_schema import credit_entry, run_limit
from tarmac.store.checks import check_texts
from tarmac.store.database import Database
from tarmac.store.rows import read_record, written
from tarmac.store.statements import insert_or_skip, put

_COLUMNS = CreditEntry.__struct_fields__
_DROP = delete(run_limit).where(run_limit.c.scope == bindparam("of_scope"))
_ENTRY = credit_entry.c
_REFILLS = (
    select(_ENTRY.account, func.max(_ENTRY.id).label("id"))
    .where(_ENTRY.kind == EntryKind.GRANT.value)
    .group_by(_ENTRY.account)
    .subquery()
)
_IS_WARNING = (_ENTRY.kind == EntryKind.WARNING.value) & (_ENTRY.id > _REFILLS.c.id)
_ACCOUNTS = (
    select(
        _ENTRY.account,
        func.min(_ENTRY.at).label("since"),
        func.max(_ENTRY.at).label("last_at"),
        func.sum(case((_ENTRY.id <= _REFILLS.c.id, _ENTRY.amount), else_=0.0)).label("granted"),
        func.sum(_ENTRY.amount).label("balance"),
        _REFILLS.c.id.label("refill"),
        func.sum(case((_IS_WARNING, 1), else_=0)).label("warnings"),
    )
    .join(_REFILLS, _REFILLS.c.account == _ENTRY.account)
    .group_by(_ENTRY.account, _REFILLS.c.id)
    .order_by(_ENTRY.account)
)
CHARGED = (
    select(_ENTRY.account, _ENTRY.attempt, func.sum(_ENTRY.slot_s), func.count())
    .where(_ENTRY.attempt.in_(bindparam("ids", expanding=True)))
    .group_by(_ENTRY.attempt, _ENTRY.account)
)
PAGE = (
    select(credit_entry)
    .where(_ENTRY.id < bindparam("before"))
    .order_by(_ENTRY.id.desc())
    .limit(bindparam("at_most", type_=Integer))
)
PAGE_OF = PAGE.where(_ENTRY.account == bindparam("of_account"))


class SqlLimits:
    """Implements `model.people.limits.Limits` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._put = put(run_limit, database.dialect)
        self._add = insert_or_skip(credit_entry, database.dialect)

    def limits(self) -> list[Limit]:
        found = self._database.rows(select(run_limit.c.body))
        return [read_record(Limit, body) for (body,) in found]

    def put(self, limit: Limit) -> None:
        check_texts({"the scope": str(limit)})
        scope = written(limit.parts)
        if limit.given:
            self._database.write(self._put, {"scope": scope, "body": written(limit)})
        else:
            self._database.write(_DROP, {"of_scope": scope})

    def add(self, entries: Sequence[CreditEntry]) -> None:
        for each in entries:
            check_texts({"the account": each.account, "the key": each.key, "the note": each.note})
        if rows := [{name: getattr(each, name) for name in _COLUMNS if name != "id"} for each in entries]:
            with self._database.writing() as connection:
                connection.execute(self._add, rows)

    def accounts(self) -> list[CreditAccount]:
        found = ({**row._mapping} for row in self._database.rows(_ACCOUNTS))
        return [CreditAccount(warned=row.pop("warnings") > 0, **row) for row in found]

    def charged(self, attempts: Sequence[str]) -> Charged:
        found = self._database.rows_of(CHARGED, attempts)
        return {(account, attempt): (slot_s, count) for account, attempt, slot_s, count in found}

    def entries(self, account: str | None, *, before: int, limit: int) -> list[CreditEntry]:
        values = {"before": before, "at_most": limit, "of_account": account}
        found = self._database.rows(PAGE if account is None else PAGE_OF, values)
        return [decode(CreditEntry, {name: row._mapping[name] for name in _COLUMNS}) for row in found]
