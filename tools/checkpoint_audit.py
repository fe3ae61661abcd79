"""What the torture of checkpoints looks at besides the ledger: every version in the store, and each report.

Used by `checkpoint_lineage.py`.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from checkpoint_count import Case, Ledger

from tarmac import api
from tarmac.artifacts.versions.blobs import DirectoryBlobs
from tarmac.artifacts.versions.manifest import Version, read_manifest, versions
from tarmac.artifacts.versions.restore import fill
from tarmac.model.progress import Loss

TOLERANCE_S = 1.0
"""Saving takes a moment itself, and its end is noted a moment later."""


class Audit:
    """The versions of one lineage: each is restored elsewhere, and the script looks at it as at a start."""

    def __init__(self, home: Path, code: Path, python: str) -> None:
        self._home = home
        self._blobs = DirectoryBlobs(home / "artifacts")
        self._code = code
        self._python = python
        self._seen: set[str] = set()
        self.torn: list[str] = []
        self.looked = self.replaced = 0
        self.newest_step = 0
        """What the newest version holds that was looked at."""

    def look(self, run_id: str) -> None:
        """Look at the versions that were not there before."""
        found = [version for version in versions(self._blobs, run_id) if version.kind == "checkpoint"]
        for version in found:
            if version.id not in self._seen:
                self._seen.add(version.id)
                self.looked += 1
                self._look_at(version, is_newest=version == found[-1])

    def _look_at(self, version: Version, *, is_newest: bool) -> None:
        """A half in one that the last sync of its attempt has replaced is counted: no start could get it."""
        with tempfile.TemporaryDirectory(prefix="tarmac-version-") as directory:
            root, ledger = Path(directory, "checkpoint"), Path(directory, "ledger")
            root.mkdir()
            fill(self._blobs, [read_manifest(self._blobs, version)], root, seen_at=str(root))
            variables = {"CHECKPOINT_ARTIFACT_PATH": str(root), "LEDGER": str(ledger), "LOOK": "1"}
            script = self._code / "train.py"
            subprocess.run(
                [self._python, str(script)],
                env={**os.environ, **variables, "OTHER_DISK": directory},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                check=False,
                timeout=120,
            )
            for line in ledger.read_text().splitlines():
                word, _, rest = line.partition(" ")
                if word == "torn" and is_newest:
                    self.torn.append(f"version {version.id} holds {rest}")
                elif word == "torn":
                    self.replaced += 1
                elif word == "found":
                    self.newest_step = int(rest.split()[0])

    def listing(self, run_id: str) -> Iterator[str]:
        """The versions of a run with their files, and what the disks hold of it, with the times of change."""
        for version in versions(self._blobs, run_id):
            if version.kind != "checkpoint":
                continue
            manifest = read_manifest(self._blobs, version)
            left_out = f", left out {list(manifest.left_out)}" if manifest.left_out else ""
            yield f"version {version.id}, attempt {manifest.attempt}, read {manifest.read_at:.3f}{left_out}"
            for entry in manifest.entries:
                yield f"    {entry.mtime_ns / 1e9:.3f} {entry.size_bytes:>8} {entry.path}"
        for disk in sorted((self._home / "disks").glob(f"*/{run_id}*/artifacts/checkpoint")):
            yield f"disk {disk}"
            for path in sorted(disk.rglob("*")):
                found = path.lstat()
                times = f"{found.st_mtime:.3f} {found.st_ctime:.3f}"
                yield f"    {times} {found.st_size:>8} {path.relative_to(disk)}"


def wrong_report(
    reported: Loss, attempt: api.Attempt, left_at: float, step: int, ledger: Ledger, *, grows: bool
) -> str:
    """What is wrong with a report of loss; "" where it is as the script's own notes say.

    The attempt was ended at `left_at`, and the next start found `step`. A save that was cut before its script
    noted it was finished after the one before. A file that `grows` may have a part of the next record.
    """
    assert attempt.started_at is not None
    saved_at = ledger.save_nearest(step, reported.checkpoint_at or 0.0) if step else 0.0
    if saved_at is not None and saved_at < attempt.started_at <= ledger.found_written_at:
        saved_at = None  # the note is an earlier attempt's: this one saved the step again, and was cut then
    unnoted = saved_at is None
    since = max(attempt.started_at, ledger.newest_before(step) if saved_at is None else saved_at)
    lost_s = max(0.0, left_at - since)
    least_s = 0.0 if unnoted or grows else lost_s - TOLERANCE_S
    what = f"checkpoint {reported.checkpoint_at}, step {reported.step}"
    says = f"reported {reported.work_s:.2f} s ({what})"
    if not least_s <= reported.work_s <= lost_s + TOLERANCE_S:
        return f"{says}, lost were {lost_s:.2f} s: step {step} was found, saved at {saved_at}"
    if (reported.checkpoint_at is None) != (step == 0):
        return f"{says}, and step {step} was found"
    if reported.step is not None and reported.step != step:
        return f"{says}, and step {step} was found"
    return ""


def write_record(
    path: Path, case: Case, ledger: Ledger, attempts: Sequence[api.Attempt], listing: Iterator[str]
) -> None:
    """All that tells why a case went wrong, in a file."""
    path.parent.mkdir(exist_ok=True)
    problems = [f"{kind}: {text}" for kind, text in case.problems]
    notes = ledger.path.read_text().splitlines()[-40:]
    shown = [
        {
            key: getattr(attempt, key)
            for key in (
                *("number", "nodes", "started_at", "ended_at", "leave_requested_at"),
                *("outcome", "milestones", "lost", "notices"),
            )
        }
        for attempt in attempts
    ]
    lines = [f"{case.way}, {case.end}, {case.name}, cut at: {case.cut}", *problems, "", *notes, ""]
    lines += [msgspec.json.encode(attempt).decode() for attempt in shown]
    path.write_text("\n".join([*lines, "", *listing]) + "\n")
