"""An engine's paths below one directory: the tarmac home, or a directory at a site.

Used by all engines. An attempt id becomes a path only if it has the form of ours: any other text that a user
types finds nothing.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from tarmac.node.attempt.protocol import ARTIFACT_KINDS

_ATTEMPT_ID = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,99})\.([1-9][0-9]{0,8})")


class Layout:
    """The paths below one such directory."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.staging = home / "staging"
        """Attempt directories under construction."""
        self.notify = home / "notify"
        """The FIFO to which runners write the ids of attempts with news."""
        self.runs = home / "runs"
        """The directories of runs and of their attempts."""
        self.environments = home / "environments"
        """The Python environments of setup steps, named by their content."""
        self.images = home / "images"
        """The images pulled for runs, on the node."""

    def code(self, digest: str) -> Path:
        """A code snapshot."""
        return self.home / "code" / digest

    def attempt(self, attempt_id: str) -> Path | None:
        """The directory of an attempt; None for an invalid id."""
        match = _ATTEMPT_ID.fullmatch(attempt_id)
        return self.runs.joinpath(match[1], "attempts", match[2]) if match else None

    def artifacts(self, run_id: str, *, disk: str | None = None) -> Mapping[str, str]:
        """The directories that persist between a run's attempts, by kind; `disk`: on that node's own."""
        kept = self._kept(run_id, disk)
        return {kind: f"{kept}/{kind}" for kind in ARTIFACT_KINDS}

    def artifact_state(self, run_id: str, *, disk: str | None = None) -> str:
        """The file that names the attempt in those directories."""
        return f"{self._kept(run_id, disk)}/state.json"

    def _kept(self, run_id: str, disk: str | None) -> str:
        root = self.runs if disk is None else self.home / "disks" / disk
        return f"{root}/{run_id}/artifacts"
