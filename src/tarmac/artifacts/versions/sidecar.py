"""The sidecar: stores the artifacts of one node's part of an attempt. The runner starts it.

    python -m tarmac.artifacts.versions.sidecar fill ATTEMPT_DIRECTORY NODE [KIND=PATH ...]
    python -m tarmac.artifacts.versions.sidecar sync ATTEMPT_DIRECTORY NODE [KIND=PATH ...]

KIND=PATH is the path under which the workers see a directory. `fill` runs before them and ends; if the runner
of the previous attempt was killed, `fill` first does that attempt's last sync. `sync` runs beside the workers
until its input has {"end": {"at", "clean", "torn"}}, `torn` with the size of each file when it was opened:
then it syncs once more, repairs truncated files, and ends. A closed input means that the runner has ended.
The sidecar may be killed at any point. It reports in lines of JSON on its output:

    {"synced": ID, "files", "bytes", "took_s", "left_out"}      a version, less the paths left out
    {"placed": ID}                                              a version was placed into its directory
    {"restored": AT, "step"}                                    the save time of the placed checkpoint,
                                                                0: there is none; its step, if known
    {"kept": AT, "step"}                                        the same for the newest version, with
                                                                each, and at the end of the attempt
    {"failed": KIND, "why", "again_s": seconds or null}
    {"notice": KIND, "why"}                                     files truncated by the end of the attempt, or
                                                                the reason for an older first checkpoint
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tarmac.artifacts.versions import quiescence, restore
from tarmac.artifacts.versions.blobs import Blobs, check_store
from tarmac.artifacts.versions.fenced import Order, open_store, read_order
from tarmac.artifacts.versions.logs import Logs, newest_checkpoint
from tarmac.artifacts.versions.manifest import CHUNK_BYTES, Broken, Entry, Manifest
from tarmac.artifacts.versions.select_stable import Ending, Unstable, is_full
from tarmac.artifacts.versions.sync import Place, Syncer
from tarmac.model.errors import NotFound, Refused, TarmacError
from tarmac.node.attempt.claims import Lost, lost_before
from tarmac.node.attempt.protocol import TORN, AttemptPaths

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0
STILL_AGAIN_S = 3.0
_NEVER_S = 1e6
_REPORT_UNSETTLED = 10
"""After this number of tries in a row at changing files, the next try waits for the whole interval."""

_SHOWN = 3
_CHECKPOINT = "checkpoint"

_FAILURES = (TarmacError, Broken, OSError)


def main(arguments: list[str]) -> int:
    """Run one of the two commands; returns its exit code."""
    command, directory, node, *seen = arguments
    order = read_order(Path(directory), node)
    paths = dict(item.split("=", 1) for item in seen)
    if command == "fill":
        nodes = [node] if order.part.own_disk else None
        lost = lost_before(AttemptPaths(directory), order.attempt, nodes)
        return _fill(order.as_user(), paths, lost)
    return Sidecar(order.as_user(), paths).run()


def report(**message: object) -> None:
    """Write one line to the runner."""
    os.write(1, json.dumps({"at": round(time.time(), 3), **message}).encode() + b"\n")


def _fill(order: Order, paths: Mapping[str, str], lost: Lost | None) -> int:
    """Fill, and retry within the order's patience."""
    if order.sync.rejected_by is not None and lost is None:  # files that are not stored yet would be removed
        state = restore.read_state(order.state) if order.part.own_disk else None
        lost = Lost(order.attempt - 1 if state is None else state.attempt, time.time())
    deadline, delay_s = time.monotonic() + order.sync.patience_s, FIRST_DELAY_S
    while True:
        try:
            blobs = open_store(order)
            check_store(blobs)
            if lost is not None:
                _sync_lost(blobs, order, paths, lost)
            for version in restore.restore_inputs(blobs, order, seen=paths, lost=lost):
                report(placed=version.id)
            if (root := order.part.artifacts.get(_CHECKPOINT)) is not None:
                seen_at = (root, paths.get(_CHECKPOINT, root))
                found = quiescence.finished(quiescence.scan(root), seen_at=seen_at)
                saved_at, step = newest_checkpoint(root, found)
                report(restored=round(min(time.time(), saved_at), 6), step=step)
            if order.part.rank == 0 and (older := restore.placed_checkpoint(blobs, order)) is not None:
                rejected = (
                    f"attempt {order.sync.rejected_by} failed soon after it had begun"
                    " from the newest checkpoint"
                )
                begins = f"this attempt begins from {older.version.id}, the version before"
                report(notice=_CHECKPOINT, why=f"{rejected}, and saved none: {begins}")
            return 0
        except _FAILURES as error:
            again = time.monotonic() + delay_s < deadline and not isinstance(error, Refused)
            report(failed="fill", why=str(error), again_s=delay_s if again else None)
            if not again:
                return 1
        time.sleep(delay_s)
        delay_s = min(delay_s * 2, LONGEST_DELAY_S)


