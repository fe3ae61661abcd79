"""Makes directories that appear complete or not at all, once. Called by engines, and on their hosts.

A directory is made in the staging area and renamed to its target; a second call finds it there. Nothing is
flushed to the disk: a power loss ends all local processes anyway, and readers detect a damaged directory.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping


def prepare(staging: str) -> None:
    """Make the staging area again, without the incomplete content of a crash. Raises OSError."""
    shutil.rmtree(staging, ignore_errors=True)
    os.makedirs(staging, mode=0o700, exist_ok=True)


def make_directory(directory: str, files: Mapping[str, bytes], *, staging: str) -> bool:
    """Make a directory with these files, by relative path; False if it exists. Raises OSError."""
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
