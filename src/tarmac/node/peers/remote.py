"""`ssh NODE COMMAND` for programs: the near end of a command on another node. Called by `__main__`.

Options of ssh are ignored, before and after the name of the node; the words of the command are joined by
blanks and read by a shell there, as with ssh. The exit code is that of the command, 255 if it was not run.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import suppress
from typing import List, Tuple

from tarmac.node.peers import wire

_WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")


def remote(address: Tuple[str, int], arguments: List[str]) -> int:
    """Run a command on a node; returns its exit code."""
    node, command = read_arguments(arguments)
    if not node or not command:
        sys.stderr.write("usage: ssh [OPTIONS] NODE COMMAND...\n")
        return 255
    try:
        channel = wire.connect(address, {"kind": "remote", "node": node, "command": " ".join(command)})
    except OSError as problem:
        sys.stderr.write(f"ssh: {node}: {problem}\n")
        return 255
    threading.Thread(target=_send_input, args=(channel,), daemon=True).start()
    for kind, content in wire.frames(channel):
        if kind == wire.EXIT:
            return int(content)
        stream = sys.stdout if kind == wire.OUTPUT else sys.stderr
        stream.buffer.write(content)
        stream.flush()
    sys.stderr.write(f"ssh: the connection to {node} ended\n")
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


def _send_input(channel: socket.socket) -> None:
    with suppress(OSError):
        while content := os.read(0, wire.CHUNK_BYTES):
            wire.send_frame(channel, wire.INPUT, content)
        wire.send_frame(channel, wire.CLOSE)
