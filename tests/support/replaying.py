"""The state that a history of events comes to. Used by the promises of a store and by tests of its table."""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.model.lifecycle import INITIAL_EVENT, INITIAL_STATE, IllegalStep, RunEvent, RunState, steps


def replay(events: Iterable[RunEvent]) -> RunState:
    """The final state of a whole history; raises IllegalStep if the history is not legal."""
    history = iter(events)
    first = next(history, None)
    if first is not INITIAL_EVENT:
        raise IllegalStep(f"a history begins with {INITIAL_EVENT}, not with {first}")
    return steps(INITIAL_STATE, history)
