"""Why a node does not take a run: one reason per node; and the words of reasons. For `cycle`, `explain`."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from tarmac.model.cluster import Drain, Node, NodeState, admits
from tarmac.model.errors import listed
from tarmac.model.reservations import NodeReservation
from tarmac.model.resources import Reason, ReasonCode, Resources, is_of_type
from tarmac.model.spec import Target
from tarmac.sched.facts import Candidate, Demand, Holding, Snapshot
from tarmac.sched.placing.admission import Demands, Feasibility
from tarmac.sched.placing.board import node_rank
from tarmac.sched.placing.fitting import share, splits
from tarmac.sched.placing.space import Load, Space, loads_of
from tarmac.sched.placing.view import is_excluded

_STATE_REASONS = {
    NodeState.DRAINED: (ReasonCode.NODE_DRAINED, "drained: it takes no new runs until it is undrained"),
    NodeState.DOWN: (ReasonCode.NODE_DOWN, "down"),
    NodeState.LOST: (ReasonCode.NODE_LOST, "lost: nothing has been heard of it"),
}

NAMES_SHOWN = 4
"""The most runs, nodes or holders that a sentence names."""

NODES_SHOWN = 64
"""The most nodes that get a reason each."""

HOLDERS = "; held by "
"""After this text a reason names the holders of a node. A reason of many nodes omits them."""


def why_never(snapshot: Snapshot, demands: Demands, target: Target) -> tuple[Reason, ...]:
    """The reasons why no empty cluster fits the demands."""
    nodes = _in_scope(snapshot.nodes, target)
    if not nodes:
        return (_no_cluster(snapshot, target),)
    pieces = [_smallest(demand, nodes, uneven=True) for demand in demands]
    total = Resources(slots=sum(demand.slots or 0 for demand in demands))
    for demand in demands:
        total = total.plus(demand.each.times(demand.replicas or 1))
    return tuple(
        _mismatch(node, demands, target) or _too_small(node, pieces) or _part_only(node, total)
        for node in nodes
    )


def why_not_now(
    snapshot: Snapshot,
    demands: Demands,
    target: Target,
    *,
    feasibility: Feasibility,
    holdings: Iterable[Holding],
    spaces: Mapping[str, Space],
    reserved_for: Mapping[str, str],
    reserved_by: Mapping[str, NodeReservation],
) -> tuple[Reason, ...]:
    """Why the demands do not start with these spaces; `reserved_for` maps nodes to labels of runs, and
    `reserved_by` to the reservations that keep the demands out.
    """
    nodes = _in_scope(snapshot.nodes, target)
    if not nodes:
        return (_no_cluster(snapshot, target),)
    pieces = [_smallest(demand, nodes, uneven=feasibility.uneven) for demand in demands]
    holders = _holders(holdings)
    return tuple(
        _mismatch(node, demands, target)
        or _too_small(node, pieces)
        or _state(node)
        or _reserved(node, reserved_by.get(node.name))
        or _occupied(spaces[node.name], pieces, holders.get(node.name, ()), reserved_for.get(node.name))
        for node in nodes
    )


@lru_cache(maxsize=1024)
def amount(need: Resources) -> str:
    """An amount in words: `2 h100 slots and 4 cpus and 16 GiB`."""
    parts = []
    if need.slots:
        kind = f"{need.slot_type} " if need.slot_type else ""
        parts.append(counted(need.slots, f"{kind}slot"))
    if need.cpus:
        parts.append(counted(need.cpus, "cpu"))
    if need.memory_bytes:
        parts.append(_size(need.memory_bytes))
    return " and ".join(parts) or "nothing"


def weighs(load: Load) -> bool:
    """Whether a load can block another run."""
    return bool(load.slots or load.cpus or load.memory_bytes)


def _in_scope(nodes: Iterable[Node], target: Target) -> list[Node]:
    """The nodes of clusters that the target allows, which get a reason."""
    return sorted((node for node in nodes if admits(node.cluster, target.cluster)), key=node_rank)


def _no_cluster(snapshot: Snapshot, target: Target) -> Reason:
    clusters = {node.cluster for node in snapshot.nodes} | {pool.cluster for pool in snapshot.pools}
    if target.cluster is None or target.cluster in clusters or not clusters:
        return Reason(code=ReasonCode.NO_NODES, text="no node has been reported yet")
    return Reason(code=ReasonCode.NO_SUCH_CLUSTER, text=f"there is no cluster {target.cluster!r}")


def _smallest(demand: Demand, nodes: Sequence[Node], *, uneven: bool) -> Resources:
    """The smallest part of a role: a replica, or a node's share in the widest possible split."""
    if demand.slots is None:
        return demand.each
    if uneven:
        return share(demand, 1)
    for count, slots in reversed(splits(demand)):
        need = share(demand, slots)
        if sum(_holds(node.capacity, need) for node in nodes) >= count:
            return need
    return share(demand, 1)


