"""What a server gives the engines of clusters that are not itself. Made by `server/wiring.py`."""

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
    """An address of this machine's loopback that runs elsewhere reach under the same address.

    What comes from there is given to the unix socket `socket`. `loopback` tells which machine this is, see
    `node/host/forwarding.py`.
    """

    address: str
    port: int
    socket: Path
    loopback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplies:
    """The same for all such clusters.

    `copies` is the directory of this machine that the reports of attempts are copied to which lie elsewhere.
    `artifacts` answers sidecars on nodes that do not see the store: see `relaying`. `forward` is where runs
    reach the gateway, where there is one.
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
