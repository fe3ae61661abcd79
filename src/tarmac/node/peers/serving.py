"""A node other than the first: it runs commands for the first node. Called by `__main__`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from typing import IO, Dict, Set, Tuple

from tarmac.node.peers import wire

WAIT_S = 600.0
"""The wait for the first node to listen: its setup may take longer."""

PAUSE_S = 0.2
_RUNNING: "Set[subprocess.Popen[bytes]]" = set()
_STARTING = threading.Lock()
_ENDED = threading.Event()


def serve(address: Tuple[str, int], name: str, slots: int) -> int:
    """Run commands until the first node ends; returns the exit code."""
    control = _connected(address, {"kind": "node", "node": name, "slots": slots})
    try:
        while not (call := wire.read_line(control)).get("done"):
            threading.Thread(target=_answer, args=(address, call), daemon=True).start()
    except OSError:
        pass  # it has ended: then the run ends there
    with _STARTING:
        _ENDED.set()
        for process in list(_RUNNING):
            _end(process)
    return 0


def run_command(command: str, channel: socket.socket) -> None:
    """Run a command for the other end; it ends with the connection."""
    with _STARTING:
        if _ENDED.is_set():
            return
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        _RUNNING.add(process)
    lock = threading.Lock()
    outputs = [(wire.OUTPUT, process.stdout), (wire.ERRORS, process.stderr)]
    readers = [
        threading.Thread(target=_forward, args=(kind, stream, channel, lock), daemon=True)
        for kind, stream in outputs
    ]
    for reader in readers:
        reader.start()
    threading.Thread(target=_feed, args=(channel, process), daemon=True).start()
    code = process.wait()
    _RUNNING.discard(process)
    for reader in readers:
        reader.join(1.0)  # its remaining processes may hold the pipe
    with suppress(OSError), lock:
        wire.send_frame(channel, wire.EXIT, str(code if code >= 0 else 128 - code).encode())


def _connected(address: Tuple[str, int], opening: Dict[str, object]) -> socket.socket:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return wire.connect(address, opening)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)


def _answer(address: Tuple[str, int], call: Dict[str, str]) -> None:
    with suppress(OSError):
        channel = wire.connect(address, {"kind": "answer", "call": call["call"]})
        run_command(call["command"], channel)
        wire.finish(channel)


def _forward(kind: bytes, stream: IO[bytes], channel: socket.socket, lock: threading.Lock) -> None:
    with suppress(OSError):
        while True:
            content = os.read(stream.fileno(), wire.CHUNK_BYTES)
            if not content:
                return
            with lock:
                wire.send_frame(channel, kind, content)


def _feed(channel: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    """Pass on input; the end of the connection ends the command."""
    assert process.stdin is not None, "it was asked for"
    for kind, content in wire.frames(channel):
        with suppress(OSError, ValueError):
            if kind == wire.INPUT:
                process.stdin.write(content)
                process.stdin.flush()
            elif kind == wire.CLOSE:
                process.stdin.close()
    _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
