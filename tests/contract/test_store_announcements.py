"""The record of the announcement: the same promises in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

from typing import cast

from tarmac.model.codec import replace
from tarmac.model.people.announcement import Announcement
from tarmac.model.ports import Store
from tarmac.store import SqlStore

FIRST = Announcement(text='maintenance – "ø"', user="ada", at=1.5, until_at=9.5)


def test_there_is_at_most_one_and_it_can_be_cleared(store: Store) -> None:
    records = cast(SqlStore, store).announcements
    assert records.read() is None
    records.replace(None)
    for announcement in (FIRST, replace(FIRST, text="later", until_at=None)):
        records.replace(announcement)
        assert records.read() == announcement
    records.replace(None)
    assert records.read() is None
