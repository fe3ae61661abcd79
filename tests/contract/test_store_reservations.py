"""The record of reservations of nodes: the same promises in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

from tarmac.model.codec import replace
from tarmac.model.ports import Store
from tarmac.model.reservations import ReservedNodes

FIRST = ReservedNodes(
    name="maint",
    nodes=("n1", "n2"),
    begin_at=5.5,
    end_at=9.5,
    users=("ada",),
    projects=("vision",),
    reason='disks – "ø" \ud83d',
    preempt=True,
    user="ada",
    at=1.5,
)


def test_reservations_are_kept_in_the_order_of_their_begin_and_removed_by_name(store: Store) -> None:
    assert store.reservations() == []
    later = replace(FIRST, name="B", begin_at=6.0, users=(), projects=(), reason="", preempt=False)
    same = replace(FIRST, name="a")
    for each in (later, FIRST, same):
        store.put_reservation(each)
    assert store.reservations() == [same, FIRST, later]
    store.put_reservation(replace(later, reason="again"))
    assert store.reservations() == [same, FIRST, replace(later, reason="again")]
    for name in ("maint", "B", "unknown"):
        store.remove_reservation(name)
    assert store.reservations() == [same]
