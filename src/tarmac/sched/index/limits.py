"""The slots that users, projects and pools may hold, and hold: whether a run may start under their limits.

Made for a cycle, and by `control` for runs that wait in the queue of a cluster.
"""

from collections import Counter
from collections.abc import Iterable
from math import inf

from tarmac.model.people.limits import Cap, LimitKind, LimitScope, SlotUse, matching


class LimitBook:
    """The caps, and the slots that are held under each.

    Caps on slot-hours and credits are facts only once they are used up: then no run with slots starts.
    """

    def __init__(self, caps: Iterable[Cap], uses: Iterable[SlotUse] = ()) -> None:
        self._caps = tuple(caps)
        self._matching: dict[SlotUse, list[tuple[Cap, LimitScope]]] = {}
        self._totals: Counter[LimitScope] = Counter()
        for each in uses:
            self.take(each)

    def take(self, use: SlotUse) -> None:
        """Count slots that a run holds, or is given."""
        for cap, scope in self._of(use):
            if cap.kind is LimitKind.SLOTS:
                self._totals[scope] += use.slots

    def exceeded(self, request: SlotUse, time_limit_s: float | None) -> Cap | None:
        """The tightest cap that a run would exceed with these slots, with its use; None if it may start."""
        found = []
        for cap, scope in self._of(request):
            used, needed = cap.used, float(request.slots)
            if cap.kind is LimitKind.LONGEST:
                needed = inf if time_limit_s is None else time_limit_s
            elif cap.kind is LimitKind.SLOTS:
                used = self._totals[scope]
            if needed and used + needed > cap.most:
                found.append(cap.on(scope, used, needed))
        return max(found, key=lambda cap: cap.used + cap.needed - cap.most, default=None)

    def _of(self, use: SlotUse) -> list[tuple[Cap, LimitScope]]:
        key = use._replace(slots=0)
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = matching(self._caps, key)
        return found
