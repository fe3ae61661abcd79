"""Placements of runs: reasons, dry runs, use. Made by `control` and in `server.records`."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tarmac.api.operation import Operation
from tarmac.model.actor import Action
from tarmac.model.burst.shapes import Offer
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Replica
from tarmac.model.resources import NodeUtilization, Reason, WaitReasons


class WhyEstimate(Struct, frozen=True, kw_only=True):
    """The likely start of a run and its latest start, in numbers and as a sentence; None: unknown.

    `basis` is a value of `sched.EstimateBasis`: `time limits`, `history`, `cluster` (it has a queue of its
    own, which reports the start), `unknown` or `too far`.
    """

    start_at: float | None
    latest_at: float | None
    basis: str
    text: str


class NamedRun(Struct, frozen=True, kw_only=True):
    """A run, by its id and the name people gave it."""

    id: str
    name: str


class Why(WaitReasons, frozen=True, kw_only=True):
    """The reasons why a run waits, and what would unblock it.

    `ahead` runs are ordered before it, and `awaits` have to end or be preempted: the first of each are named.
    `reasons` are one for each node, or for each group of nodes if there are many; `unblocked_by` are
    sentences in one string: first the awaited event, then a way to start at once. `previous` is how its last
    attempt ended, if its cluster or the platform ended that, and `lost` the work that was lost.
    `hook_changes` are the changes of the site's submission hook. `offers` are the shapes that it would rent.
    """

    state: RunState
    headline: str
    ahead_first: tuple[NamedRun, ...] = ()
    awaits: int = 0
    awaits_first: tuple[NamedRun, ...] = ()
    estimate: WhyEstimate | None = None
    largest: str | None = None
    lost: str = ""
    previous: str = ""
    hook_changes: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()


class Placement(Struct, frozen=True, kw_only=True):
    """One node of a placement."""

    node: str
    address: str
    rank: int
    slots: tuple[int, ...]


class WorkerLaunch(Replica, frozen=True, kw_only=True):
    """One worker as it would be started."""

    index: int
    argv: tuple[str, ...]
    env: Mapping[str, str]


class NodeLaunch(Struct, frozen=True, kw_only=True):
    """The workers that one node would run."""

    node: str
    rank: int
    workers: tuple[WorkerLaunch, ...]


class Prospects(Struct, frozen=True, kw_only=True):
    """The reasons why a submission would wait, the largest one that would fit, and its request as a text.

    `offers` are the shapes that it would rent, in the order in which they are tried.
    """

    reasons: tuple[Reason, ...] = ()
    largest: str | None = None
    rendered: str | None = None
    offers: tuple[Offer, ...] = ()


class DryRun(Prospects, frozen=True, kw_only=True):
    """The result that a submission would have now.

    `run` is its spec. `reasons` list why it would wait; `placement` is then that of an idle cluster.
    `placement` and `request` (the engine's own, printable) are null for a site that places runs itself, and
    if no cluster here could ever hold the run: `largest` is the largest request that fits. `rendered` is the
    request to that site, or to the queue of a cluster that has its own. `artifact_paths` has the known paths
    by variable.
    """

    run: dict[str, Any]
    warnings: tuple[str, ...]
    placement: tuple[Placement, ...] | None
    request: str | None
    artifact_paths: Mapping[str, str]
    nodes: tuple[NodeLaunch, ...]


class SlotHistory(Struct, frozen=True, kw_only=True):
    """The mean number of slots in use in a pool, in steps of `step_s` from `since` on."""

    cluster: str
    pool: str
    since: float
    step_s: float
    slots: tuple[float, ...]


class RunUtilization(Struct, frozen=True, kw_only=True):
    """The present resource use of a run's workers, on the nodes that have measured it.

    Nodes measure every five seconds, workers that have run for more than two.
    """

    run: str
    nodes: tuple[NodeUtilization, ...]


WHY = Operation("GET", "/runs/{run}/why", Action.READ, Why)
