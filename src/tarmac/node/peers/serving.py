"""Both ends of commands between the nodes: the first node passes commands, the others run them.

The others connect to the first node; see `node.wire`. Called by `__main__`.

The program on the first node is mpirun over all nodes, before a command or as given in the run file. Each
process begins with `rank`, which sets the variables that other launchers set.

`remote` is `ssh NODE COMMAND` for programs. Options of ssh are ignored, before and after the name of the
node; the words of the command are joined by blanks and read by a shell there, as with ssh. The exit code is
that of the command, 255 if it was not run.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import IO, Any, Dict, List, Mapping, Set, Tuple

from tarmac.node.files import untrusted
from tarmac.node.wire import opening
from tarmac.node.wire.connection import Connection, Lost, Stream, over_socket, pass_on, run_over_socket

TOKEN = "TARMAC_ATTEMPT_TOKEN"
CALLS = "calls"
OUTPUT, ERRORS = b"O", b"E"
"""The first byte of each piece from a command; its input comes as it is."""

PIECE_BYTES = 1 << 15
WAIT_S = 600.0
"""The wait for the first node to listen: its setup may take longer."""

PACKAGE = os.path.dirname(os.path.abspath(__file__))
OPEN_S = 30.0
PAUSE_S = 0.2
_RUNNING: "Set[subprocess.Popen[bytes]]" = set()
_STARTING = threading.Lock()
_ENDED = threading.Event()


def serve(address: Tuple[str, int], name: str, slots: int) -> int:
    """Run commands until the first node ends; returns the exit code."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            hub = connect(address, run=run_command)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)
    with suppress(Lost):  # the first node has ended: then the run ends there
        hub.stream("join", {"name": name, "slots": slots}).result(None)
    with _STARTING:
        _ENDED.set()
        for process in list(_RUNNING):
            _end(process)
    return 0


def connect(address: Tuple[str, int], **operations: Any) -> Connection:
    """A connection to the first node, which may call these operations. Raises OSError."""
    found = socket.create_connection(address, timeout=OPEN_S)
    try:
        opening.request(found, os.environ[TOKEN].encode(), CALLS)
    except BaseException:
        found.close()
        raise
    found.settimeout(None)
    made = over_socket(found, find=operations.__getitem__)
    threading.Thread(target=run_over_socket, args=(found, made), daemon=True).start()
    return made


def run_command(stream: Stream, command: str) -> int:
    """Run a command with its input and output in a stream, with which it ends; returns the exit code."""
    with _STARTING:
        if _ENDED.is_set():
            raise Lost("the run has ended")
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        _RUNNING.add(process)
    outputs = [(OUTPUT, process.stdout), (ERRORS, process.stderr)]
    readers = [threading.Thread(target=_forward, args=(*each, stream), daemon=True) for each in outputs]
    for thread in (*readers, threading.Thread(target=_feed, args=(stream, process), daemon=True)):
        thread.start()
    code = process.wait()
    _RUNNING.discard(process)
    for reader in readers:
        reader.join(1.0)  # its remaining processes may hold the pipe
    return code if code >= 0 else 128 - code


def _forward(kind: bytes, output: IO[bytes], stream: Stream) -> None:
    with suppress(Lost):
        while content := os.read(output.fileno(), PIECE_BYTES):
            stream.send(kind + content)


