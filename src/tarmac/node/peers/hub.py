"""The first node: accepts the others' connections, and passes commands to them. Called by `__main__`."""

from __future__ import annotations

import secrets
import socket
import threading
from contextlib import suppress
from typing import Any, Dict, Tuple

from tarmac.node.peers import wire
from tarmac.node.peers.serving import run_command


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
