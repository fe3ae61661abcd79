"""The hosts of the Ray engine: the agents of its nodes start, poll and end runners.

Called by `PlacedEngine` and `engines/attempts/supervision.py`. The directory of an attempt is created on a
node when its runner starts there; the values of secrets are requested at every start and never stored.

Files are carried between the separate disks of an attempt's nodes: requests to the attempt go to every node,
files that a node's runner writes for its peers to those. After a restart of the server everything is carried
once more.
"""

import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress

from tarmac.engines.attempts import writing
from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.supervision import Life
from tarmac.engines.attempts.view import AttemptView, NodeView, Views
from tarmac.engines.hosts.host import Host
from tarmac.engines.hosts.installing import Supplies, bring_code
from tarmac.engines.ray.link import connected
from tarmac.engines.ray.node import NODE_PEER_FILES, PEER_FILES, RayNode
from tarmac.engines.ray.nodes import RayNodes
from tarmac.engines.ray.reservations import Reservations
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.progress import Cause, CauseCode, WorkerStatus
from tarmac.model.run import Release
from tarmac.node.attempt import protocol
from tarmac.node.attempt.document import read_document
from tarmac.node.files import untrusted
from tarmac.node.host.agent import SESSION, SESSION_LOST_S
from tarmac.node.starting import SESSION_TIMEOUT_S
from tarmac.node.wire.opening import keep_watch

_SETUP = f"{protocol.LOGS}/setup."

MOST_FILE_BYTES = 64 * 1024 * 1024

LOOK_WAIT_S = 6.0
"""How long one poll waits for the slowest node."""

LARGEST_BYTES = 256 * 1024

LOCK_S = 5.0
"""Bounded, because a thread with the lock of a view may wait for these threads."""


