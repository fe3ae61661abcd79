"""One node of the cluster: the link to its agent, reopened after a loss, and the state of its disk.

Used by `nodes` and by the engine. A node that was silent for too long is lost; it may come back.
`problem` judges from its agent's facts whether it can take work; disks are checked by writing to them.
"""

import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.supervision import Life
from tarmac.engines.attempts.writing import SPACE_ERRORS
from tarmac.engines.hosts.host import FILE_S, Host
from tarmac.engines.hosts.installing import Forward
from tarmac.engines.hosts.relaying import AnswerRequest, forward_operation, store_operation
from tarmac.engines.hosts.report_copies import NODE_FILES, ReportCopies
from tarmac.engines.hosts.ssh import Ssh
from tarmac.engines.ray.link import linked
from tarmac.engines.ray.membership import Endpoint
from tarmac.engines.ray.ports import FreePorts
from tarmac.model.errors import Unavailable
from tarmac.node.attempt import protocol
from tarmac.node.host.relay import FORWARD, STORE, socket_path
from tarmac.node.wire.connection import Connection, Lost

PEER_FILES = (
    protocol.FAILED_FILE,
    protocol.FAILED_LEAVING_FILE,
    protocol.PREPARED_FILE,
    protocol.PLACED_FILE,
)
NODE_PEER_FILES = (protocol.FINISHED_FILE, protocol.LEFT_FILE)
"""Files that a node's runner writes for the others: of the attempt, and of its own node."""

PING_S = 2.0
HEALTH_S = 5.0

LEAST_FREE_BYTES = 16 << 20
LEAST_FREE_FILES = 200
"""With fewer free files, its disk counts as full."""

PORT_S = 1.0

QUIET_S = 3.0
SILENT_S = 6.0
"""After this silence calls fail at once, and the link is given up."""

LOSS_S = 8.0
LONGEST_LOSS_S = 60.0
"""After this silence the node is lost; after the first, if Ray has lost it as well."""

LEAST_MEMORY_SHARE = 0.02
LEAST_MEMORY_BYTES, MOST_MEMORY_BYTES = 256 << 20, 2 << 30
"""A node with less than this share of its memory free, within these bounds, is nearly full."""

WELL_AGAIN = 2.0
"""Factor of free memory at which a node counts as healthy again."""

MOST_AHEAD_S = 30.0
"""A clock that differs more from ours makes times of files and logs, and certificates, wrong."""

PROBLEMS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Travels:
    """Software for every node: `files` of a version, and the path of the runner's package in it.

    `python` runs it; None: that of the agent. `answer` performs requests of sidecars; `forward` is reached
    from there. Connections to nodes use the `tunnel`, if there is one.
    """

    package: str
    files: Mapping[str, bytes]
    python: str | None = None
    answer: AnswerRequest | None = None
    forward: Forward | None = None
    tunnel: Ssh | None = None

    @property
    def installation(self) -> dict[str, Any]:
        """The installation in the form of an agent's arguments."""
        return {"package": self.package, "python": self.python}


