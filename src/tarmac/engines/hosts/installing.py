"""The parts of tarmac that travel to a site (the runner, the artifact sidecar), and the server's `Supplies`.

Called by engines; `server/wiring.py` makes the supplies.

Each version has a directory named after its content, which stays while attempts use it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from tarmac.engines.attempts.request import DEFAULT_ATTEMPTS, AttemptSettings
from tarmac.engines.hosts.host import STORE_DIRECTORY, Host
from tarmac.engines.hosts.relaying import AnswerRequest
from tarmac.model.abilities import StoreFiles
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.kinds.engines import NO_CONTAINER_SETTINGS, ContainerSettings
from tarmac.model.ports import StreamsCode
from tarmac.model.secret import CredentialValues, SecretValues, no_credentials, no_secrets
from tarmac.node.attempt.document import ArtifactSync
from tarmac.node.container.making import Trial
from tarmac.node.files import untrusted
from tarmac.node.starting import NODE_DIRECTORY, Installation

LARGEST_MODULE_BYTES = 1 << 20
TRIAL_S = 60.0

SITE_PIECE_BYTES = 3 << 20
"""The size of pieces in a store that the server reads through an interface: one answer of firecREST has at
most 5 MiB, in base64.
"""

RELAY = "relay"
"""The scheme of the URL of a store that nodes reach through the server (see `relaying`)."""

SendArtifacts = Callable[[StoreFiles, str, Sequence[str]], None]
"""Sends inputs of a run, by id, and its newest versions to a store at a site. Raises Unavailable."""

STANDINS = tuple(sorted(NODE_DIRECTORY.parent.glob("systems/*/standins")))
"""The programs that replace those of foreign systems in their runs, a directory for each system."""

RUNNER = "tarmac/node"
"""The path of the runner's package in a version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """How artifacts are stored: in a store that nodes must reach, with a time limit while it is down.

    `packages` are the directories that it needs beside the runner's package, all below `tarmac`. `at_site`:
    the store is in the directory of the cluster, and the server's own is elsewhere; `send` sends the inputs
    of an attempt there.
    """

    store: str
    patience_s: float
    packages: tuple[Path, ...]
    send: SendArtifacts | None = None
    at_site: bool = False

    @property
    def is_directory(self) -> bool:
        """Whether the store is a directory, not a URL."""
        return self.store.startswith("/")

    def in_directory(self, directory: Path) -> Sidecar:
        """The same with a store in the directory of a cluster, whose nodes do not see the server's disk."""
        return replace(self, store=str(directory / STORE_DIRECTORY), at_site=True)

    def at(self, installation: Installation, *, relay: Path | None = None) -> ArtifactSync:
        """The same for an installation; no `-I`: the node's own packages reach a store behind a URL.

        `relay` is the directory of the cluster on nodes that do not see the server's disk: see `relaying`.
        """
        program = Path(installation.package).with_name("artifacts") / "versions"
        return ArtifactSync(
            store=f"{RELAY}:{quote(str(relay))}" if relay is not None and self.is_directory else self.store,
            command=(installation.python, str(program)),
            patience_s=self.patience_s,
            piece_bytes=SITE_PIECE_BYTES if self.at_site else 0,
        )


def collect(packages: Sequence[Path]) -> Mapping[str, bytes]:
    """The files of a version, by their relative paths."""
    found = {
        f"tarmac/{path.relative_to(NODE_DIRECTORY.parent)}": untrusted.read_bytes(
            str(path), LARGEST_MODULE_BYTES
        )
        for package in packages
        for path in sorted(package.rglob("*.py"))
    }
    # Without these, Python would import a tarmac that is installed on the node.
    above = {f"{parent}/__init__.py" for name in found for parent in Path(name).parents if parent.name}
    return {**dict.fromkeys(sorted(above), b""), **found}


def version_of(files: Mapping[str, bytes]) -> str:
    """The name of a version, derived from its content."""
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(b"%s\0%s\0" % (name.encode(), content))
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A loopback address of this machine that remote runs reach under the same address.

    Their connections go to the unix socket `socket`. `loopback` identifies this machine, see
    `node/host/relay.py`.
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
    `runs_as` gives the system user of a run, by its id, or its login at its cluster.
    """

    copies: Path
    code: StreamsCode | None = None
    secrets: SecretValues = no_secrets
    sidecar: Sidecar | None = None
    artifacts: AnswerRequest | None = None
    attempts: AttemptSettings = DEFAULT_ATTEMPTS
    containers: ContainerSettings = NO_CONTAINER_SETTINGS
    forward: Forward | None = None
    runs_as: Callable[[str], str | None] = lambda _run_id: None
    credentials: CredentialValues = no_credentials

    @property
    def packages(self) -> tuple[Path, ...]:
        """The directories to send to the nodes."""
        return (NODE_DIRECTORY, *STANDINS, *(self.sidecar.packages if self.sidecar is not None else ()))

    def attempts_of(self, cluster: str) -> AttemptSettings:
        """The settings for attempts of a cluster."""
        return replace(self.attempts, containers=self.containers.of(cluster))

    def stored_in(self, directory: Path) -> Supplies:
        """The same for nodes that cannot access a store on this machine: theirs is in their directory."""
        if self.sidecar is None or not self.sidecar.is_directory:
            return self
        return replace(self, sidecar=self.sidecar.in_directory(directory))


def bring_code(host: Host, code: str | None, source: StreamsCode | None, *, place: str) -> None:
    """Store a snapshot of code on a host (`place` in words), once for all attempts; before it, its parts.

    Raises Unavailable, OSError, and InvalidInput if there is no source.
    """
    if code is None:
        return
    if source is None:
        raise InvalidInput("this cluster was given no code to take from")
    directory, _, digest = code.rpartition("/")
    try:
        for part in (*source.parts(digest), digest):
            if not host.use(Path(directory, part)):
                host.take_code(Path(directory), part, source.stream(part))
    except ValueError as error:
        raise Unavailable(f"the code was not taken to {place}: {error}") from None


def try_containers(host: Host, installation: Installation, driver: str) -> Trial:
    """Create a container there, in a process of its own. The runner's package must be installed."""
    argv = installation.trial(str(host.layout.home), driver)
    try:
        code, out, err = host.run(argv, variables={}, timeout_s=TRIAL_S)
        return Trial(**json.loads(out)) if code == 0 else _not_tried(err.decode(errors="replace"))
    except (Unavailable, ValueError, TypeError) as problem:
        return _not_tried(str(problem))


def _not_tried(reason: str) -> Trial:
    last = (reason.strip().splitlines() or ["no answer"])[-1]
    return Trial(works=False, text=f"it could not be tried: {last[:300]}")
