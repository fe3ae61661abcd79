"""The machines that a cluster is started on: how to reach each, and its reported state. No I/O.

Read from a hosts file by `dialects/hosts_file.py`, stored with the cluster, used by engines that start one.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from tarmac.model.record import StoredRecord

MachineProgress = Callable[[str, str], None]
"""Called with the name of a machine and one line on what was done there."""


class Machine(StoredRecord, frozen=True, kw_only=True):
    """One machine of a cluster that is started over SSH; `name` and `user` as `ssh` takes them.

    Others connect to its `address`; None: the one at which `ssh` reached it. `slots` and `cpus` of None are
    those found there. `python` is the interpreter, `directory` the place of the cluster's files.
    """

    name: str
    user: str | None = None
    head: bool = False
    port: int | None = None
    slots: int | None = None
    cpus: int | None = None
    address: str | None = None
    python: str | None = None
    directory: str | None = None

    @property
    def target(self) -> str:
        """The argument of `ssh` to reach it."""
        return self.name if self.user is None else f"{self.user}@{self.name}"

    @property
    def role(self) -> str:
        """Its role in its cluster."""
        return "head" if self.head else "worker"


class MachineState(StrEnum):
    """Whether the cluster's process runs on a machine; it may also run on an UNREACHABLE one."""

    UP = "up"
    DOWN = "down"
    UNREACHABLE = "unreachable"


class MachineReport(Struct, frozen=True, kw_only=True):
    """The state of a machine: the start of its process, and any problem."""

    machine: Machine
    state: MachineState
    pid: int | None = None
    since: float | None = None
    problem: str | None = None
