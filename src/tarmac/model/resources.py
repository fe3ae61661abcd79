"""What a worker asks for and what a node has: slots of a type, processors, memory.

Used by `spec` (reading requests), `sched` (fitting them) and the engines (offering nodes).
"""

from __future__ import annotations

from dataclasses import dataclass

CPU_ONLY = "cpu"
"""The slot type of slots that stand for no accelerator (virtual slots)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """An amount of resources: of one process, one replica, or one node.

    `slot_type` None in a request means any type. `cpus` may be fractional in a request.
    """

    slots: int = 0
    slot_type: str | None = None
    cpus: float = 0.0
    memory_bytes: int = 0

    @property
    def empty(self) -> bool:
        """Whether nothing is asked for: such a role goes to one node and does not count as using it (C3)."""
        return self.slots == 0 and self.cpus == 0 and self.memory_bytes == 0

    def plus(self, other: Resources) -> Resources:
        """The sum; the slot type is whichever of the two names one."""
        return Resources(
            slots=self.slots + other.slots,
            slot_type=self.slot_type or other.slot_type,
            cpus=self.cpus + other.cpus,
            memory_bytes=self.memory_bytes + other.memory_bytes,
        )

    def times(self, count: int) -> Resources:
        """`count` times this amount."""
        return Resources(
            slots=self.slots * count,
            slot_type=self.slot_type,
            cpus=self.cpus * count,
            memory_bytes=self.memory_bytes * count,
        )