def _sync_lost(blobs: Blobs, order: Order, paths: Mapping[str, str], lost: Lost) -> None:
    """The possibly missing last sync of a lost attempt: times alone show its torn files."""
    sidecar = Sidecar(order._replace(attempt=lost.number), paths)
    for kind in restore.unsynced_kinds(blobs, order, lost):
        sidecar.end(kind, Ending(at=lost.at, clean=False), f"attempt {lost.number}")


@dataclass
class _Kind:
    """One kind of artifact and the time of its next sync."""

    kind: str
    every_s: float
    due_at: float
    logs: Logs
    syncer: Syncer | None = None
    delay_s: float = FIRST_DELAY_S
    unsettled: int = 0


class Sidecar:
    """The loop beside the workers."""

    def __init__(self, order: Order, paths: Mapping[str, str]):
        self._order = order
        self._paths = paths
        self._blobs: Blobs | None = None
        self._heard = b""
        self._gone = False
        self._ending: Ending | None = None
        now = time.monotonic()
        # The first look is at once: the runner starts the sidecar when a sync is due, or at the end.
        self._kinds = [
            _Kind(kind, order.sync.every_s.get(kind, 600.0), now, Logs(directory))
            for kind, directory in order.part.artifacts.items()
        ]

    def run(self) -> int:
        """Run until the runner has ended, or the last sync is done; 0 if everything is in the store."""
        self._listen(0.0)
        while self._ending is None and not self._gone:
            for kind in self._kinds:
                if kind.due_at <= time.monotonic() and self._ending is None and not self._gone:
                    self._sync(kind)
                    self._listen(0.0)
            if self._ending is None:
                due = min(kind.due_at for kind in self._kinds)
                self._listen(max(0.0, due - time.monotonic()))
        return self._finish(self._ending) if self._ending is not None else 1

    def _sync(self, kind: _Kind) -> None:
        """One sync on its interval; every failure is tried again."""
        began = time.monotonic()
        try:
            self._sync_once(kind, None)
        except Unstable as reason:
            self._again_soon(kind, str(reason))
        except Refused as error:
            self._give_up(kind, error)
        except _FAILURES as error:
            report(failed=kind.kind, why=str(error), again_s=kind.delay_s)
            kind.due_at = time.monotonic() + kind.delay_s
            kind.delay_s = min(kind.delay_s * 2, max(kind.every_s, LONGEST_DELAY_S))
            self._forget(kind)
        else:
            kind.delay_s = FIRST_DELAY_S
            if kind.syncer is not None and kind.syncer.restless:
                out = kind.syncer.left_out
                self._again_soon(kind, f"{in_words(out)} being written" if out else "")
                return
            kind.unsettled = 0
            kind.due_at = max(began + kind.every_s, time.monotonic())

    def _give_up(self, kind: _Kind, error: Refused) -> None:
        """The store accepts nothing more from this attempt: later changes remain on this node."""
        report(failed=kind.kind, why=str(error), again_s=None)
        for each in self._kinds:
            each.due_at = time.monotonic() + _NEVER_S

    def _again_soon(self, kind: _Kind, why: str) -> None:
        """Retry changing files in a moment, not after an interval; unless they never stop."""
        kind.unsettled += 1
        if kind.unsettled == _REPORT_UNSETTLED and why:
            report(failed=kind.kind, why=f"it never holds still: {why}", again_s=kind.every_s)
        later_s = STILL_AGAIN_S if kind.unsettled < _REPORT_UNSETTLED else kind.every_s
        kind.due_at = time.monotonic() + min(later_s, kind.every_s)
        if kind.unsettled >= _REPORT_UNSETTLED:
            kind.unsettled = 0

    def end(self, kind: str, ending: Ending, what: str) -> None:
        """The last sync of one kind, after `what` has ended. Raises the errors of an unreachable store."""
        self._end(next(item for item in self._kinds if item.kind == kind), ending, what)

    def _finish(self, ending: Ending) -> int:
        """The last sync of every kind; bounded in time if the store is down."""
        deadline, delay_s = time.monotonic() + self._order.sync.patience_s, FIRST_DELAY_S
        left = list(self._kinds)
        while left:
            kind = left[0]
            try:
                self._end(kind, ending, "the attempt")
            except _FAILURES as error:
                again = time.monotonic() + delay_s < deadline and not isinstance(error, Refused)
                report(failed=kind.kind, why=str(error), again_s=delay_s if again else None)
                self._forget(kind)
                if not again:
                    return 1
                self._listen(delay_s)
                if self._gone:
                    return 1
                delay_s = min(delay_s * 2, LONGEST_DELAY_S)
                continue
            left.pop(0)
        return 0

    def _sync_once(self, kind: _Kind, ending: Ending | None) -> None:
        began = time.monotonic()
        if kind.syncer is None:
            kind.syncer = self._syncer(kind.kind, kind.logs)
        manifest = kind.syncer.sync(ending)
        if manifest is not None:
            took_s = round(time.monotonic() - began, 3)
            report(
                synced=manifest.version.id,
                files=manifest.files,
                bytes=manifest.size_bytes,
                took_s=took_s,
                left_out=list(manifest.left_out),
            )
            self._report_kept(kind)

    def _end(self, kind: _Kind, ending: Ending, what: str) -> None:
        try:
            self._sync_once(kind, ending)
            self._mend(kind, what)
        except Unstable as reason:
            why = f"{reason}, when {what} ended: the previous version is kept"
            report(failed=kind.kind, why=why, again_s=None)
        self._report_kept(kind)

    def _report_kept(self, kind: _Kind) -> None:
        """Report the save time of the next attempt's first checkpoint."""
        if kind.kind == _CHECKPOINT and self._order.part.rank == 0 and kind.syncer is not None:
            last = kind.syncer.last
            report(kept=0.0 if last is None else last.saved_at, step=last and last.step)

    def _mend(self, kind: _Kind, what: str) -> None:
        """After the last sync: the next attempt must not take truncated files for a checkpoint."""
        assert self._blobs is not None
        assert kind.syncer is not None
        torn, put_back = kind.syncer.left_out, kind.syncer.put_back
        if not torn:
            return
        root = self._order.part.artifacts[kind.kind]
        seen_at = self._paths.get(kind.kind, root)
        restore.mend(self._blobs, Path(root), seen_at=seen_at, torn=torn, put_back=put_back)
        why = f"{in_words(torn)} being written when {what} ended, and {_fate(torn, put_back)}"
        report(notice=kind.kind, why=why)

    def _syncer(self, kind: str, logs: Logs) -> Syncer:
        if self._blobs is None:
            blobs = open_store(self._order)
            check_store(blobs)
            self._blobs = blobs
        order, root = self._order, self._order.part.artifacts[kind]
        place = Place(
            run_id=order.run_id,
            attempt=order.attempt,
            kind=kind,
            rank=order.part.rank,
            root=root,
            seen_at=tuple(dict.fromkeys((root, self._paths.get(kind, root)))),
            piece_bytes=order.sync.piece_bytes or CHUNK_BYTES,
        )
        if kind != _CHECKPOINT:
            return Syncer(self._blobs, place)
        inputs: list[Manifest] = []
        with suppress(NotFound):  # removed since
            inputs = restore.input_manifests(self._blobs, order, kind)
        placed = restore.placed_checkpoint(self._blobs, order)
        foreign, older = (None, placed) if order.part.rank == 0 else (placed, None)
        return Syncer(self._blobs, place, foreign=foreign, older=older, inputs=inputs, logs=logs)

    def _forget(self, kind: _Kind) -> None:
        """Open the store again after a failure: another sidecar may have written there meanwhile."""
        kind.syncer = None
        self._blobs = None

    def _listen(self, patience_s: float) -> None:
        """Read the runner's messages, for at most this time."""
        if self._gone or not select.select([0], [], [], patience_s)[0]:
            return
        heard = os.read(0, 65536)
        self._gone = not heard
        self._heard += heard
        while b"\n" in self._heard:
            line, _, self._heard = self._heard.partition(b"\n")
            message: Mapping[str, Any] = json.loads(line)
            if "end" in message:
                end = message["end"]
                self._ending = Ending(
                    at=float(end["at"]),
                    clean=bool(end["clean"]),
                    torn=end.get("torn"),
                    full=any(map(is_full, self._order.part.artifacts.values())),
                )


def in_words(paths: Sequence[str]) -> str:
    """The first few paths as the subject of a sentence: "a was", "a, b and 7 others were"."""
    shown = list(paths[:_SHOWN])
    if len(paths) > _SHOWN:
        shown.append(f"{len(paths) - _SHOWN} others")
    return f"{shown[0]} was" if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]} were"


def _fate(torn: Sequence[str], put_back: Sequence[Entry]) -> str:
    if not put_back:
        return f"not kept; what was there is in {TORN}"
    back = "is" if len(put_back) == 1 else "are"
    if len(put_back) == len(torn):
        return f"{back} as in the version before; what was there is in {TORN}"
    return f"not kept; {len(put_back)} {back} as in the version before, and what was there is in {TORN}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
