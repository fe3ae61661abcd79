"""`UnicoreFiles`: a user's files at a site, through one of its storages. Called by this engine alone.

A storage has a mount point, which nodes see: a path there is that of the storage and the rest. UNICORE has no
operation that creates a file exclusively; see `create`.
"""

import errno
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from threading import Event, Lock
from typing import IO, Any, NamedTuple

from tarmac.engines.sites.wire import RemoteEntry
from tarmac.engines.unicore.client import BYTES, SiteAnswer, Unicore, id_of
from tarmac.engines.unicore.states import ENDED
from tarmac.model.errors import Unavailable

NOT_FOUND = 404
LARGEST_CREATED_BYTES = 1 << 16
LISTED = 10_000
"""The most entries of a directory that UNICORE lists at once."""

LOGIN_NODE_S = 120.0
SHORTEST_REST_S = 0.1
LONGEST_REST_S = 2.0

PRIVATE = "rw-------"
PRIVATE_DIRECTORY = "rwx------"

ERRORS = {
    "permission denied": errno.EACCES,
    "no space left": errno.ENOSPC,
    "quota exceeded": errno.EDQUOT,
    "not a directory": errno.ENOTDIR,
    "is a directory": errno.EISDIR,
    "directory not empty": errno.ENOTEMPTY,
    "no such file": errno.ENOENT,
    "file exists": errno.EEXIST,
    "read-only file system": errno.EROFS,
}
"""Failures of the site's file systems, which it reports by the words of the system with any status."""


class Place(NamedTuple):
    """A storage, and the path of its root on nodes ("": the root itself); `renames`: it has that action."""

    storage: str
    mount: str
    renames: bool


