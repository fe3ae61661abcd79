"""A change of a cluster that takes minutes: what it has done so far. Used by `cluster_machines`.

It goes on in a thread of its own, whether anybody waits or not, and is forgotten with the process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from threading import Condition, Thread

from tarmac.model.errors import TarmacError

log = logging.getLogger(__name__)


class ChangeKind(StrEnum):
    """What is done to a cluster."""

    UP = "up"
    DOWN = "down"


class ChangeState(StrEnum):
    """How far a change is."""

    WORKING = "working"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """What was done on a machine, or with it."""

    machine: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport:
    """A change as it is: the lines from the one that was asked for, and the number of the one after them."""

    cluster: str
    kind: ChangeKind
    state: ChangeState
    began_at: float
    lines: Sequence[ChangeLine]
    next: int
    error: TarmacError | None


class ClusterChange:
    """One change; `request` tells whether another one is the same. Thread-safe."""

    def __init__(self, cluster: str, kind: ChangeKind, request: object, *, began_at: float) -> None:
        self.cluster = cluster
        self.kind = kind
        self.request = request
        self._began_at = began_at
        self._lines: list[ChangeLine] = []
        self._state = ChangeState.WORKING
        self._error: TarmacError | None = None
        self._changed = Condition()

    @property
    def working(self) -> bool:
        """Whether it goes on."""
        return self._state is ChangeState.WORKING

    def begin(self, body: Callable[[], None]) -> None:
        """Have it done."""
        name = f"cluster-{self.kind}-{self.cluster}"
        Thread(target=self._do, args=(body,), name=name, daemon=True).start()

    def progress(self, machine: str, text: str) -> None:
        """Note what was done."""
        with self._changed:
            self._lines.append(ChangeLine(machine, text))
            self._changed.notify_all()

    def report(self, after: int, *, wait_s: float) -> ChangeReport:
        """How it is: as soon as there is a line from number `after` on or the change is over, or by then."""
        deadline = time.monotonic() + wait_s
        with self._changed:
            while self.working and len(self._lines) <= after:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    break
            return ChangeReport(
                cluster=self.cluster,
                kind=self.kind,
                state=self._state,
                began_at=self._began_at,
                lines=tuple(self._lines[after:]),
                next=len(self._lines),
                error=self._error,
            )

    def _do(self, body: Callable[[], None]) -> None:
        error: TarmacError | None = None
        try:
            body()
        except TarmacError as failure:
            error = failure
        except Exception as failure:
            log.exception("the %s of cluster %s failed", self.kind, self.cluster)
            error = TarmacError(
                f"tarmac itself failed ({type(failure).__name__})", hint="the details are in the server's log"
            )
        with self._changed:
            self._error = error
            self._state = ChangeState.DONE if error is None else ChangeState.FAILED
            self._changed.notify_all()
