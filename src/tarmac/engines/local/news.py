"""News from runners: a FIFO to which each runner writes its attempt's id, and a thread that reads it.

Made by `LocalEngine`. A hint only: a line may be lost (no server was running), so listeners still observe
from time to time.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
from collections.abc import Callable
from pathlib import Path
from threading import Thread

READ_BYTES = 65_536


class NewsBoard:
    """Reads the FIFO at `path` while it is open, and calls `on_news` with each attempt that has news.

    Made by `LocalEngine`.
    """

    def __init__(self, path: Path, on_news: Callable[[str], None]) -> None:
        self._on_news = on_news
        _make_fifo(path)
        # A writing end of our own: without one, the reading end would repeatedly be at its end.
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopped, self._stop = os.pipe2(os.O_CLOEXEC)
        self._thread = Thread(target=self._listen, name="tarmac-news", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading; runners continue without a reader."""
        if self._stop < 0:
            return
        os.close(self._stop)
        self._stop = -1
        self._thread.join()
        os.close(self._stopped)
        os.close(self._fifo)

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._fifo, select.POLLIN)
        poll.register(self._stopped, select.POLLIN)
        rest = b""
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._stopped in ready:
                return
            with contextlib.suppress(BlockingIOError):
                *lines, rest = (rest + os.read(self._fifo, READ_BYTES)).split(b"\n")
                for line in dict.fromkeys(lines):
                    self._on_news(line.decode(errors="replace"))


def _make_fifo(path: Path) -> None:
    try:
        if stat.S_ISFIFO(path.lstat().st_mode):
            return
        path.unlink()
    except FileNotFoundError:
        pass
    os.mkfifo(path, 0o600)
