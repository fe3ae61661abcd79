"""The server's supplies for engines of remote clusters. Made by `server/wiring.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tarmac.engines.attempts.request import AttemptSettings
from tarmac.engines.hosts.installing import Sidecar
from tarmac.engines.hosts.relaying import AnswerRequest
from tarmac.model.containers import ContainerSettings
from tarmac.model.ports import StreamsCode
from tarmac.model.secret import SecretValues


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A loopback address of this machine that remote runs reach under the same address.

    Their connections go to the unix socket `socket`. `loopback` identifies this machine, see
    `node/host/forwarding.py`.
    """

    address: str
    port: int
    socket: Path
    loopback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplies:
    """The same for all remote clusters.

    `copies` is the directory of this machine for copies of remote attempts' reports. `artifacts` answers
    sidecars on nodes that do not see the store: see `relaying`. `attempts` has the rules for all attempts,
    `containers` those of each cluster. `forward` is the gateway's address for runs, if there is a gateway.
    """

    code: StreamsCode
    secrets: SecretValues
    sidecar: Sidecar
    artifacts: AnswerRequest
    attempts: AttemptSettings
    containers: ContainerSettings
    copies: Path
    forward: Forward | None = None

    def attempts_of(self, cluster: str) -> AttemptSettings:
        """The settings for attempts of a cluster."""
        return replace(self.attempts, containers=self.containers.of(cluster))
