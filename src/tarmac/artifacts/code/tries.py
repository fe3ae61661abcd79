"""How often a server ended while it copied the same code: what kills one server must not kill the next.

Called by `store.py` around every copy. A file beside the snapshots stands while a copy is being made, so one
that is found was left by a server that did not come to the end of it.
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
"""Process ids come again, this does not."""


@contextlib.contextmanager
def counted(root: Path, code: LocalDirectory) -> Iterator[None]:
    """Note that this code is being copied; raises InvalidInput where that was never survived.

    Asked for again after that, it is tried again: the user may have mended it.
    """
    mark = root / f"{PREFIX}{hashlib.sha256(repr(code).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    before, whose = _read(mark)
    if whose == _THIS_PROCESS:  # another thread copies the same: one of them is enough to tell
        yield
        return
    if before >= MOST:
        mark.unlink(missing_ok=True)
        raise InvalidInput(
            f"{code.path} cannot be copied: the server ended {before} times while it tried",
            hint="server.log in the tarmac home may tell why",
        )
    with contextlib.suppress(OSError):  # a full disk: the copy will say so
        untrusted.write_new(str(mark), f"{before + 1} {_THIS_PROCESS}".encode())
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            mark.unlink()


def _read(mark: Path) -> tuple[int, str]:
    """How often it was tried, and which process tried last."""
    try:
        tries, _, whose = untrusted.read_bytes(str(mark), 64).decode().partition(" ")
        return int(tries), whose
    except (OSError, ValueError):
        return 0, ""
