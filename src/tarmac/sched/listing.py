"""The queue as people see it: per pool, in scheduling order, what holds slots and what waits for them.

Called by `control` for `tarmac queue`. It sorts by the keys of the pass, so what stands first is asked first.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """Where a run stands: `place` counts from 0 within its pool, holdings and queued runs together.

    `cluster` and `pool` are where it holds slots, else its home pool. `acquired` slots are held now, `needed`
    are what the whole run asks for; `policy` is the pool's.
    """

    run_id: str
    cluster: str
    pool: str
    place: int
    policy: str
    acquired: int
    needed: int
