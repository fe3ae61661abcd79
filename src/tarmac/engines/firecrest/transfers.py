"""`Transfers`: large files by way of the object store (S3) of a firecREST. Used by `FirecrestFiles`.

A job of the site copies between the object store and the file system; it waits in the queue like any other.
The addresses in the store are signed, and expire.
"""

import errno
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Event, Lock
from typing import IO, Any, NamedTuple

from tarmac.engines.firecrest.api import Api, ApiError
from tarmac.engines.firecrest.jobs import JOBS, records
from tarmac.engines.slurm.states import Stage, meaning
from tarmac.model.errors import Unavailable

TRANSFER = "/filesystem/{system}/transfer"
METHOD = "s3"
DIRECT_BYTES = 5 << 20
"""The most bytes of a direct answer, unless the system shows another number."""

START_S = 180.0
LONGEST_S = 3600.0
"""The time for the job of an upload to begin, and to end; then the file is sent in parts."""

WAIT_S = 20.0
"""The time that a reader waits for the job of a download."""

FIRST_REST_S, LONGEST_REST_S = 0.5, 5.0
STAGED_S = 600.0
MOST_STAGED = 64
PIECE_BYTES = 1 << 20
PART = "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
COMPLETION = (
    '<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{}</CompleteMultipartUpload>'
)


class Facts(NamedTuple):
    """Size and time of a file: with the same ones, its content is the same."""

    size_bytes: int
    modified_at: int


class Staged(NamedTuple):
    """A copy of a file in the object store, made by a job since `begun_at`; `complete`: the job has ended."""

    facts: Facts
    job_id: str
    url: str
    begun_at: float
    complete: bool = False


