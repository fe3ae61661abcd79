"""Usage in a range of time, and present use. Made by `control.reports` and in `server.records.runs`."""

from msgspec import Struct

from tarmac.model.resources import NodeUtilization


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


class RunUtilization(Struct, frozen=True, kw_only=True):
    """The present resource use of a run's workers, on the nodes that have measured it."""

    run: str
    nodes: tuple[NodeUtilization, ...]
