"""`RayEngine`: attempts on the nodes of a Ray cluster, placed by tarmac's own scheduler.

Made by `RayKind`, one for each cluster. Ray starts an agent on each node and reserves nodes; all other calls
go directly to the agents. State that must outlive the server is on the nodes, and in the attempt directories
below `copies` on this machine, where their reports are copied.

`Leftovers` ends attempts that were given up while their node was unreachable, once it returns. Until that is
done the node takes no new work: two runs would have the same devices. An unreachable runner ends by itself
only after its lease has expired.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tarmac.engines.attempts import supervision
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.view import Views
from tarmac.engines.hosts import installing
from tarmac.engines.hosts.host import Host
from tarmac.engines.hosts.installing import Supplies, try_containers
from tarmac.engines.hosts.placed import PlacedEngine, news_of
from tarmac.engines.ray.hosts import RayHosts
from tarmac.engines.ray.membership import Membership
from tarmac.engines.ray.node import RayNode, Travels, ahead_s
from tarmac.engines.ray.nodes import RayNodes
from tarmac.engines.ray.reservations import Reservations
from tarmac.engines.ray.settings import RaySettings
from tarmac.model.abilities import Pace
from tarmac.model.cluster import Cluster, Node
from tarmac.model.engine_kinds import Finding
from tarmac.model.errors import Unavailable
from tarmac.node.container.making import Trial
from tarmac.node.starting import NODE_DIRECTORY, Installation

LOCK_S = 5.0
"""Bounded, because a thread with the lock of a view may wait for these threads."""

LEAST_FREE_BYTES = 1 << 30
MOST_AHEAD_S = 2.0


TryContainers = Callable[[Host], Trial]
"""Tries whether runs can start in images on a node."""


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


OBSERVE_S = 1.0


class RayEngine(PlacedEngine):
    """The engine of one cluster. `python` runs the runners (None: that of the agents)."""

    name = "ray"

    def __init__(
        self,
        cluster: str,
        settings: RaySettings,
        membership: Membership,
        supplies: Supplies,
        *,
        patience: supervision.RunnerTimeouts = supervision.DEFAULT_TIMEOUTS,
        python: str | None = None,
    ) -> None:
        sidecar, attempts = supplies.sidecar, supplies.attempts_of(cluster)
        files = installing.collect((NODE_DIRECTORY, *(sidecar.packages if sidecar is not None else ())))
        version = settings.directory / "node" / installing.version_of(files)
        package = str(version / installing.RUNNER)
        self._installation = Installation(settings.python, package)
        keeping = sidecar.at(self._installation, relay=settings.directory) if sidecar is not None else None
        layout, seen = Layout(settings.directory), Layout(supplies.copies.resolve() / cluster)
        node = attempts.node._replace(
            sdk=self._installation.sdk,
            notify=str(layout.notify),
            shared_directory=False,
            lease_s=settings.lease_s,
            contact=str(settings.directory),
        )
        attempts = replace(attempts, node=node, keeping=keeping)
        super().__init__(layout, seen, attempts, patience=patience, secrets=supplies.secrets)
        self._copies, self._version = seen, version.name
        self._site = settings
        self._membership = membership
        answer = supplies.artifacts if sidecar is not None and sidecar.is_directory else None
        travels = Travels(
            answer=answer, forward=supplies.forward, package=package, files=files, python=python
        )
        self._nodes = RayNodes(
            cluster, settings, membership, seen=seen, travels=travels, on_news=news_of(self)
        )
        self._reservations = Reservations(self._nodes, membership)
        hosts = RayHosts(self._nodes, layout, self._reservations, travels=travels, supplies=supplies)
        self._hosts = hosts
        leftovers = Leftovers(self._nodes, self._views, hosts)
        self._nodes.after_look = (leftovers.end, self._reservations.release_idle)

    def close(self) -> None:
        """Disconnect from the cluster; runs continue."""
        self._reservations.close()
        self._nodes.close()

    def nodes(self) -> Sequence[Node]:
        return self._nodes.offer()

    def knows_nodes(self) -> bool:
        return self._nodes.known()

    def free_port(self, address: str, taken: frozenset[int]) -> int:
        try:
            return self._nodes.at(address).ports.take(taken)
        except OSError as error:
            raise Unavailable(str(error)) from None

    def pace(self) -> Pace:
        return Pace(observe_s=OBSERVE_S, idle_s=OBSERVE_S, read_s=0.1, rest_s=1.0, longest_rest_s=5.0)

    def examine(self, cluster: Cluster) -> Sequence[Finding]:  # noqa: ARG002 - there is one
        driver = self._settings.containers.driver
        return examined(
            self._site,
            self._membership,
            self._nodes,
            try_containers=lambda host: try_containers(host, self._installation, driver),
        )


def examined(
    settings: RaySettings, membership: Membership, nodes: RayNodes, *, try_containers: TryContainers
) -> Sequence[Finding]:
    """Findings for the head, then for every node: agent, directory, clock, disk, GPUs, images."""
    try:
        about = membership.about()
        members = {member.address: member for member in membership.members()}
    except Unavailable as error:
        hint = f" ({error.hint})" if error.hint else ""
        return [Finding(what="head", ok=False, text=f"{settings.address}: {error.message}{hint}")]
    found = [
        Finding(
            what="head",
            ok=True,
            text=f"{settings.address}: Ray {about.get('ray')}, Python {about.get('python')}",
        )
    ]
    nodes.look()
    for node in nodes.all():
        member = members.get(node.address)
        if member is not None:
            shared = member.shared and not member.reserved
            found.extend(_node(node, alive=member.alive, shared=shared))
            found.extend([_images(node, try_containers)] if node.up else [])
    if len(found) == 1:
        found.append(Finding(what="nodes", ok=False, text="Ray has no node"))
    return found


def _node(node: RayNode, *, alive: bool, shared: bool) -> Iterator[Finding]:
    if not node.up:
        words = node.trouble or "its agent does not answer"
        yield Finding(what=node.name, ok=False, text=words if alive else f"Ray has lost it; {words}")
        return
    try:
        sent_at = time.time()
        survey = node.call("survey")
        found_s = ahead_s(survey["at"], sent_at=sent_at, received_at=time.time())
        free_bytes, free_files = node.host.room()
    except Unavailable as error:
        yield Finding(what=node.name, ok=False, text=error.message)
        return
    except OSError as error:
        yield Finding(what=node.name, ok=False, text=f"{error.filename}: {error.strerror}")
        return
    node.survey = survey
    yield Finding(what=node.name, ok=not shared, text=_words(node, survey, shared=shared))
    if abs(found_s) > MOST_AHEAD_S:
        yield Finding(
            what=node.name, ok=False, text=f"its clock is {found_s:+.0f} s from that of this machine"
        )
    for problem in survey["gpu_problems"]:
        yield Finding(what=node.name, ok=False, text=problem)
    if node.forward_problem:
        yield Finding(
            what=node.name, ok=False, text=f"runs there do not reach the gateway at {node.forward_problem}"
        )
    if free_bytes < LEAST_FREE_BYTES or (free_files is not None and free_files < 1000):
        text = f"{node.host.layout.home}: {free_bytes / 2**30:.1f} GiB and {free_files} files free"
        yield Finding(what=node.name, ok=False, text=text)


def _images(node: RayNode, try_containers: TryContainers) -> Finding:
    """The finding about images, always ok, because most runs need no image."""
    found = try_containers(node.host)
    text = found.text if found.works else f"no run starts in an image: {found.text}"
    return Finding(what=node.name, ok=True, text=text)


def _words(node: RayNode, survey: dict[str, Any], *, shared: bool) -> str:
    products = survey["products"]
    have = f"{len(products)} x {products[0]}" if products else "no GPU"
    text = (
        f"{node.address}: Python {survey['python']}, {survey['cpus']:.0f} processors, {have}, "
        f"{survey['memory_bytes'] / 2**30:.0f} GiB memory, {survey['free_bytes'] / 2**30:.0f} GiB disk free"
    )
    return f"{text}; others use it through Ray now" if shared else text
