"""The operations on clusters, their nodes and images, the queue and the use of slots.

Bound by `server.routes`, called by `client`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, field

from tarmac.api.clusters import Cluster, ClusterChange, ClusterStatus, ImageList, Node, QueuePool, Reservation
from tarmac.api.operation import LARGEST, Body, Lines, Operation, Query, Whole
from tarmac.api.placement import RunUtilization, SlotHistory
from tarmac.model.abilities import KeptImage
from tarmac.model.actor import Action
from tarmac.model.cluster import Finding
from tarmac.model.people.usage import Period, UsedSlots
from tarmac.model.reservations import LATEST_S, ReservationTerms

Time = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
"""Seconds since 1970."""


class QueueQuery(Query, frozen=True, kw_only=True):
    """`mine`: only the caller's own runs. At most `limit` lines of each pool, after the `number` `after`.

    `arrays`: one line for all members of an array, at the place of the first; a later page may repeat it.
    """

    cluster: str | None = None
    pool: str | None = None
    mine: bool = False
    limit: Lines = 100
    after: Whole = 0
    arrays: bool = False


class QueueChangeQuery(Query, frozen=True, kw_only=True):
    """Each returned queue has its first `limit` runs, and all changed ones."""

    limit: Lines = 100


class QueueChange(Body, frozen=True, kw_only=True):
    """One change of the place of a run: `run` is its id, its name, or a prefix of its id.

    Exactly one of the other fields is set. `ahead_of` and `behind_of` refer to another run; `top` is ahead of
    the first batch run of its pool.
    """

    reference: str = field(name="run")
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] | None = None
    weight: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    pool: str | None = None
    ahead_of: str | None = None
    behind_of: str | None = None
    top: bool = False


class ChangesBody(Body, frozen=True, kw_only=True):
    """Changes that belong together: checked one after another, then all applied, or none."""

    changes: Annotated[list[QueueChange], Meta(min_length=1, max_length=10_000)]


class NodesQuery(Query, frozen=True, kw_only=True):
    """The nodes of a cluster, pool and shard."""

    cluster: str | None = None
    pool: str | None = None
    shard: str | None = None


class NodeChoice(Body, frozen=True, kw_only=True):
    """Nodes by name, or every node of a cluster, pool and shard.

    With both, only names within these. A host name means its node if one node outside rehearsals has it.
    """

    names: Sequence[str] = field(default=(), name="nodes")
    cluster: str | None = None
    pool: str | None = None
    shard: str | None = None


class DrainBody(NodeChoice, frozen=True, kw_only=True):
    """The nodes to drain, by name or by place, and the reason, which `nodes` and `why` show."""

    reason: Annotated[str, Meta(max_length=500)] = ""


class ReserveBody(
    ReservationTerms, Body, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The `choice` of nodes to reserve for `duration_s`. From `begin_at` on no other runs use them.

    Without `users` and `projects` no run does. `preempt`: other runs that are still there at the begin are
    preempted, not only those that their mode or pool lets the scheduler preempt.
    """

    choice: NodeChoice
    duration_s: Annotated[float, Meta(gt=0, le=LATEST_S)]
    name: Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)]


class ImagesQuery(Query, frozen=True, kw_only=True):
    """The images of a cluster, or of a node."""

    cluster: str | None = None
    node: str | None = None


class ImageQuery(ImagesQuery, frozen=True, kw_only=True):
    """An image, by name or digest, on the nodes of a cluster, or on one node."""

    image: str


class ClusterBody(Body, frozen=True, kw_only=True):
    """The text of a cluster file, and its name for messages; `replace` the cluster of its name."""

    source: str
    filename: str = "cluster.yaml"
    replace: bool = False


class PoolBody(Body, frozen=True, kw_only=True):
    """A pool, and the rules to change, with the names and values of a cluster file.

    Null returns a rule to its default.
    """

    pool: Annotated[str, Meta(max_length=255)]
    rules: Mapping[str, Any]


