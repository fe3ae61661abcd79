"""`RayEngine`: attempts on the nodes of a Ray cluster, placed by tarmac's own scheduler.

Made by `RayKind`, one for each cluster. Ray starts an agent on each node and reserves nodes; all other calls
go directly to the agents. State that must outlive the server is on the nodes, and in the attempt directories
below `copies` on this machine, where their reports are copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tarmac.engines.attempts import supervision
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import NO_CONTAINER_RULES, NO_RULES, AttemptSettings
from tarmac.engines.hosts import installing
from tarmac.engines.hosts.container_trial import try_containers
from tarmac.engines.hosts.installing import Sidecar
from tarmac.engines.hosts.relaying import AnswerRequest
from tarmac.engines.hosts.supplies import Forward
from tarmac.engines.placed.engine import PlacedEngine, news_of
from tarmac.engines.ray.examining import examined
from tarmac.engines.ray.hosts import RayHosts
from tarmac.engines.ray.leftovers import Leftovers
from tarmac.engines.ray.membership import Membership
from tarmac.engines.ray.node import Travels
from tarmac.engines.ray.nodes import RayNodes
from tarmac.engines.ray.reservations import Reservations
from tarmac.engines.ray.settings import RaySettings
from tarmac.model.abilities import Pace
from tarmac.model.cluster import Cluster, Node
from tarmac.model.containers import ContainerRules
from tarmac.model.engine_kinds import Finding
from tarmac.model.errors import Unavailable
from tarmac.model.ports import StreamsCode
from tarmac.model.secret import SecretValues, no_secrets
from tarmac.node.attempt.document import NodeSettings
from tarmac.node.files.gitrules import GitRules
from tarmac.node.starting import NODE_DIRECTORY, Installation

OBSERVE_S = 1.0


class RayEngine(PlacedEngine):
    """The engine of one cluster. `copies` is the directory of this machine for reports of attempts.

    `secrets` has the values of those that attempts name; `sidecar` stores artifacts (None: they stay in
    place), and if its store is a directory here, `artifacts` answers it. `forward` is reached from the nodes.
    `python` runs the runners (None: that of the agents).
    """

    name = "ray"

    def __init__(
        self,
        cluster: str,
        settings: RaySettings,
        membership: Membership,
        *,
        copies: Path,
        code: StreamsCode | None = None,
        git: GitRules = NO_RULES,
        containers: ContainerRules = NO_CONTAINER_RULES,
        own_packages: bool = False,
        log_limit_bytes: int | None = None,
        secrets: SecretValues = no_secrets,
        sidecar: Sidecar | None = None,
        artifacts: AnswerRequest | None = None,
        forward: Forward | None = None,
        patience: supervision.RunnerTimeouts = supervision.DEFAULT_TIMEOUTS,
        python: str | None = None,
    ) -> None:
        files = installing.collect((NODE_DIRECTORY, *(sidecar.packages if sidecar is not None else ())))
        version = settings.directory / "node" / installing.version_of(files)
        package = str(version / installing.RUNNER)
        self._installation = Installation(settings.python, package)
        keeping = sidecar.at(self._installation, relay=settings.directory) if sidecar is not None else None
        attempts = AttemptSettings(
            node=_node_settings(settings, self._installation.sdk, log_limit_bytes),
            keeping=keeping,
            git=git,
            containers=containers,
            own_packages=own_packages,
        )
        layout, seen = Layout(settings.directory), Layout(copies.resolve())
        super().__init__(layout, seen, attempts, patience=patience, secrets=secrets)
        self._copies, self._version = seen, version.name
        self._site = settings
        self._membership = membership
        answer = artifacts if sidecar is not None and sidecar.is_directory else None
        travels = Travels(answer=answer, forward=forward, package=package, files=files, python=python)
        self._nodes = RayNodes(
            cluster, settings, membership, seen=seen, travels=travels, on_news=news_of(self)
        )
        self._reservations = Reservations(self._nodes, membership)
        hosts = RayHosts(self._nodes, layout, self._reservations, travels=travels, code=code, secrets=secrets)
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


def _node_settings(settings: RaySettings, sdk: str, log_limit_bytes: int | None) -> NodeSettings:
    return NodeSettings(
        sdk=sdk,
        notify=str(Layout(settings.directory).notify),
        shared_directory=False,
        lease_s=settings.lease_s,
        contact=str(settings.directory),
        log_limit_bytes=log_limit_bytes,
    )
