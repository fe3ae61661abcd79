"""How far code is that goes to a server elsewhere: a bar on stderr, on a terminal only. Used by `session`.

Most commands send nothing: the bar is made when the first bytes are on their way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tarmac.cli.bytesbar import BytesBar


class UploadBar:
    """Called with how many bytes were sent, of how many; the line is gone once all are, or at the end."""

    def __init__(self, make: Callable[[], BytesBar] | None = None) -> None:
        self._make = make or partial(BytesBar.on_stderr, quiet=False)
        self._bar: BytesBar | None = None

    def __call__(self, sent_bytes: int, of_bytes: int) -> None:
        if self._bar is None:
            self._bar = self._make()
        self._bar.show(sent_bytes, of_bytes)
        if sent_bytes >= of_bytes:
            self.close()

    def close(self) -> None:
        """Leave no half of a line behind, however the upload ended."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None
