"""The facts of the scheduler, kept up to date change by change. Owned by `control`, and by the simulator.

What it answers depends on its facts alone, not on the way they came: a ledger that was kept up to date and
one that was made from its `snapshot()` plan alike.
"""

from __future__ import annotations

from tarmac.sched.cycle.cycle import Cycle
from tarmac.sched.decisions import Plan
from tarmac.sched.index.facts_index import FactsIndex


class Ledger(FactsIndex):
    """The facts, and what is to be done about them. Not for use by two threads at once."""

    def plan(self, now: float) -> Plan:
        """One cycle: what is decided at `now`. It changes no fact; the caller records what it carries out."""
        self.wake(now)
        current = Cycle(self, now)
        try:
            return current.run()
        finally:
            current.close()
