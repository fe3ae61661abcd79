"""Carries files between nodes of an attempt that have separate disks.

Requests to an attempt go to every node; files that a node's runner writes for its peers go to those. Called
by `RayEngine` with the view's lock held. After a restart of the server everything is carried once more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.engines.ray.node import NODE_PEER_FILES, PEER_FILES, RayNode
from tarmac.model.errors import Unavailable
from tarmac.node.attempt import protocol
from tarmac.node.files import untrusted

LARGEST_BYTES = 256 * 1024


class Relay:
    """The files carried to each node of each attempt. `place` finds a node of an attempt."""

    def __init__(
        self, place: Callable[[AttemptView, str], RayNode], directory: Callable[[str], Path]
    ) -> None:
        self._place = place
        self._directory = directory
        self._asks: dict[tuple[str, str], bytes] = {}
        self._files: dict[tuple[str, str], set[str]] = {}

    def forget(self, view: AttemptView) -> None:
        """Forget an ended attempt."""
        for node in view.nodes:
            self._asks.pop((view.attempt_id, node.node), None)
            self._files.pop((view.attempt_id, node.node), None)

    def pass_ask_on(self, view: AttemptView) -> None:
        """Send an attempt's request to leave to every node. Raises Unavailable if one was not reached."""
        try:
            content = untrusted.read_bytes(view.paths.ask, LARGEST_BYTES)
        except OSError:
            return  # no request
        failure: Unavailable | None = None
        for node in view.nodes:
            key = view.attempt_id, node.node
            if node.over or self._asks.get(key) == content:
                continue
            place = self._place(view, node.node)
            try:
                directory = str(self._directory(view.attempt_id))
                with suppress(FileNotFoundError):  # absent there: it comes with the attempt
                    place.call("ask", directory=directory, content=content, nodes=[node.node])
                self._asks[key] = content
            except OSError as error:
                failure = Unavailable(f"{place.name}: cannot pass on what is asked: {error.strerror}")
            except Unavailable as error:
                failure = error
        if failure is not None:
            raise failure

    def carry(self, view: AttemptView) -> None:
        """Carry each node's files to its peers."""
        if len(view.nodes) < 2:
            return
        own = {
            f"{protocol.NODES}/{node.node}/{name}": node.node
            for node in view.nodes
            for name in NODE_PEER_FILES
        }
        found = {path: self._read(view, path) for path in (*PEER_FILES, *own)}
        there = {path: content for path, content in found.items() if content is not None}
        for node in view.nodes:
            self._carry_to(view, node, {p: c for p, c in there.items() if own.get(p) != node.node})

    def _carry_to(self, view: AttemptView, node: NodeView, files: dict[str, bytes]) -> None:
        known = self._files.setdefault((view.attempt_id, node.node), set())
        new = {path: content for path, content in files.items() if path not in known}
        if node.over or not new:
            return
        directory = str(self._directory(view.attempt_id))
        with suppress(Unavailable, OSError):  # the next poll tries again
            place = self._place(view, node.node)
            place.call("relay", directory=directory, node=node.node, files=new)
            known.update(new)

    def _read(self, view: AttemptView, path: str) -> bytes | None:
        try:
            return untrusted.read_bytes(str(view.directory / path), LARGEST_BYTES)
        except OSError:
            return None
