"""A user namespace made by `podman unshare`, if ordinary programs may make none. Called by `making`.

Some distributions allow only selected programs to make one (AppArmor's profiles), including Podman. Its
namespace also provides the ranges of /etc/subuid, so that programs may run as other users.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import contextmanager, suppress
from typing import Iterator

from tarmac.node.container.root import CannotMake

_HOLD = "echo $$; read -r _"
_MOST_TEXT = 300
_MOST_ENVIRONMENT_BYTES = 1024 * 1024
_ALL_USERS = ["0", "0", "4294967295"]
_LOGGED = re.compile(r'level=(\w+) msg="(.*)"$')


@contextmanager
def user_namespace(program: str, runtime: str) -> Iterator[int]:
    """A descriptor of the namespace; `runtime`: a directory for Podman alone. Raises CannotMake, OSError."""
    os.makedirs(runtime, mode=0o700, exist_ok=True)
    env = {
        **os.environ,
        "XDG_RUNTIME_DIR": runtime,
    }  # so that the pause process of another namespace is never reused
    holder = subprocess.Popen(
        [program, "unshare", "sh", "-c", _HOLD],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None and holder.stdin is not None and holder.stderr is not None  # noqa: PT018
        pid = holder.stdout.readline().decode().strip()
        if not pid.isdigit():
            complaint = _plain(holder.stderr.read().decode("utf-8", "replace"))
            raise CannotMake(complaint[-_MOST_TEXT:] or "podman unshare ended early")
        handle = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield handle
        finally:
            os.close(handle)
            holder.stdin.close()
            _end_pause(runtime)


def is_divided(uid_map: str = "/proc/self/uid_map") -> bool:
    """Whether this process is in a user namespace, which cannot provide other users."""
    with suppress(OSError), open(uid_map, encoding="utf-8") as file:
        return file.read().split() != _ALL_USERS
    return False


def _plain(complaint: str) -> str:
    """Podman's message in one line, without warnings and without the fields of its log."""
    found = []
    for line in filter(None, map(str.strip, complaint.splitlines())):
        logged = _LOGGED.search(line)
        if logged is None or logged[1] != "warning":
            found.append(line if logged is None else logged[2].replace('\\"', '"'))
    return "; ".join(found)


def _end_pause(runtime: str) -> None:
    """End the process with which Podman holds its namespace for a next command, as none follows.

    The file with its pid is in the directory of Podman's first use, so the environment identifies the
    process.
    """
    mark = f"XDG_RUNTIME_DIR={runtime}".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if mark in file.read(_MOST_ENVIRONMENT_BYTES).split(b"\0"):
                os.kill(int(pid), signal.SIGKILL)
