"""The facts of the scheduler, updated change by change. Owned by `control` and by the simulator.

Its answers depend on its facts alone, not on the order of the updates: an updated ledger and one made from
its `snapshot()` make the same plan.
"""

from __future__ import annotations

from tarmac.sched.cycle.cycle import Cycle
from tarmac.sched.decisions import Plan
from tarmac.sched.index.facts_index import FactsIndex


class Ledger(FactsIndex):
    """The facts and the plans made from them. Not for use by two threads at once."""

    def plan(self, now: float) -> Plan:
        """Decide one cycle at `now`.

        It changes no fact: the caller records the decisions that it carries out.
        """
        self.wake(now)
        current = Cycle(self, now)
        try:
            return current.run()
        finally:
            current.close()
