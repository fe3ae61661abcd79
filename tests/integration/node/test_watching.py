"""What a runner does while its workers run: the heartbeat, the time index, next to no work of its own."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

from attempts import Warm, wait_until, worker, write_attempt
from tarmac.node.attempt.protocol import HEARTBEAT_LEASE_S, HEARTBEAT_PERIOD_S


def test_the_heartbeat_is_renewed_and_the_index_follows_the_log(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("while :; do echo 0123456789; sleep 0.02; done")])
    pid = warm.start(attempt)
    attempt.wait_for("running")
    heartbeat = Path(attempt.node().heartbeat)
    wait_until(lambda: heartbeat.exists() or None, "no first heartbeat")
    os.utime(heartbeat, (0, 0))
    before = _ticks(pid)
    wait_until(lambda: heartbeat.stat().st_mtime > 0 or None, "no heartbeat")
    spent_s = (_ticks(pid) - before) / os.sysconf("SC_CLK_TCK")
    assert HEARTBEAT_PERIOD_S * 3 < HEARTBEAT_LEASE_S
    assert spent_s < 0.2, "watching costs next to nothing"
    attempt.ask("stop")
    attempt.ended()

    lines = Path(attempt.paths.index("main.0.0")).read_text().splitlines()
    entries = [(float(at), int(offset)) for at, offset in (line.split() for line in lines)]
    times, offsets = zip(*entries, strict=True)
    assert len(entries) >= 3
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(times[:-1]))
    assert list(offsets) == sorted(set(offsets))
    assert offsets[-1] == len(attempt.log()), "the last entry covers everything"


def _ticks(pid: int) -> int:
    """Processor time that a process has used, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
