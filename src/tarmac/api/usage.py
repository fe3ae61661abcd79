"""Usage in a range of time, and present use. Made by `control.usage_report`."""

from __future__ import annotations

from msgspec import Struct


class UsedSlots(Struct, frozen=True, kw_only=True):
    """The usage of a user's attempts, for a project and in a pool, in the requested range of time.

    `runs` and `attempts` count them.
    """

    user: str
    project: str
    cluster: str
    pool: str
    runs: int
    attempts: int
    slot_s: float