class UnicoreFiles:
    """Implements `SiteFiles`, on the storage that has the directory."""

    def __init__(self, site: Unicore, directory: str) -> None:
        self._site = site
        self._directory = directory
        self._lock = Lock()
        self._place: Place | None = None

    def place(self) -> Place:
        """The storage with the cluster's directory, found once. Raises Unavailable if there is none."""
        with self._lock:
            if self._place is None:
                self._place = _found(self._site, self._directory)
            return self._place

    def listing(self, directory: str, *, recursive: bool = False) -> list[RemoteEntry] | None:
        entries = self._entries(directory)
        if entries is None or not recursive:
            return entries
        found = []
        for entry in entries:
            found.append(entry)
            if entry.kind == "directory":
                below = self.listing(f"{directory}/{entry.path}", recursive=True) or ()
                found += [each._replace(path=f"{entry.path}/{each.path}") for each in below]
        return found

    def read(self, path: str, *, offset: int, limit: int) -> bytes | None:
        facts = self._facts(path)
        if facts is None:
            return None
        if facts.get("isDirectory"):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        size = int(facts.get("size", 0))
        begin = max(0, size + offset) if offset < 0 else offset
        end = min(size, begin + limit)
        if begin >= end:  # no range beyond the end: a server may never answer that
            return b""
        headers = {"Accept": BYTES, "Range": f"bytes={begin}-{end - 1}"}
        with suppress(FileNotFoundError):
            answer = self._call("GET", path, headers=headers)
            content: bytes = answer.content
            whole = answer.status_code == 200 and len(content) > end - begin  # the range was ignored
            return content[begin:end] if whole else content[: end - begin]
        return None

    def write(self, path: str, content: bytes, *, private: bool = False) -> None:
        """Stored beside the path first. The size is compared; TLS protects the content on its way."""
        draft = self._draft(path) if self.place().renames else path
        if private:  # before it has content
            self._put(draft, b"")
            self._call("PUT", draft, json={"permissions": PRIVATE})
        self._put(draft, content)
        if draft != path:
            self._rename(draft, path)

    def send(self, path: str, content: IO[bytes], *, size_bytes: int, digest: str) -> bool:  # noqa: ARG002
        """One request, of which UNICORE limits no size; the job compares the digest."""
        headers = {"Content-Type": BYTES, "Content-Length": str(size_bytes)}
        try:
            self._call("PUT", path, content=content, headers=headers)
            facts = self._facts(path)
        except (Unavailable, OSError):  # such as the limit of a gateway
            return False
        return facts is not None and int(facts.get("size", -1)) == size_bytes

    def create(self, path: str, content: bytes) -> bytes:
        """Exact, because one system call decides: a link, made on the login node, to a complete draft.

        link(2) fails if the name exists, and so does the open(O_EXCL) of a job's `set -o noclobber`: of all
        callers one wins, and the name never has half of a content. A repeated call, or a late first one,
        finds the name in use, or its draft gone.
        """
        known, problem = self.read(path, offset=0, limit=LARGEST_CREATED_BYTES), ""
        if known is None:
            draft = self._draft(path)
            self._put(draft, content)
            link = ("/bin/ln", "-T", draft, path)
            try:
                problem = self._run_there(*link, until=lambda: self._facts(path) is not None)
            finally:
                self.remove(draft)
            known = self.read(path, offset=0, limit=LARGEST_CREATED_BYTES)
        if known is None:
            raise Unavailable(f"{path} was not made on the login node: {problem or 'no reason given'}")
        return known

    def make_directory(self, path: str, *, private: bool = False) -> None:
        self._call("POST", path, json={})
        if private:
            self._call("PUT", path, json={"permissions": PRIVATE_DIRECTORY})

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._call("DELETE", path)

    # --- inside ----------------------------------------------------------------------------------

    def _run_there(self, *argv: str, until: Callable[[], bool]) -> str:
        """Run a command on the login node, as a job that no batch system queues; returns the site's words
        for a failure.

        The words of the command are plain: UNICORE joins them into a line of shell. It has run when it ended,
        or its effect is there. Raises Unavailable if neither comes in time: it may still run later.
        """
        described = {"Job type": "ON_LOGIN_NODE", "Executable": argv[0], "Arguments": list(argv[1:])}
        job = self._site.create("/jobs", described)
        deadline, rest_s = time.monotonic() + LOGIN_NODE_S, SHORTEST_REST_S
        facts: Mapping[str, Any] = {}
        while not until():
            facts = self._site.get(f"/jobs/{job}")
            if facts.get("status") in ENDED:
                break
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{self._site.url}: a command on the login node did not end in {LOGIN_NODE_S:.0f} s"
                )
            Event().wait(rest_s)
            rest_s = min(LONGEST_REST_S, rest_s * 1.5)
        with suppress(Unavailable):
            self._site.call("DELETE", f"/jobs/{job}")
        return str(facts.get("statusMessage") or "")

    def _entries(self, directory: str) -> list[RemoteEntry] | None:
        found: dict[str, RemoteEntry] = {}
        while True:
            facts = self._facts(directory, offset=len(found), num=LISTED)
            if facts is None:
                return None
            content = facts.get("content")
            if content is None:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory)
            new = {
                name: _entry(name, each)
                for path, each in content.items()
                if (name := id_of(path)) not in found
            }
            found |= new
            if len(new) < LISTED:
                return list(found.values())

    def _facts(self, path: str, **params: Any) -> Mapping[str, Any] | None:
        """The facts of the storage about a path; None if there is nothing."""
        with suppress(FileNotFoundError):
            found: Mapping[str, Any] = self._call("GET", path, params=params).json()
            return found
        return None

    def _put(self, path: str, content: bytes) -> None:
        self._call("PUT", path, content=content, headers={"Content-Type": BYTES})
        facts = self._facts(path)
        if facts is None or int(facts.get("size", -1)) != len(content):
            raise Unavailable(f"{path} did not arrive completely at the site")

    def _rename(self, path: str, target: str) -> None:
        storage = self.place().storage
        names = {"from": self._inside(path), "to": self._inside(target)}
        with _failures(path):
            self._site.call("POST", f"/storages/{storage}/actions/rename", json=names)

    def _draft(self, path: str) -> str:
        return f"{path}.{uuid.uuid4().hex[:12]}"

    def _inside(self, path: str) -> str:
        """The path in the storage."""
        return path.removeprefix(self.place().mount) or "/"

    def _call(self, method: str, path: str, **given: Any) -> Any:
        place = f"/storages/{self.place().storage}/files{self._inside(path)}"
        with _failures(path):
            return self._site.call(method, place, **given)


def _entry(name: str, facts: Mapping[str, Any]) -> RemoteEntry:
    kind = "directory" if facts.get("isDirectory") else "file"
    return RemoteEntry(name, kind, int(facts.get("size") or 0), _seconds(str(facts.get("lastAccessed", ""))))


def _seconds(text: str) -> float:
    """A time of UNICORE, which has whole seconds; 0 for none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def _found(site: Unicore, directory: str) -> Place:
    """The storage with the directory: the one mounted nearest above it."""
    found: list[Place] = []
    for storage in site.listed("storages"):
        facts = site.get(f"/storages/{storage}")
        mount = str(facts.get("mountPoint") or "?").rstrip("/")
        if f"{directory}/".startswith(f"{mount}/"):
            found.append(Place(storage, mount, renames="action:rename" in facts.get("_links", {})))
    if not found:
        raise Unavailable(
            f"{site.url}: there is no storage with {directory}",
            hint="the setting 'directory' is a path below the mount point of a storage of the site",
        )
    return max(found, key=lambda place: len(place.mount))


@contextmanager
def _failures(path: str) -> Iterator[None]:
    """Report a failure of the site's file system as an OSError."""
    try:
        yield
    except SiteAnswer as error:
        words = "no such file" if error.status == NOT_FOUND else error.message.lower()
        number = next((number for text, number in ERRORS.items() if text in words), None)
        if number is not None:
            raise OSError(number, os.strerror(number), path) from None
        raise
