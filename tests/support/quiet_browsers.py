"""A browser that other tests do not disturb. Used by tests/page; run as a program, it becomes the browser.

Chromium ends every connection when an address of the machine comes or goes (ERR_NETWORK_CHANGED), and tests
beside it make networks of their own. So the browser gets no news of networks: it may open no netlink socket.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from pathlib import Path

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2  # of prctl
_SOCKET = {"x86_64": 41, "aarch64": 198}
_NETLINK = 16
_CALL, _FIRST_ARGUMENT = 0, 16
_LOAD, _UNLESS_EQUAL_SKIP, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000


def quiet(program: str, directory: Path) -> str:
    """A program, made in this directory, that becomes `program` without news of networks."""
    if platform.machine() not in _SOCKET:
        return program
    made = directory / "browser"
    made.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {__file__} {program} "$@"\n')
    made.chmod(0o755)
    return str(made)


def _forbid_netlink() -> None:
    steps = (
        (_LOAD, 0, 0, _CALL),
        (_UNLESS_EQUAL_SKIP, 0, 3, _SOCKET[platform.machine()]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_UNLESS_EQUAL_SKIP, 0, 1, _NETLINK),
        (_RETURN, 0, 0, _FAIL | errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for number, argument, more in (
        (_NO_NEW_PRIVILEGES, 1, 0),
        (_SECCOMP, _FILTER, ctypes.addressof(program)),
    ):
        if prctl(number, ctypes.c_ulong(argument), ctypes.c_ulong(more), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "netlink cannot be forbidden")


if __name__ == "__main__":
    _forbid_netlink()
    os.execv(sys.argv[1], sys.argv[1:])
