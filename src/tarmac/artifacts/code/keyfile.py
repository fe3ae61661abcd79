"""A private key as a path that ssh can be given, on no disk. Called by `git`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def key_in_memory(key: str) -> Iterator[str]:
    """A path that this user's processes can read the key at, until the block is left or this process ends."""
    descriptor = os.memfd_create("deploy-key", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)  # ssh takes no key that others could read
        file.write(key.rstrip("\n") + "\n")  # nor one whose last line has no end
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
