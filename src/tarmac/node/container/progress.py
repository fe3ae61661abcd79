"""Reports the progress of a fetch: an occasional line of text, and numbers. Made by `pulling`."""

from __future__ import annotations

import time
from typing import Callable, NamedTuple

from tarmac.node.container.manifests import Piece

_SAY_EVERY_S = 2.0
_SAY_EVERY_PART = 10
"""In a long pull, the next line follows after a tenth of the elapsed time, to limit the log."""

_POLL_S = 0.2
_MIB = 1024**2

Say = Callable[[str], None]


class Fetched(NamedTuple):
    """The progress of a fetch: the bytes received, and the total, from a registry or file."""

    come_bytes: int
    total_bytes: int
    source: str


def unheard(_: Fetched) -> None:
    """Ignore the numbers."""


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

    def skip(self, piece: Piece) -> None:
        """Subtract a layer that another process has fetched."""
        self._total_bytes -= piece.size_bytes
        self.note_layer()

    def note_layer(self) -> None:
        """Count a complete layer."""
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