class Transfers:
    """The large files of a user. `account` pays for the site's jobs. Thread-safe."""

    def __init__(
        self, api: Api, account: str | None = None, *, start_s: float = START_S, wait_s: float = WAIT_S
    ) -> None:
        self._api = api
        self._start_s, self._wait_s = start_s, wait_s
        self._account = {"account": account} if account is not None else {}
        self._lock = Lock()
        self._staged: dict[str, Staged] = {}
        self._shown: tuple[bool, int] | None = None

    def send(self, path: str, content: IO[bytes], size_bytes: int) -> bool:
        """Bring a file to the site. False without an object store, or if it did not succeed.

        Raises Unavailable if the firecREST does not answer.
        """
        offered, _ = self._offer()
        if not offered:
            return False
        job_id = ""
        try:
            job_id, given = self._begin("upload", path, fileSize=size_bytes)
            most = int(given["maxpartsize"])
            tags = [self._put(url, content, most) for url in given["partsuploadurls"]]
            self._complete(str(given["completeuploadurl"]), tags)
            now = time.monotonic()
            if self._outcome(job_id, until=now + LONGEST_S, start_by=now + self._start_s):
                return True
        except (ApiError, KeyError, ValueError):
            pass  # such as an address that has expired: the caller has another way
        if job_id:
            with suppress(ApiError, Unavailable):
                self._api.call("DELETE", f"{JOBS}/{job_id}")
        return False

    def has_copy(self, path: str) -> bool:
        """Whether a copy of a file at this path is in the object store, or under way."""
        return path in self._staged

    def read(self, path: str, facts: Facts, *, offset: int, limit: int) -> bytes | None:
        """A part of a file that is too large for a direct answer; None if it is not.

        Raises Unavailable while the site's job copies it to the object store, and OSError without one.
        """
        offered, most = self._offer()
        if facts.size_bytes <= most:
            self._forget(path)
            return None
        if not offered:
            words = f"it has {facts.size_bytes} bytes: this firecREST sends at most {most}"
            raise OSError(errno.EFBIG, f"{words}, and has no object store", path)
        end = min(facts.size_bytes, offset + limit)
        if offset >= end:
            return b""
        staged = self._copy(path, facts)
        try:
            answer, content = self._api.at_store(
                "GET", staged.url, headers={"Range": f"bytes={offset}-{end - 1}"}
            )
        except ApiError as error:  # such as an address that has expired: the next call makes another copy
            self._forget(path)
            raise Unavailable(f"{path}: {error.message}") from None
        return content if answer.status_code == 206 else content[offset:end]

    # --- inside ----------------------------------------------------------------------------------

    def _offer(self) -> tuple[bool, int]:
        """Whether the system has an object store, and the most bytes of a direct download (in base64)."""
        if self._shown is None:
            systems = self._api.get("/status/systems")["systems"]
            shown = [each.get("dataOperation") for each in systems if each["name"] == self._api.system]
            operation = _fields((shown and shown[0]) or {})
            store = _fields(operation.get("datatransfer") or {})
            most = int(operation.get("maxopsfilesize") or DIRECT_BYTES)
            self._shown = store.get("servicetype") == METHOD, most * 3 // 4
        return self._shown

    def _begin(self, way: str, path: str, **more: Any) -> tuple[str, Mapping[str, Any]]:
        """Request a transfer: the id of its job, and the addresses in the store."""
        directives = {"transferMethod": METHOD, **more}
        body = {"sourcePath": path, "transferDirectives": directives, **self._account}
        answer = self._api.post(f"{TRANSFER}/{way}", body)
        return str(answer["transferJob"]["jobId"]), _fields(answer["transferDirectives"])

    def _put(self, url: str, content: IO[bytes], most: int) -> str:
        """Send the next part; its tag."""
        begin = content.tell()
        size = min(most, content.seek(0, 2) - begin)
        content.seek(begin)
        answer, _ = self._api.at_store(
            "PUT", url, content=_pieces(content, size), headers={"Content-Length": str(size)}
        )
        return answer.headers["ETag"]

    def _complete(self, url: str, tags: Sequence[str]) -> None:
        parts = "".join(PART.format(number=number, tag=tag) for number, tag in enumerate(tags, 1))
        body = COMPLETION.format(parts).encode()
        self._api.at_store("POST", url, content=body, headers={"Content-Type": "application/xml"})

    def _outcome(self, job_id: str, *, until: float, start_by: float = math.inf) -> bool | None:
        """Whether a transfer's job has succeeded; None if it has not ended in time, or has not begun."""
        rest_s = FIRST_REST_S
        while True:
            state = next((job.state for job in records(self._api, job_id)), "")
            stage, now = meaning(state).stage, time.monotonic()
            if stage is Stage.OVER:
                return state == "COMPLETED"
            if now >= until or (stage is not Stage.ACTIVE and now >= start_by):
                return None
            Event().wait(rest_s)
            rest_s = min(LONGEST_REST_S, rest_s * 1.5)

    def _copy(self, path: str, facts: Facts) -> Staged:
        """The copy of a file in the object store, once it is complete."""
        with self._lock:
            staged, now = self._staged.get(path), time.monotonic()
            if staged is None or staged.facts != facts or now > staged.begun_at + STAGED_S:
                job_id, given = self._begin("download", path)
                staged = Staged(facts, job_id, str(given["downloadurl"]), now)
                if len(self._staged) >= MOST_STAGED:
                    self._staged.clear()
                self._staged[path] = staged
        if staged.complete:
            return staged
        outcome = self._outcome(staged.job_id, until=time.monotonic() + self._wait_s)
        if outcome is None:
            raise Unavailable(
                f"job {staged.job_id} of the site copies {path} to the site's object store",
                hint="try again when that job has ended",
            )
        if not outcome:
            self._forget(path)
            raise OSError(errno.EIO, "the site's job did not copy it to the object store", path)
        with self._lock:
            self._staged[path] = staged = staged._replace(complete=True)
        return staged

    def _forget(self, path: str) -> None:
        with self._lock:
            self._staged.pop(path, None)


def _fields(found: Mapping[str, Any]) -> dict[str, Any]:
    """Fields by names in lower case: versions write them as `max_part_size` or `maxPartSize`."""
    return {name.replace("_", "").lower(): value for name, value in found.items()}


def _pieces(content: IO[bytes], size_bytes: int) -> Iterator[bytes]:
    """The next bytes of a file."""
    while size_bytes > 0 and (piece := content.read(min(size_bytes, PIECE_BYTES))):
        size_bytes -= len(piece)
        yield piece
