"""The bytes of a layer as they arrive: counted, verified by digest, resumed after a broken connection.

Called by `pulling`, which also makes the reports of the progress: an occasional line of text, and numbers.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import IO, Callable, Iterator, NamedTuple, Optional

from tarmac.node.container.failures import DAMAGED, REFUSED, UNREACHABLE, ImageProblem
from tarmac.node.container.manifests import Piece

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_PAUSES_S = (0.0, 0.5, 1.0, 2.0)
"""Pauses before each retry of a layer: long enough for a restart of the registry."""

_PROGRESS_BYTES = 1024**2
"""After a connection has brought this many bytes, the count of retries starts again."""

_CHUNK_BYTES = 256 * 1024

Open = Callable[[str, int], IO[bytes]]
"""Opens the bytes of a digest from an offset."""

_SAY_EVERY_S = 2.0
_SAY_EVERY_PART = 10
"""In a long pull, the next line follows after a tenth of the elapsed time, to limit the log."""

_POLL_S = 0.2
_MIB = 1024**2

Say = Callable[[str], None]


class LayerStream(io.RawIOBase):
    """The bytes of a layer; `count` gets the number of bytes received each time, `pause` follows a break."""

    def __init__(
        self,
        piece: Piece,
        opener: Open,
        count: Callable[[int], None],
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self._piece = piece
        self._opener = opener
        self._count = count
        self._pause = pause
        self._summary = hashlib.sha256()
        self._offset = 0
        self._source: Optional[IO[bytes]] = None
        self._breaks = 0
        self._broke_at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        piece = self._read(min(len(view), _CHUNK_BYTES))
        view[: len(piece)] = piece
        self._summary.update(piece)
        self._offset += len(piece)
        self._count(len(piece))
        return len(piece)

    def check(self) -> None:
        """Read the rest and verify the digest. Raises ImageProblem if it differs."""
        while self.read(_CHUNK_BYTES):
            pass
        if f"sha256:{self._summary.hexdigest()}" != self._piece.digest:
            raise ImageProblem(DAMAGED, f"the bytes of {self._piece.digest} are others than its name says")

    def close(self) -> None:
        self._close_source()
        super().close()

    def _read(self, count: int) -> bytes:
        """The next bytes, from a new connection if the old one broke."""
        while True:
            try:
                if self._source is None:
                    self._source = self._opener(self._piece.digest, self._offset)
                found = self._source.read(count)
                if found or self._offset >= self._piece.size_bytes:
                    return found
                raise OSError("it ended early")
            except (OSError, http.client.HTTPException, ImageProblem) as error:
                was_open = self._close_source()
                if isinstance(error, ImageProblem) and not was_open and not error.passing:
                    raise
                if self._offset >= self._broke_at + _PROGRESS_BYTES:
                    self._breaks, self._broke_at = 0, self._offset
                if self._breaks >= len(_PAUSES_S):
                    raise self._broken(error) from None
                self._pause(_PAUSES_S[self._breaks])
                self._breaks += 1

    def _close_source(self) -> bool:
        """Close the connection; returns whether there was one."""
        source, self._source = self._source, None
        if source is not None:
            source.close()
        return source is not None

    def _broken(self, error: Exception) -> ImageProblem:
        """The problem to report after the last retry."""
        if self._offset == 0 and isinstance(error, ImageProblem):
            return error
        come, total = mebibytes(self._offset), mebibytes(self._piece.size_bytes)
        message = f"the registry breaks off after {come} of {total} of a layer: {error}"
        return ImageProblem(UNREACHABLE, message, "start the run again: whole layers are kept")


@contextmanager
def archive_in(stream: io.RawIOBase) -> Iterator[IO[bytes]]:
    """The archive in a layer, with any compression. Raises ImageProblem, OSError."""
    buffered = io.BufferedReader(stream, _CHUNK_BYTES)
    start = buffered.peek(len(_ZSTD))
    try:
        if start.startswith(_GZIP):
            yield gzip.GzipFile(fileobj=buffered)  # type: ignore[misc]
        elif start.startswith(_ZSTD):
            with _through_zstd(buffered) as archive:
                yield archive
        else:
            yield buffered
    finally:
        buffered.detach()


@contextmanager
def _through_zstd(compressed: IO[bytes]) -> Iterator[IO[bytes]]:
    """Decompress with the program `zstd`, since Python before 3.14 cannot."""
    program = shutil.which("zstd")
    if program is None:
        hint = "install zstd on the node, or push it with gzip"
        raise ImageProblem(REFUSED, "the image is compressed with zstd", hint)
    process = subprocess.Popen([program, "-dc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    problems: list[Exception] = []
    feeder = threading.Thread(target=_feed, args=(compressed, process.stdin, problems), daemon=True)
    feeder.start()
    try:
        yield process.stdout
    finally:
        process.stdout.close()
        process.kill() if process.poll() is None else None
        feeder.join()
        process.wait()
    if problems:
        raise problems[0]


def _feed(source: IO[bytes], sink: IO[bytes], problems: list[Exception]) -> None:
    try:
        with sink:
            while piece := source.read(_CHUNK_BYTES):
                sink.write(piece)
    except BrokenPipeError:
        return
    except (ImageProblem, OSError, ValueError) as problem:
        problems.append(problem)


class Fetched(NamedTuple):
    """The progress of a fetch: the bytes received, and the total, from a registry or file."""

    come_bytes: int
    total_bytes: int
    source: str


class Progress:
    """Reports the progress of a fetch in occasional lines."""

    def __init__(
        self,
        name: str,
        source: str,
        total_bytes: int,
        *,
        layers: tuple[int, int],
        say: Say,
        tell: Callable[[Fetched], None],
    ) -> None:
        """The total of bytes from `source`; the number of missing layers, and of all layers."""
        self._name = name
        self._say = say
        self._tell = tell
        self._source = source
        missing, self._layers = layers
        self._whole = self._layers - missing
        self._total_bytes = total_bytes
        self._come_bytes = 0
        self._began = time.monotonic()
        self._due = self._began + _SAY_EVERY_S
        self._rests = False
        if missing:
            say(f"pulling {name}: {mebibytes(total_bytes)} in {missing} of {self._layers} layers")
            self._report()

    def count(self, size_bytes: int) -> None:
        """Add received bytes."""
        self._come_bytes += size_bytes
        now = time.monotonic()
        if now >= self._due:
            self._due = now + max(_SAY_EVERY_S, (now - self._began) / _SAY_EVERY_PART)
            come, total = mebibytes(self._come_bytes), mebibytes(self._total_bytes)
            self._say(f"pulled {come} of {total}, {self._whole} of {self._layers} layers")
            self._report()

    def rest(self) -> None:
        """Wait while another process on this node fetches the layer; report it once."""
        if not self._rests:
            self._say("(another run is pulling the same: waiting for it)")
            self._rests = True
        time.sleep(_POLL_S)

    def note_layer(self, elsewhere_bytes: int) -> None:
        """Count a complete layer, of which another process has fetched `elsewhere_bytes`."""
        self._total_bytes -= elsewhere_bytes
        self._whole += 1

    def end(self, digest: str) -> None:
        """Report that all layers are complete."""
        self._say(f"{self._name} is {digest} ({mebibytes(self._come_bytes)} pulled)")
        self._report()

    def _report(self) -> None:
        self._tell(Fetched(self._come_bytes, self._total_bytes, self._source))


def mebibytes(size_bytes: int) -> str:
    """A number of bytes as text for people."""
    return f"{size_bytes / _MIB:,.1f} MiB"
