"""The port of a placed engine to its hosts.

Implemented by `local` for this machine, and by `ray` for the nodes of a Ray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tarmac.engines.attempts.supervision import Runners
from tarmac.engines.attempts.view import AttemptView
from tarmac.engines.hosts.host import Host
from tarmac.model.ports import WorkerStatus
from tarmac.model.run import Release


class PlacedHosts(Runners, Protocol):
    """The hosts of one engine. Methods with a view are called with its lock held, except `refresh`.

    An attempt's directory on this machine (`AttemptView.directory`) is either its only one, or a copy of
    those on its hosts. Every effect may be repeated after a crash at any point.
    """

    def refresh(self, views: Sequence[AttemptView]) -> None:
        """Make the reports of these attempts readable in their directories on this machine.

        A host that cannot be reached changes nothing but the answer of `life`.
        """
        ...

    def exchange(self, view: AttemptView) -> None:
        """After each poll of a live attempt: carry what its hosts have for one another. Raises nothing."""
        ...

    def pass_on(self, view: AttemptView) -> None:
        """Bring the attempt's request to leave to its runners, and wake them.

        Raises Unavailable if one was not reached; the caller tries again.
        """
        ...

    def released(self, view: AttemptView) -> Sequence[Release]:
        """The replicas of a live attempt that are known to have no process left; they stay released."""
        ...

    def forget(self, view: AttemptView) -> None:
        """Release what an ended attempt holds here; idempotent."""
        ...

    def open_session(self, view: AttemptView, worker: WorkerStatus) -> int:
        """As `OpensSessions` defines, without the lock; the worker has a pid."""
        ...

    def with_file(self, view: AttemptView | None, path: str) -> Host | None:
        """The host that has this file of an attempt; None without one. Needs no lock."""
        ...

    def reachable(self) -> Mapping[str, Host]:
        """The hosts that can be reached now, by the name of the node; "" for one that stands for all."""
        ...