class MachinesBody(Body, frozen=True, kw_only=True):
    """The text of a hosts file, which lists all machines of a cluster, and its name for messages.

    `install`: install Ray where it is missing.
    """

    source: str
    filename: str = "hosts.txt"
    install: bool = False


class DownBody(Body, frozen=True, kw_only=True):
    """Options for the end of a started cluster.

    `force`: stop its runs, and give up machines that are not reached. `purge`: remove directories of runs.
    """

    force: bool = False
    purge: bool = False


class ChangeQuery(Query, frozen=True, kw_only=True):
    """Only lines from the number `after` on; the answer waits for one, or for the end of the change."""

    after: Whole = 0


class UsageQuery(Query, frozen=True, kw_only=True):
    """A range of time, in seconds since 1970. With `per`, each day or month (UTC) in it has its own sums."""

    since: Time | None = None
    until: Time | None = None
    per: Period | None = None


class UsageHistoryQuery(Query, frozen=True, kw_only=True):
    """The time from `since` (null: for a day) until now, in this number of steps."""

    since: Time | None = None
    steps: Annotated[int, Meta(ge=1, le=1000)] = 96


QUEUE = Operation("GET", "/queue", Action.READ, list[QueuePool], query=QueueQuery)
CHANGE_QUEUE = Operation(
    "POST", "/queue/changes", Action.CONTROL, list[QueuePool], query=QueueChangeQuery, body=ChangesBody
)
NODES = Operation("GET", "/nodes", Action.READ, list[Node], query=NodesQuery)
DRAIN = Operation("POST", "/nodes/drain", Action.MANAGE, list[Node], body=DrainBody)
UNDRAIN = Operation("POST", "/nodes/undrain", Action.MANAGE, list[Node], body=NodeChoice)
RESERVATIONS = Operation("GET", "/reservations", Action.READ, list[Reservation])
RESERVE = Operation("POST", "/reservations", Action.MANAGE, Reservation, body=ReserveBody)
RELEASE = Operation("DELETE", "/reservations/{reservation}", Action.MANAGE, Reservation)
IMAGES = Operation("GET", "/images", Action.READ, ImageList, query=ImagesQuery)
REMOVE_IMAGE = Operation("DELETE", "/images", Action.MANAGE, list[KeptImage], query=ImageQuery)
USAGE = Operation("GET", "/usage", Action.READ, list[UsedSlots], query=UsageQuery)
USAGE_HISTORY = Operation("GET", "/usage/history", Action.READ, list[SlotHistory], query=UsageHistoryQuery)
UTILIZATION = Operation("GET", "/utilization", Action.READ, list[RunUtilization])
CLUSTERS = Operation("GET", "/clusters", Action.READ, list[Cluster])
CLUSTER = Operation("GET", "/clusters/{cluster}", Action.READ, Cluster)
CHECK_CLUSTER = Operation("GET", "/clusters/{cluster}/check", Action.SUBMIT, list[Finding])
ADD_CLUSTER = Operation("POST", "/clusters", Action.MANAGE, Cluster, body=ClusterBody)
SET_POOL = Operation("PATCH", "/clusters/{cluster}/pools", Action.MANAGE, Cluster, body=PoolBody)
REMOVE_CLUSTER = Operation("DELETE", "/clusters/{cluster}", Action.MANAGE, Cluster)
START_CLUSTER = Operation(
    "PUT", "/clusters/{cluster}/machines", Action.MANAGE, ClusterChange, body=MachinesBody
)
END_CLUSTER = Operation("POST", "/clusters/{cluster}/down", Action.MANAGE, ClusterChange, body=DownBody)
CLUSTER_MACHINES = Operation("GET", "/clusters/{cluster}/machines", Action.READ, ClusterStatus)
CLUSTER_CHANGE = Operation(
    "GET", "/clusters/{cluster}/change", Action.MANAGE, ClusterChange, query=ChangeQuery
)
