"""The program on the first node: mpirun over all nodes, before a command or as given in the run file.

Called by `__main__`. Each process begins with `rank`, which sets the variables that other launchers set.

`remote` is `ssh NODE COMMAND` for programs. Options of ssh are ignored, before and after the name of the
node; the words of the command are joined by blanks and read by a shell there, as with ssh. The exit code is
that of the command, 255 if it was not run.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Dict, List, Mapping, Tuple

from tarmac.node.files import untrusted
from tarmac.node.peers.serving import OUTPUT, PIECE_BYTES, connect
from tarmac.node.wire.connection import Lost, Stream

_ON_ONE_MACHINE = {
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
"""Rehearsed nodes use the loopback, without shared memory: its files would have the same names."""

_WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")


def start(
    script: List[str], slots: Mapping[str, int], directory: str, package: str
) -> "subprocess.Popen[bytes]":
    """Start the program; `slots` are those of each node, the first node first. Raises OSError."""
    hostfile, agent = os.path.join(directory, "hostfile"), os.path.join(directory, "ssh")
    untrusted.write_new(
        hostfile, "".join(f"{node} slots={count}\n" for node, count in slots.items()).encode()
    )
    asks = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -E -S {shlex.quote(package)} remote "$@"\n'
    untrusted.write_new(agent, asks.encode(), mode=0o700)
    env = {**os.environ, **variables(hostfile, agent)}
    env["PATH"] = os.pathsep.join([directory, env.get("PATH", os.defpath)])
    return subprocess.Popen(script, env=env)


def in_each_slot(script: List[str], package: str) -> List[str]:
    """A command in mpirun's form, once for every slot of the host file."""
    rank = [sys.executable, "-E", "-S", package, "rank"]
    return ["mpirun", "--map-by", "slot", *rank, *script]


def variables(hostfile: str, agent: str) -> Dict[str, str]:
    """The variables that make Open MPI use the nodes of the run, through this remote shell."""
    return {
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_default_hostfile": hostfile,
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        **(_ON_ONE_MACHINE if os.environ["MASTER_ADDR"].startswith("127.") else {}),
    }


def run_rank(script: List[str]) -> int:
    """Run one process with its rank in the usual variables and its own slot; report its rank if it fails."""
    found = os.environ
    rank, count = found.get("OMPI_COMM_WORLD_RANK", "0"), found.get("OMPI_COMM_WORLD_SIZE", "1")
    local = found.get("OMPI_COMM_WORLD_LOCAL_RANK", "0")
    env = {
        **found,
        "RANK": rank,
        "WORLD_SIZE": count,
        "LOCAL_RANK": local,
        "LOCAL_WORLD_SIZE": found.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1"),
    }
    visible = found.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if int(local) < len(visible) and visible[0]:
        env["CUDA_VISIBLE_DEVICES"] = visible[int(local)]
    directory = found.get("PEER_DIRECTORY")
    if directory is not None:
        os.chdir(directory)
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
