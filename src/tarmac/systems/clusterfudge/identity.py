"""The ids that Clusterfudge gives a launch, derived from the run's id. Pure."""

import hashlib
import uuid

_SPACE = uuid.UUID("a5a1f0fc-3f0d-4c55-9a53-9f7c4b1d2e60")


def launch_uuid(run_id: str) -> str:
    """The UUID of the launch, as in the variable CLUSTERFUDGE_LAUNCH_ID."""
    return str(uuid.uuid5(_SPACE, run_id))


def launch_number(run_id: str) -> int:
    """The number of the launch: positive, within 31 bits."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:4]) & 0x7FFF_FFFF or 1


def process_uuid(run_id: str, role: str, replica: int, index: int) -> str:
    """The UUID of one process of the launch."""
    return str(uuid.uuid5(_SPACE, f"{run_id}/{role}.{replica}.{index}"))
