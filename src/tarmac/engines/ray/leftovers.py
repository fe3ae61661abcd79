"""Ends attempts that were given up while their node was unreachable, once it returns.

Made by `RayEngine`, called after each round of `RayNodes`. Until that is done the node takes no new work: two
runs would have the same devices. An unreachable runner ends by itself only after its lease has expired.
"""

from __future__ import annotations

from contextlib import suppress

from tarmac.engines.attempts.view import Views
from tarmac.engines.ray.hosts import RayHosts
from tarmac.engines.ray.node import RayNode
from tarmac.engines.ray.nodes import RayNodes
from tarmac.model.errors import Unavailable

LOCK_S = 5.0
"""Bounded, because a thread with the lock of a view may wait for these threads."""


class Leftovers:
    """The leftovers on all nodes of one cluster."""

    def __init__(self, nodes: RayNodes, views: Views, hosts: RayHosts) -> None:
        self._nodes = nodes
        self._views = views
        self._hosts = hosts
        self._busy: set[str] = set()

    def end(self) -> None:
        """Begin to end leftovers on each node that has appeared; failures are retried in the next round."""
        for node in self._nodes.all():
            if node.up and not node.cleared and node.address not in self._busy:
                self._busy.add(node.address)
                self._nodes.pool.submit(self._clear, node)

    def _clear(self, node: RayNode) -> None:
        try:
            with suppress(Unavailable, OSError):
                self._end_on(node)
                node.cleared = True
        finally:
            self._busy.discard(node.address)

    def _end_on(self, node: RayNode) -> None:
        for attempt_id, name in node.call("living"):
            view = self._views.find(attempt_id)
            if view is None:
                continue  # not an attempt of this server
            if not view.lock.acquire(timeout=LOCK_S):
                raise Unavailable(f"attempt {attempt_id} is being looked at")
            try:
                view.refresh()
                lost = any(part.node == name and part.lost for part in view.nodes)
                given_up = lost and self._hosts.addresses(view)[name] == node.address
            finally:
                view.lock.release()
            if given_up:
                directory = str(self._hosts.directory(attempt_id))
                node.call("end", directory=directory, node=name)
                node.call(
                    "end_orphans", attempt_id=attempt_id, token=view.token, directory=directory, node=name
                )
