"""The interface of a site, for one user: files (`SiteFiles`) and jobs (`SiteJobs`).

Implemented by an engine for each interface; used by `SiteHost` and `SiteAccess`. An implementation translates
the interface's answers, and decides nothing else. Thread-safe.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, NamedTuple, Protocol

from tarmac.engines.slurm.partition import Partition
from tarmac.engines.slurm.queue import Job
from tarmac.model.cluster import Finding

PART_BYTES = 900 * 1024
"""The most bytes in one call: interfaces limit a call to 1 MiB, with everything around the content."""


class RemoteEntry(NamedTuple):
    """An entry below a listed directory, by its path there; `kind` as that of `FileEntry`."""

    path: str
    kind: str
    size_bytes: int
    modified_at: float


class SiteFiles(Protocol):
    """Files of one user at a site, by absolute path.

    Calls raise Unavailable if there is no answer, with or without effect, and OSError for failures there.
    Content that is written has at most `PART_BYTES`; `send` alone brings more.
    """

    def listing(self, directory: str, *, recursive: bool = False) -> list[RemoteEntry] | None:
        """The entries of a directory, also hidden ones; None without one. Links are not followed."""

    def read(self, path: str, *, offset: int, limit: int) -> bytes | None:
        """At most `limit` bytes of a file; a negative offset counts from its end. None without a file."""

    def write(self, path: str, content: bytes, *, private: bool = False) -> None:
        """Replace a file in an existing directory, and compare digests; `private`: for its user alone.

        If the interface cannot exchange files, a reader may see a part of the new content.
        """

    def send(self, path: str, content: IO[bytes], *, size_bytes: int, digest: str) -> bool:
        """Bring a file of any size in one transfer; its SHA-256 is `digest`.

        False if the interface has no way for that, or the file did not arrive: it may still appear later.
        """

    def create(self, path: str, content: bytes) -> bytes:
        """Make a file unless it exists, and return the content that is there.

        Of several callers one succeeds; a job that creates the file with `set -o noclobber` is such a caller.
        """

    def make_directory(self, path: str, *, private: bool = False) -> None:
        """Make a directory and its parents, if they are missing; `private`: for its user alone."""

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all its content; idempotent."""


class SiteJobs(Protocol):
    """The jobs of one user at a site. Calls raise Unavailable.

    `at_login`: whether it runs the login scripts in a job's directory around the job, on the login node.
    """

    at_login: bool

    def submit(self, *, name: str, script: str, directory: str) -> str | None:
        """Submit a script that runs in a directory; its id, or None if the answer lacks it.

        Raises InvalidInput for a permanent refusal; after Unavailable a job may exist.
        """

    def jobs(self) -> Sequence[Job]:
        """The user's current and recent jobs, in one call.

        `attempt_id` is the name without its prefix, "" for a job that the site does not show by its name.
        """

    def recorded(self, job_ids: Sequence[str]) -> Sequence[Job]:
        """The records of these jobs, of which `jobs` has none; those unknown at the site are missing."""

    def named(self, name: str) -> Job | None:
        """The newest job of this name, also an ended one."""

    def cancel(self, job_ids: Sequence[str]) -> None:
        """Cancel jobs; ended ones are ignored."""

    def partitions(self) -> Mapping[str, Partition]:
        """The offer of each pool of the settings, by the pool's name (see `offers`)."""

    def examine(self) -> Iterator[Finding]:
        """Try each step of a run: token, system, directory, queue, account. The first failure is the last."""


class Reached(NamedTuple):
    """A site, reached by one login; `close` ends the connections."""

    files: SiteFiles
    jobs: SiteJobs
    close: Callable[[], None]
