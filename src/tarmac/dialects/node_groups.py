"""Reads the groups of equal nodes in the description of a cluster. Called by `clusterfile`."""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.dialects import names, quantities
from tarmac.dialects.kinds import choice, integer, matching, number
from tarmac.dialects.located import Items
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.dialects.slot_types import doubt
from tarmac.model.cluster import DEFAULT_POOL, Disks, NodeGroup
from tarmac.model.described import MOST_NODES, hostnames_of
from tarmac.model.resources import CPU_ONLY, Resources

GROUP = Fields(
    known=frozenset(
        {"count", "slots", "slot_type", "cpus", "memory", "pool", "shard", "hostnames", "prefix", "disks"}
    ),
    synonyms=words_for(
        count="nodes replicas number",
        slots="gpu gpus",
        slot_type="type gpu_type",
        cpus="cpu",
        memory="mem ram",
        pool="partition",
        hostnames="hosts names",
        prefix="name",
        disks="disk",
    ),
)

DISKS = choice(Disks)
MOST_SLOTS = 1024
MOST_CPUS = 1_000_000.0
PREFIX = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "letters, digits, '.', '_' and '-', first no sign,")


def read_groups(value: Value, *, disks: Disks = Disks.SHARED) -> tuple[NodeGroup, ...]:
    """The groups of a list; reports duplicate names and too many nodes as well.

    `disks` is the default for groups.
    """
    read: list[tuple[NodeGroup, Value]] = []
    for item in value.items("a list of groups of nodes, such as [{count: 4, slots: 8}],"):
        section = item.section(GROUP)
        if section is not None:
            read.append((_group(section, item, disks), item))
    groups = tuple(group for group, _ in read)
    if isinstance(value.node, Items) and not value.node.items:
        value.refuse("a cluster has at least one node", "such as [{count: 4, slots: 8}]")
    total = sum(group.nodes for group in groups)
    if total > MOST_NODES:
        value.refuse(f"{total} nodes are more than the {MOST_NODES} that a cluster may have")
    else:
        _refuse_twins(read)
    return groups


def _group(section: Section, item: Value, disks: Disks) -> NodeGroup:
    hostnames = section.read_list("hostnames", names.HOSTNAME, "a list of host names")
    count = section.read("count", integer(1, MOST_NODES), len(hostnames) or 1)
    if hostnames and count != len(hostnames) and (wrong := section.get("count")) is not None:
        wrong.refuse(f"{count} nodes have {len(hostnames)} hostnames", "leave 'count' out, or name each node")
    section.exclude("hostnames", "prefix", reason="nodes with host names need no others")
    slots = _slots(section, item)
    if (uncertain := doubt(slots.slot_type or CPU_ONLY)) is not None:
        item.problems.warn(None, f"{item.path}.slot_type: {uncertain}")
    return NodeGroup(
        nodes=count,
        slots=slots.slots,
        slot_type=slots.slot_type or CPU_ONLY,
        cpus=section.read("cpus", number(0, MOST_CPUS), None),
        memory_bytes=section.read("memory", quantities.size_bytes(), None),
        pool=section.read("pool", names.NAME, DEFAULT_POOL),
        shard=section.read("shard", names.NAME, None),
        hostnames=hostnames if count == len(hostnames) else (),
        prefix=section.read("prefix", PREFIX, "node"),
        disks=section.read("disks", DISKS, disks),
    )


def _slots(section: Section, item: Value) -> Resources:
    """The number and type of a node's slots: `slots: 8` with `slot_type: h100`, or `slots: h100:8`."""
    slot_type = section.read("slot_type", quantities.type_name(), None)
    value = section.get("slots")
    if value is None:
        section.missing("slots", f"how many slots has each of these nodes? {item.path}.slots: 8")
        return Resources(slots=1, slot_type=slot_type)
    amount = value.read(quantities.slots(1), Resources(slots=1))
    if amount.slots > MOST_SLOTS:
        value.refuse(f"{amount.slots} slots are more than the {MOST_SLOTS} that a node may have")
    if amount.slot_type is not None and slot_type not in (None, amount.slot_type):
        value.refuse(f"its type is {amount.slot_type} here and {slot_type} in 'slot_type'", "say it once")
    return Resources(slots=amount.slots, slot_type=amount.slot_type or slot_type)


def _refuse_twins(read: Iterable[tuple[NodeGroup, Value]]) -> None:
    """Report every group with a node whose name an earlier node has."""
    seen: set[str] = set()
    twins: dict[int, list[str]] = {}
    places = {id(group): item for group, item in read}
    for group, hostname in hostnames_of(tuple(group for group, _ in read)):
        if hostname in seen and hostname:
            twins.setdefault(id(group), []).append(hostname)
        seen.add(hostname)
    for group_id, hostnames in twins.items():
        places[group_id].refuse(
            f"a second node is called {hostnames[0]!r}", "each node of a cluster has a name of its own"
        )
