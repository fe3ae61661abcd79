"""The server's supplies for engines of remote clusters. Made by `server/wiring.py`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tarmac.engines.hosts.installing import Sidecar
from tarmac.engines.hosts.relaying import AnswerRequest
from tarmac.model.containers import ContainerSettings
from tarmac.model.ports import StreamsCode
from tarmac.model.secret import SecretValues
from tarmac.node.files.gitrules import GitRules


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
    sidecars on nodes that do not see the store: see `relaying`. `forward` is the gateway's address for runs,
    if there is a gateway.
    """

    code: StreamsCode
    secrets: SecretValues
    sidecar: Sidecar
    artifacts: AnswerRequest
    git: GitRules
    containers: ContainerSettings
    own_packages: bool
    log_limit_bytes: int | None
    copies: Path
    forward: Forward | None = None
