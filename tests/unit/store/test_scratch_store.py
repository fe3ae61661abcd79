"""The knobs of the store in memory: a write that breaks before or after it is durable, and a full disk."""

from __future__ import annotations

import pytest

from histories import new_run, placed
from scratch_store import ScratchStore
from tarmac.model.actor import HomeIdentity
from tarmac.model.cluster import Drain
from tarmac.model.errors import StorageFull


class Crash(BaseException):
    """What nothing in the code under test may catch."""


def test_a_write_that_fails_before_leaves_nothing() -> None:
    store = ScratchStore()
    store.fail_before(2, Crash())
    (run,) = store.create_runs([new_run("r1")])
    with pytest.raises(Crash):
        store.apply([placed(run)])
    assert store.run("r1") == run
    assert store.apply([placed(run)]) == [True], "only the one write fails"


def test_a_write_that_fails_after_is_durable() -> None:
    store = ScratchStore()
    store.fail_after(1, Crash())
    with pytest.raises(Crash):
        store.create_runs([new_run("r1", key="k")])
    (again,) = store.create_runs([new_run("r2", key="k")])
    assert again.id == "r1"


def test_every_write_counts_and_no_read() -> None:
    store = ScratchStore()
    (run,) = store.create_runs([new_run("r1")])
    store.create_runs([])
    list(store.live_runs())
    assert store.writes == 1
    store.apply([placed(run)])
    home = HomeIdentity(id="a", machine="m", hostname="h", path="/")
    lease = store.take_lease("local", home, after=0, now=1.0)
    assert lease is not None
    store.renew_lease(lease, now=2.0)
    store.set_drained(["node-1"], Drain())
    assert store.writes == 5


def test_a_full_disk_refuses_writes_until_there_is_room() -> None:
    store = ScratchStore()
    (run,) = store.create_runs([new_run("r1")])
    store.fill_disk()
    with pytest.raises(StorageFull):
        store.apply([placed(run)])
    assert list(store.live_runs()) == [run]
    store.fill_disk(False)
    assert store.apply([placed(run)]) == [True]