def _feed(stream: Stream, process: "subprocess.Popen[bytes]") -> None:
    """Pass on input; the loss of the stream ends the command."""
    assert process.stdin is not None, "it was asked for"
    try:
        for piece in stream:
            with suppress(OSError):
                process.stdin.write(piece)
                process.stdin.flush()
        with suppress(OSError):
            process.stdin.close()
        stream.result(None)
    except Lost:
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
        self._nodes: Dict[str, Connection] = {}
        self._own = name
        self._changed = threading.Condition()
        self._done = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def wait(self, within_s: float) -> Dict[str, int]:
        """The slots by node name, the first node first, once all are connected. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._slots) == self._needed, within_s):
                raise TimeoutError(f"{len(self._slots)} of {self._needed} nodes are there")
            return {name: self._slots[name] for name in (f"rank{rank}" for rank in range(self._needed))}

    def close(self) -> None:
        """End the other nodes after the program has ended."""
        self._listener.close()
        self._done.set()
        for node in self._nodes.values():
            node.close()

    def _listen(self) -> None:
        while True:
            try:
                found, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._take, args=(found,), daemon=True).start()

    def _take(self, found: socket.socket) -> None:
        with found, suppress(OSError, ValueError, KeyError):
            found.settimeout(OPEN_S)
            opening.accept(found, os.environ[TOKEN].encode())
            opening.answer(found)
            found.settimeout(None)

            def join(_: Stream, name: str, slots: int) -> None:
                with self._changed:
                    self._nodes[name], self._slots[name] = connection, slots
                    self._changed.notify_all()
                self._done.wait()

            operations = {"join": join, "remote": self._remote}
            connection = over_socket(found, find=operations.__getitem__, accepted=True)
            run_over_socket(found, connection)

    def _remote(self, stream: Stream, node: str, command: str) -> Any:
        if node == self._own:
            return run_command(stream, command)
        if node not in self._nodes:
            raise ValueError(f"{node!r} is no node of this run: {', '.join(self._slots)}")
        return pass_on(stream, self._nodes[node], "run", {"command": command})


_ON_ONE_MACHINE = {
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
"""Rehearsed nodes use the loopback, without shared memory: its files would have the same names."""

_WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")


def start(script: List[str], slots: Mapping[str, int], directory: str) -> "subprocess.Popen[bytes]":
    """Start the program; `slots` are those of each node, the first node first. Raises OSError.

    Variables make Open MPI use the nodes of the run, through this remote shell.
    """
    hostfile, agent = os.path.join(directory, "hostfile"), os.path.join(directory, "ssh")
    untrusted.write_new(
        hostfile, "".join(f"{node} slots={count}\n" for node, count in slots.items()).encode()
    )
    asks = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -E -S {shlex.quote(PACKAGE)} remote "$@"\n'
    untrusted.write_new(agent, asks.encode(), mode=0o700)
    env = {
        **os.environ,
        "PATH": os.pathsep.join([directory, os.environ.get("PATH", os.defpath)]),
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_default_hostfile": hostfile,
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        **(_ON_ONE_MACHINE if os.environ["MASTER_ADDR"].startswith("127.") else {}),
    }
    return subprocess.Popen(script, env=env)


def run_rank(script: List[str]) -> int:
    """Run one process with its rank in the usual variables and its own slot; report its rank if it fails."""
    found = os.environ
    rank, count = found.get("OMPI_COMM_WORLD_RANK", "0"), found.get("OMPI_COMM_WORLD_SIZE", "1")
    local = found.get("OMPI_COMM_WORLD_LOCAL_RANK", "0")
    local_count = found.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1")
    own = {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": local_count}
    env = {**found, **own}
    visible = found.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if int(local) < len(visible) and visible[0]:
        env["CUDA_VISIBLE_DEVICES"] = visible[int(local)]
    if "PEER_DIRECTORY" in found:
        os.chdir(found["PEER_DIRECTORY"])
    needed = found.get("WORLD_SIZE", count)
    if rank == "0" and needed != count:
        sys.stderr.write(f"tarmac: this world has {count} processes, and the run has {needed} slots\n")
    try:
        code = subprocess.Popen(script, env=env).wait()
    except OSError as problem:
        sys.stderr.write(f"{script[0]}: {problem.strerror}\n")
        code = 127
    if code != 0:
        how = f"exited with {code}" if code > 0 else f"was ended by signal {-code}"
        sys.stderr.write(f"tarmac: rank {rank} on {found.get('PEER_NAME', 'its node')} {how}\n")
    return code if code >= 0 else 128 - code


def remote(address: Tuple[str, int], arguments: List[str]) -> int:
    """Run a command on a node; returns its exit code."""
    node, command = read_arguments(arguments)
    if not node or not command:
        sys.stderr.write("usage: ssh [OPTIONS] NODE COMMAND...\n")
        return 255
    try:
        stream = connect(address).stream("remote", {"node": node, "command": " ".join(command)})
        threading.Thread(target=_send_input, args=(stream,), daemon=True).start()
        for piece in stream:
            output = sys.stdout if piece[:1] == OUTPUT else sys.stderr
            output.buffer.write(piece[1:])
            output.flush()
        return int(stream.result(None))
    except Lost:
        sys.stderr.write(f"ssh: the connection to {node} ended\n")
    except ValueError as problem:
        sys.stderr.write(f"{problem}\n")
    except OSError as problem:
        sys.stderr.write(f"ssh: {node}: {problem}\n")
    return 255


def read_arguments(arguments: List[str]) -> Tuple[str, List[str]]:
    """The node, without a user's name, and the words of the command."""
    words = list(arguments)
    node = ""
    while words:
        word = words[0]
        if word == "--":
            words.pop(0)
            break
        if not word.startswith("-"):
            if node:
                break
            node = words.pop(0).rpartition("@")[2]
            continue
        words.pop(0)
        if len(word) == 2 and word[1] in _WITH_VALUE and words:
            words.pop(0)
    if not node and words:
        node = words.pop(0).rpartition("@")[2]
    return node, words


def _send_input(stream: Stream) -> None:
    with suppress(OSError, Lost):
        while content := os.read(0, PIECE_BYTES):
            stream.send(content)
        stream.finish()
