"""`SandboxClient`, for scripts that import it: tarmac has no sandboxes and raises an error.

Runs on Python 3.9: see the package.
"""

from __future__ import annotations

from typing import Any

from .errors import UnsupportedError


class SandboxClient:
    """A handle on a sandbox. Its constructor raises an error that says what is missing."""

    def __init__(self, sandbox_id: str = "", clusterfudge_client: Any = None) -> None:  # noqa: ARG002
        raise UnsupportedError("tarmac has no sandboxes: it launches runs on your own nodes")