class RayHosts:
    """The nodes of a Ray, each with a disk of its own."""

    def __init__(self, nodes: RayNodes, reservations: Reservations, views: Views, supplies: Supplies) -> None:
        self._nodes = nodes
        self._reservations = reservations
        self._views = views
        self._being_cleared: set[str] = set()
        self._asks: dict[tuple[str, str], bytes] = {}
        self._files: dict[tuple[str, str], set[str]] = {}
        """The requests to leave, and the paths of other files, that each node of an attempt has."""
        self._code = supplies.code
        self._secrets = supplies.secrets
        self._lives: dict[tuple[str, str], Life] = {}
        self._addresses: dict[str, Mapping[str, str]] = {}

    def node(self, view: AttemptView, node: str) -> RayNode:
        """The node on which a part of an attempt was placed."""
        return self._nodes.at(self.addresses(view)[node])

    def addresses(self, view: AttemptView) -> Mapping[str, str]:
        """The addresses of an attempt's nodes, by their names in it."""
        addresses = self._addresses.get(view.attempt_id)
        if addresses is None:
            parts = read_document(view.paths.description).nodes
            addresses = self._addresses[view.attempt_id] = {part.node: part.address for part in parts}
        return addresses

    # --- runners ---------------------------------------------------------------------------------

    def reserve(self, view: AttemptView) -> None:
        self._reservations.reserve(view.attempt_id, tuple(self.addresses(view).values()))

    def start_all(self, view: AttemptView, nodes: Sequence[NodeView]) -> None:
        if len(nodes) == 1:
            self.start(view, nodes[0])
            return
        for start in [self._nodes.pool.submit(self.start, view, node) for node in nodes]:
            start.result()

    def start(self, view: AttemptView, node: NodeView) -> None:
        place = self.node(view, node.node)
        directory = place.directory(view.attempt_id)
        files = {
            name: untrusted.read_bytes(str(view.directory / name), MOST_FILE_BYTES)
            for name in (protocol.ATTEMPT_FILE, protocol.ASK_FILE)
            if (view.directory / name).exists()
        }
        values = dict(self._secrets(view.secrets)) if view.secrets else {}
        try:
            code = read_document(view.paths.description).code
            bring_code(place, code, self._code, place=place.name)
            given = {"files": files, "secrets": values, "area": place.area, **place.travels.installation}
            place.call("start", directory=str(directory), node=node.node, **given)
        except ValueError as error:
            raise InvalidInput(str(error)) from None
        except OSError as error:
            full = error.errno in writing.SPACE_ERRORS
            if full and place.call("lives", places=[[str(directory), node.node]]) == ["absent"]:
                self._lose_by_disk(place, view, node, error)
                return
            raise Unavailable(f"{place.name}: {error.filename or ''} {error.strerror}") from None
        node.requested_at = time.monotonic()

    def life(self, view: AttemptView, node: NodeView) -> Life:
        away = self.node(view, node.node).life()
        return away or self._lives.get((view.attempt_id, node.node), Life.SILENT)

    def end(self, view: AttemptView, node: NodeView) -> None:
        with suppress(Unavailable, OSError):
            place = self.node(view, node.node)
            place.call("end", directory=str(place.directory(view.attempt_id)), node=node.node)

    def fence(self, view: AttemptView) -> None:
        for node in view.nodes:
            place = self.node(view, node.node)
            if node.facts.state is not PartState.UNCLAIMED or place.life() is Life.LOST:
                continue
            try:
                directory = place.directory(view.attempt_id)
                place.make_directory(directory, {})
                place.fence(directory, [node.node])
                place.copy_reports({view.attempt_id: node.node})
            except OSError as error:
                if error.errno not in writing.SPACE_ERRORS:
                    raise Unavailable(f"cannot fence attempt {view.attempt_id}: {error.strerror}") from None
                self._withdraw(place, view, node, error)
        view.refresh()

    def end_orphans(self, view: AttemptView) -> bool:
        """End processes on reachable nodes; on others the runner ends its work by itself."""
        done = True
        for node in view.nodes:
            place = self.node(view, node.node)
            if place.life() is not None:
                continue
            try:
                self._end_orphans(place, view, node.node)
            except (Unavailable, OSError):
                done = False
        return done

    def end_leftovers(self) -> None:
        """Begin to end what given-up attempts left on each node that has come back; failures are retried.

        Until that is done the node takes no new work: two runs would have the same devices. An unreachable
        runner ends by itself only after its lease has expired.
        """
        for node in self._nodes.all():
            if node.up and not node.cleared and node.address not in self._being_cleared:
                self._being_cleared.add(node.address)
                self._nodes.pool.submit(self._clear, node)

    def _clear(self, place: RayNode) -> None:
        try:
            with suppress(Unavailable, OSError):
                for attempt_id, name in place.call("living"):
                    view = self._views.find(attempt_id)
                    if view is not None and self._was_given_up(view, name, place):
                        place.call("end", directory=str(place.directory(attempt_id)), node=name)
                        self._end_orphans(place, view, name)
                place.cleared = True
        finally:
            self._being_cleared.discard(place.address)

    def _was_given_up(self, view: AttemptView, name: str, place: RayNode) -> bool:
        """Whether this part of an attempt was on that node, and is lost."""
        if not view.lock.acquire(timeout=LOCK_S):
            raise Unavailable(f"attempt {view.attempt_id} is being looked at")
        try:
            view.refresh()
            lost = any(part.node == name and part.lost for part in view.nodes)
            return lost and self.addresses(view)[name] == place.address
        finally:
            view.lock.release()

    def _end_orphans(self, place: RayNode, view: AttemptView, name: str) -> None:
        directory = str(place.directory(view.attempt_id))
        place.call(
            "end_orphans", attempt_id=view.attempt_id, token=view.token, directory=directory, node=name
        )

    # --- attempts --------------------------------------------------------------------------------

    def refresh(self, views: Sequence[AttemptView]) -> None:
        """Copy the reports of these attempts from all their nodes at once."""
        by_node: dict[str, tuple[RayNode, dict[str, tuple[AttemptView, str]]]] = {}
        for view in views:
            for part in view.nodes:
                if not part.over:
                    place = self.node(view, part.node)
                    parts = by_node.setdefault(place.address, (place, {}))[1]
                    parts[view.attempt_id] = view, part.node
        looks = list(by_node.values())
        if len(looks) == 1:
            self._copy(*looks[0])
        elif looks:
            wait([self._nodes.pool.submit(self._copy, *look) for look in looks], LOOK_WAIT_S)

    def exchange(self, view: AttemptView) -> None:
        with suppress(Unavailable):  # the next poll tries again
            self.pass_on(view)
        self._carry(view)
        if view.nodes:
            self._reservations.note(view.attempt_id, self.addresses(view))

    def pass_on(self, view: AttemptView) -> None:
        try:
            content = untrusted.read_bytes(view.paths.ask, LARGEST_BYTES)
        except OSError:
            return  # no request
        failure: Unavailable | None = None
        for node in view.nodes:
            key = view.attempt_id, node.node
            if node.over or self._asks.get(key) == content:
                continue
            place = self.node(view, node.node)
            try:
                with suppress(FileNotFoundError):  # absent there: it comes with the attempt
                    place.request_leave(place.directory(view.attempt_id), content, [node.node])
                self._asks[key] = content
            except OSError as error:
                failure = Unavailable(f"{place.name}: cannot pass on what is asked: {error.strerror}")
            except Unavailable as error:
                failure = error
        if failure is not None:
            raise failure

    def released(self, view: AttemptView) -> Sequence[Release]:  # noqa: ARG002 - an agent sees no processes
        return ()

    def forget(self, view: AttemptView) -> None:
        self._reservations.forget(view.attempt_id)
        self._addresses.pop(view.attempt_id, None)
        for node in view.nodes:
            for known in (self._lives, self._asks, self._files):
                known.pop((view.attempt_id, node.node), None)

    def open_session(self, view: AttemptView, worker: WorkerStatus) -> socket.socket:
        place = self.node(view, worker.node)
        endpoint = place.endpoint
        if endpoint is None or not place.up:
            raise Unavailable(f"{place.name} cannot be reached", hint="tarmac nodes shows why")
        travels = place.travels
        connection = connected(
            endpoint, SESSION, tunnel=travels.tunnel, within_s=SESSION_TIMEOUT_S, **travels.installation
        )
        try:
            keep_watch(connection, lost_s=SESSION_LOST_S)
        except OSError as error:
            connection.close()
            raise Unavailable(f"{place.name}: the session cannot be started: {error}") from None
        return connection

    def with_file(self, view: AttemptView | None, path: str) -> Host | None:
        if view is None or not view.nodes:
            return None
        return self.node(view, _place_of(view, path))

    def reachable(self) -> Mapping[str, Host]:
        return {node.name: node for node in self._nodes.all() if node.up}

    # --- inside ----------------------------------------------------------------------------------

    def _copy(self, place: RayNode, parts: Mapping[str, tuple[AttemptView, str]]) -> None:
        """Ask which runners live before copying reports: a runner dead by then has written everything."""
        names = {attempt_id: node for attempt_id, (_, node) in parts.items()}
        try:
            lives = place.lives(names)
            place.copy_reports(names)
        except (Unavailable, OSError):
            lives = dict.fromkeys(names, Life.SILENT)
        for attempt_id, (view, node) in parts.items():
            self._lives[view.attempt_id, node] = lives[attempt_id]

    def _carry(self, view: AttemptView) -> None:
        """Carry each node's files to its peers."""
        if len(view.nodes) < 2:
            return
        own = {
            f"{protocol.NODES}/{node.node}/{name}": node.node
            for node in view.nodes
            for name in NODE_PEER_FILES
        }
        there: dict[str, bytes] = {}
        for path in (*PEER_FILES, *own):
            with suppress(OSError):
                there[path] = untrusted.read_bytes(str(view.directory / path), LARGEST_BYTES)
        for node in view.nodes:
            known = self._files.setdefault((view.attempt_id, node.node), set())
            new = {p: content for p, content in there.items() if own.get(p) != node.node and p not in known}
            if new and not node.over:
                place = self.node(view, node.node)
                directory = str(place.directory(view.attempt_id))
                with suppress(Unavailable, OSError):  # the next poll tries again
                    place.call("relay", directory=directory, node=node.node, files=new)
                    known.update(new)

    def _withdraw(self, place: RayNode, view: AttemptView, node: NodeView, error: OSError) -> None:
        """Remove the document if a full disk takes neither claim nor fence: without it no runner starts."""
        document = place.directory(view.attempt_id) / protocol.ATTEMPT_FILE
        try:
            place.remove_trees([document])
        except OSError as problem:
            raise Unavailable(f"cannot fence attempt {view.attempt_id}: {problem.strerror}") from None
        self._lose_by_disk(place, view, node, error)

    def _lose_by_disk(self, place: RayNode, view: AttemptView, node: NodeView, error: OSError) -> None:
        place.note_disk(error)
        message = f"{place.name}: {place.full}"
        writing.lose(view, node, Cause(code=CauseCode.PLATFORM_FAULT, message=message, node=node.node))


def _place_of(view: AttemptView, path: str) -> str:
    """The node that wrote the file; for files that several may have written, that of rank 0."""
    names = [node.node for node in view.nodes]
    first, _, rest = path.partition("/")
    if first == protocol.NODES and rest.partition("/")[0] in names:
        return rest.partition("/")[0]
    if path.startswith(_SETUP):
        return next((name for name in names if path[len(_SETUP) :].startswith(f"{name}.")), names[0])
    stem = path.rpartition(".")[0]
    for node in view.nodes:
        if any(worker.log.rpartition(".")[0] == stem for worker in node.workers.values()):
            return node.node
    return names[0]
