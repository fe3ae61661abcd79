"""Reserves nodes in Ray while attempts run there, so that others get other nodes.

Used by `RayEngine`. Whole nodes are reserved: Ray does not tell which GPUs belong to a part of one. A node
without an attempt is released soon; reservations outlive the server, and those of an earlier one are released
after a while.
"""

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from threading import Lock

from tarmac.engines.ray.membership import Membership
from tarmac.engines.ray.nodes import RayNodes
from tarmac.model.errors import Unavailable

LINGER_S = 3.0
"""A node that was just in use is often needed again."""

FIRST_LINGER_S = 60.0
"""By then a new server has polled all live attempts."""


class Reservations:
    """The nodes that attempts need. Thread-safe."""

    def __init__(self, nodes: RayNodes, membership: Membership) -> None:
        self._nodes = nodes
        self._membership = membership
        self._lock = Lock()
        self._needed: dict[str, tuple[str, ...]] = {}
        self._own: set[str] = set()
        """The addresses of nodes that attempts have needed since this server began."""
        self._idle_since: dict[str, float] = {}
        self._settled_at = time.monotonic() + FIRST_LINGER_S

    def reserve(self, attempt_id: str, addresses: Collection[str]) -> None:
        """Reserve these nodes for an attempt. Raises Unavailable while others use one of them."""
        with self._lock:
            self._needed[attempt_id] = tuple(addresses)
            ids = self._nodes.ids_to_reserve(addresses)
            if ids:
                self._membership.reserve(ids)
                self._nodes.note_reserved(ids, reserved=True)
            self._own.update(addresses)

    def note(self, attempt_id: str, addresses: Mapping[str, str]) -> None:
        """Note the nodes of an attempt from an earlier server; this server may release them."""
        with self._lock:
            self._needed.setdefault(attempt_id, tuple(addresses.values()))
            self._own.update(addresses.values())

    def forget(self, attempt_id: str) -> None:
        """Forget an ended attempt."""
        with self._lock:
            self._needed.pop(attempt_id, None)

    def close(self) -> None:
        """Release nodes that no attempt needs: no other process does so before this server comes back."""
        with self._lock:
            settled = time.monotonic() > self._settled_at
            self._release([id_ for address, id_ in self._idle().items() if settled or address in self._own])

    def release_idle(self) -> None:
        """Release nodes that no attempt has needed for a while."""
        now = time.monotonic()
        with self._lock:
            idle = self._idle()
            self._idle_since = {address: self._idle_since.get(address, now) for address in idle}
            if now > self._settled_at:
                self._release([idle[at] for at, since in self._idle_since.items() if now - since > LINGER_S])

    def _idle(self) -> dict[str, str]:
        """The addresses and ids of reserved nodes that no attempt needs."""
        needed = {address for addresses in self._needed.values() for address in addresses}
        return {address: id_ for address, id_ in self._nodes.reserved().items() if address not in needed}

    def _release(self, member_ids: Collection[str]) -> None:
        if member_ids:
            with suppress(Unavailable):  # the next poll tries again, here or in the next server
                self._membership.release(member_ids)
                self._nodes.note_reserved(member_ids, reserved=False)
