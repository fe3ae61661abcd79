"""Checks quickly whether an image on this machine can be used here. Called by servers.

Slow checks, such as unpacking, are left to the run.
"""

from __future__ import annotations

import os
from contextlib import closing

from tarmac.node.container import drivers, failures, manifests
from tarmac.node.container.archives import Archive
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.reference import is_used_unchanged
from tarmac.node.files import untrusted

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5", b"BZ", b"\xfd7")


def check(path: str, machine: str) -> None:
    """Raise ImageProblem for a file that is missing, no image, or for another architecture or program."""
    if not os.path.exists(path):
        raise ImageProblem(failures.UNKNOWN_IMAGE, f"there is no image at {path}")
    if not os.path.isdir(path) and not os.path.isfile(path):
        raise ImageProblem(failures.DAMAGED, f"{path} is neither a file nor a directory")
    try:
        drivers.setting_for(path, drivers.AUTO, drivers.survey())
        if is_used_unchanged(path):
            return
        if os.path.isdir(path) or not _is_compressed(path):
            with closing(Archive(path)) as archive:
                config = archive.config(machine, path)
            manifests.read_config(config, machine, path)
    except (OSError, ValueError) as error:
        raise ImageProblem(failures.DAMAGED, f"{path} cannot be read: {error}") from None


def _is_compressed(path: str) -> bool:
    """Whether a search for an entry would have to read the whole file."""
    return untrusted.first_bytes(path, 2).startswith(_COMPRESSED)
