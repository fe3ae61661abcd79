"""Waiting for a descriptor, in a process that has more of them than select(2) could tell apart."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess

from tarmac.node.kernel.sockets import readable, writable

ABOVE = 1024 + 10


def test_a_descriptor_beyond_what_select_takes_is_waited_for() -> None:
    """A server with a thousand followers waits for the ends of its runners like any other."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= ABOVE:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (ABOVE + 50, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
    process = subprocess.Popen(["sleep", "0"])
    low = os.pidfd_open(process.pid)
    high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, ABOVE)
    try:
        assert high >= ABOVE
        assert readable(high, 60.0)
    finally:
        process.wait()
        os.close(low)
        os.close(high)


def test_what_never_comes_is_waited_for_no_longer_than_asked() -> None:
    hear, say = os.pipe()
    try:
        assert not readable(hear, 0.01)
        assert not readable(hear, -1.0)
        assert writable(say, 0.0)
        os.write(say, b"x")
        assert readable(hear)
    finally:
        os.close(hear)
        os.close(say)
