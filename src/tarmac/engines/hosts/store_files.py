"""The files of an artifact store in the directory of a cluster, as the server reaches them through a `Host`.

Engines offer it as `KeepsArtifacts`; `artifacts/versions/site_store.py` is what makes a store of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tarmac.engines.hosts.host import Host
from tarmac.model.errors import Unavailable

DIRECTORY = "artifacts"
"""Of the store, in that of the cluster."""


class HostStoreFiles:
    """Those below `directory` on a host. Every call raises Unavailable where it could not be done."""

    def __init__(self, host: Host, directory: Path) -> None:
        self._host = host
        self._directory = directory

    def read(self, name: str, *, offset: int, limit: int) -> bytes | None:
        """At most `limit` bytes of a file from there on; None without such a file."""
        try:
            return self._host.read(self._directory, name, offset=offset, limit=limit)
        except OSError as error:
            raise self._unavailable(error) from None

    def write(self, name: str, begin: int, content: bytes, *, last: bool) -> None:
        """Write a piece of a file, in order; the last one makes it visible, in place of any other."""
        try:
            self._host.write_piece(self._directory / name, begin, content, last=last)
        except OSError as error:
            raise self._unavailable(error) from None

    def listing(self, prefix: str) -> list[tuple[str, int, float]]:
        """Every file below a directory: name, bytes, when it changed."""
        try:
            return self._host.list_pieces(self._directory, prefix)
        except OSError as error:
            raise self._unavailable(error) from None

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, and directories with all that is in them."""
        try:
            self._host.remove_trees([self._directory / name for name in names])
        except OSError as error:
            raise self._unavailable(error) from None

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(f"{self._directory} {self._host.where}: {error.strerror}")
