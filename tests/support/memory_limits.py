"""`MemoryLimits`: limits and the ledger of credits as a fake. Made by `MemoryStore`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from tarmac.model.codec import replace
from tarmac.model.people.limits import Charged, CreditAccount, CreditEntry, EntryKind, Limit
from tarmac.store.checks import check_texts


class MemoryLimits:
    """Implements `model.people.limits.Limits` in memory."""

    def __init__(self, writing: AbstractContextManager[object]) -> None:
        self._writing = writing
        self._limits: dict[tuple[str | None, ...], Limit] = {}
        self._entries: dict[tuple[str, str], CreditEntry] = {}

    def limits(self) -> list[Limit]:
        return list(self._limits.values())

    def put(self, limit: Limit) -> None:
        check_texts({"the scope": str(limit)})
        with self._writing:
            self._limits.pop(limit.parts, None)
            if limit.given:
                self._limits[limit.parts] = limit

    def add(self, entries: Sequence[CreditEntry]) -> None:
        if entries:
            with self._writing:
                for each in entries:
                    entry = replace(each, id=len(self._entries) + 1)
                    self._entries.setdefault((each.account, each.key), entry)

    def accounts(self) -> list[CreditAccount]:
        found = []
        for account in sorted({each.account for each in self._entries.values()}):
            own = [each for each in self._entries.values() if each.account == account]
            refill = max((each.id for each in own if each.kind is EntryKind.GRANT), default=0)
            if refill:
                found.append(
                    CreditAccount(
                        account=account,
                        since=min(each.at for each in own),
                        last_at=max(each.at for each in own),
                        granted=sum(each.amount for each in own if each.id <= refill),
                        balance=sum(each.amount for each in own),
                        refill=refill,
                        warned=any(each.kind is EntryKind.WARNING and each.id > refill for each in own),
                    )
                )
        return found

    def charged(self, attempts: Sequence[str]) -> Charged:
        found: dict[tuple[str, str], tuple[float, int]] = {}
        for each in self._entries.values():
            if each.attempt is not None and each.attempt in attempts:
                slot_s, count = found.get((each.account, each.attempt), (0.0, 0))
                found[each.account, each.attempt] = slot_s + each.slot_s, count + 1
        return found

    def entries(self, account: str | None, *, before: int, limit: int) -> list[CreditEntry]:
        found = [
            each
            for each in reversed(self._entries.values())
            if account in (None, each.account) and each.id < before
        ]
        return found[:limit]
