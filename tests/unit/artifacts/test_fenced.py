"""A store that nodes reach by themselves: an attempt that was cut off makes no more versions there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from attempts import write_attempt
from tarmac.artifacts.versions.blobs import DirectoryBlobs, begin_store
from tarmac.artifacts.versions.catalog import DAY_S, FENCE_DAYS, collect
from tarmac.artifacts.versions.fenced import FENCES, Order, open_store, read_order
from tarmac.artifacts.versions.manifest import latest, versions
from tarmac.artifacts.versions.sync import Place, Syncer
from tarmac.model.errors import Refused
from tarmac.node.processes.lease import renew

LEASE_S = 3600.0


def order(tmp_path: Path, number: int = 1, lease_s: float | None = LEASE_S) -> Order:
    """What attempt.json of an attempt says to its sidecar; its lease has begun."""
    begin_store(DirectoryBlobs(tmp_path / "store"))
    attempt = write_attempt(
        tmp_path,
        [],
        run_id="r1",
        attempt_id=f"r1.{number}",
        number=number,
        lease_s=lease_s,
        node={"artifact_state": str(tmp_path / "state.json"), "own_disk": True},
        sync={"command": [], "store": str(tmp_path / "store"), "every_s": {}, "inputs": []},
    )
    lease = Path(attempt.node().lease)
    lease.parent.mkdir(parents=True)
    lease.touch()
    renew(str(attempt.path))
    return read_order(attempt.path, "n0")


def syncer(of: Order, root: Path) -> Syncer:
    place = Place(
        run_id="r1", attempt=of.attempt, kind="checkpoint", rank=0, root=str(root), seen_at=(str(root),)
    )
    return Syncer(open_store(of), place)


def test_from_the_beginning_of_the_next_attempt_on_the_one_before_makes_no_version(
    tmp_path: Path, root: Path
) -> None:
    (root / "model").write_text("by attempt 1")
    first = syncer(order(tmp_path), root)
    assert first.sync() is not None
    second = open_store(order(tmp_path, 2))
    assert latest(second, "r1", "checkpoint", 0) is not None  # what it goes on from
    (root / "model").write_text("by attempt 1, later")
    with pytest.raises(Refused, match="a later one has begun"):
        first.sync()
    assert len(versions(second)) == 1
    assert syncer(order(tmp_path, 2), root).sync() is not None


def test_an_attempt_makes_up_for_the_last_sync_of_a_lost_one(tmp_path: Path, root: Path) -> None:
    (root / "model").write_text("by attempt 1")
    second = order(tmp_path, 2)
    assert latest(open_store(second), "r1", "checkpoint", 0) is None
    made = syncer(second._replace(attempt=1), root).sync()
    assert made is not None
    assert made.attempt == 1


def test_after_its_lease_an_attempt_makes_no_version(tmp_path: Path, root: Path) -> None:
    (root / "model").write_text("by attempt 1")
    of = order(tmp_path)
    at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - int((LEASE_S + 1) * 1e9)
    (lease,) = tmp_path.glob("*/nodes/n0/lease")
    os.utime(lease, ns=(at_ns, at_ns))
    with pytest.raises(Refused, match="has expired"):
        syncer(of, root).sync()
    assert versions(DirectoryBlobs(tmp_path / "store")) == []


def test_where_nothing_can_be_cut_off_no_marks_are_left(tmp_path: Path, root: Path) -> None:
    (root / "model").write_text("by attempt 1")
    assert syncer(order(tmp_path, lease_s=None), root).sync() is not None
    assert not (tmp_path / "store" / FENCES).exists()


def test_marks_stay_while_there_are_versions_and_go_long_after(tmp_path: Path, root: Path) -> None:
    (root / "model").write_text("by attempt 1")
    assert syncer(order(tmp_path), root).sync() is not None
    store = DirectoryBlobs(tmp_path / "store")
    old = time.time() - (FENCE_DAYS + 1) * DAY_S
    os.utime(tmp_path / "store" / FENCES / "r1" / "000000001", (old, old))
    collect(store)
    assert len(list(store.pieces(FENCES))) == 1
    for version in versions(store):
        store.remove(version.name)
    collect(store)
    assert list(store.pieces(FENCES)) == []
