"""What was used in a range of time. Made in `server.routes.usage`."""

from __future__ import annotations

from typing_extensions import TypedDict


class UsedSlots(TypedDict):
    """What attempts of a user, for a project and in a pool, used in the range of time that was asked for."""

    user: str
    project: str
    cluster: str
    pool: str
    runs: int
    attempts: int
    slot_s: float
