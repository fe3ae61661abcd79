"""Runners and sidecars on nodes that see no store: of two attempts, one of them cut off, one counts (I14)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import AttemptDirectory, Warm, python_worker, wait_until, warm_parent, write_attempt
from relayed import Link, RelayedStore, relayed_store, serving
from tarmac.artifacts.versions.manifest import read_chunk, read_manifest, versions
from tarmac.node.host.relay import socket_path
from tarmac.node.kernel.fifo import ring

LEASE_S = 3600.0

TRAINS = python_worker("""
import os, pathlib, signal, tarmac
state = pathlib.Path(os.environ["CHECKPOINT_ARTIFACT_PATH"], "state")
before = state.read_text() if state.exists() else ""
print("began from", repr(before), flush=True)
def save(text):
    draft = state.with_name(".unfinished-draft")
    draft.write_text(text)
    draft.rename(state)
tarmac.should_pause()
save(before + os.environ["NAME"])
print("saved", flush=True)
while not tarmac.should_pause():
    signal.sigtimedwait((), 0.05)
save(before + os.environ["NAME"] + " late")
""")


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with warm_parent() as parent:
        yield parent


def attempt_on(node: Path, number: int) -> AttemptDirectory:
    """An attempt of the run r1 on a node with a disk of its own."""
    trains = {**TRAINS, "env": {**TRAINS["env"], "NAME": f"attempt {number}"}}
    return write_attempt(
        node,
        [trains],
        artifacts=node / "kept",
        name=str(number),
        node={"artifact_state": str(node / "kept/state.json"), "own_disk": True},
        attempt_id=f"r1.{number}",
        run_id="r1",
        number=number,
        token=f"token of r1.{number}",
        lease_s=LEASE_S,
        sync={
            "command": [sys.executable, "-P", "-m", "tarmac.artifacts.versions.sidecar"],
            "store": f"relay:{node}",
            "every_s": dict.fromkeys(("checkpoint", "crud", "lossy", "log"), 0.1),
            "patience_s": 60.0,
            "inputs": [],
        },
    )


def relay_of(node: Path) -> Path:
    return Path(socket_path(str(node), "127.0.0.1"))


def kept(store: RelayedStore) -> list[tuple[int, str]]:
    """The attempt and the state of each version."""
    found = []
    for version in versions(store.blobs):
        manifest = read_manifest(store.blobs, version)
        (entry,) = manifest.entries
        content = b"".join(read_chunk(store.blobs, chunk) for chunk in entry.chunks)
        found.append((manifest.attempt, content.decode()))
    return found


def expire(attempt: AttemptDirectory) -> None:
    """Longer than the lease the server has not asked about the attempt."""
    at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - int((LEASE_S + 1) * 1e9)
    os.utime(attempt.node().lease, ns=(at_ns, at_ns))
    ring(attempt.node().wake)


def test_split_brain_the_attempt_on_the_node_that_was_cut_off_writes_nothing_more(
    warm: Warm, tmp_path: Path
) -> None:
    with relayed_store(tmp_path, socket=relay_of(tmp_path / "a")) as store:
        first = attempt_on(tmp_path / "a", 1)
        warm.start(first)
        first.wait_for("artifact")
        assert kept(store) == [(1, "attempt 1")]

        store.link.cut = True
        expire(first)
        first.wait_for("worker_ended")  # its last state is saved, and its sidecar waits for the store
        store.start(number=2)
        with serving(store, relay_of(tmp_path / "b"), Link()):
            second = attempt_on(tmp_path / "b", 2)
            warm.start(second)
            second.wait_for("artifact")
            assert second.wait_for_line("began") == "began from 'attempt 1'"
            both = [(1, "attempt 1"), (2, "attempt 1attempt 2")]
            assert kept(store) == both

            store.link.cut = False
            end = first.ended()
            assert (end["outcome"], end["cause"]["code"]) == ("lost", "lease_expired")
            notices = [event["text"] for event in first.events() if event["kind"] == "notice"]
            assert any("r1.1 is not the live one of its run" in text for text in notices), notices
            assert any("it stays on n0" in text for text in notices), notices
            assert kept(store) == both, "what the older attempt sent did not count"
            state = Path(first.artifacts["checkpoint"], "state")
            assert state.read_text() == "attempt 1 late", "its files stay on its node"

            second.ask("pause")
            assert second.ended()["outcome"] == "paused"
        assert kept(store)[-1] == (2, "attempt 1attempt 2 late")


def test_what_the_store_refuses_while_workers_go_on_is_said_once(warm: Warm, tmp_path: Path) -> None:
    with relayed_store(tmp_path, socket=relay_of(tmp_path / "a")) as store:
        first = attempt_on(tmp_path / "a", 1)
        warm.start(first)
        first.wait_for("artifact")
        store.start(number=2)
        state = Path(first.artifacts["checkpoint"], "state")
        draft = state.with_name(".unfinished-draft")
        draft.write_text("changed")
        draft.rename(state)
        wait_until(lambda: refusals(first) or None, "nothing was refused")
        first.ask("pause")
        assert first.ended()["outcome"] == "paused"
        assert len(refusals(first)) == 2, "while it ran, and at its end"
        assert kept(store) == [(1, "attempt 1")]


def refusals(attempt: AttemptDirectory) -> list[str]:
    texts = [event["text"] for event in attempt.events() if event["kind"] == "notice"]
    return [text for text in texts if "is not the live one" in text]