class RayNode(Host):
    """A node by its address. `name` is its name in runs, `on_news` is told of attempts there. Thread-safe."""

    def __init__(
        self, address: str, *, home: Layout, seen: Layout, travels: Travels, on_news: Callable[[str], None]
    ) -> None:
        area = home.staging / address.replace(":", "_")  # its own, because several nodes may share a disk
        super().__init__(home, f"on {address}", seen=seen, area=area)
        self.address = address
        self.name = ""
        self.alive = True
        self.survey: Mapping[str, Any] = {}
        self.endpoint: Endpoint | None = None
        self.trouble: str | None = None
        self.cleared = False
        """Whether given-up attempts there have been ended since it was last reached."""
        self.full = ""
        """The problem of its disk; empty if there is space."""
        self.ill = ""
        """Its other problem, see `problem`; empty while it is healthy."""
        self.forward_problem = ""
        """Why programs there do not reach the forwarded address; empty while they do."""
        self._examined_at = -math.inf
        self._full_text = f"the disk of {home.home} is full"
        self.travels = travels
        self._operations: dict[str, Callable[..., Any]] = {"news": on_news}
        if travels.answer is not None:
            self._operations[STORE] = store_operation(travels.answer)
        if travels.forward is not None:
            self._operations[FORWARD] = forward_operation(travels.forward.socket)
        self._lock = Lock()
        self._link: Connection | None = None
        self._report_copies: dict[str, ReportCopies] = {}
        self._heard_at = time.monotonic()
        self.ports = FreePorts(self._find_ports)

    # --- the link --------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        """Whether there is a link, with a recent message from the agent."""
        return self._live() is not None and self.silent_s() < QUIET_S + PING_S

    def silent_s(self) -> float:
        """The time since the agent's last message."""
        link = self._link
        if link is not None:
            self._heard_at = max(self._heard_at, link.heard_at)
        return time.monotonic() - self._heard_at

    def life(self) -> Life | None:
        """Whether it is silent or lost; None while it is reachable."""
        if self.up:
            return None
        silent_s = self.silent_s()
        lost = silent_s > LONGEST_LOSS_S or (silent_s > LOSS_S and not self.alive)
        return Life.LOST if lost else Life.SILENT

    def connect(self, endpoint: Endpoint) -> None:
        """Link to this agent, with a new link if needed. Raises Unavailable."""
        with self._lock:
            known = self._link
            if endpoint == self.endpoint and known is not None and known.lost_at is None:
                return
            link = linked(endpoint, self._operations, tunnel=self.travels.tunnel)
            if known is not None:
                known.close()
            self.cleared = False
            self._link, self.endpoint, self._heard_at = link, endpoint, time.monotonic()
        self.trouble = None

    def ping(self) -> None:
        """Ping the agent, unless it sent a message recently; give up the link after too long a silence."""
        link = self._live()
        if link is None:
            return
        silent_s = self.silent_s()
        if silent_s > SILENT_S:
            link.close()
        elif silent_s >= PING_S / 2:
            self.call("about", timeout_s=0.0)

    def close(self) -> None:
        """Close the link; runs continue."""
        link = self._link
        if link is not None:
            link.close()

    def _live(self) -> Connection | None:
        link = self._link
        return link if link is not None and link.lost_at is None else None

    @contextmanager
    def _linked(self) -> Iterator[Connection]:
        """The link, for a call. Raises Unavailable, at once without one or while the agent is silent."""
        link = self._live()
        if link is None or self.silent_s() > SILENT_S:
            raise Unavailable(f"{self.name or self.address} cannot be reached")
        try:
            yield link
        except Lost as error:
            raise Unavailable(f"{self.name or self.address}: {error}") from None

    # --- operations there ------------------------------------------------------------------------

    def call(self, operation: str, *, timeout_s: float = FILE_S, **arguments: Any) -> Any:
        """Perform an operation. Raises Unavailable, at once without a link, and OSError."""
        with self._linked() as link:
            return link.call(operation, arguments, timeout_s=timeout_s)

    def take_code(self, directory: Path, digest: str, pieces: Iterator[bytes]) -> None:
        """Send a snapshot of code. Raises as `call`; ValueError for one that is refused."""
        with self._linked() as link:
            link.upload("take_code", {"directory": str(directory), "digest": digest}, pieces)

    def stream(self, argv: Sequence[str], *, variables: Mapping[str, str], mark: str) -> int:  # noqa: ARG002
        """Not supported."""
        raise Unavailable(f"{argv[0]} cannot be connected to {self.where}")

    def refresh(self, attempt_ids: Sequence[str]) -> None:
        """Not supported: attempts have a name for this node, see `copy_reports`."""
        raise NotImplementedError(f"see copy_reports: {attempt_ids}")

    def prepare(self) -> None:
        """Create its directory, and send the software. Raises Unavailable."""
        home, travels = str(self.layout.home), self.travels
        given = {"home": home, "area": self.area, **travels.installation}
        try:
            if not self.call("prepare", **given):
                self.make_directory(Path(travels.package).parent.parent, travels.files)
                self.call("prepare", **given)
            self.call("serve_store", path=socket_path(home, self.address))
        except OSError as error:
            self.note_disk(error)
            raise Unavailable(f"{self.layout.home} cannot be used: {error.strerror}") from None
        self._offer()

    def check(self) -> None:
        """Check its health and its disk at intervals. Raises Unavailable and OSError.

        After a full disk has space again, its directory is created.
        """
        if time.monotonic() - self._examined_at < HEALTH_S:
            return
        self._examined_at = time.monotonic()
        sent_at = time.time()
        facts = self.call("health")
        self.ill = problem(facts, sent_at=sent_at, received_at=time.time(), before=self.ill)
        self._offer()
        try:
            free_bytes, free_files = self.room()
        except OSError as error:
            self.note_disk(error)
            return
        if free_bytes < LEAST_FREE_BYTES or (free_files is not None and free_files < LEAST_FREE_FILES):
            self.full = self._full_text
        elif self.full:
            self.prepare()
            self.full = ""

    def note_disk(self, error: OSError) -> None:
        """Note a failed write there."""
        full = error.errno in SPACE_ERRORS
        self.full = self._full_text if full else f"{self.layout.home}: {error.strerror}"

    def lives(self, attempts: Mapping[str, str]) -> Mapping[str, Life]:
        """The states of the runners here, for attempts that each map to this node's name in them."""
        places = [[str(self.layout.attempt(attempt)), node] for attempt, node in attempts.items()]
        words = self.call("lives", places=places)
        return {attempt: _LIVES[word] for attempt, word in zip(attempts, words, strict=True)}

    def copy_reports(self, attempts: Mapping[str, str]) -> None:
        """Copy new reports of these attempts, given as for `lives`. Raises Unavailable."""
        by_name: dict[str, list[str]] = {}
        for attempt, node in attempts.items():
            by_name.setdefault(node, []).append(attempt)
        with self._linked() as link:
            for node, ids in by_name.items():
                with self._lock:
                    copies = self._report_copies.setdefault(node, self._copies_of(node))
                copies.refresh(ids, partial(self.call, "changes"), link)

    def _offer(self) -> None:
        """Make programs there reach the forwarded address, and note why they do not. Raises Unavailable."""
        if (forward := self.travels.forward) is None:
            return
        try:
            self.call("forward", address=forward.address, port=forward.port, of=forward.loopback)
            self.forward_problem = ""
        except OSError as error:
            words = os.strerror(error.errno) if error.errno else str(error)
            self.forward_problem = f"{forward.address}:{forward.port}: {words}"

    def _find_ports(self, taken: Collection[int], count: int) -> list[int]:
        given = {"address": self.address, "taken": sorted(taken), "count": count}
        return list(self.call("free_ports", timeout_s=PORT_S, **given))

    def _copies_of(self, node: str) -> ReportCopies:
        names = (*NODE_FILES, *NODE_PEER_FILES)
        files = (*PEER_FILES, *(f"{protocol.NODES}/{node}/{name}" for name in names))
        return ReportCopies(self.layout, self.seen, files=files)


