"""What runs ask for, worked out once for each: asked at admission, then by the cache of runs. Owned by
`control_state`.

Runs that ask alike share one object, which makes passes of the scheduler quicker. From any thread: what two
threads find at once is the same.
"""

from __future__ import annotations

from tarmac.control.state.facts import Shape, shape_of
from tarmac.model.spec import Role, RunSpec, Target

MOST_SHAPES = 10_000

MOST_SPECS = 1000
"""A run is taken up soon after it was admitted: no more have to be known again at a time."""


class Shapes:
    """Shapes by the very objects in a spec that say what it asks for, and by what they are."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[tuple[Role, ...], Target, Shape]] = {}
        self._shared: dict[Shape, Shape] = {}

    def of(self, spec: RunSpec) -> Shape:
        """What a run of this spec asks for: the same object for all that ask for the same."""
        key = id(spec.roles), id(spec.target)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_SPECS:
                self._known.clear()
            known = self._known[key] = spec.roles, spec.target, self._share(shape_of(spec))
        return known[2]  # the objects are kept beside it, so that no others come to have their ids

    def _share(self, shape: Shape) -> Shape:
        if len(self._shared) >= MOST_SHAPES:
            self._shared.clear()
        return self._shared.setdefault(shape, shape)
