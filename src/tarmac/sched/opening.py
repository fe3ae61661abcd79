"""What a pool's policy brings into a pass, and what is due before its queue is asked. Called by `planning`.

Here the policies meet the pass: what has been used (fair share), who may displace whom, turns that are over,
shares of a period that are due, and how long a placement is meant to last.
"""

from __future__ import annotations

from tarmac.sched.deciding import Opening
from tarmac.sched.pool_state import PoolState


def open_pool(_state: PoolState, _now: float) -> Opening:
    """The beginning of a pass over one pool."""
    return Opening()
