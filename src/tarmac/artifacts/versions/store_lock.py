"""Between syncs and the collector of unused pieces: neither is at work while the other is.

A sync says that it begins, then looks for a collector; a collector says that it begins, then looks for syncs.
Whoever came second sees the other, so no piece that a sync counts on is taken away before its manifest
stands. Who died at work is believed gone when its word has not been renewed for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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
    """While inside, no piece is taken from the store. Raises Unavailable when a collector does not end."""
    key = f"{SYNCING}/{name}"
    with _claimed(blobs, key):
        deadline = time.monotonic() + _PATIENCE_S
        while _fresh(blobs, COLLECTING):
            if time.monotonic() >= deadline:
                raise Unavailable("the artifact store is being cleared up")
            time.sleep(_LOOK_AGAIN_S)
        yield


@contextmanager
def collecting(blobs: Blobs, *, patience_s: float = 30.0) -> Iterator[bool]:
    """While inside, no sync is at work; False when there is always one, or another collector."""
    if _fresh(blobs, COLLECTING):
        yield False
        return
    with _claimed(blobs, COLLECTING):
        deadline = time.monotonic() + patience_s
        while busy := any(_fresh(blobs, held.name) for held in list(blobs.held(SYNCING))):
            if time.monotonic() >= deadline:
                break
            time.sleep(_LOOK_AGAIN_S)
        yield not busy


@contextmanager
def _claimed(blobs: Blobs, key: str) -> Iterator[None]:
    """The word stands, and is renewed, while inside."""
    blobs.put(key, _now())
    done = Event()
    renewing = Thread(target=_renew, args=(lambda: blobs.put(key, _now()), done), daemon=True)
    renewing.start()
    try:
        yield
    finally:
        done.set()
        renewing.join()
        with suppress(Unavailable):  # it is not believed for long
            blobs.remove(key)


def _renew(put: Callable[[], None], done: Event) -> None:
    while not done.wait(RENEW_S):
        try:
            put()
        except TarmacError:
            continue  # tried again before it counts as gone


def _fresh(blobs: Blobs, key: str) -> bool:
    """By the time written in it: the clock of the store's machine may differ, and listings may lack it."""
    said = blobs.get(key)
    try:
        return said is not None and time.time() - float(said) < LEASE_S
    except ValueError:
        return False


def _now() -> bytes:
    return f"{time.time():.3f}".encode()
