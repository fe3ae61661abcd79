"""A worker that the kernel ends for want of memory is told apart from one that somebody ended."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import python_worker, wait_until, warm_parent, write_attempt

LIMIT_BYTES = 96 * 1024 * 1024


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group with little memory, of whichever version this machine lets us make."""
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    if "memory" in own:
        parent, limit = Path("/sys/fs/cgroup/memory" + own["memory"]), "memory.limit_in_bytes"
    else:
        parent, limit = Path("/sys/fs/cgroup" + own.get("", "/")), "memory.max"
    group = parent / f"tarmac-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        (group / limit).write_text(str(LIMIT_BYTES))
    except OSError as error:
        group.rmdir()
        pytest.skip(f"no memory limit can be set here: {error}")
    yield group
    wait_until(lambda: _removed(group), f"somebody is still in {group}")


def _removed(group: Path) -> bool | None:
    """True once it is; a process that has ended is in its group until the kernel has let go of it."""
    try:
        group.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return None
    return True


def test_out_of_memory_on_evidence(small_group: Path, tmp_path: Path) -> None:
    join = ["bash", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(small_group)]
    eats = f"print('eating'); x = bytearray({3 * LIMIT_BYTES}); x[::4096] = b'x' * len(x[::4096])"
    attempt = write_attempt(tmp_path, [python_worker(eats)])
    with warm_parent(prefix=join) as warm:
        end = warm.run(attempt)
    assert (end["outcome"], end["cause"]["code"]) == ("failed", "out_of_memory")
    assert end["cause"]["message"] == "worker main.0.0 on n0 ran out of memory"
    assert end["cause"]["signal"] == "SIGKILL"
