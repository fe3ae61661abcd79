"""A worker that the kernel ends for want of memory is told apart from one that somebody ended."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attempts import Warm, python_worker, wait_until, warm_parent, worker, write_attempt

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


def test_out_of_memory_on_signs_of_it(small_group: Path, tmp_path: Path) -> None:
    join = ["bash", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(small_group)]
    eats = f"print('eating'); x = bytearray({3 * LIMIT_BYTES}); x[::4096] = b'x' * len(x[::4096])"
    attempt = write_attempt(tmp_path, [python_worker(eats)])
    with warm_parent(prefix=join) as warm:
        end = warm.run(attempt)
    assert (end["outcome"], end["cause"]["code"]) == ("failed", "out_of_memory")
    said = "worker main.0.0 on n0 ran out of memory: the node had none left; one of its processes had used "
    assert end["cause"]["message"].startswith(said)
    assert end["cause"]["signal"] == "SIGKILL"


EATS = (
    "import sys; x = bytearray(int(sys.argv[1])); x[::4096] = b'x' * len(x[::4096]); print('ate', flush=True)"
)
LASTS = "; import time; time.sleep(100)"


BUSY = """
from pathlib import Path
own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
of_cpu = next((names for names in own if "cpu" in names.split(",")), None)
group = Path("/sys/fs/cgroup" + ("/cpu" + own[of_cpu] if of_cpu else own[""]))
while "nr_throttled 0" in (group / "cpu.stat").read_text().splitlines():
    pass
print("held back")
"""


def eater(size_bytes: int, *, then: str = "", **limits: object) -> dict[str, Any]:
    made = worker("", argv=[sys.executable, "-c", EATS + then, str(size_bytes)])
    return {**made, **limits}


def test_the_memory_that_was_asked_for_is_all_there_is(small_group: Path, warm: Warm, tmp_path: Path) -> None:
    """A9: the worker that takes more is ended and told of, its peers and the node are not harmed."""
    greedy = eater(3 * LIMIT_BYTES, memory_bytes=LIMIT_BYTES)
    modest = {**eater(LIMIT_BYTES // 2, then=LASTS, memory_bytes=LIMIT_BYTES), "index": 1}
    attempt = write_attempt(tmp_path, [greedy, modest])
    end = warm.run(attempt)
    assert (end["cause"]["code"], end["cause"]["worker"]) == ("out_of_memory", 0)
    assert "main.0.0 on n0 ran out of memory: it may use 96 MiB, and had used 9" in end["cause"]["message"]
    assert [event for event in attempt.events() if event["kind"] == "notice"] == []
    assert list(small_group.parent.glob("tarmac-run.1-*")) == [], "nothing is left of the groups"


def test_a_worker_whose_child_took_too_much_is_told_of_too(
    small_group: Path, warm: Warm, tmp_path: Path
) -> None:
    """torch says `DataLoader worker is killed by signal`, and leaves with 1: it was the memory."""
    script = f'{sys.executable} -c "{EATS}" {3 * LIMIT_BYTES} || exit 1'
    attempt = write_attempt(tmp_path, [{**worker(script), "memory_bytes": LIMIT_BYTES}])
    assert warm.run(attempt)["cause"]["code"] == "out_of_memory"


def test_the_processors_that_were_asked_for_are_all_there_are(
    small_group: Path, warm: Warm, tmp_path: Path
) -> None:
    """A9: the kernel's own account of a group that wanted more says that it was held back."""
    attempt = write_attempt(tmp_path, [{**python_worker(BUSY), "cpus": 0.2}])
    assert warm.run(attempt)["outcome"] == "completed"
    assert attempt.log() == "held back\n"


def test_where_there_are_no_groups_memory_is_watched_and_the_run_is_told(tmp_path: Path) -> None:
    setpriv, unshare = shutil.which("setpriv"), shutil.which("unshare")
    if os.geteuid() != 0 or setpriv is None or unshare is None:
        pytest.skip("needs root, setpriv and unshare to hide the control groups")
    hide = [unshare, "--mount", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "-"]
    if subprocess.run([*hide, "true"], check=False).returncode != 0:
        pytest.skip("the control groups cannot be hidden here")
    with warm_parent(prefix=hide) as warm:
        greedy = eater(3 * LIMIT_BYTES, then=LASTS, memory_bytes=LIMIT_BYTES, cpus=1.0)
        attempt = write_attempt(tmp_path, [greedy])
        end = warm.run(attempt)
    assert end["cause"]["code"] == "out_of_memory"
    assert "ran out of memory: it held " in end["cause"]["message"]
    told = [event["text"] for event in attempt.events() if event["kind"] == "notice"]
    assert [text.split(" (")[0].split(": this")[0] for text in told] == [
        "cpus: not enforced on n0",
        "memory: not enforced on n0",
    ]
