"""Whether an image that lies on this machine can be used here, as far as a glance tells. Called by servers.

What would take long, as unpacking does, is left to the run.
"""

from __future__ import annotations

import os
from contextlib import closing

from tarmac.node.container import failures, manifests, sif
from tarmac.node.container.archives import Archive
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.reference import is_root
from tarmac.node.files import untrusted

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5", b"BZ", b"\xfd7")


def check(path: str, machine: str) -> None:
    """Raise ImageProblem for what is not there, is no image, or is one for another kind of machine."""
    if not os.path.exists(path):
        raise ImageProblem(failures.UNKNOWN_IMAGE, f"there is no image at {path}")
    if not os.path.isdir(path) and not os.path.isfile(path):
        raise ImageProblem(failures.DAMAGED, f"{path} is neither a file nor a directory")
    try:
        if is_root(path):
            return
        if sif.is_sif(path):
            sif.read_file_system(path, machine)
        elif os.path.isdir(path) or not _is_compressed(path):
            with closing(Archive(path)) as archive:
                config = archive.config(machine, path)
            manifests.read_config(config, machine, path)
    except (OSError, ValueError) as error:
        raise ImageProblem(failures.DAMAGED, f"{path} cannot be read: {error}") from None


def _is_compressed(path: str) -> bool:
    """Whether all of it would have to be read to find anything in it."""
    return untrusted.first_bytes(path, 2).startswith(_COMPRESSED)
