"""The host that is this machine: operations run in-process, and files are read in place. Used by engines."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.hosts.host import Host, Reached
from tarmac.engines.hosts.streams import open_stream
from tarmac.node.files import codestore
from tarmac.node.host import operations


def local_host(directory: Path, *, variables: Mapping[str, str] | None = None) -> Host:
    """This machine, as the host of a cluster that keeps its runs in `directory`."""
    layout, here = Layout(directory), _Here()
    return Host(layout, here, seen=layout, variables=variables)


class _Here:
    """The way to this machine. Operations on files have no deadline here: they cannot be interrupted."""

    where = "here"

    def examine(self) -> Reached | None:
        return None

    def call(self, operation: str, *, timeout_s: float, **arguments: Any) -> Any:  # noqa: ARG002 - see above
        return operations.operation(operation)(**arguments)

    def stream(
        self, argv: Sequence[str], *, keep: Sequence[str], variables: Mapping[str, str], mark: str
    ) -> int:
        env = {name: os.environ[name] for name in keep if name in os.environ}
        return open_stream(argv, env={**env, **variables}, mark=mark)

    def take_code(self, directory: str, digest: str, pieces: Iterator[bytes]) -> None:
        codestore.receive_pieces(pieces, directory, digest)

    def refresh(self, attempt_ids: Sequence[str]) -> None:
        """Do nothing: reports are read in place."""
