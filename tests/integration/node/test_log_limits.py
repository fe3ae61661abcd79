"""What commands around the workers write has a limit, too: the log of the setup lies on the same disk."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from attempts import Warm, worker, write_attempt
from tarmac.node.files.logroom import allocated_bytes

LIMIT_BYTES = 1 << 20
SPEAKS = "yes | head -c 8000000"
WAITS = "until [ -e {note} ]; do sleep 0.05; done"
"""Until the runner has looked: the test bounds how long that may take."""


@pytest.mark.parametrize("when", ["setup", "before", "after"])
def test_what_is_done_before_and_after_the_workers_keeps_to_the_limit_of_logs(
    warm: Warm, tmp_path: Path, when: str
) -> None:
    logs = tmp_path / "attempt/logs"
    step = ["bash", "-c", f"{SPEAKS}; {WAITS.format(note=logs / 'setup.n0.cut')}"]
    fields: dict[str, Any] = {"setup": [step]} if when == "setup" else {"hooks": {when: [step]}}
    fields |= {"setup_env": {"PATH": os.environ["PATH"]}, "log_limit_bytes": LIMIT_BYTES}
    attempt = write_attempt(tmp_path, [worker("echo done")], name="attempt", **fields)
    assert warm.run(attempt)["outcome"] == "completed"
    assert allocated_bytes(str(logs / "setup.n0.log")) < LIMIT_BYTES
    assert json.loads((logs / "setup.n0.cut").read_text())["begin"] > 0
    assert [event["text"] for event in attempt.events() if event["kind"] == "notice"] == [
        "its logs on this node were longer than 1 MiB: the middle of long ones is left out"
    ]
    assert attempt.log() == "done\n"


@pytest.mark.parametrize("who", ["worker", "after"])
def test_what_is_written_just_before_the_end_is_no_longer_either(
    warm: Warm, tmp_path: Path, who: str
) -> None:
    """The runner looks at the logs from time to time; who ends at once may have written more meanwhile."""
    fields: dict[str, Any] = {"hooks": {"after": [["bash", "-c", SPEAKS]]}} if who == "after" else {}
    fields |= {"setup_env": {"PATH": os.environ["PATH"]}, "log_limit_bytes": LIMIT_BYTES}
    attempt = write_attempt(tmp_path, [worker(SPEAKS if who == "worker" else "true")], **fields)
    assert warm.run(attempt)["outcome"] == "completed"
    written = max(Path(attempt.paths.logs).glob("*.log"), key=lambda path: path.stat().st_size)
    assert written.stat().st_size >= 8_000_000
    assert allocated_bytes(str(written)) < LIMIT_BYTES
