"""The actor that Ray keeps on each node for us: it starts the agent there, outside of Ray.

It also stamps a file while the head of the Ray knows its node: then the leases of attempts there do not
expire, even without requests from a server (`node/processes/lease.py`).

Made by `driver`, and sent to the node as a value: it uses the standard library alone.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

START_S = 30.0
ANSWER_S = 2.0
CONTACT_S = 5.0

WHAT_IT_IS = ("tarmac agent: starts and watches runs below",)
"""Arguments that explain an agent to users who list processes; its home follows."""


class AgentStarter:
    """The agent of one node."""

    def __init__(self) -> None:
        self._known: dict[str, Any] | None = None
        self._contact: str | None = None

    def endpoint(
        self, program: bytes, code: str, order: dict[str, str], instead_of: int | None
    ) -> dict[str, Any]:
        """The address of the agent, {"address", "port", "token"}; starts one if none listens.

        `program` is the input of a Python that runs `code`, `order` is the input of the agent. The agent at
        the port `instead_of` does not answer, and is replaced.
        """
        if self._contact is None:
            self._contact = order["contact"]
            Thread(target=_keep_contact, args=(self._contact,), daemon=True).start()
        known = self._known
        if known is not None and (known["port"] == instead_of or not _listens(known)):
            self._end(known)
            known = None
        if known is None:
            known = self._known = _start(program, code, order)
        return {"address": known["address"], "port": known["port"], "token": known["token"]}

    def _end(self, known: dict[str, Any]) -> None:
        """End an agent that does not answer; runners continue."""
        line = Path("/proc/{}/cmdline".format(known["pid"]))
        with suppress(OSError):  # it has ended
            if b"exec(sys.stdin" in line.read_bytes():
                os.kill(known["pid"], signal.SIGKILL)
        self._known = None


def _start(program: bytes, code: str, order: dict[str, str]) -> dict[str, Any]:
    """Start an agent, and wait until it listens. Raises OSError with its last output if it does not."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, *WHAT_IT_IS, order["home"]],
        input=program + json.dumps(order).encode() + b"\n",
        capture_output=True,
        env=environment,
        timeout=START_S,
        check=False,
        start_new_session=True,
        cwd="/",
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines or not lines[-1].startswith(b"{"):
        words = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-1:]
        raise OSError("the agent did not start: {}".format("".join(words)))
    return {**json.loads(lines[-1]), "address": order["address"], "token": order["token"]}


def _keep_contact(path: str) -> None:
    """Stamp the file periodically while the head answers, and reports that this node is alive."""
    import ray  # noqa: PLC0415 - what the node's own Ray has, where this is sent to

    own = ray.get_runtime_context().get_node_id()
    while True:
        with suppress(Exception):  # no answer means no contact
            if any(node["NodeID"] == own and node["Alive"] for node in ray.nodes()):
                _stamp(path)
        time.sleep(CONTACT_S)


def _stamp(path: str) -> None:
    """Set the file's time of change to the time since the boot."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    os.utime(path, ns=(now_ns, now_ns), follow_symlinks=False)


def _listens(known: dict[str, Any]) -> bool:
    try:
        socket.create_connection((known["address"], known["port"]), ANSWER_S).close()
    except OSError:
        return False
    return True
