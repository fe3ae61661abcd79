"""`python3 -m determined.launch.wrap_rank RANK CMD [ARGS...]`: prefixes a worker's lines with `[rank=N] `.

RANK is a number, or names of variables with commas, of which the first that is set counts. The lines can be
filtered (`tarmac logs --rank N`). The exit code is the command's; 128 + n if signal n ended it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import BinaryIO, List, Optional

from . import _start

_LONGEST_LINE = 8191
_USAGE = "usage: python3 -m determined.launch.wrap_rank [--no-redirect-stdio] RANK [--] CMD [ARGS...]\n"


def main(arguments: List[str]) -> int:
    """Run the command; returns its exit code."""
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(_USAGE)
        return 0
    if arguments[:1] == ["--no-redirect-stdio"]:  # workers' output always goes to the launcher here
        arguments = arguments[1:]
    if len(arguments) < 2:
        sys.stderr.write(_USAGE)
        return 1
    names, command = arguments[0], arguments[1:]
    rank = _rank(names)
    if rank is None:
        sys.stderr.write(f"error: {names!r} is no rank, and names no variable that is set\n")
        return 1
    return _run(rank, command[1:] if command[0] == "--" else command)


def _rank(names: str) -> Optional[int]:
    found = next((os.environ[name] for name in names.split(",") if name in os.environ), names)
    return int(found) if found.isdigit() else None


def _run(rank: int, command: List[str]) -> int:
    env = dict(os.environ)
    if _start.DEVICES in env:  # DeepSpeed counts devices from 0 on every node
        env["CUDA_VISIBLE_DEVICES"] = env[_start.DEVICES]
    try:
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as problem:
        sys.stderr.write(f"[rank={rank}] {command[0]} cannot be started: {problem}\n")
        return _failed(127)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda received, _frame: process.send_signal(received))
    assert process.stdout is not None
    assert process.stderr is not None
    prefix = f"[rank={rank}] ".encode()
    copies = [
        threading.Thread(target=_copy, args=(process.stdout, sys.stdout.buffer, prefix)),
        threading.Thread(target=_copy, args=(process.stderr, sys.stderr.buffer, prefix)),
    ]
    for copy in copies:
        copy.start()
    code = process.wait()
    for copy in copies:
        copy.join()
    return 0 if code == 0 else _failed(code if code > 0 else 128 - code)


def _copy(source: BinaryIO, target: BinaryIO, prefix: bytes) -> None:
    """Copy line by line; a carriage return also ends a line, and so does the maximum length."""
    rest = b""
    while True:
        data = os.read(source.fileno(), 65536)
        lines = (rest + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        rest = lines.pop() if data else b""
        while len(rest) > _LONGEST_LINE:
            lines.append(rest[:_LONGEST_LINE])
            rest = rest[_LONGEST_LINE:]
        if not data and lines and lines[-1] == b"":
            lines.pop()
        if lines:
            target.write(b"".join(prefix + line + b"\n" for line in lines))
            target.flush()
        if not data:
            return


def _failed(code: int) -> int:
    """Record the code for the launcher, if this is the node's first failed worker."""
    path = os.environ.get(_start.CODE_FILE)
    with suppress(OSError):
        if path is not None:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(handle, str(code).encode())
            os.close(handle)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
