"""The files of an artifact store in the directory of a cluster, reached through a `Host`.

Engines offer it by `KeepsFiles.artifact_files`; `artifacts/versions/site_store.py` makes a store of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tarmac.engines.hosts.host import Host
from tarmac.model.errors import Unavailable

DIRECTORY = "artifacts"
"""The store's directory in that of the cluster."""


class HostStoreFiles:
    """The files below `directory` on a host. Every call raises Unavailable if it fails."""

    def __init__(self, host: Host, directory: Path) -> None:
        self._host = host
        self._directory = directory

    def read(self, name: str, *, offset: int, limit: int) -> bytes | None:
        """At most `limit` bytes of a file from `offset`; None without such a file."""
        try:
            return self._host.read(self._directory, name, offset=offset, limit=limit)
        except OSError as error:
            raise self._unavailable(error) from None

    def write(self, name: str, begin: int, content: bytes, *, last: bool) -> None:
        """Write a piece of a file, in order; the last one makes it visible and replaces any other."""
        try:
            self._host.write_piece(self._directory / name, begin, content, last=last)
        except OSError as error:
            raise self._unavailable(error) from None

    def listing(self, prefix: str) -> list[tuple[str, int, float]]:
        """Every file below a directory: name, bytes, time of change."""
        try:
            return self._host.list_pieces(self._directory, prefix)
        except OSError as error:
            raise self._unavailable(error) from None

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, and directories recursively."""
        try:
            self._host.remove_trees([self._directory / name for name in names])
        except OSError as error:
            raise self._unavailable(error) from None

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(f"{self._directory} {self._host.where}: {error.strerror}")
