"""The sidecar as a process: when it looks again (I14)."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from attempts import worker, write_attempt
from tarmac.artifacts.remote import open_blobs
from tarmac.artifacts.versions.blobs import begin_store

INTERVAL_S = 600.0
LIMIT_S = 120.0
LONG_AGO = time.time() - 3600


def test_what_was_in_motion_is_tried_again_in_seconds_and_not_after_an_interval(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    begin_store(open_blobs(store))
    attempt = write_attempt(
        tmp_path,
        [worker("")],
        artifacts=tmp_path / "kept",
        node={"artifact_state": str(tmp_path / "kept/state.json"), "own_disk": True},
        sync={
            "command": [],
            "store": store,
            "every_s": dict.fromkeys(("checkpoint", "crud", "lossy", "log"), INTERVAL_S),
            "patience_s": 5.0,
            "inputs": [],
        },
    )
    root = Path(attempt.artifacts["checkpoint"])
    root.mkdir(parents=True)
    (root / "whole").write_text("whole")
    os.utime(root / "whole", (LONG_AGO, LONG_AGO))
    command = [sys.executable, "-P", "-m", "tarmac.artifacts.versions.sidecar", "sync"]
    with (
        (root / "written").open("wb") as written,
        subprocess.Popen(
            [*command, str(attempt.path), "n0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        ) as sidecar,
    ):
        written.write(b"half")
        written.flush()
        first = synced(sidecar)
        assert (first["files"], first["left_out"]) == (1, ["written"])
        written.write(b", and whole")
        written.close()
        second = synced(sidecar)
        assert (second["files"], second["left_out"]) == (2, [])
        assert sidecar.stdin is not None
        sidecar.stdin.close()


def synced(sidecar: subprocess.Popen[bytes]) -> dict[str, object]:
    """The next version that the sidecar tells of."""
    assert sidecar.stdout is not None
    deadline = time.monotonic() + LIMIT_S
    while select.select([sidecar.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
        message: dict[str, object] = json.loads(sidecar.stdout.readline())
        if "synced" in message:
            return message
    raise AssertionError(f"no version within {LIMIT_S} s")