def _mismatch(node: Node, demands: Demands, target: Target) -> Reason | None:
    if target.pool not in (None, node.pool):
        return _reason(node, ReasonCode.OTHER_POOL, f"in pool {node.pool!r}, not {target.pool!r}")
    if target.shard not in (None, node.shard):
        where = f"in shard {node.shard!r}" if node.shard else "in no shard"
        return _reason(node, ReasonCode.OTHER_SHARD, f"{where}, not {target.shard!r}")
    if target.hostnames and node.hostname not in target.hostnames:
        hostnames = ", ".join(target.hostnames)
        return _reason(node, ReasonCode.OTHER_HOSTNAME, f"its host {node.hostname} is not one of {hostnames}")
    if target.excluded and is_excluded(node, target.excluded):
        return _reason(node, ReasonCode.OTHER_HOSTNAME, "it is one that the run keeps away from")
    types = {demand.each.slot_type for demand in demands}
    if not any(is_of_type(node.capacity.slot_type, kind) for kind in types):
        slot_types = " or ".join(sorted(str(kind) for kind in types))
        text = f"its slots are {node.capacity.slot_type or 'of no type'}, not {slot_types}"
        return _reason(node, ReasonCode.OTHER_SLOT_TYPE, text)
    return None


def _too_small(node: Node, pieces: Sequence[Resources]) -> Reason | None:
    if any(_holds(node.capacity, piece) for piece in pieces):
        return None
    need = min(pieces, key=lambda piece: (piece.slots, piece.cpus, piece.memory_bytes))
    text = f"it has {amount(node.capacity)} in all, and {amount(need)} is the least it would have to give"
    return _reason(node, ReasonCode.TOO_SMALL, text)


def _part_only(node: Node, total: Resources) -> Reason:
    text = f"it has {amount(node.capacity)} in all, and {amount(total)} are needed at once"
    return _reason(node, ReasonCode.GANG, text)


def _state(node: Node) -> Reason | None:
    if node.state is NodeState.UP:
        return None
    code, text = _STATE_REASONS[node.state]
    if node.drain is not None:
        return _reason(node, code, f"{_drain_text(node.drain)}: it takes no new runs until it is undrained")
    return _reason(node, code, f"{text}: {node.reason}" if node.reason else text)


def _drain_text(drain: Drain) -> str:
    by = f" by {drain.user}" if drain.user else ""
    at = f" on {_time(drain.at)} UTC" if drain.at is not None else ""
    why = f" ({drain.reason})" if drain.reason else ""
    return f"drained{by}{at}{why}"


