"""The near end of a session, opened by `tarmac.Client`. Used by exec, shell, port-forward and jupyter."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from threading import Condition, Lock
from typing import Any

from tarmac.client.http1 import Connection, Response
from tarmac.model.errors import Unavailable
from tarmac.node.session import frames
from tarmac.node.wire.frames import Frame, Splitter, pack, pack_document

BROKEN = "the connection to the server broke off, and what ran in the session is ended"


def opening_frame(opening: Mapping[str, Any]) -> bytes:
    """The first frame of a session."""
    return pack(frames.OPEN, json.dumps(opening).encode())


class ClientSession:
    """The near end of a session. One thread takes `frames`, another may send. Closing it ends the session."""

    def __init__(self, connection: Connection, response: Response) -> None:
        self._connection = connection
        self._response = response
        self._sending = Lock()
        self._room_bytes = frames.FIRST_ROOM_BYTES
        self._room = Condition()
        self._over = False

    def frames(self) -> Iterator[Frame]:
        """The received frames; the last one of a session is ENDED. Raises Unavailable if it ends without one.

        FAILED reports that the server has lost the far end.
        """
        splitter = Splitter()
        try:
            for piece in self._response.pieces():
                splitter.feed(piece)
                for frame in splitter.take():
                    if frame.kind == frames.FAILED:
                        raise Unavailable(str(frame.document()["message"]))
                    yield from self._sift(frame)
                    if frame.kind == frames.ENDED:
                        return
        except (OSError, ValueError):
            pass
        finally:
            self._end()
        raise Unavailable(BROKEN)

    def write(self, data: bytes) -> None:
        """Send input, as fast as the far end takes it; b"" is its end. Raises OSError after the end."""
        if not data:
            self.send(frames.INPUT)
        for start in range(0, len(data), frames.PIECE_BYTES):
            piece = data[start : start + frames.PIECE_BYTES]
            with self._room:
                self._room.wait_for(self._may_send)
                self._room_bytes -= len(piece)
            self.send(frames.INPUT, piece)

    def has_room(self) -> bool:
        """Whether `write` could send one piece without waiting."""
        with self._room:
            return self._may_send()

    def resize(self, rows: int, columns: int) -> None:
        """Send the new size of the terminal."""
        self._send(pack_document(frames.RESIZE, rows=rows, columns=columns))

    def signal(self, number: int) -> None:
        """Send a signal to the command."""
        self._send(pack_document(frames.SIGNAL, number=int(number)))

    def send(self, kind: bytes, content: bytes = b"") -> None:
        """Send a frame. Raises OSError after the session has ended."""
        self._send(pack(kind, content))

    def close(self) -> None:
        """End the session at once."""
        self._end()
        with suppress(OSError):
            self._connection.sock.shutdown(2)
        self._connection.close()

    def _send(self, data: bytes) -> None:
        with self._sending:
            if self._over:
                raise ConnectionError(BROKEN)
            self._connection.send_more(data)

    def _sift(self, frame: Frame) -> Iterator[Frame]:
        """Frames for the caller; handles all others."""
        if frame.kind == frames.ROOM:
            with self._room:
                self._room_bytes += frame.document()["bytes"]
                self._room.notify_all()
        elif frame.kind != frames.PING:
            yield frame

    def _may_send(self) -> bool:
        return self._over or self._room_bytes >= frames.PIECE_BYTES

    def _end(self) -> None:
        with self._room:
            self._over = True
            self._room.notify_all()
