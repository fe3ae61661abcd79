"""Creates attempt directories atomically, and only once. Called by engines.

A directory has few files: the runner creates all others. See `node.files.staging`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import AttemptRequest
from tarmac.engines.attempts.writing import hint, pending_request
from tarmac.model.errors import Unavailable
from tarmac.model.leaving import LeaveRequest
from tarmac.node.attempt import protocol
from tarmac.node.attempt.document import Launch, to_json
from tarmac.node.files import staging


def prepare(layout: Layout) -> None:
    """Create the home's directories, and remove half-staged ones after a crash."""
    staging.prepare(str(layout.staging))


def stage(request: AttemptRequest, layout: Layout, directory: Path | None = None) -> bool:
    """Create the directory of an attempt; False if it exists. Raises Unavailable without any change.

    `directory`: this machine's copy of a directory elsewhere.
    """
    return _make(request.attempt_id, directory or request.directory, layout, attempt_files(request))


def stage_fence(attempt_id: str, directory: Path, layout: Layout, request: LeaveRequest | None) -> None:
    """Create the directory of an attempt that was never submitted, so that it never starts."""
    _make(attempt_id, directory, layout, fence_files(attempt_id, request))


def attempt_files(request: AttemptRequest) -> Mapping[str, bytes]:
    """The initial files of an attempt directory, by name."""
    return {protocol.ATTEMPT_FILE: json.dumps(to_json(request.document)).encode()}


def fence_files(attempt_id: str, request: LeaveRequest | None) -> Mapping[str, bytes]:
    """The initial files of an attempt that never starts."""
    document = Launch(attempt_id, number=0, token="", nodes=())
    files = {protocol.ATTEMPT_FILE: json.dumps(to_json(document)).encode()}
    if request is not None:
        files[protocol.ASK_FILE] = json.dumps(pending_request(request)).encode()
    return files


def _make(attempt_id: str, directory: Path, layout: Layout, files: Mapping[str, bytes]) -> bool:
    try:
        return staging.make_directory(str(directory), files, staging=str(layout.staging))
    except OSError as error:
        message = f"cannot make the directory of attempt {attempt_id}: {error.strerror}"
        raise Unavailable(message, hint=hint(error)) from None