def _reserved(node: Node, reservation: NodeReservation | None) -> Reason | None:
    if reservation is None:
        return None
    begin, end = _time(reservation.begin_at), _time(reservation.end_at)
    why = f" ({reservation.reason})" if reservation.reason else ""
    text = f"{reservation.purpose} from {begin} until {end} UTC by reservation {reservation.name}{why}"
    return _reason(node, ReasonCode.NODE_RESERVED, text)


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def _occupied(
    space: Space, pieces: Sequence[Resources], holders: Sequence[Candidate], reserved_for: str | None
) -> Reason:
    node = space.node
    need = min(pieces, key=lambda piece: (piece.slots, piece.cpus, piece.memory_bytes))
    free = _free(space, need)
    if reserved_for is not None:
        return _reason(
            node, ReasonCode.BEHIND, f"{free}, but kept for {reserved_for}, which is ordered before"
        )
    fitting = [piece for piece in pieces if space.has(piece)]
    if fitting:
        return _reason(node, ReasonCode.GANG, f"{free}: room for a part of the run, and all or none starts")
    labels = [candidate.label for candidate in holders]  # in the order of their grant
    named = f"{HOLDERS}{listed(labels, NAMES_SHOWN)}" if labels else ""
    return _reason(node, ReasonCode.BUSY, f"{free}; {amount(need)} needed{named}")


def _free(space: Space, need: Resources) -> str:
    """The free part of the needed resources: `1 of 4 slots and 2 of 16 cpus free`."""
    capacity = space.node.capacity
    parts = []
    if need.slots:
        parts.append(f"{space.free} of {counted(capacity.slots, 'slot')}")
    if need.cpus:
        parts.append(f"{space.cpus:g} of {counted(capacity.cpus, 'cpu')}")
    if need.memory_bytes:
        parts.append(f"{_size(space.memory_bytes)} of {_size(capacity.memory_bytes)}")
    return f"{' and '.join(parts)} free"


def _holds(capacity: Resources, need: Resources) -> bool:
    return (
        is_of_type(capacity.slot_type, need.slot_type)
        and need.slots <= capacity.slots
        and need.cpus <= capacity.cpus
        and need.memory_bytes <= capacity.memory_bytes
    )


def _holders(holdings: Iterable[Holding]) -> dict[str, list[Candidate]]:
    """Map node names to the runs that hold resources there, in order of their grant."""
    holders: dict[str, list[Candidate]] = {}
    for holding in sorted(holdings, key=lambda item: (item.granted_at, item.candidate.run_id)):
        for node, load in loads_of(holding.allocation).items():
            if weighs(load):
                holders.setdefault(node, []).append(holding.candidate)
    return holders


def _reason(node: Node, code: ReasonCode, text: str) -> Reason:
    return Reason(code=code, text=text, node=node.name)


def _size(memory_bytes: int) -> str:
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)):
        if memory_bytes >= scale:
            return f"{memory_bytes / scale:.4g} {unit}"
    return f"{memory_bytes} bytes"


def grouped(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """The same reasons if they are few; otherwise one for all nodes that share it, the most nodes first."""
    if len(reasons) <= NODES_SHOWN:
        return tuple(reasons)
    nodes: dict[tuple[ReasonCode, str], list[str]] = {}
    shown: list[Reason] = []
    for reason in reasons:
        if reason.node is None:
            shown.append(reason)
        else:
            nodes.setdefault((reason.code, reason.text.partition(HOLDERS)[0]), []).append(reason.node)
    groups = sorted(nodes.items(), key=lambda item: -len(item[1]))
    return (*shown, *(_of_all(names, code, text) for (code, text), names in groups))


def _of_all(names: Sequence[str], code: ReasonCode, text: str) -> Reason:
    if len(names) == 1:
        return Reason(code=code, text=text, node=names[0])
    return Reason(code=code, text=f"{len(names)} nodes ({listed(names, NAMES_SHOWN)}): {text}")


def some(names: Sequence[str]) -> str:
    """`run a`, `runs a and b`, `runs a, b, c, d and 7 others`."""
    if len(names) == 1:
        return f"run {names[0]}"
    shown = list(names[:NAMES_SHOWN])
    rest = len(names) - len(shown)
    last = counted(rest, "other") if rest else shown.pop()
    return f"runs {', '.join(shown)} and {last}"


def counted(number: float, noun: str) -> str:
    """`1 slot`, `3 slots`."""
    return f"{number:g} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A duration in its most fitting unit: `90 s`, `12 min`, `5 h`, `3 d`."""
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{max(1, round(seconds))} s"