_LIVES = {
    "absent": Life.DEAD,
    "unclaimed": Life.ALIVE,
    "alive": Life.ALIVE,
    "dead": Life.DEAD,
    "restarted": Life.RESTARTED,
}


def problem(facts: Mapping[str, Any], *, sent_at: float, received_at: float, before: str) -> str:
    """Why no new work should start on a node with these facts, requested between these times; "" if none.

    `before` is the problem at the last check.
    """
    found = [_memory(facts, before), _clock(facts, sent_at, received_at), *facts["gpu_problems"]]
    words = [each for each in found if each]
    if len(words) > PROBLEMS_SHOWN:
        words = [*words[:PROBLEMS_SHOWN], f"and {len(words) - PROBLEMS_SHOWN} more"]
    return "; ".join(words)


def ahead_s(at: float, *, sent_at: float, received_at: float) -> float:
    """The minimum lead of a clock that showed `at` over ours, in seconds; below 0: it is behind."""
    return max(0.0, at - received_at) + min(0.0, at - sent_at)


def _memory(facts: Mapping[str, Any], before: str) -> str:
    free, whole = facts["free_memory_bytes"], facts["memory_bytes"]
    least = min(max(LEAST_MEMORY_BYTES, whole * LEAST_MEMORY_SHARE), MOST_MEMORY_BYTES)
    if free >= least * (WELL_AGAIN if _MEMORY in before else 1.0):
        return ""
    return f"{_MEMORY}: {free / 2**30:.1f} of {whole / 2**30:.1f} GiB free"


_MEMORY = "its memory is nearly full"


def _clock(facts: Mapping[str, Any], sent_at: float, received_at: float) -> str:
    found_s = ahead_s(facts["at"], sent_at=sent_at, received_at=received_at)
    if abs(found_s) <= MOST_AHEAD_S:
        return ""
    return f"its clock is {abs(found_s):.0f} s {'ahead of' if found_s > 0 else 'behind'} that of the server"
