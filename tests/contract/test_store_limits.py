"""Limits and the ledger of credits: the same promises in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.people.limits import CreditAccount, CreditEntry, EntryKind, Limit
from tarmac.model.ports import Store


def entry(key: str, amount: float, kind: EntryKind = EntryKind.CHARGE, **more: object) -> CreditEntry:
    fields = {"account": "user:ada", "at": 10.0, **more}
    return CreditEntry(key=key, amount=amount, kind=kind, **fields)  # type: ignore[arg-type]


def by_scope(store: Store) -> list[Limit]:
    return sorted(store.limits.limits(), key=lambda each: [part or "" for part in each.parts])


def test_the_limits_of_a_scope_are_replaced_and_removed_as_a_whole(store: Store) -> None:
    """N16."""
    everyone = Limit(user="*", slots=8, longest_s=3600.0)
    big = Limit(user="ada", pool="local/big", slot_hours=0.5, rent_budget=9.5)
    for limit in (Limit(project="nlp", largest=3), big, everyone):
        store.limits.put(limit)
    assert by_scope(store) == [Limit(project="nlp", largest=3), everyone, big]
    store.limits.put(replace(everyone, slots=4, longest_s=None))
    store.limits.put(Limit(user="ada", pool="local/big"))
    assert by_scope(store) == [Limit(project="nlp", largest=3), Limit(user="*", slots=4)]
    with pytest.raises(InvalidInput):
        store.limits.put(Limit(user="a\0b", slots=1))


def test_an_entry_of_the_ledger_is_added_once(store: Store) -> None:
    """I13: a charge repeated after a crash, or by another server, changes nothing."""
    ledger = store.limits
    assert (ledger.accounts(), ledger.charged(["r1.1"])) == ([], {})
    ledger.add([])
    ledger.add([entry("g", 10.0, EntryKind.GRANT, actor="root", note="May")])
    first = entry("r1.1/1", -4.0, attempt="r1.1", slot_s=14_400.0, at=20.0)
    for _ in range(2):
        ledger.add([first, replace(first, account="project:nlp")])
    ledger.add([replace(first, amount=-9.0, slot_s=1.0), entry("r1.1/2", -5.0, attempt="r1.1", slot_s=60.0)])
    ada = CreditAccount(account="user:ada", since=10.0, last_at=20.0, granted=10.0, balance=1.0, refill=1)
    assert ledger.accounts() == [ada], "a project without a grant has no account"
    assert ledger.charged(["r1.1", "r2.1"])["user:ada", "r1.1"] == (14_460.0, 2)
    assert [each.key for each in ledger.entries("user:ada", before=99, limit=2)] == ["r1.1/2", "r1.1/1"]
    newest = ledger.entries(None, before=99, limit=9)
    assert [each.id for each in newest] == sorted((each.id for each in newest), reverse=True)
    assert [each.note for each in ledger.entries(None, before=newest[-2].id, limit=9)] == ["May"]


def test_a_warning_counts_until_the_next_grant(store: Store) -> None:
    """I13."""
    ledger = store.limits
    ledger.add([entry("g", 10.0, EntryKind.GRANT), entry("c", -9.0), entry("w", 0.0, EntryKind.WARNING)])
    (warned,) = ledger.accounts()
    assert (warned.warned, warned.used, warned.balance) == (True, 9.0, 1.0)
    ledger.add([entry("g2", 5.0, EntryKind.GRANT), entry("fix", 1.0, EntryKind.CORRECTION)])
    (refilled,) = ledger.accounts()
    assert (refilled.warned, refilled.granted, refilled.balance) == (False, 6.0, 7.0)
