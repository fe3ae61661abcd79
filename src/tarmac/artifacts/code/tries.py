"""Counts the ends of a server during copies of the same code: one input must not kill every next server.

Called by `store.py` around every copy. A file beside the snapshots exists during a copy, so a file found
later is from a server that did not finish it.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Iterator
from pathlib import Path

from tarmac.model.errors import InvalidInput
from tarmac.model.spec import LocalDirectory
from tarmac.node.files import untrusted

PREFIX = ".trying-"
MOST = 5

_THIS_PROCESS = secrets.token_hex(8)
"""Process ids are reused, this value is not."""


@contextlib.contextmanager
def counted(root: Path, code: LocalDirectory) -> Iterator[None]:
    """Record that this code is being copied; raises InvalidInput if the server ended in too many copies.

    After this error a repeated request is tried again: the user may have corrected the code.
    """
    mark = root / f"{PREFIX}{hashlib.sha256(repr(code).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    before, whose = _read(mark)
    if whose == _THIS_PROCESS:  # another thread copies the same: one record suffices
        yield
        return
    if before >= MOST:
        mark.unlink(missing_ok=True)
        raise InvalidInput(
            f"{code.path} cannot be copied: the server ended {before} times while it tried",
            hint="server.log in the tarmac home may tell why",
        )
    with contextlib.suppress(OSError):  # a full disk: the copy reports it
        untrusted.write_new(str(mark), f"{before + 1} {_THIS_PROCESS}".encode())
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            mark.unlink()


def _read(mark: Path) -> tuple[int, str]:
    """The number of tries, and the process of the last one."""
    try:
        tries, _, whose = untrusted.read_bytes(str(mark), 64).decode().partition(" ")
        return int(tries), whose
    except (OSError, ValueError):
        return 0, ""
