"""The near end of a session, for tests: it sends frames and collects what comes, each within a deadline."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tarmac.node.session import frames
from tarmac.node.wire.frames import Frame, Splitter, pack, pack_document

BOUND_S = 180.0


class NearEnd:
    """What a person's program does, step by step. Beyond its room it sends nothing unless `force` says so."""

    def __init__(self, channel: socket.socket) -> None:
        channel.settimeout(BOUND_S)
        self.channel = channel
        self.room_bytes = frames.FIRST_ROOM_BYTES
        self.output = {frames.OUTPUT: b"", frames.ERRORS: b""}
        self.ended: dict[str, Any] | None = None
        self._splitter = Splitter()
        self._frames: list[Frame] = []

    def run(self, *argv: str, stdin: bool = False, terminal: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask for a command; the document of OPENED, or of FAILED."""
        self.send_document(
            frames.OPEN, kind="command", argv=list(argv), stdin=stdin, terminal=terminal and dict(terminal)
        )
        return self.next().document()

    def connect(self, port: int, *addresses: str) -> dict[str, Any]:
        """Ask for a connection; the document of OPENED, or of FAILED."""
        self.send_document(frames.OPEN, kind="connection", addresses=addresses or ("127.0.0.1",), port=port)
        return self.next().document()

    def send(self, kind: bytes, content: bytes = b"") -> None:
        """A frame."""
        self.channel.sendall(pack(kind, content))

    def send_document(self, kind: bytes, /, **document: Any) -> None:
        """A frame with JSON."""
        self.channel.sendall(pack_document(kind, **document))

    def write(self, data: bytes) -> None:
        """Input, in pieces, each once there is room for it."""
        while data:
            while self.room_bytes <= 0:
                self._take(self.next())
            size = min(self.room_bytes, frames.PIECE_BYTES)
            self.send(frames.INPUT, data[:size])
            self.room_bytes -= len(data[:size])
            data = data[size:]

    def until(self, there: Callable[[bytes], bool], kind: bytes = frames.OUTPUT) -> bytes:
        """Read until the output so far is so; all of it."""
        while not there(self.output[kind]):
            self._take(self.next())
            assert self.ended is None or there(self.output[kind]), (self.ended, self.output)
        return self.output[kind]

    def end(self) -> dict[str, Any]:
        """Read to the end; how it ended."""
        while self.ended is None:
            self._take(self.next())
        return self.ended

    def next(self) -> Frame:
        """The next frame."""
        while not self._frames:
            data = self.channel.recv(1 << 16)
            assert data, "the far end closed the session without a word"
            self._splitter.feed(data)
            self._frames += self._splitter.take()
        return self._frames.pop(0)

    def closed(self) -> bool:
        """Read to the end of the channel."""
        with suppress(ConnectionError):
            while self.channel.recv(1 << 16):
                pass
        return True

    def _take(self, frame: Frame) -> None:
        if frame.kind in self.output:
            self.output[frame.kind] += frame.content
        elif frame.kind == frames.ROOM:
            self.room_bytes += frame.document()["bytes"]
        elif frame.kind == frames.ENDED:
            self.ended = frame.document()
