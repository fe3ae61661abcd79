"""All nodes of the cluster, updated by a thread of its own: reads Ray's list, starts agents, opens links.

Used by `RayEngine`, which reads from memory. The addresses of agents are stored, so that the next server
reaches them at once, even if Ray does not answer.
"""

import json
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from threading import Event, Lock, Thread
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.hosts.slot_types import slot_type
from tarmac.engines.ray.membership import Endpoint, Member, Membership
from tarmac.engines.ray.node import SILENT_S, RayNode, Travels
from tarmac.engines.ray.settings import RaySettings
from tarmac.model.cluster import Disks, Node, NodeState, node_name
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.resources import CPU_ONLY, Resources
from tarmac.node.attempt.document import RunsAs
from tarmac.node.files import untrusted

LOOK_S = 1.0
VIRTUAL_SLOTS = 8
MOST_THREADS = 64
LARGEST_RECORD_BYTES = 16 * 1024 * 1024


class RayNodes:
    """The nodes by address. Thread-safe; `changed` is called when one appears or disappears."""

    def __init__(
        self,
        cluster: str,
        settings: RaySettings,
        membership: Membership,
        *,
        seen: Layout,
        travels: Travels,
        on_news: Callable[[str], None],
    ) -> None:
        self.trouble: str | None = None
        """Ray's error, while it does not answer."""
        self.after_look: tuple[Callable[[], None], ...] = ()
        self._cluster = cluster
        self._settings = settings
        self._membership = membership
        self._home = Layout(settings.directory)
        self._seen = seen
        self._travels = travels
        self._on_news = on_news
        self._lock = Lock()
        self._nodes: dict[str, RayNode] = {}
        self._members: dict[str, Member] = {}
        self._reserved_since: dict[str, bool] = {}
        """Reservations changed since Ray's last list, by node id: that list may be older."""
        self._offer: tuple[Node, ...] = ()
        self._record = seen.home / "agents.json"
        self._recorded: object = None
        self.pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="tarmac-ray")
        self._tenders = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="tarmac-ray-nodes")
        self._under_way: dict[str, Future[None]] = {}
        self._stopped = Event()
        self._read_record()
        self._end = weakref.finalize(
            self, _close, self._stopped, membership, (self.pool, self._tenders), self._nodes
        )
        Thread(target=_watch, args=(weakref.ref(self), self._stopped), daemon=True).start()

    def close(self) -> None:
        """Disconnect from every node and from Ray; runs continue."""
        self._end()

    # --- answers from memory ---------------------------------------------------------------------

    def offer(self) -> tuple[Node, ...]:
        """The nodes for the scheduler; the same object until a node changes."""
        with self._lock:
            made = tuple(
                self._offered(node, self._members.get(address))
                for address, node in sorted(self._nodes.items())
                if node.survey
            )
            if made != self._offer:
                self._offer = made
            return self._offer

    def known(self) -> bool:
        """Whether Ray has listed its nodes, and each has reported its resources or a problem."""
        with self._lock:
            return bool(self._members) and all(
                not member.alive or bool(node.survey) or node.trouble is not None
                for member, node in ((each, self._at(address)) for address, each in self._members.items())
            )

    def all(self) -> list[RayNode]:
        """Every current or former node."""
        with self._lock:
            return list(self._nodes.values())

    def at(self, address: str) -> RayNode:
        """The node at an address; an unknown one counts as silent from now on."""
        with self._lock:
            return self._at(address)

    def ids_to_reserve(self, addresses: Iterable[str]) -> list[str]:
        """The ids of those of these nodes that are not reserved. Raises Unavailable for one that left."""
        found = []
        with self._lock:
            for address in addresses:
                member = self._members.get(address)
                if member is None or not member.alive:
                    raise Unavailable(f"Ray has no node at {address} now")
                if not member.reserved:
                    found.append(member.id)
        return found

    def note_reserved(self, member_ids: Collection[str], reserved: bool) -> None:
        """Note that nodes are reserved for us, or released."""
        with self._lock:
            self._reserved_since.update(dict.fromkeys(member_ids, reserved))
            self._members = {at: self._newer(member) for at, member in self._members.items()}

    def reserved(self) -> dict[str, str]:
        """The addresses and ids of nodes reserved for us."""
        with self._lock:
            return {address: member.id for address, member in self._members.items() if member.reserved}

    # --- system users ----------------------------------------------------------------------------

    def users_problem(self) -> str:
        """Why some node cannot run runs as system users, as it reported; empty if none did."""
        found = {node.name: node.survey.get("users_problem") for node in self.all() if node.up}
        return next((f"{name}: {problem}" for name, problem in sorted(found.items()) if problem), "")

    def check_user(self, user: RunsAs, addresses: Iterable[str]) -> None:
        """Ask these nodes about a system user. Raises InvalidInput if one cannot run it, and Unavailable."""
        for node in map(self.at, addresses):
            try:
                problem = node.call("user_problem", name=user.name, least_uid=user.least_uid)
            except OSError as error:
                raise Unavailable(f"{node.name}: {error.filename}: {error.strerror}") from None
            if problem:
                raise InvalidInput(f"{node.name} cannot run it as the system user {user.name}: {problem}")

    # --- the watch -------------------------------------------------------------------------------

    def look(self) -> None:
        """One round: read Ray's list, start missing agents, reopen lost links.

        Slow steps block no others, and begin again after they end.
        """
        self._begin("members", self._learn)
        self._begin("more", self._do_more)
        for node in self.all():
            self._begin(node.address, partial(self._tend, node))
        wait(list(self._under_way.values()), LOOK_S)
        self._write_record()

    def _begin(self, name: str, work: Callable[[], None]) -> None:
        known = self._under_way.get(name)
        if known is None or known.done():
            self._under_way[name] = self._tenders.submit(work)

    def _do_more(self) -> None:
        for do in self.after_look:
            do()

    def _learn(self) -> None:
        with self._lock:
            self._reserved_since = {}
        try:
            members = self._membership.members()
        except Unavailable as error:
            self.trouble = str(error)
        else:
            self.trouble = None
            self._take(members)

    def _take(self, members: Sequence[Member]) -> None:
        """Store Ray's list; of several entries with one address, the live one counts."""
        found: dict[str, Member] = {}
        for member in members:
            known = found.get(member.address)
            if known is None or (member.alive and not known.alive):
                found[member.address] = member
        with self._lock:
            self._members = {at: self._newer(member) for at, member in found.items()}
            for address, member in found.items():
                node = self._at(address)
                node.name = node.name or self._name_of(member)  # permanent, because runs refer to it
                node.alive = member.alive
            for address, node in self._nodes.items():
                if address not in found:
                    node.alive = False

    def _tend(self, node: RayNode) -> None:
        """Link to a live node, and check it."""
        try:
            if node.up and not node.survey:  # the survey was interrupted or too slow
                self._survey(node)
                return
            if node.up:
                node.ping()
                node.check()
                return
            known = node.endpoint
            if known is not None:
                with suppress(Unavailable):
                    self._link(node, known)
                    return
                if node.silent_s() < SILENT_S:
                    return  # a short break needs no other agent
            member = self._members.get(node.address)
            if member is not None and member.alive and self.trouble is None:
                home = str(self._home.home)
                self._link(node, self._membership.agent(member, home=home, instead_of=known))
        except (Unavailable, OSError, ValueError) as error:
            node.trouble = str(error)

    def _link(self, node: RayNode, endpoint: Endpoint) -> None:
        node.connect(endpoint)
        self._survey(node)

    def _survey(self, node: RayNode) -> None:
        try:
            node.prepare()
        finally:  # unusable nodes are shown as well
            node.survey = node.call("survey")

    # --- inside ----------------------------------------------------------------------------------

    def _newer(self, member: Member) -> Member:
        """A member with its reservation as changed since Ray's list."""
        return replace(member, reserved=self._reserved_since.get(member.id, member.reserved))

    def _at(self, address: str) -> RayNode:
        node = self._nodes.get(address)
        if node is None:
            node = RayNode(
                address, home=self._home, seen=self._seen, travels=self._travels, on_news=self._on_news
            )
            self._nodes[address] = node
        return node

    def _offered(self, node: RayNode, member: Member | None) -> Node:
        """The current state of a node: no new work is placed on one that others use."""
        settings, survey = self._settings, node.survey
        products = survey["products"]
        reason = _problem(node, None if self.trouble is not None else _membership_problem(member))
        whole = len(products) or VIRTUAL_SLOTS
        return Node(
            name=node.name,
            cluster=self._cluster,
            address=node.address,
            hostname=str(survey["name"]),
            capacity=Resources(
                slots=min(settings.slots or whole, len(products) or settings.slots or whole),
                slot_type=settings.slot_type or (slot_type(products[0]) if products else CPU_ONLY),
                cpus=settings.cpus or float(survey["cpus"]),
                memory_bytes=int(survey["memory_bytes"]),
            ),
            state=NodeState.DOWN if reason else NodeState.UP,
            reason=reason,
            disks=Disks.OWN,
        )

    def _name_of(self, member: Member) -> str:
        """The name of a new node: from its host name, with its address if another has the same."""
        name = node_name(self._cluster, member.hostname or "node")
        if member.hostname and name not in {node.name for node in self._nodes.values()}:
            return name
        place = member.address.replace(".", "-").replace(":", "-")
        return node_name(self._cluster, f"{member.hostname or 'node'}-{place}")

    def _read_record(self) -> None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            content = untrusted.read_bytes(str(self._record), LARGEST_RECORD_BYTES)
            for known in json.loads(content):
                node = self._at(known["address"])
                node.name, node.survey = known["name"], known["survey"]
                if known.get("package") == self._travels.package:  # agents of another version exit in time
                    node.endpoint = Endpoint(**known["endpoint"])

    def _write_record(self) -> None:
        record: list[dict[str, Any]] = [
            {
                "address": node.address,
                "name": node.name,
                "survey": node.survey,
                "package": self._travels.package,
                "endpoint": asdict(node.endpoint),
            }
            for node in self.all()
            if node.endpoint is not None and node.survey
        ]
        if record != self._recorded:
            with suppress(OSError):  # the next server asks Ray instead
                self._record.parent.mkdir(parents=True, exist_ok=True)
                untrusted.replace(str(self._record), json.dumps(record).encode(), mode=0o600)
                self._recorded = record


def _problem(node: RayNode, of_ray: str | None) -> str:
    """Why no work can be placed on a node now; empty if it can."""
    if not node.up:
        return "Ray has lost it" if not node.alive else "its agent does not answer"
    if not node.cleared:
        return "what still runs there of lost attempts is being ended"
    return of_ray or node.full or node.ill


def _membership_problem(member: Member | None) -> str | None:
    if member is None or not member.alive:
        return "Ray has lost it"
    return "others use it through Ray" if member.shared and not member.reserved else None


def _watch(nodes: weakref.ref[RayNodes], stopped: Event) -> None:
    """Repeat the rounds, until the engine is closed or garbage-collected."""
    while not stopped.is_set():
        began_at = time.monotonic()
        watched = nodes()
        if watched is None:
            return
        with suppress(RuntimeError):  # closed meanwhile
            watched.look()
        del watched
        stopped.wait(max(0.0, began_at + LOOK_S - time.monotonic()))


def _close(
    stopped: Event, membership: Membership, pools: Sequence[ThreadPoolExecutor], nodes: Mapping[str, RayNode]
) -> None:
    stopped.set()
    for pool in pools:
        pool.shutdown(wait=False, cancel_futures=True)
    membership.close()
    for node in list(nodes.values()):
        node.close()
