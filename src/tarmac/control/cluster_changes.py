"""The progress of a cluster change that takes minutes. Used by `cluster_machines`.

The change continues in its own thread even if no client waits, and its record is lost with the process.
"""

import logging
import time
from collections.abc import Callable
from threading import Condition, Thread

from tarmac import api
from tarmac.api import ChangeKind, ChangeLine, ChangeState, error_form
from tarmac.model.errors import TarmacError

log = logging.getLogger(__name__)


class ClusterChange:
    """One change; `request` identifies equal changes. Thread-safe."""

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
        """Whether the change is still running."""
        return self._state is ChangeState.WORKING

    def begin(self, body: Callable[[], None]) -> None:
        """Run the change in its own thread."""
        name = f"cluster-{self.kind}-{self.cluster}"
        Thread(target=self._do, args=(body,), name=name, daemon=True).start()

    def progress(self, machine: str, text: str) -> None:
        """Record an action."""
        with self._changed:
            self._lines.append(ChangeLine(machine, text))
            self._changed.notify_all()

    def report(self, after: int, *, wait_s: float) -> api.ClusterChange:
        """Report the change: at line number `after` or at its end, after at most `wait_s`."""
        deadline = time.monotonic() + wait_s
        with self._changed:
            while self.working and len(self._lines) <= after:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    break
            return api.ClusterChange(
                cluster=self.cluster,
                kind=self.kind,
                state=self._state,
                began_at=self._began_at,
                lines=tuple(self._lines[after:]),
                next=len(self._lines),
                error=error_form(self._error) if self._error is not None else None,
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
