"""`RayEngine`: attempts on the nodes of a Ray cluster, placed by tarmac's own scheduler.

Made by `RayKind`, one for each cluster. Ray starts an agent on each node and reserves nodes; all other calls
go directly to the agents. State that must outlive the server is on the nodes, and in the attempt directories
below `copies` on this machine, where their reports are copied.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tarmac.engines.attempts import supervision
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import AttemptRequest
from tarmac.engines.hosts import installing
from tarmac.engines.hosts.installing import Supplies, try_containers
from tarmac.engines.hosts.placed import PlacedEngine, news_of
from tarmac.engines.hosts.ssh import Ssh
from tarmac.engines.ray.hosts import RayHosts
from tarmac.engines.ray.membership import Member, Membership
from tarmac.engines.ray.node import RayNode, Travels, ahead_s
from tarmac.engines.ray.nodes import RayNodes
from tarmac.engines.ray.reservations import Reservations
from tarmac.engines.ray.settings import RaySettings
from tarmac.model.abilities import Pace
from tarmac.model.cluster import Cluster, Finding, Node
from tarmac.model.errors import Refused, Unavailable
from tarmac.node.starting import Installation

LEAST_FREE_BYTES = 1 << 30
MOST_AHEAD_S = 2.0
OBSERVE_S = 1.0

_NO_TOKEN = "its Ray has no token, so every run could start processes of root there"


class RayEngine(PlacedEngine):
    """The engine of one cluster. `python` runs the runners (None: that of the agents).

    `guarded`: the Ray needs a token. Without one each run could start processes of its nodes' agents there,
    so no run is that of a system user. `tunnel`: the way to all nodes, if they cannot be reached directly.
    """

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
        guarded: bool = False,
        tunnel: Ssh | None = None,
    ) -> None:
        sidecar, attempts = supplies.sidecar, supplies.attempts_of(cluster)
        files = installing.collect(supplies.packages)
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
        least_uid = attempts.least_uid if guarded else None
        attempts = replace(attempts, node=node, keeping=keeping, least_uid=least_uid)
        super().__init__(layout, seen, attempts, patience=patience, secrets=supplies.secrets)
        self._copies, self._version = seen, version.name
        self._site = settings
        self._membership = membership
        self._cluster = cluster
        answer = supplies.artifacts if sidecar is not None and sidecar.is_directory else None
        travels = Travels(
            answer=answer,
            forward=supplies.forward,
            package=package,
            files=files,
            python=python,
            tunnel=tunnel,
        )
        self._nodes = RayNodes(
            cluster, settings, membership, seen=seen, travels=travels, on_news=news_of(self)
        )
        self._reservations = Reservations(self._nodes, membership)
        self._hosts = hosts = RayHosts(self._nodes, self._reservations, self._views, supplies)
        self._nodes.after_look = (hosts.end_leftovers, self._reservations.release_idle)

    def close(self) -> None:
        """Disconnect from the cluster; runs continue."""
        self._reservations.close()
        self._nodes.close()

    def nodes(self) -> Sequence[Node]:
        return self._nodes.offer()

    def knows_nodes(self) -> bool:
        return self._nodes.known()

    def submit(self, request: AttemptRequest) -> None:
        if request.document.runs_as is not None:  # before any node of the attempt starts
            addresses = [part.address for part in request.document.nodes]
            self._nodes.check_user(request.document.runs_as, addresses)
        super().submit(request)

    def check_system_user(self, name: str) -> None:
        problem = _NO_TOKEN if self._settings.least_uid is None else self._nodes.users_problem()
        if problem:
            raise Refused(
                f"runs cannot run as the system user {name} on cluster {self._cluster}: {problem}",
                hint=f"an admin of the nodes changes this, then: tarmac clusters check {self._cluster}",
            )

    def free_port(self, address: str, taken: frozenset[int]) -> int:
        try:
            return self._nodes.at(address).ports.take(taken)
        except OSError as error:
            raise Unavailable(str(error)) from None

    def pace(self) -> Pace:
        return Pace(observe_s=OBSERVE_S, idle_s=OBSERVE_S, read_s=0.1, rest_s=1.0, longest_rest_s=5.0)

    def examine(self, cluster: Cluster) -> Sequence[Finding]:  # noqa: ARG002 - there is one
        driver = self._settings.containers.driver
        return examined(self._site, self._membership, self._nodes, self._installation, driver=driver)


def examined(
    settings: RaySettings, membership: Membership, nodes: RayNodes, installation: Installation, *, driver: str
) -> Sequence[Finding]:
    """Findings for the head, then for every node: agent, directory, clock, disk, GPUs, images."""
    try:
        about = membership.about()
        members = {member.address: member for member in membership.members()}
    except Unavailable as error:
        hint = f" ({error.hint})" if error.hint else ""
        return [Finding(what="head", ok=False, text=f"{settings.address}: {error.message}{hint}")]
    head = f"{settings.address}: Ray {about.get('ray')}, Python {about.get('python')}"
    found = [Finding(what="head", ok=True, text=head)]
    nodes.look()
    for node in nodes.all():
        member = members.get(node.address)
        if member is not None:
            checks = [*_checks(node, member)]
            if node.up:  # always well, because most runs need no image
                trial = try_containers(node, installation, driver)
                checks.append((True, f"{'' if trial.works else 'no run starts in an image: '}{trial.text}"))
            found += [Finding(what=node.name, ok=ok, text=text) for ok, text in checks]
    if len(found) == 1:
        found.append(Finding(what="nodes", ok=False, text="Ray has no node"))
    return found


def _checks(node: RayNode, member: Member) -> Iterator[tuple[bool, str]]:
    """Sentences about a node, each with whether that is well."""
    if not node.up:
        words = node.trouble or "its agent does not answer"
        yield False, words if member.alive else f"Ray has lost it; {words}"
        return
    try:
        sent_at = time.time()
        survey = node.call("survey")
        found_s = ahead_s(survey["at"], sent_at=sent_at, received_at=time.time())
        free_bytes, free_files = node.room()
    except Unavailable as error:
        yield False, error.message
        return
    except OSError as error:
        yield False, f"{error.filename}: {error.strerror}"
        return
    node.survey = survey
    products = survey["products"]
    have = f"{len(products)} x {products[0]}" if products else "no GPU"
    text = (
        f"{node.address}: Python {survey['python']}, {survey['cpus']:.0f} processors, {have}, "
        f"{survey['memory_bytes'] / 2**30:.0f} GiB memory, {survey['free_bytes'] / 2**30:.0f} GiB disk free"
    )
    shared = member.shared and not member.reserved
    yield not shared, f"{text}; others use it through Ray now" if shared else text
    yield True, f"runs as system users: {survey['users_problem'] or 'its agent is root'}"
    if abs(found_s) > MOST_AHEAD_S:
        yield False, f"its clock is {found_s:+.0f} s from that of this machine"
    for problem in survey["gpu_problems"]:
        yield False, problem
    if node.forward_problem:
        yield False, f"runs there do not reach the gateway at {node.forward_problem}"
    if free_bytes < LEAST_FREE_BYTES or (free_files is not None and free_files < 1000):
        yield False, f"{node.layout.home}: {free_bytes / 2**30:.1f} GiB and {free_files} files free"
