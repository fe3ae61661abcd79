"""Finds the steps of a commit that end an array, for one notification per array. Called by `control_state`.

The effect of a step on its array is known only after the earlier steps are stored: one of them may be stale.
So the steps in `last_of_arrays` are committed after the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tarmac.control.decisions.notifications import calls_for_messages
from tarmac.model.changes import RunStep
from tarmac.model.lifecycle import RunState
from tarmac.model.notification import Subscription
from tarmac.model.run import Outcome

ArrayCounts = Callable[[str], Mapping[tuple[RunState, Outcome | None], int]]


def last_of_arrays(
    steps: Sequence[RunStep], always: Sequence[Subscription], live_members: Callable[[str], int]
) -> set[int]:
    """The indices of the steps that end an array if its other members end in this commit as planned."""
    return {
        places[-1]
        for array_id, places in _ends(steps, always).items()
        if len(places) > 1 and live_members(array_id) <= len(places)
    }


def ended_arrays(
    steps: Sequence[RunStep],
    always: Sequence[Subscription],
    live_members: Callable[[str], int],
    array_counts: ArrayCounts,
) -> dict[str, Counter[Outcome]]:
    """The number of members per outcome for each array that ends; by the run that ends last."""
    ended: dict[str, Counter[Outcome]] = {}
    for array_id, places in _ends(steps, always).items():
        if live_members(array_id) <= len(places):
            members = [steps[at].after for at in places]
            counts = Counter(run.outcome for run in members if run.outcome)
            for (_, outcome), count in array_counts(array_id).items():
                counts += Counter({outcome: count} if outcome else {})
            ended[members[-1].id] = counts
    return ended


def _ends(steps: Sequence[RunStep], always: Sequence[Subscription]) -> dict[str, list[int]]:
    """The indices of the steps that end members of arrays and require messages, by array."""
    found: dict[str, list[int]] = {}
    for at, step in enumerate(steps):
        array_id, ends = step.after.array_id, step.after.outcome and not step.before.outcome
        if array_id is not None and ends and calls_for_messages(step, always):
            found.setdefault(array_id, []).append(at)
    return found
