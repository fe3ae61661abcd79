"""What of tarmac travels to a site: the runner, and the sidecar that keeps artifacts. Called by engines.

Each version lies in a directory of its own, called after its content, and stays while attempts use it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from tarmac.engines.attempts.request import ArtifactStoring
from tarmac.engines.hosts.store_files import DIRECTORY
from tarmac.model.abilities import StoreFiles
from tarmac.node.files import untrusted
from tarmac.node.starting import NODE_DIRECTORY, Installation

LARGEST_MODULE_BYTES = 1 << 20

RELAY = "relay"
"""The scheme of the URL of a store that nodes reach through the server (see `relaying`)."""

SendArtifacts = Callable[[StoreFiles, str, Sequence[str]], None]
"""Has a store at a site hold the inputs of a run, by id, and its newest versions. Raises Unavailable."""

RUNNER = "tarmac/node"
"""Where the runner's package lies in a version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """How artifacts are kept: in a store that nodes must reach, and how long it is tried while it is down.

    `packages` are the directories of what it needs beside the runner's package, all below `tarmac`.
    `at_site`: the store is in the directory of the cluster, and the server's own is elsewhere; `send` has
    what an attempt of a run starts from sent there.
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
        return replace(self, store=str(directory / DIRECTORY), at_site=True)

    def at(self, installation: Installation, *, relay: Path | None = None) -> ArtifactStoring:
        """The same where it is installed; no `-I`: what reaches a store behind a URL is the node's own.

        `relay` is the directory of the cluster on nodes that do not see the server's disk: see `relaying`.
        """
        program = Path(installation.package).with_name("artifacts") / "versions"
        return ArtifactStoring(
            store=f"{RELAY}:{quote(str(relay))}" if relay is not None and self.is_directory else self.store,
            command=(installation.python, str(program)),
            patience_s=self.patience_s,
        )


def collect(packages: Sequence[Path]) -> Mapping[str, bytes]:
    """The files of a version, by their paths in it."""
    found = {
        f"tarmac/{path.relative_to(NODE_DIRECTORY.parent)}": untrusted.read_bytes(
            str(path), LARGEST_MODULE_BYTES
        )
        for package in packages
        for path in sorted(package.rglob("*.py"))
    }
    # Without these, a tarmac that is installed on the node would be taken in their place.
    above = {f"{parent}/__init__.py" for name in found for parent in Path(name).parents if parent.name}
    return {**dict.fromkeys(sorted(above), b""), **found}


def version_of(files: Mapping[str, bytes]) -> str:
    """What a version is called: it follows from its content."""
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(b"%s\0%s\0" % (name.encode(), content))
    return digest.hexdigest()[:16]
