"""`SiteHost`: the host of a cluster of which only an interface for files and jobs can be reached.

Made by the kinds of engines for sites; used by `SlurmEngine` like any other host.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.hosts.host import FILE_S, Host
from tarmac.engines.hosts.report_copies import FILES, ReportCopies
from tarmac.engines.sites.changes import SiteChanges
from tarmac.engines.sites.operations import SiteOperations
from tarmac.engines.sites.packing import compressed
from tarmac.engines.sites.wire import SiteFiles
from tarmac.engines.slurm.files import COPIED
from tarmac.model.errors import Unavailable
from tarmac.node.attempt.protocol import ASK_FILE

NO_COMMANDS = "the interface of this site runs no commands outside jobs"


class SiteHost(Host):
    """The host behind `files`, where runs are kept in `directory`; reports are copied to `copies` here.

    `where` is the site in words: "at" its name.
    """

    runs_commands = False

    def __init__(self, directory: Path, files: SiteFiles, where: str, *, copies: Path) -> None:
        super().__init__(Layout(directory), where, seen=Layout(copies))
        self._operations = SiteOperations(files, str(directory), str(copies))
        self._changes = SiteChanges(files)
        self._report_copies = ReportCopies(self.layout, self.seen, files=(*FILES, *COPIED))

    def call(self, operation: str, *, timeout_s: float = FILE_S, **arguments: Any) -> Any:  # noqa: ARG002
        """Each call of the interface has a deadline of its own."""
        return self._operations.named(operation)(**arguments)

    def request_leave(self, directory: Path, content: bytes, nodes: Sequence[str]) -> None:
        super().request_leave(directory, content, nodes)
        self._changes.note_write(f"{directory}/{ASK_FILE}")

    def take_code(self, directory: Path, digest: str, pieces: Iterator[bytes]) -> None:
        self._operations.packed.put(posixpath.join(directory, digest), compressed(pieces))

    def stream(self, argv: Sequence[str], *, variables: Mapping[str, str], mark: str) -> int:  # noqa: ARG002
        raise Unavailable(NO_COMMANDS)

    def refresh(self, attempt_ids: Sequence[str]) -> None:
        if attempt_ids:
            self._report_copies.refresh(attempt_ids, self._changes.since, self)
