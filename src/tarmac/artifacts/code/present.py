"""Checks that a run's files on the submitter's machine exist, before any of them is stored.

Called by the server for submissions of its own user, and by `tarmac check`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tarmac.artifacts.code.archives import is_archive
from tarmac.artifacts.code.store import DEFAULT_LIMIT_BYTES
from tarmac.artifacts.code.tree import TooSlow, at_most, check_size, scan
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.spec import LocalDirectory, RunSpec

GLANCE_S = 0.25
"""The same under the usual limit alone: an oversized directory mostly has large files."""

COUNT_S = 5.0
"""The maximum time to count a directory with a limit, before its code is accepted without a count."""


def refuse_unfit(code: LocalDirectory, *, filename: str, usual_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
    """Raise InvalidInput for a directory of code that cannot be copied.

    The count has more time if the dialect or the run file sets a limit: the usual short run file is not
    delayed by a walk through its directory. `usual_bytes`: the limit of any other code.
    """
    path = Path(code.path)
    if not os.path.exists(path):  # noqa: PTH110 -- a name longer than any file's does not exist either
        found = "does not exist"
    elif is_archive(path):
        if os.access(path, os.R_OK):
            return
        found = "cannot be read"
    elif not path.is_dir():
        found = "is neither a directory nor an archive (.zip, .tar, .tar.gz, .tar.xz)"
    elif not os.access(path, os.R_OK | os.X_OK):
        found = "cannot be read"
    else:
        limited = code.limit_bytes is not None
        limit_bytes = usual_bytes if code.limit_bytes is None else code.limit_bytes
        with suppress(TooSlow):  # the copy counts again, with more time
            entries = scan(path, code=code, check_time=at_most(COUNT_S if limited else GLANCE_S))
            check_size(entries, source=code.path, code=code, limit_bytes=limit_bytes)
        return
    message, hint = f"code: {code.path} {found}", "code names the directory to copy"
    raise InvalidInput([Problem(message=message, file=filename, hint=hint)])


def missing_image(spec: RunSpec, *, directory: str) -> str | None:
    """The error for a missing image on this machine: only a rehearsal starts without it."""
    image = spec.site.apptainer if spec.site is not None else None
    path = Path(directory, image.source or image.path) if image is not None and not image.remote else None
    if path is None or path.is_file():
        return None
    known = "write Type: remote if it lies on the site"
    return f"the image {path} does not exist, and only a rehearsal starts without it; {known}"
