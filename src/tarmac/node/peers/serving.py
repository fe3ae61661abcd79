"""Both ends of commands between the nodes: the first node passes commands, the others run them.

The others connect to the first node. Called by `__main__`.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from typing import IO, Any, Dict, Set, Tuple

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


class Hub:
    """Listens at MASTER_ADDR:MASTER_PORT while the program runs; knows every node and its slots."""

    def __init__(self, address: Tuple[str, int], *, nodes: int, name: str, slots: int) -> None:
        """Raises OSError if the port is taken."""
        self._listener = socket.create_server(address, backlog=128)
        self._needed = nodes
        self._slots: Dict[str, int] = {name: slots}
        self._nodes: Dict[str, socket.socket] = {}
        self._calls: Dict[str, socket.socket] = {}
        self._own = name
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def wait(self, within_s: float) -> Dict[str, int]:
        """The slots by node name, the first node first, once all are connected. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._slots) == self._needed, within_s):
                raise TimeoutError(f"{len(self._slots)} of {self._needed} nodes are there")
            return {name: self._slots[name] for name in (f"rank{rank}" for rank in range(self._needed))}

    def close(self) -> None:
        """End the other nodes after the program has ended."""
        for node in self._nodes.values():
            with suppress(OSError):
                wire.send_line(node, {"done": True})
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                found, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._take, args=(found,), daemon=True).start()

    def _take(self, found: socket.socket) -> None:
        try:
            opening = wire.accept(found)
            kind = opening["kind"]
            if kind == "node":
                self._join(found, opening)
            elif kind == "remote":
                self._call(found, str(opening["node"]), str(opening["command"]))
            else:
                with self._changed:
                    caller = self._calls.pop(str(opening["call"]))
                _splice(caller, found)
        except (OSError, KeyError, ValueError):
            found.close()

    def _join(self, found: socket.socket, opening: Dict[str, Any]) -> None:
        with self._changed:
            self._nodes[opening["node"]] = found
            self._slots[opening["node"]] = int(opening["slots"])
            self._changed.notify_all()

    def _call(self, caller: socket.socket, node: str, command: str) -> None:
        if node == self._own:
            run_command(command, caller)
            wire.finish(caller)
            return
        if node not in self._nodes:
            names = ", ".join(self._slots)
            wire.send_frame(caller, wire.ERRORS, f"{node!r} is no node of this run: {names}\n".encode())
            wire.send_frame(caller, wire.EXIT, b"255")
            wire.finish(caller)
            return
        call = secrets.token_hex(8)
        with self._changed:
            self._calls[call] = caller
            wire.send_line(self._nodes[node], {"call": call, "command": command})


def _splice(one: socket.socket, other: socket.socket) -> None:
    """Pass all bytes both ways until either ends."""

    def carry(source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(wire.CHUNK_BYTES):
                to.sendall(content)
        for each in (source, to):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=carry, args=(one, other), daemon=True).start()
    carry(other, one)
