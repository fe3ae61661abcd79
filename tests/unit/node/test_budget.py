"""What a runner may spend on looking at checkpoints: a share of its time, however busy the machine is."""

from __future__ import annotations

import select
import time

from tarmac.node.progress.torn import Budget


def test_waiting_for_a_busy_machine_spends_nothing() -> None:
    """Who looks late for want of a turn would look ever later, and take finished files for torn."""
    budget = Budget(0.0, most_s=0.1)
    with budget.spending():
        select.select([], [], [], 0.2)
    assert budget.is_left()


def test_computing_spends_until_nothing_is_left() -> None:
    budget = Budget(0.0, most_s=0.01)
    assert budget.is_left()
    with budget.spending():
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
    assert not budget.is_left()
