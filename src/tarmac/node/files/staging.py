"""Directories that appear whole or not at all, once. Called by engines, and on the hosts that they reach.

A directory is made in the staging area and renamed to its place; whoever comes second finds it there. Nothing
is flushed to the disk: a power loss ends what runs here anyway, and what it leaves of a directory is seen as
damaged.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping


def prepare(staging: str) -> None:
    """Make the staging area anew, without what a crash left half-made in it. Raises OSError."""
    shutil.rmtree(staging, ignore_errors=True)
    os.makedirs(staging, mode=0o700, exist_ok=True)


def make_directory(directory: str, files: Mapping[str, bytes], *, staging: str) -> bool:
    """Make a directory with these files, by relative path; False where there is one. Raises OSError."""
    if os.path.exists(directory):
        return False
    partial = os.path.join(staging, f"{os.path.basename(directory)}.{os.urandom(6).hex()}")
    try:
        os.mkdir(partial, 0o700)
        for name, content in files.items():
            path = os.path.join(partial, name)
            if "/" in name:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "xb") as file:
                file.write(content)
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        os.rename(partial, directory)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    return True
