"""The grant of a cluster with a queue of its own for an attempt, as passed to a runner at its start.

Called by `__main__`; the hook `claim` fills in the values that were unknown when the attempt was submitted.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from tarmac.node.attempt.document import NODE_NAME, NodeLaunch
from tarmac.node.attempt.protocol import late_address

END_MARGIN_S = 60.0
"""The last part of a job is reserved for its end (at most a tenth of the remaining time)."""

_ADDRESS = re.compile(r"[A-Za-z0-9._:%-]{1,253}")
_DEVICE = re.compile(r"[A-Za-z0-9:/_-]{1,100}")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class GrantedNode(NamedTuple):
    """The rank of this node; name and address of every node by rank; the attempt's accelerators here.

    `devices` None: the starter of the runner did not name them; slots are then numbered from 0. `ends_at` is
    the time at which the cluster ends the job (None: unknown).
    """

    rank: int
    names: tuple[str, ...]
    addresses: tuple[str, ...]
    devices: Optional[tuple[str, ...]] = None
    ends_at: Optional[float] = None

    @property
    def name(self) -> str:
        """The name of this node."""
        return self.names[self.rank]

    def leave_s(self, grace_s: float, now: float) -> Optional[float]:
        """Seconds until the workers must be asked to leave, so that their grace fits before the job ends.

        At least half of the job's remaining time: otherwise the run would make no progress.
        """
        if self.ends_at is None:
            return None
        left_s = max(0.0, self.ends_at - now)
        return max(left_s - min(END_MARGIN_S, left_s / 10) - grace_s, left_s / 2)

    def addresses_by_text(self) -> dict[str, str]:
        """Every address, by its placeholder in attempt.json."""
        return {late_address(rank): address for rank, address in enumerate(self.addresses)}

    def with_devices(self, part: NodeLaunch) -> NodeLaunch:
        """The node's part with the devices of each worker; raises OSError if there are too few."""
        if self.devices is None:
            return part
        workers = []
        for worker in part.workers:
            if max(worker.slots, default=-1) >= len(self.devices):
                found = f"{self.name} was given {len(self.devices)} devices"
                raise OSError(f"{found}, and {worker.name} needs slot {worker.slots[-1]}")
            visible = ",".join(self.devices[slot] for slot in worker.slots)
            workers.append(worker._replace(env={**worker.env, _VISIBLE: visible}))
        return part._replace(workers=tuple(workers))


def read_granted(rank: str, nodes: str, ends_at: str, devices: Optional[str] = None) -> GrantedNode:
    """Parse the arguments of a command line; raises ValueError for arguments that name no nodes.

    `ends_at` in whole seconds since the epoch; empty if unknown.
    """
    pairs = [item.partition("=") for item in nodes.split(",")]
    names = tuple(name for name, _, _ in pairs)
    addresses = tuple(address or name for name, _, address in pairs)
    listed = None if devices is None else tuple(filter(None, devices.split(",")))
    if not all(map(NODE_NAME.fullmatch, names)) or not all(map(_ADDRESS.fullmatch, addresses)):
        raise ValueError(f"not names of nodes: {nodes!r:.200}")
    if not all(map(_DEVICE.fullmatch, listed or ())):
        raise ValueError(f"not devices: {devices!r:.200}")
    if not rank.isdigit() or int(rank) >= len(names):
        raise ValueError(f"{rank!r:.20} is the rank of none of {len(names)} nodes")
    if not re.fullmatch(r"[0-9]{0,12}", ends_at):
        raise ValueError(f"no time of an end: {ends_at!r:.40}")
    return GrantedNode(int(rank), names, addresses, listed, float(ends_at) if ends_at else None)
