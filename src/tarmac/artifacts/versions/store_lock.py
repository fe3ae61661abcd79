"""The lock between syncs and the collector of unused pieces: they never run together.

A sync writes its claim, then looks for a collector; a collector writes its claim, then looks for syncs. The
second one sees the first, so the collector removes no piece that a sync needs. A claim that is not renewed
for a while has expired: its holder is dead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from tarmac.artifacts.versions.blobs import Blobs
from tarmac.model.errors import TarmacError, Unavailable

SYNCING = "syncing"
COLLECTING = "collecting/now"

RENEW_S = 60.0
LEASE_S = 600.0
_LOOK_AGAIN_S = 0.5
_PATIENCE_S = 120.0


@contextmanager
def syncing(blobs: Blobs, name: str) -> Iterator[None]:
    """While inside, no piece is removed from the store. Raises Unavailable if a collector does not end."""
    key = f"{SYNCING}/{name}"
    with _claim(blobs, key):
        deadline = time.monotonic() + _PATIENCE_S
        while _fresh(blobs, COLLECTING):
            if time.monotonic() >= deadline:
                raise Unavailable("the artifact store is being cleared up")
            time.sleep(_LOOK_AGAIN_S)
        yield


@contextmanager
def collecting(blobs: Blobs, *, patience_s: float = 30.0) -> Iterator[bool]:
    """While inside, no sync runs; False if syncs never pause, or another collector runs."""
    if _fresh(blobs, COLLECTING):
        yield False
        return
    with _claim(blobs, COLLECTING):
        deadline = time.monotonic() + patience_s
        while busy := any(_fresh(blobs, piece.name) for piece in list(blobs.pieces(SYNCING))):
            if time.monotonic() >= deadline:
                break
            time.sleep(_LOOK_AGAIN_S)
        yield not busy


@contextmanager
def _claim(blobs: Blobs, key: str) -> Iterator[None]:
    """Hold a claim, and renew it, while inside."""
    blobs.put(key, timestamp())
    done = Event()

    def renew() -> None:
        while not done.wait(RENEW_S):
            with suppress(TarmacError):  # tried again before the claim expires
                blobs.put(key, timestamp())

    renewing = Thread(target=renew, daemon=True)
    renewing.start()
    try:
        yield
    finally:
        done.set()
        renewing.join()
        with suppress(Unavailable):  # the claim expires by itself
            blobs.remove(key)


def _fresh(blobs: Blobs, key: str) -> bool:
    """Whether the claim's own time is recent: the store's clock may differ, and listings may lack a time."""
    stamp = blobs.get(key)
    try:
        return stamp is not None and time.time() - float(stamp) < LEASE_S
    except ValueError:
        return False


def timestamp() -> bytes:
    """The content of a claim whose holder lives."""
    return f"{time.time():.3f}".encode()
